"""Decide whether the first line of a CSV file is a header, from the line, the table's columns and the next rows.

The decision reads no files. A line that may be a header or a row is ambiguous, and the file is refused: a header
that is read as a row, and a row that is read as a header, both put values under wrong names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from lakeward.adapters.sources.csv.parser import Dialect, Field
from lakeward.core.schema import Column
from lakeward.core.settings.proposals import proposed_type

HeaderSetting: TypeAlias = bool | Literal["auto"]
"""Whether CSV files have a header: always, never, or as each file's first line tells."""

HEADER_SETTING: Final = (
    "Whether CSV files begin with a header: `true` where all do, `false` where none does. `auto` decides for each "
    "file by its first line, and stops the table where that may be a header or a row."
)

Cells: TypeAlias = Sequence[Field]

_BLANKS: Final = " \t\u00a0\r"
"""Characters that are stripped from names: a header may end in CR LF although its rows do not."""

_NAME: Final = re.compile(r"[^\W\d][\w $#.()/%-]*")
_SEPARATOR: Final = re.compile(r"sep=.?", re.IGNORECASE)
"""The line `sep=;` that spreadsheets write. The delimiter is missing if it is the one that splits the line."""

_NUMBERS: Final = ("int", "bigint", "decimal", "float", "double")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_TYPED: Final = (*_NUMBERS, *_TIMES, "boolean")
_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_TIME: Final = re.compile(r"\s*\d{4}-\d{2}-\d{2}([ T].*)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLine:
    """The first line of a file, and what it is compared with.

    `cells` are its fields, `next_rows` the fields of the rows after it. `names` returns the column of the table
    that a name in a header means, or None. A line that begins with one of `first_names` (lower case) is a header
    whatever else it names. `width` is the number of the table's columns. `by_place` has the column of each field if
    the line has as many fields as a row, None for a field that is no column of the table. `is_change` says that
    the line begins as a change does. `earlier` returns the names in the headers of other files of the table, in
    lower case.
    """

    cells: Cells
    next_rows: Sequence[Cells]
    names: Callable[[str], str | None]
    first_names: Collection[str]
    width: int
    by_place: Sequence[Column | None] = ()
    key: Collection[str] = ()
    is_change: bool = False
    earlier: Callable[[], Collection[str]] = frozenset


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a line is a header.

    `ambiguity` says in words why the line may be a header or a row; it is None if the decision is certain. `todo`
    says what to do about the ambiguity, if that is not to change the settings.
    """

    is_header: bool = False
    ambiguity: str | None = None
    todo: str | None = None


HEADER: Final = Decision(is_header=True)
ROW: Final = Decision()


def decide(line: FirstLine) -> Decision:
    """Decide whether a first line is a header, a row, or ambiguous.

    A line is ambiguous as well if a later row is a header, if it is a header with another delimiter in a table of
    one column, and if it tells a spreadsheet the delimiter.
    """
    first, *others = map(cell_name, line.cells)
    if _SEPARATOR.fullmatch(first) and not any(others):
        return Decision(
            ambiguity=f"it is `{first}`, which tells a spreadsheet the delimiter",
            todo="Nothing of this batch was applied; other tables go on. Take that line out of the file.",
        )
    decision = _decide(line)
    if decision != ROW:
        return decision
    for number, row in enumerate(line.next_rows, 2):
        columns = {line.names(name) for name in map(cell_name, row) if name} - {None}
        if len(columns) > 1 and 2 * len(columns) > line.width:
            names_in_row = _join_names([*map(cell_name, row)])
            return Decision(ambiguity=f"row {number} names columns of the table: {names_in_row}")
    names = re.split(r"[,;|\t]", cell_name(line.cells[0])) if len(line.cells) == 1 else []
    if len(names) > 1 and any(line.names(name.strip(_BLANKS)) for name in names if name):
        return Decision(ambiguity=f"it has {_join_names(names)}, separated by another delimiter")
    return ROW


def _decide(line: FirstLine) -> Decision:
    """Decide by the first line and by the values in the rows after it.

    The line is a header if it names most of the table's columns, if most of its fields name columns, or if two of
    them do and every field may be a name. It is a row if it begins as a change does, or has a typed value in the
    key or in a column of times. Any other line is ambiguous if it shares a name with the table, or if its fields
    may be names and the next rows have values, or other files of the table have a header.
    """
    names = [cell_name(cell) for cell in line.cells]
    if names[0].lower() in line.first_names:
        return HEADER
    columns = {line.names(name) for name in names if name} - {None}
    if 2 * len(columns) > line.width or 2 * len(columns) > len(names):
        return HEADER
    if line.is_change or _has_typed_value(line):
        return ROW
    may_be_names = all(map(_NAME.fullmatch, names)) and len({name.lower() for name in names}) == len(names)
    if len(columns) > 1 and may_be_names:
        return HEADER
    if columns:
        shared = [name for name in names if name and line.names(name) is not None]
        others = [name for name in names if name and line.names(name) is None]
        shared_names, other_names = _join_names(shared), _join_names(others)
        return Decision(
            ambiguity=f"it has {shared_names} as the table has, and {other_names}, which the table does not have"
        )
    return _decide_unknown_names(line, names, may_be_names=may_be_names)


def _decide_unknown_names(line: FirstLine, names: Sequence[str], *, may_be_names: bool) -> Decision:
    """Decide for a line that names no column of the table, by the rows after it or by other files.

    If a field is not written as a name, only columns count whose type does not hold their field.
    """
    typed = [column is not None and column.type.name in _TYPED for column in line.by_place]
    counts = [True] * len(names) if may_be_names else [*typed, *[False] * len(names)]
    alike = [row for row in line.next_rows if len(row) == len(names)]
    for is_evidence, name, *column in zip(counts, names, *alike, strict=False):
        if not is_evidence:
            continue
        values = [cell for cell in column if isinstance(cell, str) and cell]
        if values and not _is_value(name) and all(_is_value(cell) for cell in values):
            example = f"the rows after it have values such as {values[0]} in {name}"
            return Decision(ambiguity=f"it has {_join_names(names)}, and {example}")
    if all(map(_is_like_name, names)) and line.earlier():
        return Decision(ambiguity=f"it has {_join_names(names)}, and other files of the table have a header")
    return ROW


def _is_like_name(name: str) -> bool:
    """Return whether a field may be a name in a header of any characters; an empty field may."""
    return not name or (any(map(str.isalpha, name)) and "@" not in name)


def cell_name(cell: Field) -> str:
    """Return the name in a field of a header, without blanks around it; "" for NULL and UNSET."""
    return cell.strip(_BLANKS) if isinstance(cell, str) else ""


def _is_value(cell: str) -> bool:
    return str(proposed_type([cell.strip()])) != "string" or _NUMBER.fullmatch(cell) is not None


def _has_typed_value(line: FirstLine) -> bool:
    """Return whether a cell cannot be a name: a number in a key column of numbers, or a time in a column of times.

    A number elsewhere may be a name, as 2026 is in `region,2025,2026`.
    """
    for cell, column in zip(line.cells, line.by_place, strict=False):
        if column is None or not isinstance(cell, str):
            continue
        if column.type.name in _TIMES and _TIME.fullmatch(cell):
            return True
        if column.type.name in _NUMBERS and column.name in line.key and _NUMBER.fullmatch(cell):
            return True
    return False


def _join_names(names: Sequence[str]) -> str:
    """Return at most five names as a list in words."""
    printable = [name if name.isprintable() else repr(name) for name in names[:5]]
    return ", ".join(printable) + (", …" if len(names) > 5 else "") if printable else "nothing else"


def header_fields(text: str, dialect: Dialect) -> tuple[str, ...] | None:
    """Return the fields of a line with blanks around quotes, which no row may have; None for any other line.

    >>> header_fields('"code", "name" ,city', Dialect())
    ('code', 'name', 'city')
    """
    if not dialect.quote:
        return None
    mark, end = re.escape(dialect.quote), re.escape(dialect.delimiter)
    blank = rf"[^\S{end}]*"
    within = rf"{blank}{mark}((?:[^{mark}]|{mark}{mark})*){mark}{blank}"
    field = re.compile(rf"(?:{within}|([^{mark}{end}]*))(?:({end})|\Z)")
    fields, place = list[str](), 0
    while match := field.match(text, place):
        quoted, plain, more = match.groups()
        fields.append(
            (plain or "").strip(_BLANKS) if quoted is None else quoted.replace(dialect.quote * 2, dialect.quote)
        )
        if more is None:
            return tuple(fields)
        place = match.end()
    return None
