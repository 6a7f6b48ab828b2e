"""The column layout of one CSV file, found from its first rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from lakeward.adapters.sources.csv.file_form import refuse_other_form
from lakeward.adapters.sources.csv.header import (
    HEADER,
    ROW,
    Cells,
    Decision,
    FirstLine,
    HeaderSetting,
    cell_name,
    decide,
    header_fields,
)
from lakeward.adapters.sources.csv.parser import Dialect, Field, Record, fields, records
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import Kind, Policy
from lakeward.core.text.numbers import format_count

OP: Final = "\0op"
TIME: Final = "\0time"
SEQUENCE: Final = "\0sequence"
BEFORE: Final = "\0before "
IGNORED: Final = "\0ignored"
"""Placeholders in a layout: the operation, commit time and sequence that DMS adds, a value before the change
(`BEFORE` and the column's name), and a column that the table does not take. No column name contains NUL."""

OPERATIONS: Final[Mapping[str, str]] = {"I": "insert", "U": "update", "D": "delete"}
"""The values of the column `Op` that DMS writes, and their meaning."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a CSV file in order (`OP`, `TIME` and `SEQUENCE` for those that DMS adds), and its line ends.

    A header ends on line `header_end`, counted from 1: empty lines may precede it, and it may have line ends within
    quotes. `names` are the names, in lower case, by which a header that is repeated among the rows is recognised;
    empty if rows are not checked. A file with no lines but empty ones has neither header nor rows (`has_lines`).
    """

    columns: tuple[str, ...]
    has_header: bool
    is_crlf: bool
    header_end: int = 1
    names: tuple[str, ...] = ()
    has_lines: bool = field(default=True, compare=False)

    @property
    def first_line(self) -> int:
        """The number of the first line of a row, from 1."""
        return self.header_end + 1 if self.has_header else 1

    def undeclared(self, declared: Schema) -> Sequence[str]:
        """Return the columns of the header that are not declared and whose values must not be dropped."""
        return [name for name in self.columns if not name.startswith("\0") and declared.find(name) is None]


@dataclass(frozen=True)
class ExpectedLayout:
    """The layout that a table's files should have: its columns, and those that the endpoint adds.

    `may_lack_op` says that files of changes may lack the operation, `header_may_lack_op` that files with a header
    may; files of a full load always may. If `op_column` is None, no file has the operation. `no_op` says in words
    what to do if a file lacks it and must have it. `header` says whether files have a header. `earlier` returns the
    names in the headers of other files of the table, in lower case.
    """

    dimension: Dimension
    dialect: Dialect
    op_column: str | None
    timestamp_column: str | None
    before_prefix: str | None = None
    sequence_column: str | None = None
    may_lack_op: bool = False
    header_may_lack_op: bool = False
    no_op: str = (
        "Where the endpoint has CdcInsertsOnly or CdcInsertsAndUpdates, say so by `operations` under [source]."
    )
    header: HeaderSetting = "auto"
    earlier: Callable[[], Collection[str]] = frozenset

    @property
    def plain(self) -> tuple[str, ...]:
        """The columns of a file without header and operation.

        They are the commit time, the table's columns, the sequence, and the values before the change, as far as
        the settings name them.
        """
        (now, *_) = self.orders
        return now

    @cached_property
    def orders(self) -> tuple[tuple[str, ...], ...]:
        """`plain` for each recent order of the table's columns, the present order first."""
        added = () if self.timestamp_column is None else (TIME,)
        sequence = () if self.sequence_column is None else (SEQUENCE,)
        orders = []
        for names in self.dimension.orders or (self.dimension.schema.names,):
            before_columns = [name for name in names if name in self.dimension.before_columns]
            before = () if self.before_prefix is None else tuple(BEFORE + name for name in before_columns)
            orders.append((*added, *names, *sequence, *before))
        return tuple(orders)

    @cached_property
    def columns_by_header(self) -> Mapping[str, str]:
        """The columns of the table by the names that a header may use, in lower case; old names are among them."""
        now = {column.lower(): column for column in self.dimension.schema.names}
        renames = self.dimension.policies.renames
        then = {old.lower(): new for old, new in renames.items() if self.dimension.schema.find(new) is not None}
        return {**then, **now}

    @cached_property
    def added(self) -> Mapping[str, str]:
        """The placeholders of the columns that the endpoint adds, by their names in lower case."""
        named = ((OP, self.op_column), (TIME, self.timestamp_column), (SEQUENCE, self.sequence_column))
        return {called.lower(): column for column, called in named if called is not None}

    def column(self, name: str) -> str | None:
        """Return the column or placeholder that a name in a header means, in any case; None if it means none."""
        return self.added.get(name.lower()) or self.columns_by_header.get(name.lower()) or self.before(name)

    def before(self, name: str) -> str | None:
        """Return the placeholder of a name with the prefix of values before a change; None for any other name.

        It is `BEFORE` and the column if the table needs that column's value before a change, else `IGNORED` and
        the column.
        """
        prefix = (self.before_prefix or "").lower()
        if not prefix or not name.lower().startswith(prefix):
            return None
        column = self.columns_by_header.get(name.lower().removeprefix(prefix))
        if column is None:
            return None
        return (BEFORE if column in self.dimension.before_columns else IGNORED) + column


def find_layout(name: str, head: str, expected: ExpectedLayout, *, is_load: bool) -> Layout:
    """Find a file's layout from its first rows; the last row of `head` may be cut off.

    Raises SchemaConflict if a header names other columns than the table has, if the first line may be a header or a
    row, if a file of changes lacks the operation, or if fields are separated by another delimiter. Raises
    SourceError if the file is no UTF-8.
    """
    refuse_other_form(expected.dimension.name, name, head, expected.dialect, len(expected.plain))
    rows, is_crlf = _rows_and_ends(head, expected)
    header, decision = _decision(rows, expected)
    if decision.ambiguity is not None:
        raise _ambiguous_first_line(name, decision.ambiguity, decision.todo, expected)
    if decision.is_header:
        end = rows[0].line + rows[0].text.count(expected.dialect.row_end)
        columns = _from_header(name, header, expected, is_load=is_load)
        return Layout(columns, True, is_crlf, end, tuple(cell_name(cell).lower() for cell in header))
    columns = _from_width(name, rows, expected, is_load=is_load)
    return Layout(columns, False, is_crlf, names=_names_of(columns, expected), has_lines=bool(rows))


def _names_of(columns: Sequence[str], expected: ExpectedLayout) -> tuple[str, ...]:
    """Return the names of a header that may be repeated among rows; none if a row may equal it by chance."""
    if expected.header is False or len(columns) == 1:
        return ()
    called = {column: name for name, column in expected.added.items()}
    prefix = expected.before_prefix or ""
    return tuple(called.get(name, name.replace(BEFORE, prefix).lower()) for name in columns)


def header_names(head: str, expected: ExpectedLayout) -> Collection[str]:
    """Return the names of a file's header, in lower case; none unless the file certainly has a header."""
    alone = replace(expected, earlier=frozenset)
    rows, _ = _rows_and_ends(head, alone)
    header, decision = _decision(rows, alone)
    return {name.lower() for name in map(cell_name, header) if name} if decision.is_header else ()


def _rows_and_ends(head: str, expected: ExpectedLayout) -> tuple[Sequence[Record], bool]:
    """Return the first rows without their line ends, and whether rows end in CR LF; a header may end otherwise."""
    dialect = expected.dialect
    rows = _first_rows(head, dialect)
    if _is_crlf(rows, head, dialect):
        return _without_cr(rows, dialect), True
    if len(rows) > 1 and _is_crlf(rows[1:], head, dialect):
        without = _without_cr(rows, dialect)
        if _decision(without, expected)[1].is_header:
            return without, True
    return rows, False


def _without_cr(rows: Sequence[Record], dialect: Dialect) -> Sequence[Record]:
    texts = [record.text.removesuffix("\r") for record in rows]
    return [Record(r.line, t, fields(t, dialect)) for r, t in zip(rows, texts, strict=True)]


def has_crlf(head: str, dialect: Dialect) -> bool:
    """Return whether every row ends in CR LF although `row_end` is a line feed; the last row may be cut off."""
    return _is_crlf(_first_rows(head, dialect), head, dialect)


def _first_rows(head: str, dialect: Dialect) -> Sequence[Record]:
    """Return the rows without empty lines; without the last of several if the head ends within its quotes."""
    rows = [record for record in records(head, dialect) if record.text.strip("\r")]
    return rows[:-1] if len(rows) > 1 and rows[-1].fields is None else rows


def _is_crlf(rows: Sequence[Record], head: str, dialect: Dialect) -> bool:
    """Return whether every complete row ends in a carriage return; the last of several rows may be incomplete."""
    ended = rows if head.endswith("\n") or len(rows) == 1 else rows[:-1]
    return dialect.row_end == "\n" and bool(ended) and all(record.text.endswith("\r") for record in ended)


_LETTERS: Final = {letter.lower() for letter in OPERATIONS}


def _decision(rows: Sequence[Record], expected: ExpectedLayout) -> tuple[Cells, Decision]:
    """Return the fields of the first line, and the decision whether they are a header."""
    cells = (rows[0].fields or header_fields(rows[0].text, expected.dialect)) if rows else None
    if not rows or expected.header is False or (cells is None and expected.header == "auto"):
        return (), ROW
    if expected.header is True:
        return cells or (), HEADER
    return cells or (), decide(_first_line(cells or (), rows[1:], expected))


def _first_line(cells: Cells, rows: Sequence[Record], expected: ExpectedLayout) -> FirstLine:
    """Return the first line with what it is compared with; columns that the endpoint adds have no declared type."""
    orders = [*expected.orders, *((OP, *order) for order in expected.orders if expected.op_column is not None)]
    by_place = next((order for order in orders if len(order) == len(cells)), ())
    begins_with_op = cells[0] in OPERATIONS and expected.column(cell_name(cells[0])) is None
    schema = expected.dimension.schema
    return FirstLine(
        cells=cells,
        next_rows=[record.fields for record in rows if record.fields is not None],
        names=expected.column,
        first_names={name for name, column in expected.added.items() if column != SEQUENCE} - _LETTERS,
        width=len(schema),
        by_place=[_TIME_COLUMN if column == TIME else schema.find(column) for column in by_place],
        key=expected.dimension.key,
        is_change=begins_with_op and any(order[0] == OP and len(order) == len(cells) for order in orders),
        earlier=expected.earlier,
    )


_TIME_COLUMN: Final = Column(TIME, Type("timestamp"))


def _ambiguous_first_line(name: str, ambiguity: str, todo: str | None, expected: ExpectedLayout) -> SchemaConflict:
    return SchemaConflict(
        f"{expected.dimension.name}: whether the first line of {name} is a header cannot be told",
        found=ambiguity,
        todo=todo
        or "Nothing of this batch was applied; other tables go on. Set `header = true` for its files where they "
        "have a header, and declare the columns that it names; or `header = false` where they have none.",
    )


def _from_header(name: str, row: Cells, expected: ExpectedLayout, *, is_load: bool) -> tuple[str, ...]:
    e, added = expected, expected.added
    named = [cell_name(field) for field in row]
    columns = [e.column(field) for field in named]
    if not any(columns):
        raise _no_header(name, named, expected)
    _refuse_twice(name, named, columns, expected)
    policies = expected.dimension.policies
    for place, called in enumerate(named):
        if columns[place] is None:
            columns[place] = _undeclared(called, place, policies.of(Kind.ADD, [called]), named)
    unknown = [place for place, column in enumerate(columns) if column is None]
    undeclared = [named[place] or f"\0{place + 1}" for place in unknown]
    declared = expected.dimension.schema.names
    may_lack = [column for column in declared if policies.of(Kind.DROP, [column]) is not Policy.FAIL]
    required = [*expected.dimension.schema.names, *added.values()]
    missing = [column for column in required if column not in columns and column != OP]
    if not undeclared:  # else a column that has another name would only be said to be new
        missing = [column for column in missing if column not in may_lack or column in expected.dimension.key]
    may_lack_op = is_load or e.may_lack_op or e.header_may_lack_op or e.op_column is None
    if OP not in columns and not may_lack_op:
        missing.append(OP)
    if undeclared or missing:
        raise _conflict(name, expected, undeclared, missing)
    if e.before_prefix is not None and not is_load:
        refuse_without_images(name, e.dimension, e.before_prefix, named, {e.before(field) for field in named})
    return tuple(column for column in columns if column is not None)


def refuse_without_images(
    name: str, dimension: Dimension, prefix: str, columns: Sequence[str], images: Collection[str | None]
) -> None:
    """Raise SchemaConflict for a file of changes whose `columns` lack the key's values before a change.

    `images` are the placeholders of its columns that have such values: `BEFORE` and the column's name.
    """
    lacking = [column for column in dimension.key if BEFORE + column not in images]
    if lacking:
        raise SchemaConflict(
            f"{dimension.name}: {name} does not say what {lacking[0]} was before a change",
            found=f"`before_image_prefix` is {prefix!r}, and its columns are {', '.join(columns)}",
            todo="Nothing of this batch was applied. Correct `before_image_prefix` under [source], or take it out "
            "where the task has no rule `add-before-image-columns`: then an update that changes a key is not known "
            "as one.",
        )


def _no_header(name: str, named: Sequence[str], expected: ExpectedLayout) -> SchemaConflict:
    line = ", ".join(field if field.isprintable() else repr(field) for field in named)
    return SchemaConflict(
        f"{expected.dimension.name}: the first line of {name} names no column of the table",
        found=f"it is {line}" if line else "it is not written as a header",
        todo="Nothing of this batch was applied; other tables go on. `header = true` says that files have one: "
        'set `header = "auto"` where not all have one, or declare the columns that it names.',
    )


def _undeclared(field: str, place: int, policy: Policy, named: Sequence[str]) -> str | None:
    """Return what a layout has for an undeclared column: `IGNORED`, its name, or None if the file is refused."""
    if policy is Policy.IGNORE:
        return f"{IGNORED}{place}"
    is_named_once = [other.lower() for other in named].count(field.lower()) == 1
    return field if policy is Policy.QUARANTINE and is_named_once and field else None


def _refuse_twice(name: str, named: Sequence[str], columns: Sequence[str | None], expected: ExpectedLayout) -> None:
    """Raise SchemaConflict for a header that names a column twice, in any case, or by its old and its new name."""
    for column, times in Counter(columns).items():
        if column is None or times == 1 or column.startswith(IGNORED):
            continue
        both = [field for field, own in zip(named, columns, strict=True) if own == column]
        if len({field.lower() for field in both}) > 1:
            raise has_both(expected.dimension, name, both)
        raise SchemaConflict(
            f"{expected.dimension.name}: the header of {name} names a column twice",
            found=f"it has {' and '.join(both)}, and nothing says which of them is meant",
            todo="Nothing of this batch was applied; other tables go on. Give each column a name of its own where "
            "the file is written (with DMS by a transformation rule `rename-column`), or keep the file back.",
        )


def has_both(dimension: Dimension, name: str, both: Sequence[str]) -> SchemaConflict:
    """Return the error for a file that has a column under two of its names."""
    return SchemaConflict(
        f"{dimension.name}: {name} has a column by two names",
        found=f"it has {' and '.join(both)}, which are one column, as `schema.rename` says",
        todo="Nothing of this batch was applied; other tables go on. Take the old name out of `rename` under "
        f'[tables."{dimension.name}".schema] if it is another column now, or keep the file back.',
    )


def _from_width(name: str, rows: Sequence[Record], expected: ExpectedLayout, *, is_load: bool) -> tuple[str, ...]:
    widths = Counter(len(record.fields) for record in rows if record.fields is not None)
    width = widths.most_common(1)[0][0] if widths else len(expected.plain) + (not is_load)
    if expected.op_column is None:
        return _order_of(name, width, expected, has_op=False, must_have_op=False)
    may_be_empty = is_load and width == len(expected.plain) + 1
    has_op = bool(rows) and _all_begin_with_op(rows, may_be_empty=may_be_empty)
    plain = _order_of(name, width, expected, has_op=has_op, must_have_op=not (is_load or expected.may_lack_op))
    with_op, may_lack_op = (OP, *plain), is_load or expected.may_lack_op
    if width == len(plain) and may_lack_op:
        _refuse_shifted(name, rows, plain, expected, is_load=is_load)
        return plain
    if width == len(plain):
        raise _conflict(name, expected, [], [OP])
    if width == len(with_op) and may_lack_op and not has_op:
        raise SchemaConflict(
            f"{expected.dimension.name}: {name} has one column more than the table",
            found=f"found {format_count(width, 'column')} and no header, and the first is not an Op column",
            todo=_TODO,
        )
    return with_op if width == len(with_op) or not is_load else plain


def _refuse_shifted(
    name: str, rows: Sequence[Record], plain: Sequence[str], expected: ExpectedLayout, *, is_load: bool
) -> None:
    """Raise SchemaConflict for rows that have the width of rows without operation, but begin with an operation.

    This is certain in three cases: the first field, which should be a commit time, is a letter of an operation in
    each row; it is no time in any row and the next field, whose column has no times, is a time in each row; or a
    full load whose only key column comes first has the value I in several rows.
    """
    alike = [record.fields for record in rows if record.fields is not None and len(record.fields) == len(plain)]
    firsts = {own[0] for own in alike}
    if plain[0] == TIME:
        letters = {first for first in firsts if first}
        is_op = (bool(letters) and letters <= OPERATIONS.keys()) or _are_times_one_behind(alike, plain, expected)
    else:
        is_sole_key = is_load and [plain[0]] == list(expected.dimension.key) and len(alike) > 1
        is_op = is_sole_key and firsts <= {"I"}
    if alike and is_op:
        raise SchemaConflict(
            f"{expected.dimension.name}: {name} has one column less than the table",
            found=f"found {format_count(len(plain), 'column')} and no header, and the first is an Op column",
            todo=_TODO,
        )


_TIME_TEXT: Final = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:.*", re.ASCII)


def _are_times_one_behind(rows: Sequence[Cells], plain: Sequence[str], expected: ExpectedLayout) -> bool:
    """Return whether in each row the field after the commit time is a time, and the commit time itself is none."""
    if len(plain) < 2 or not rows:
        return False
    column = expected.dimension.schema.find(plain[1])
    may_be_times = column is not None and column.type.name in ("date", "timestamp", "timestamp_ntz")
    return not may_be_times and all(_is_time(row[1]) and not _is_time(row[0]) for row in rows)


def _is_time(field: Field) -> bool:
    return isinstance(field, str) and _TIME_TEXT.fullmatch(field) is not None


def _order_of(
    name: str, width: int, expected: ExpectedLayout, *, has_op: bool, must_have_op: bool
) -> tuple[str, ...]:
    """Return the columns of a file without a header: the recent order of the table that has the file's width.

    Raises SchemaConflict if two orders have that width.
    """
    may_have_op = [order for order in expected.orders if width == len(order) + 1 and (has_op or must_have_op)]
    orders = [order for order in expected.orders if width == len(order) and not must_have_op] + may_have_op
    if len(orders) > 1:
        raise SchemaConflict(
            f"{expected.dimension.name}: which columns {name} has cannot be told",
            found="it names none, and of late the source had " + "; then ".join(map(_format_order, orders[::-1])),
            todo="Nothing of this batch was applied; other tables go on. Let the endpoint write headers "
            "(AddColumnName=true). Or declare all columns, as the files that wait have them, under "
            f'[tables."{expected.dimension.name}".columns], until those are applied.',
        )
    return orders[0] if orders else expected.plain


def _format_order(order: Sequence[str]) -> str:
    return ", ".join(column for column in order if not column.startswith("\0"))


def _all_begin_with_op(rows: Sequence[Record], *, may_be_empty: bool) -> bool:
    firsts = [record.fields[0] for record in rows if record.fields]
    return all(op in OPERATIONS or (may_be_empty and (not isinstance(op, str) or not op)) for op in firsts)


_TODO: Final = (
    "Nothing of this batch was applied; other tables go on. Declare the columns as they are now under "
    "[tables], or keep the file back."
)


def _conflict(
    name: str, expected: ExpectedLayout, strange: Sequence[str], missing: Sequence[str]
) -> SchemaConflict:
    labels = {OP: f"{expected.op_column} (the operation)", TIME: str(expected.timestamp_column)}
    labels[SEQUENCE] = str(expected.sequence_column)
    problems = [
        f"it has {column if column.isprintable() else repr(column)}, which the table has not"
        for column in strange
        if not column.startswith("\0")
    ]
    problems += [f"field {place[1:]} of its header has no name" for place in strange if place.startswith("\0")]
    problems += [f"it lacks {labels.get(column, column)}" for column in missing]
    return SchemaConflict(
        f"{expected.dimension.name}: the columns of {name} are not those of the table",
        found="; ".join(problems),
        todo=_todo(missing, expected),
    )


def _todo(missing: Sequence[str], expected: ExpectedLayout) -> str:
    """Return what to do about missing columns: those that DMS adds are not declared under [tables]."""
    if OP in missing:
        return f"{_TODO} {expected.no_op}"
    if TIME in missing or SEQUENCE in missing:
        return (
            "Nothing of this batch was applied; other tables go on. Correct `timestamp_column` or "
            "`sequence_column` under [source], or keep the file back."
        )
    return _TODO
