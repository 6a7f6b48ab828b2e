"""Rows of the quarantine: taken apart into cells, and read again once a person has mended them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.dms.csv import Dialect, fields
from lakeward.adapters.dms.layout import Layout
from lakeward.adapters.dms.names import known_name
from lakeward.adapters.dms.reading import Reading, to_sequence
from lakeward.adapters.spark import names
from lakeward.adapters.spark.casts import NESTED, TextFormat, misfit, to_type
from lakeward.adapters.spark.inline import inline
from lakeward.adapters.spark.names import quoted, text
from lakeward.core.errors import MendError
from lakeward.core.events import Unset
from lakeward.core.ports import Entry
from lakeward.core.schema import Column, Type

_ENTRY: Final = "_lakeward_entry"
_CELL: Final = "_lakeward_cell_"
_KNOWN: Final = "_lakeward_known"
_GIVEN: Final = "_lakeward_given"
_MOMENT: Final = "_lakeward_moment"
_PLACE: Final = "_lakeward_place"
"""Of a mended row: its number, its cells as texts, the commit time it had, the one it was given as a text
and as a number, and the sequence that it was given."""


def is_parquet(entry: Entry) -> bool:
    """Whether a row is of a Parquet file: its text is JSON, and its cells are written plainly."""
    return known_name(entry.object).format == "parquet"


def json_cells(row: str) -> Mapping[str, str | None]:
    """Return the cells of a row that was written as JSON, as texts.

    >>> json_cells('{"id":1,"price":1.50,"is_sold":true,"name":null}')
    {'id': '1', 'price': '1.50', 'is_sold': 'true', 'name': None}
    """
    content = json.loads(row, parse_int=str, parse_float=str)
    is_text = {name: value is None or isinstance(value, str) for name, value in content.items()}
    return {name: value if is_text[name] else json.dumps(value) for name, value in content.items()}


def csv_cells(row: str, layout: Layout, dialect: Dialect) -> Mapping[str, str | None]:
    """Return the cells of a row of a CSV file that were sent; none where they cannot be told apart."""
    found = fields(row, dialect)
    if found is None or len(found) != len(layout.columns):
        return {}
    return {name: cell for name, cell in zip(layout.columns, found, strict=True) if not isinstance(cell, Unset)}


def mended_events(spark: SparkSession, reading: Reading, entries: Sequence[Entry]) -> DataFrame:
    """Return mended rows, of files of one format, as events; their cells are read as those of the files are.

    Raises MendError, naming every cell that does not fit.
    """
    schema = reading.dimension.schema
    _refuse_nested(reading)
    cells = {column.name: f"{_CELL}{number}" for number, column in enumerate(schema)}
    typed = {c.name: to_type(cells[c.name], c.type, reading.format_of(c.name)) for c in schema}
    moment = f"unix_micros({to_type(_GIVEN, Type('timestamp'), TextFormat())})"
    frame = _as_texts(spark, reading, entries, list(cells.values())).selectExpr(
        "*", *[f"{sql} AS {quoted(name)}" for name, sql in typed.items()], f"{moment} AS {_MOMENT}"
    )
    place = to_sequence(_PLACE) if reading.dimension.sequences.are_wide else _MOMENT
    _refuse_misfits(frame, reading, entries, {column: cells[column.name] for column in schema})
    return frame.selectExpr(
        *[quoted(name) for name in schema.names],
        names.OPERATION,
        f"coalesce({place}, {names.SEQUENCE}) AS {names.SEQUENCE}",
        *(names.OBJECT, names.ROW),
        f"bigint({_ENTRY}) AS {names.ARRIVAL}",
        f"coalesce({_MOMENT}, {_KNOWN}) AS {names.TIME}",
        *[f"string(NULL) AS {name}" for name in (names.REASON, names.DETAIL, names.TEXT)],
    )


def _as_texts(spark: SparkSession, reading: Reading, entries: Sequence[Entry], cells: Sequence[str]) -> DataFrame:
    numbers = dict.fromkeys((_ENTRY, names.SEQUENCE, names.OBJECT, names.ROW, _KNOWN), "bigint")
    numbers[names.SEQUENCE] = str(names.sequence_type(reading.dimension.sequences))
    texts = (_GIVEN, _PLACE, names.OPERATION, *cells)
    rows: list[list[str | int | None]] = []
    for number, entry in enumerate(entries):
        if entry.mended is not None:
            row = [entry.mended.cells[name] for name in reading.dimension.schema.names]
            place = [number, entry.sequence, entry.order, entry.row, entry.time]
            given = [entry.mended.time, entry.mended.sequence]
            rows.append([*place, *given, entry.mended.operation.value, *row])
    return inline(spark, {**numbers, **dict.fromkeys(texts, "string")}, rows)


def _refuse_nested(reading: Reading) -> None:
    for column in reading.dimension.schema:
        if column.type.name in NESTED:
            raise MendError(
                f"{reading.dimension.name}: the column {column.name} is a {column.type}, which has no form as text",
                todo="A row of this table cannot be fixed here. Let the source write it again, and give it up.",
            )


def _refuse_misfits(
    frame: DataFrame, reading: Reading, entries: Sequence[Entry], cells: Mapping[Column, str]
) -> None:
    """Raise MendError for cells that do not fit their columns; as many rows are looked at as a person mended."""
    wrong = [misfit(cell, column) for column, cell in cells.items() if column.type.name != "string"]
    words = text('" is not a commit time')
    wrong.append(f"CASE WHEN {_GIVEN} IS NOT NULL AND {_MOMENT} IS NULL THEN concat('\"', {_GIVEN}, {words}) END")
    words, is_none = text('" is not a sequence'), f"{_PLACE} IS NOT NULL AND {to_sequence(_PLACE)} IS NULL"
    wrong.append(f"CASE WHEN {is_none} THEN concat('\"', {_PLACE}, {words}) END")
    listed = f"filter(array({', '.join(wrong)}), said -> said IS NOT NULL)"
    found = frame.selectExpr(_ENTRY, f"{listed} AS said").where("size(said) > 0").collect()
    if found:
        places = [(entries[row[_ENTRY]], row["said"]) for row in found]
        raise MendError(
            f"{reading.dimension.name}: {len(found):,} mended row(s) do not fit the table",
            found="\n".join(f"{entry.object}, row {entry.row}: {'; '.join(said)}" for entry, said in places),
            todo="Nothing was changed. Correct the cells, and take the file again.",
        )
