"""Rows of lines in plain Python, as lists by column: the input of `to_events`, once they are an Arrow table.

`RowLists` has the columns that `lakeward.adapters.spark.frames.source_rows` documents (NAME, LINE, VALUE, OP_TEXT,
…), those of the table, `before_column`s, and additional ones (STRANGE, LOG, OTHER_TABLE). Values of the table's
columns are what `pyarrow.array` takes for the type: dates are days, times are microseconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeAlias

from lakeward.adapters.sources.files.json_lines.frames import UNDECLARED
from lakeward.adapters.sources.files.local.values.documents import Object, text_of
from lakeward.adapters.sources.files.local.values.typed_values import Read, reader_of, why_not_read
from lakeward.adapters.sources.messages.decoded import OTHER_TABLE, PLAIN
from lakeward.adapters.sources.messages.json.wire_format import Wire, Writing
from lakeward.adapters.sources.messages.message import DOUBLE, LONG
from lakeward.adapters.spark.frames.event_frame import LOG
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.source_rows import (
    BLANK,
    BROKEN,
    HAS_IMAGE,
    KEY_MISFIT,
    LINE,
    MISFIT,
    NAME,
    OP_TEXT,
    SEQUENCE_TEXT,
    TIME_TEXT,
    TORN,
    TRANSACTION_TEXT,
    VALUE,
    RowSettings,
    before_column,
)
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.schema import Column

RowLists: TypeAlias = Mapping[str, list[Any]]
"""Rows as lists of equal length, by column."""

_EPOCH: Final = datetime(1970, 1, 1)
_AS_DOUBLE: Final = re.compile(DOUBLE.removeprefix(r"\A").removesuffix(r"\z"))
_LONG: Final = re.compile(LONG)
_HAS_DOUBLE: Final = re.compile(r"[0-9][eE][+-]?[0-9]|[0-9.]{38}")
_FIELDS: Final = (
    *(OP_TEXT, TIME_TEXT, SEQUENCE_TEXT, TRANSACTION_TEXT, KEY_MISFIT, MISFIT, BROKEN, BLANK, VALUE, LINE, NAME),
    *(TORN, names.UNSET, HAS_IMAGE, UNDECLARED, LOG),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file: the path of the file below the landing folder, the number of the line from 1, its text."""

    name: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table.

    `names` are all columns, and `places` their indices. `others` are those outside of the key, `before_columns`
    those with values before a change.
    """

    names: tuple[str, ...]
    places: Mapping[str, int]
    key: tuple[str, ...]
    others: tuple[str, ...]
    others_set: frozenset[str]
    before_columns: tuple[str, ...]

    @classmethod
    def of(cls, dimension: Dimension) -> Columns:
        """Return the columns of a table."""
        names = dimension.schema.names
        others = tuple(name for name in names if name not in dimension.key)
        places = {name: place for place, name in enumerate(names)}
        return cls(names, places, dimension.key, others, frozenset(others), dimension.before_columns)


@dataclass(slots=True)
class Row:
    """A decoded line; `adapters.sources.messages.decoded.Decoded` defines the fields that are not described here.

    `cells` are JSON values in the order of the table's columns, `before` the values before the change in the order
    of `Columns.before_columns`; an unsent cell is None. `numbers` are the columns whose cells are numbers in the
    message. `strange` are undeclared names, `extra` additional columns of the row.
    """

    line: Line
    text: str | None
    cells: list[Any]
    before: list[Any]
    numbers: Collection[str] = ()
    unset: list[str] | None = None
    has_image: bool | None = None
    operation: str | None = None
    time: int | None = None
    unread_time: str | None = None
    sequence: str | None = None
    log: str | None = None
    transaction: str | None = None
    broken: str | None = None
    is_blank: bool = False
    strange: list[str] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """How a column is read: by `read`, or by `plainly` if the cell is a number in the message.

    `misfit` is the end of the words for a value that does not fit; None for a plain text, which always fits.
    """

    column: Column
    read: Read
    plainly: Read
    misfit: str | None


class Rows:
    """Collects rows as lists by column."""

    def __init__(self, settings: RowSettings, extra_columns: Sequence[str] = (OTHER_TABLE,)) -> None:
        schema = settings.dimension.schema
        self._schema, self._key = schema, settings.dimension.key
        self._before = list(settings.before_columns)
        self._extra_columns = extra_columns
        names = (*_FIELDS, *(before_column(n) for n in range(len(self._before))), *extra_columns, *schema.names)
        self.lists: dict[str, list[Any]] = {name: [] for name in names}
        self._appends = [self.lists[name].append for name in _FIELDS]
        self._values = [self.lists[name].append for name in schema.names]
        self._images = [self.lists[before_column(n)].append for n in range(len(self._before))]

    def cells(self, written: Mapping[str, Writing]) -> Mapping[str, Cell]:
        """Return how columns are read that are `written` in these forms; raises SparkNeeded if Spark must."""
        return {column.name: _cell(column, written.get(column.name, PLAIN)) for column in self._schema}

    def add(self, row: Row, cells: Mapping[str, Cell]) -> None:
        """Add a row, with its cells converted to their types."""
        key_misfit = misfit = None
        for cell, value, append in zip(cells.values(), row.cells, self._values, strict=True):
            if value is None:
                append(None)
                continue
            typed_value = (cell.plainly if cell.column.name in row.numbers else cell.read)(value)
            append(typed_value)
            if cell.misfit is None:
                _refuse_rounded(typed_value, row.line.text)
            elif typed_value is None:
                if cell.column.name in self._key:
                    key_misfit = key_misfit or f'"{text_of(value)}{cell.misfit}'
                else:
                    misfit = misfit or f'"{text_of(value)}{cell.misfit}'
        for column, value, append in zip(self._before, row.before, self._images, strict=True):
            cell = cells[column.name]
            typed_value = (
                None if value is None else (cell.plainly if column.name in row.numbers else cell.read)(value)
            )
            append(typed_value)
            if typed_value is None and value is not None:
                words = f'"{text_of(value)}" is not {column.type.with_article} (column {column.name})'
                key_misfit = key_misfit or (words if column.name in self._key else None)
                misfit = misfit or (words if column.name not in self._key else None)
        self._add(row, key_misfit, misfit)

    def _add(self, row: Row, key_misfit: str | None, misfit: str | None) -> None:
        sequence = None if row.is_blank else row.sequence
        values = (
            *(row.operation, time_text(row.time) or row.unread_time, sequence, row.transaction),
            *(key_misfit, misfit, row.broken),
            *(row.is_blank, row.text, row.line.number, row.line.name, False),
            *(row.unset, row.has_image, row.strange, row.log),
        )
        for append, value in zip(self._appends, values, strict=True):
            append(value)
        for name in self._extra_columns:
            self.lists[name].append(row.extra.get(name))


def _refuse_rounded(cell: str | None, line: str) -> None:
    """Raise SparkNeeded for a text that may be a number of its line that Spark's parser rounds to a double."""
    if cell is not None and _AS_DOUBLE.fullmatch(cell) and _LONG.search(line) and _HAS_DOUBLE.search(line):
        raise SparkNeeded("a number in a column of texts may be rounded")


