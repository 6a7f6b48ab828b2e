"""CSV files read in this process, as Arrow tables equal to the frames of `adapters.sources.rows.csv_frames`.

Rows and fields are those of `adapters.sources.csv.parser`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from lakeward.adapters.sources.csv.layout import BEFORE, OP, SEQUENCE, TIME, Layout
from lakeward.adapters.sources.csv.parser import BOM, STRAY_QUOTE, Dialect, Field, fields, fields_in, whole_rows
from lakeward.adapters.sources.csv.repeated_header import find_repeat
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.spark.frames.local_casts import SparkNeeded, misfits, typed
from lakeward.adapters.spark.frames.local_source_rows import NAMES
from lakeward.adapters.spark.frames.source_rows import (
    BLANK,
    BROKEN,
    HAS_IMAGE,
    KEY_MISFIT,
    LINE,
    MISFIT,
    OP_TEXT,
    SEQUENCE_TEXT,
    TIME_TEXT,
    TORN,
    VALUE,
    before_column,
)
from lakeward.adapters.spark.sql import names
from lakeward.core.events import UNSET
from lakeward.core.schema import Column

_END_OF_INPUT: Final = "\uffff"

Cells: TypeAlias = Sequence[Sequence[Field]]


def read_csv(data: bytes, layout: Layout, reading: Reading) -> pa.Table:
    """Return the typed rows of one file, with the reasons of those that do not fit.

    Raises SparkNeeded if the file has characters or bytes that Spark must handle.
    """
    rows, last_is_torn = _rows(_content(data), layout, reading.dialect)
    texts = [text for _, text in rows]
    width, is_blank = len(layout.columns), [len(layout.columns) > 1 and not text for text in texts]
    nothing: Sequence[Field] = (None,) * width
    empty = _plain_fields(reading.dialect.delimiter * (width - 1), reading.dialect)
    cells: list[Sequence[Field]] = []
    broken: list[str | None] = []
    for text, is_empty in zip(texts, is_blank, strict=True):
        values = empty if is_empty else _fields(text, reading.dialect)
        is_whole = values is not None and len(values) == width
        cells.append(values if values is not None and is_whole else nothing)
        reason = find_repeat(cells[-1], layout.names) if is_whole else _why_broken(text, width, reading.dialect)
        broken.append(reason)
    columns = zip(layout.columns, _columns(cells, width), strict=True)
    own = {name: _Cells(column, reading.dialect) for name, column in columns}
    return pa.table(
        {
            **_typed(own, len(texts), reading),
            **_sent(own, len(texts), layout, reading),
            BROKEN: pa.array(broken, pa.string()),
            BLANK: pa.array(is_blank, pa.bool_()),
            VALUE: pa.array(texts, pa.string()),
            LINE: pa.array([line for line, _ in rows], pa.int64()),
            TORN: pa.array([False] * (len(texts) - 1) + [last_is_torn] if texts else [], pa.bool_()),
        }
    )


def _content(data: bytes) -> str:
    try:
        content = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SparkNeeded("a file has bytes that are no UTF-8") from error
    if _END_OF_INPUT in content or content.startswith(BOM * 2):
        raise SparkNeeded("a file has U+FFFF, or begins with two byte order marks")
    return content.removeprefix(BOM)


def _rows(content: str, layout: Layout, dialect: Dialect) -> tuple[Sequence[tuple[int, str]], bool]:
    """Return the rows after the header, each with the line that it begins on, and whether the last one is torn."""
    lines = content.split(dialect.row_end)
    if not lines[-1]:
        lines.pop()
    first = layout.first_line
    numbered = enumerate(lines[first - 1 :], first)
    rows, is_torn = (list(numbered), False)
    if dialect.quote and dialect.quote in content:
        joined = [*whole_rows(rows, dialect)]
        rows, is_torn = [(line, text) for line, text, _ in joined], bool(joined) and not joined[-1][2]
    if layout.is_crlf:
        rows = [(line, text.removesuffix("\r")) for line, text in rows]
    return rows, is_torn


def _fields(text: str, dialect: Dialect) -> Sequence[Field] | None:
    """Return the fields of a row as `csv.parser.fields` does; it is faster for rows without a quote in a field."""
    if not dialect.quote or dialect.quote not in text:
        return _plain_fields(text, dialect)
    if dialect.quote * 2 in text:
        return fields(text, dialect)
    pieces = text.split(dialect.quote)  # in turn outside and inside of quotes
    last = len(pieces) - 1
    if last % 2:
        return None
    values: list[Field] = []
    for place, piece in enumerate(pieces):
        if place % 2:
            values.append(piece)
        elif piece != dialect.delimiter or place in (0, last):
            plain = _between(piece, dialect, is_first=place == 0, is_last=place == last)
            if plain is None:
                return None
            values += plain
    return values


def _between(piece: str, dialect: Dialect, *, is_first: bool, is_last: bool) -> Sequence[Field] | None:
    """Return the fields before, between or after quoted fields; None if no delimiter separates them from these."""
    if (is_first or is_last) and not piece:
        return ()
    begins, ends = is_first or piece.startswith(dialect.delimiter), is_last or piece.endswith(dialect.delimiter)
    if not begins or not ends:
        return None
    return _plain_fields(piece[not is_first : len(piece) - (not is_last)], dialect)


def _plain_fields(text: str, dialect: Dialect) -> Sequence[Field]:
    values: list[Field] = [*text.split(dialect.delimiter)]
    if dialect.no_sup_text is not None and dialect.no_sup_text in values:
        values = [UNSET if cell == dialect.no_sup_text else cell for cell in values]
    if dialect.null_text in values:
        values = [None if cell == dialect.null_text else cell for cell in values]
    return values


def _columns(cells: Cells, width: int) -> Iterator[tuple[Field, ...]]:
    return zip(*cells, strict=True) if cells else iter([()] * width)


class _Cells:
    """The fields of one column of a file as texts, and flags for those that were not sent (empty without any)."""

    def __init__(self, column: Sequence[Field], dialect: Dialect) -> None:
        self.unset = [] if dialect.no_sup_text is None else [cell is UNSET for cell in column]
        cells = [None if cell is UNSET else cell for cell in column] if any(self.unset) else column
        self.texts = pa.array(cells, pa.string())


def _why_broken(text: str, width: int, dialect: Dialect) -> str:
    count = fields_in(text, dialect)
    if count != width:
        return f"the row has {count} fields where {width} are expected"
    return STRAY_QUOTE


def _typed(own: Mapping[str, _Cells], count: int, reading: Reading) -> Mapping[str, pa.Array]:
    """Return the table's columns, the texts of operation, time and sequence, and why values do not fit."""
    schema, key = reading.dimension.schema, reading.dimension.key
    column_reasons: list[tuple[str, Sequence[tuple[int, str]]]] = []
    columns: dict[str, pa.Array] = {}
    for item in schema:
        texts = _unpadded(own[item.name].texts if item.name in own else _nothing(count), item, reading)
        columns[item.name] = typed(texts, item.type, reading.format_of(item.name))
        column_reasons.append((item.name, misfits(texts, item, columns[item.name])))
    for index, item in enumerate(reading.before_columns):
        texts = _before(own, item, count, reading)
        columns[before_column(index)] = typed(texts, item.type, reading.format_of(item.name))
        column_reasons.append((item.name, misfits(texts, item, columns[before_column(index)])))
    sequence = _unpadded(own[SEQUENCE].texts if SEQUENCE in own else _nothing(count), None, reading)
    return {
        **columns,
        OP_TEXT: own[OP].texts if OP in own else _nothing(count),
        TIME_TEXT: own[TIME].texts if TIME in own else _nothing(count),
        SEQUENCE_TEXT: sequence,
        KEY_MISFIT: _first([reasons for name, reasons in column_reasons if name in key], count),
        MISFIT: _first([reasons for name, reasons in column_reasons if name not in key], count),
    }


