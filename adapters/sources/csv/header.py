"""Whether the first line of a CSV file is a header, decided from the line, the table's columns and the next rows.

The decision is pure. Where a line may be either, it is neither: the file is refused, since a header that is read
as a row, and a row that is read as a header, both put values under wrong names.
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
"""What may stand around a name; a header may end in CR LF where its rows do not."""

_NAME: Final = re.compile(r"[^\W\d][\w $#.()/%-]*")
_SEPARATOR: Final = re.compile(r"sep=.?", re.IGNORECASE)
"""A line as spreadsheets write it; its delimiter is no part of the first cell where the file has that one."""

_NUMBERS: Final = ("int", "bigint", "decimal", "float", "double")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_TYPED: Final = (*_NUMBERS, *_TIMES, "boolean")
_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_TIME: Final = re.compile(r"\s*\d{4}-\d{2}-\d{2}([ T].*)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLine:
    """The first line of a file and what it is compared with.

    `cells` are its fields and `next_rows` those of the rows behind it. `names` are what columns of the table may be
    called, in small letters; a line that begins with one of `first_names` is a header whatever else it names.
    `width` is the number of the table's columns. `by_place` are the columns by their places, where the line has as
    many fields as a row; None for one that is none of the table's. `is_change` says that it begins as a change
    does. `earlier` returns the names in the headers of other files of the table, in small letters.
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
    """Whether a line is a header; `doubt` says why it may be one or may be a row, where that cannot be told.

    `todo` says what to do about it, where settings do not help.
    """

    is_header: bool = False
    doubt: str | None = None
    todo: str | None = None


HEADER: Final = Decision(is_header=True)
ROW: Final = Decision()


def decide(line: FirstLine) -> Decision:
    """Decide whether a first line is a header, a row, or may be either; a header behind it makes it doubtful.

    So does a header whose names are parted by another delimiter, of a table with one column. A line that tells a
    spreadsheet the delimiter is neither.
    """
    first, *others = map(cell_name, line.cells)
    if _SEPARATOR.fullmatch(first) and not any(others):
        return Decision(
            doubt=f"it is `{first}`, which tells a spreadsheet the delimiter",
            todo="Nothing of this batch was applied; other tables go on. Take that line out of the file.",
        )
    found = _decide(line)
    if found != ROW:
        return found
    for number, row in enumerate(line.next_rows, 2):
        named = {line.names(name) for name in map(cell_name, row) if name} - {None}
        if len(named) > 1 and 2 * len(named) > line.width:
            return Decision(doubt=f"row {number} names columns of the table: {_listed([*map(cell_name, row)])}")
    names = re.split(r"[,;|\t]", cell_name(line.cells[0])) if len(line.cells) == 1 else []
    if len(names) > 1 and any(line.names(name.strip(_BLANKS)) for name in names if name):
        return Decision(doubt=f"it has {_listed(names)}, parted by another delimiter")
    return ROW


def _decide(line: FirstLine) -> Decision:
    """Decide by the first line alone, and by the values behind it.

    It is a header where it names most of the table's columns, or most of its fields are names of columns, or two
    of them are and every field may be a name. It is a row where it begins as a change does, or has a value of
    its type in the key or in a column of times. Any other line is doubtful where it shares a name with the table,
    or where its fields may be names and the next rows have values, or other files of the table have a header.
    """
    names = [cell_name(cell) for cell in line.cells]
    if names[0].lower() in line.first_names:
        return HEADER
    found = {line.names(name) for name in names if name} - {None}
    if 2 * len(found) > line.width or 2 * len(found) > len(names):
        return HEADER
    if line.is_change or _has_own_value(line):
        return ROW
    may_be_names = all(map(_NAME.fullmatch, names)) and len({name.lower() for name in names}) == len(names)
    if len(found) > 1 and may_be_names:
        return HEADER
    if found:
        shared = [name for name in names if name and line.names(name) is not None]
        others = [name for name in names if name and line.names(name) is None]
        return Decision(doubt=f"it has {_listed(shared)} as the table has, and {_listed(others)}, which it has not")
    return _doubt_of_strange_names(line, names, may_be_names=may_be_names)


def _doubt_of_strange_names(line: FirstLine, names: Sequence[str], *, may_be_names: bool) -> Decision:
    """Tell a header of which the table knows no name: by what the rows behind it have, or by other files.

    Where its fields are written as no name is, a column counts whose type does not hold its field.
    """
    typed = [column is not None and column.type.name in _TYPED for column in line.by_place]
    counts = [True] * len(names) if may_be_names else [*typed, *[False] * len(names)]
    alike = [row for row in line.next_rows if len(row) == len(names)]
    for is_evidence, name, *column in zip(counts, names, *alike, strict=False):
        if not is_evidence:
            continue
        known = [cell for cell in column if isinstance(cell, str) and cell]
        if known and not _is_value(name) and all(_is_value(cell) for cell in known):
            shown = f"the rows behind it have values as {known[0]} in {name}"
            return Decision(doubt=f"it has {_listed(names)}, and {shown}")
    if all(map(_is_like_name, names)) and line.earlier():
        return Decision(doubt=f"it has {_listed(names)}, and other files of the table have a header")
    return ROW


def _is_like_name(name: str) -> bool:
    """Whether a field may name a column in a header that is written with any characters, or be left empty there."""
    return not name or (any(map(str.isalpha, name)) and "@" not in name)


def cell_name(cell: Field) -> str:
    """Return what a field of a header names: blanks around a name are no part of it."""
    return cell.strip(_BLANKS) if isinstance(cell, str) else ""


def _is_value(cell: str) -> bool:
    return str(proposed_type([cell.strip()])) != "string" or _NUMBER.fullmatch(cell) is not None


def _has_own_value(line: FirstLine) -> bool:
    """Whether a cell can be no name: a number in a key of numbers, or a time in a column of times.

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


def _listed(names: Sequence[str]) -> str:
    shown = [name if name.isprintable() else repr(name) for name in names[:5]]
    return ", ".join(shown) + (", …" if len(names) > 5 else "") if shown else "nothing else"


def header_fields(text: str, dialect: Dialect) -> tuple[str, ...] | None:
    """Return the fields of a line that has blanks around quotes, as no row may; None where it is no such line.

    >>> header_fields('"code", "name" ,city', Dialect())
    ('code', 'name', 'city')
    """
    if not dialect.quote:
        return None
    mark, end = re.escape(dialect.quote), re.escape(dialect.delimiter)
    blank = rf"[^\S{end}]*"
    within = rf"{blank}{mark}((?:[^{mark}]|{mark}{mark})*){mark}{blank}"
    field = re.compile(rf"(?:{within}|([^{mark}{end}]*))(?:({end})|\Z)")
    found, place = list[str](), 0
    while match := field.match(text, place):
        quoted, plain, more = match.groups()
        found.append(
            (plain or "").strip(_BLANKS) if quoted is None else quoted.replace(dialect.quote * 2, dialect.quote)
        )
        if more is None:
            return tuple(found)
        place = match.end()
    return None