def _cell(column: Column, written: Writing) -> Cell:
    reason = why_not_read(column.type, written)
    if reason is not None:
        raise SparkNeeded(f"{reason} ({column.name})")
    is_text = column.type.name in ("string", "undeclared") and written.wire is Wire.PLAIN
    words = None if is_text else f'" is not {column.type.with_article} (column {column.name})'
    return Cell(column, reader_of(column.type, written), reader_of(column.type, PLAIN), words)


def time_text(micros: int | None) -> str | None:
    """Return a time in microseconds since 1970 as Spark writes it.

    >>> time_text(1_500_000)
    '1970-01-01 00:00:01.5'
    """
    if micros is None:
        return None
    try:
        text = str(_EPOCH + timedelta(0, 0, micros))
    except OverflowError as error:
        raise SparkNeeded("a time lies outside of the years 1 to 9999") from error
    return text.rstrip("0") if "." in text else text


def strange_names(
    row: Object | None, expected: AbstractSet[str], not_columns: str | None = None
) -> list[str] | None:
    """Return the names in an object that are not `expected` and do not match `not_columns`; None without any."""
    if row is None or row.keys() <= expected:
        return None
    names = [name for name in row if name not in expected]
    if not_columns is not None:
        names = [name for name in names if not _matches(not_columns, name)]
    return sorted(names) or None


@lru_cache
def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name, re.DOTALL) is not None