def _nothing(count: int) -> pa.Array:
    return pa.nulls(count, pa.string())


def _unpadded(texts: pa.Array, item: Column | None, reading: Reading) -> pa.Array:
    """Return texts without the trailing blanks that the endpoint adds."""
    if not reading.is_padded or (item is not None and item.type.name != "string"):
        return texts
    return pa.array([None if text is None else text.rstrip(" ") for text in texts.to_pylist()], pa.string())


def _before(own: Mapping[str, _Cells], item: Column, count: int, reading: Reading) -> pa.Array:
    """Return a column's values before an update; they are NULL for inserts and deletes."""
    before = own.get(BEFORE + item.name)
    if before is None or OP not in own:
        return _nothing(count)
    texts = _unpadded(before.texts, item, reading).to_pylist()
    operations = own[OP].texts.to_pylist()
    sent = [None if op in ("I", "D") else text for op, text in zip(operations, texts, strict=True)]
    return pa.array(sent, pa.string())


def _first(columns: Sequence[Sequence[tuple[int, str]]], count: int) -> pa.Array:
    """Return the first reason of each row; NULL for a row without one."""
    reasons: list[str | None] = [None] * count
    for column in reversed(columns):
        for row, reason in column:
            reasons[row] = reason
    return pa.array(reasons, pa.string())


def _sent(own: Mapping[str, _Cells], count: int, layout: Layout, reading: Reading) -> Mapping[str, pa.Array]:
    """Return for each row the columns that were not sent, and whether all values before the change were sent."""
    unset: list[list[str] | None] = [None] * count
    for name in layout.columns:
        if reading.dimension.schema.find(name) is None or not any(own[name].unset):
            continue
        for row, was_not_sent in enumerate(own[name].unset):
            if was_not_sent:
                unset[row] = [*(unset[row] or ()), name]
    return {names.UNSET: pa.array(unset, NAMES), HAS_IMAGE: _has_image(own, count, reading)}


def _has_image(own: Mapping[str, _Cells], count: int, reading: Reading) -> pa.Array:
    """Return whether each row sent all values before the change; NULL if its file lacks columns for them."""
    wanted = [own.get(BEFORE + item.name) for item in reading.before_columns]
    if OP not in own or None in wanted:
        return pa.nulls(count, pa.bool_())
    has_all = [True] * count
    for cells in wanted:
        if cells is not None and any(cells.unset):
            has_all = [so_far and not unset for so_far, unset in zip(has_all, cells.unset, strict=True)]
    return pa.array(has_all, pa.bool_())
