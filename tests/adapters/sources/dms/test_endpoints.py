"""Whatever the settings of an endpoint are, what it writes is read back: by the reference reader, and by Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from itertools import islice
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
from spark import INTERPRETED
from sparkless import no_spark
from tries import tries

from lakeward.adapters.sources.csv import layout as layouts
from lakeward.adapters.sources.csv import parser
from lakeward.adapters.sources.csv.layout import BEFORE, OP, OPERATIONS, SEQUENCE, TIME, ExpectedLayout, find_layout
from lakeward.adapters.sources.csv.parser import Dialect, Field, records
from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.dms.paths import file_names as dms_names
from lakeward.adapters.sources.dms.source import DmsSource
from lakeward.adapters.sources.rows.csv_frames import WHOLE_FILES
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.sql import names
from lakeward.core.events import LOAD_SEQUENCE, UNSET
from lakeward.core.ledger.objects import SourceObject

DRAWS = int(os.environ.get("LAKEWARD_DRAWS", "60"))
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
    added = (o.op_column, o.timestamp_column, o.before_image_prefix, o.sequence_column)
    expected = ExpectedLayout(ITEM, dialect, *added, may_lack_op=o.may_lack_op)
    content = content_of(path)
    layout = find_layout(path.name, content, expected, is_load=is_load)
    texts = [record.text for record in records(content, dialect)][layout.has_header :]
    for text in texts:
        (record,) = records(text.removesuffix("\r") if layout.is_crlf else text, dialect)
        assert record.fields is not None
        yield dict(zip(layout.columns, record.fields, strict=True))


def parquet_rows(endpoint: Endpoint, path: Path) -> Iterator[dict[str, Any]]:
    o = endpoint.options
    called = {o.op_column: OP, o.timestamp_column: TIME, o.sequence_column: SEQUENCE}
    called[f"{o.before_image_prefix}id"] = BEFORE + "id"
    for row in pq.read_table(path).to_pylist():
        yield {called.get(name, name): value for name, value in row.items()}


def by_reference(endpoint: Endpoint) -> list[Event]:
    """Read a feed by the rules of the pages, in plain Python."""
    found = []
    for item in objects(endpoint):
        path = Path(endpoint.folder.path(NAME, item.name))
        name = endpoint.folder.places.of(NAME).known(NAME, item.name)
        is_csv = name.format == "csv"
        read = csv_rows(endpoint, path, is_load=name.is_load) if is_csv else parquet_rows(endpoint, path)
        found += [event_of(endpoint.options, row, is_load=name.is_load, is_csv=is_csv) for row in read]
    return found


def event_of(o: DmsOptions, row: dict[str, Any], *, is_load: bool, is_csv: bool) -> Event:
    cells = [cell(row[column], type_, is_csv=is_csv) for column, type_ in TYPES.items()]
    if o.trim_padding:
        cells = [value.rstrip(" ") if isinstance(value, str) else value for value in cells]
    said = dict(zip(o.operation_indicator_values, ("delete", "update", "insert"), strict=True))
    operation = "read" if is_load else operation_of(row.get(OP), cells, o.operations)
    if o.operation_indicator is not None:
        operation = said.get(str(cells[-1]), operation)
    before = cell(row.get(BEFORE + "id"), "int", is_csv=is_csv)
    is_move = operation == "update" and OP in row and before not in (None, cells[0])
    return Event(
        operation=operation,
        time=micros(row.get(TIME)),
        row=cells,
        is_load=is_load,
        sequence=None if is_load or o.sequence_column is None else int(row[SEQUENCE]),
        old=before if is_move else None,
    )


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


# The law can fail: a setting that is not the endpoint's, and a reader that breaks a rule, are found.


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Endpoint]:
    folder = tmp_path_factory.mktemp("draws")
    found = [draw(seed, folder / str(seed)) for seed in range(120)]
    assert not any(map(is_found, found))
    return found


def is_found(endpoint: Endpoint) -> bool:
    """Whether a feed is not read back as it was written, or not read at all."""
    try:
        return plain(by_reference(endpoint)) != plain(endpoint.events)
    except Exception:  # noqa: BLE001  # whatever it is, it is found
        return True


WRONG: dict[str, Any] = {
    "delimiter": "%",
    "quote": "",
    "null_text": "nil",
    "row_delimiter": "\x02",
    "trim_padding": False,
    "operations": "all",
    "op_column": "what",
    **dict.fromkeys(
        ("no_sup_value", "timestamp_column", "sequence_column", "before_image_prefix", "operation_indicator")
    ),
    "operation_indicator_values": ["Z", "Y", "X"],
    "load": "other/{schema}/{table}",
    "changes": "other/{schema}/{table}",
    "date_folders": "MM_YYYY_DD",
    "change_names": "nothing(?P<counter>)",
    "load_names": "nothing",
}


@pytest.mark.parametrize("setting", WRONG)
def test_a_setting_that_is_not_the_endpoints_is_found(drawn: list[Endpoint], setting: str) -> None:
    others = [one for one in drawn if getattr(one.options, setting) != WRONG[setting]]
    changed = (replace(one, options=one.options.model_copy(update={setting: WRONG[setting]})) for one in others)
    assert sum(islice(filter(None, map(is_found, changed)), 5)) == 5


def quoted_is_null(rest: str, dialect: Dialect) -> tuple[Field, str | None]:
    value, after = QUOTED(rest, dialect)
    return (None if value == dialect.null_text else value), after


def as_text(_written: int, counter: int, _period: object) -> int:
    return counter


QUOTED = parser._quoted
BROKEN: dict[str, tuple[Any, str, Any]] = {
    "a quoted NULL text is NULL": (parser, "_quoted", quoted_is_null),
    "CR LF is not seen": (layouts, "_is_crlf", lambda *_, **__: False),
    "the time of a file in a date folder is not looked at": (dms_names, "_dated_order", as_text),
    "hours of a zone that is ahead are not told apart": (dms_names, "_AHEAD", dict.fromkeys(("HH", "DD", "MM"), 2)),
    "a hexadecimal counter is a decimal one": (dms_names, "_LOAD", re.compile("LOAD(?P<counter>[0-9]{8})$")),
    "a text that was not sent is a text": (parser, "_null_or", lambda value, _: value),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_reader_is_detected(drawn: list[Endpoint], broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, other = BROKEN[broken]
    monkeypatch.setattr(module, name, other)
    assert sum(islice(filter(None, map(is_found, drawn)), 3)) == 3


# The reader of small batches.


def local_rows(endpoint: Endpoint) -> list[dict[str, Any]] | None:
    """Return the rows as the reader of small batches has them; None for what it leaves to Spark."""
    source = DmsSource(endpoint.options, endpoint.folder, no_spark, small_batch=20_000)
    table = replace(ITEM, sequences=source.sequences)
    if not (found := objects(endpoint)):
        return []
    try:
        looked_at = [source.inspector.inspect(table, item, table.schema, is_there=False) for item in found]
        rows = source._read_locally(table, looked_at)
    except SparkNeeded:
        return None
    in_order = rows.sort_by(names.ARRIVAL).to_pylist()
    return [{names.UNSET: None, **row, "old": (row.get(names.OLD) or {}).get("id")} for row in in_order]


def test_small_batches_are_read_as_they_were_written(drawn: list[Endpoint]) -> None:
    read = 0
    for endpoint in drawn:
        rows = local_rows(endpoint)
        if rows is None:
            continue
        read += 1
        assert {row[names.REASON] for row in rows} <= {None}, endpoint.options
        written = [*map(without_unset_in_deletes, endpoint.events)]
        assert plain([spark_event(row, endpoint.options) for row in rows]) == plain(written), endpoint.options
    assert read > len(drawn) / 2


# Spark.


def spark_frame(spark: SparkSession, endpoint: Endpoint) -> DataFrame | None:
    source = DmsSource(endpoint.options, endpoint.folder, lambda: spark, tables_with_torn_rows={NAME})
    table = replace(ITEM, sequences=source.sequences)
    found = objects(endpoint)
    if not found:
        return None
    looked_at = [source.inspector.inspect(table, item, table.schema, is_there=False) for item in found]
    frame = source._read_in_spark(table, looked_at)
    part = [names.UNSET, f"{names.OLD}.id AS old"] if names.UNSET in frame.columns else []
    added = [names.OPERATION, names.TIME, names.REASON, names.ARRIVAL]
    sequence = f"CAST({names.SEQUENCE} AS decimal(38,0)) AS {names.SEQUENCE}"
    return frame.selectExpr(*TYPES, *added, sequence, *part)


def spark_cell(row: Row | dict[str, Any], column: str) -> object:
    if column in (row[names.UNSET] or ()):
        return UNSET
    value = row[column]
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def spark_event(row: Row | dict[str, Any], options: DmsOptions) -> Event:
    is_load = row[names.SEQUENCE] == LOAD_SEQUENCE
    return Event(
        operation=row[names.OPERATION],
        time=row[names.TIME],
        row=[spark_cell(row, column) for column in TYPES],
        is_load=is_load,
        sequence=None if is_load or options.sequence_column is None else int(row[names.SEQUENCE]),
        old=row["old"],
    )


def without_unset_in_deletes(event: Event) -> Event:
    """What a delete did not send is of no use to anyone."""
    if event.operation != "delete":
        return event
    return replace(event, row=[None if cell is UNSET else cell for cell in event.row])


SMALL = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""To plan many small reads anew behind each of them takes longer than to read them."""


