"""Whatever the settings of an endpoint are, what it writes is read back: by the reference reader, and by Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from dms_files import content_of
from endpoints import ITEM, NAME, TYPES, Endpoint, Event, draw, plain
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.dms.source import DmsSource
from lakeward.adapters.landed.csv import Dialect, records
from lakeward.adapters.landed.csv_frames import WHOLE_FILES
from lakeward.adapters.landed.layout import OP, OPERATIONS, TIME, Expected, find_layout
from lakeward.adapters.spark import names
from lakeward.core.events import UNSET
from lakeward.core.ledger import SourceObject

DRAWS = int(os.environ.get("LAKEWARD_DRAWS", "300"))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(text: str | None) -> int | None:
    return (
        None
        if text is None
        else round((datetime.fromisoformat(text + "+00:00") - EPOCH) / timedelta(microseconds=1))
    )


READ: dict[str, Callable[[str], object]] = {
    "int": int,
    "string": str,
    "decimal(8,2)": Decimal,
    "timestamp": lambda text: datetime.fromisoformat(text + "+00:00"),
}


def objects(endpoint: Endpoint) -> list[SourceObject]:
    found, others = endpoint.folder.list(NAME) or ((), ())
    assert not others
    ordered = sorted(found, key=lambda item: item.order)
    assert len({item.order for item in ordered}) == len(ordered)
    return ordered


def csv_rows(endpoint: Endpoint, path: Path, *, is_load: bool) -> Iterator[dict[str, Any]]:
    o = endpoint.options
    dialect = Dialect(o.delimiter, o.quote, o.null_text, o.no_sup_value, o.row_delimiter)
    expected = Expected(ITEM, dialect, o.op_column, o.timestamp_column, may_lack_op=o.may_lack_op)
    content = content_of(path)
    layout = find_layout(path.name, content, expected, is_load=is_load)
    texts = [record.text for record in records(content, dialect)][layout.has_header :]
    for text in texts:
        (record,) = records(text.removesuffix("\r") if layout.is_crlf else text, dialect)
        assert record.fields is not None
        yield dict(zip(layout.columns, record.fields, strict=True))


def parquet_rows(endpoint: Endpoint, path: Path) -> Iterator[dict[str, Any]]:
    called = {endpoint.options.op_column: OP, endpoint.options.timestamp_column: TIME}
    for row in pq.read_table(path).to_pylist():
        yield {called.get(name, name): value for name, value in row.items()}


def by_reference(endpoint: Endpoint) -> list[Event]:
    """Read a feed by the rules of the pages, in plain Python."""
    o, found = endpoint.options, []
    for item in objects(endpoint):
        path = endpoint.folder.path(NAME, item.name)
        name = endpoint.folder.places.of(NAME).known(NAME, item.name)
        is_csv = name.format == "csv"
        read = csv_rows(endpoint, path, is_load=name.is_load) if is_csv else parquet_rows(endpoint, path)
        for row in read:
            cells = [cell(row[column], type_, is_csv=is_csv) for column, type_ in TYPES.items()]
            if o.trim_padding:
                cells = [value.rstrip(" ") if isinstance(value, str) else value for value in cells]
            said = dict(zip(o.operation_indicator_values, ("delete", "update", "insert"), strict=True))
            operation = "read" if name.is_load else operation_of(row.get(OP), cells, o.operations)
            if o.operation_indicator is not None:
                operation = said.get(str(cells[-1]), operation)
            found.append(Event(operation, micros(row.get(TIME)), cells, is_load=name.is_load))
    return found


def cell(value: Any, type_: str, *, is_csv: bool) -> object:
    return READ[type_](value) if is_csv and isinstance(value, str) else value


def operation_of(op: str | None, cells: list[Any], operations: str) -> str:
    if op is not None:
        return OPERATIONS[op]
    if operations == "inserts":
        return "insert"
    return "update" if UNSET in cells else "read"


@settings(max_examples=DRAWS, deadline=None)
@given(st.integers(0, 2**32))
def test_a_feed_is_read_back_as_it_was_written(seed: int) -> None:
    with TemporaryDirectory() as folder:
        endpoint = draw(seed, Path(folder))
        assert plain(by_reference(endpoint)) == plain(endpoint.events)


def test_a_setting_that_is_not_the_endpoints_is_found(tmp_path: Path) -> None:
    """The law can fail: of draws that are read by other settings, most are not read back."""
    wrong = 0
    for seed in range(40):
        endpoint = draw(seed, tmp_path / str(seed))
        other = endpoint.options.model_copy(
            update={"delimiter": "|", "timestamp_column": "other", "op_column": "x"}
        )
        try:
            read = by_reference(Endpoint(endpoint.landing, other, endpoint.style, endpoint.events))
            wrong += plain(read) != plain(endpoint.events)
        except Exception:  # noqa: BLE001  # whatever it is, it is found
            wrong += 1
    assert wrong > 20


def spark_frame(spark: SparkSession, endpoint: Endpoint) -> DataFrame | None:
    source = DmsSource(endpoint.options, endpoint.folder, lambda: spark, tables_with_torn_rows={NAME})
    found = objects(endpoint)
    if not found:
        return None
    frame: DataFrame = source._frame(ITEM, [source._look_at(ITEM, item) for item in found])
    part = [names.UNSET] if names.UNSET in frame.columns else []
    return frame.select(*TYPES, names.OPERATION, names.TIME, names.REASON, names.ARRIVAL, names.SEQUENCE, *part)


def spark_cell(row: Row, column: str) -> object:
    if column in (row[names.UNSET] or ()):
        return UNSET
    value = row[column]
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def without_unset_in_deletes(event: Event) -> Event:
    """What a delete did not send is of no use to anyone."""
    if event.operation != "delete":
        return event
    return replace(event, row=[None if cell is UNSET else cell for cell in event.row])


@pytest.mark.spark
def test_spark_reads_what_was_written(spark: SparkSession, tmp_path: Path) -> None:
    drawn = {seed: draw(seed, tmp_path / f"draw {seed}%") for seed in range(24)}
    frames = {seed: spark_frame(spark, endpoint) for seed, endpoint in drawn.items()}
    tagged = [frame.withColumn("draw", F.lit(seed)) for seed, frame in frames.items() if frame is not None]
    for key, value in WHOLE_FILES.items():
        spark.conf.set(key, value)  # that of the last draw would else be that of all
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)
    rows = together.orderBy("draw", names.ARRIVAL).collect()
    lowest = -(2**63)
    for seed, endpoint in drawn.items():
        own = [row for row in rows if row["draw"] == seed]
        assert {row[names.REASON] for row in own} <= {None}, (seed, endpoint.options)
        read = [
            Event(
                row[names.OPERATION],
                row[names.TIME],
                [spark_cell(row, column) for column in TYPES],
                is_load=row[names.SEQUENCE] == lowest,
            )
            for row in own
        ]
        written = [*map(without_unset_in_deletes, endpoint.events)]
        assert plain(read) == plain(written), (seed, endpoint.options, endpoint.style)