@contextmanager
def spark_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, was in before.items():
        spark.conf.unset(name) if was is None else spark.conf.set(name, was)


def by_spark(spark: SparkSession, drawn: Mapping[int, Endpoint]) -> list[Row]:
    frames = {seed: spark_frame(spark, endpoint) for seed, endpoint in drawn.items()}
    tagged = [frame.withColumn("draw", F.lit(seed)) for seed, frame in frames.items() if frame is not None]
    with spark_settings(spark, WHOLE_FILES):  # what the last draw needs would else be for all
        together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)
        return together.orderBy("draw", names.ARRIVAL).collect()


FEEDS = [(range(tries(5, 10)), SMALL), (range(10, tries(20, 50)), SMALL | INTERPRETED)]


@pytest.mark.spark
@pytest.mark.parametrize(("seeds", "settings"), FEEDS)
def test_spark_reads_a_feed(spark: SparkSession, tmp_path: Path, seeds: range, settings: Mapping[str, str]) -> None:
    for first in range(seeds.start, seeds.stop, 10):
        drawn = {seed: draw(seed, tmp_path / f"draw {seed}%") for seed in range(first, first + 10)}
        with spark_settings(spark, settings):
            rows = by_spark(spark, drawn)
        for seed, endpoint in drawn.items():
            own = [row for row in rows if row["draw"] == seed]
            assert {row[names.REASON] for row in own} <= {None}, (seed, endpoint.options)
            read = [spark_event(row, endpoint.options) for row in own]
            written = [*map(without_unset_in_deletes, endpoint.events)]
            assert plain(read) == plain(written), (seed, endpoint.options, endpoint.style)
