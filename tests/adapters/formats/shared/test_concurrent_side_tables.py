"""Two processes write what stands beside a table: who did not see what the other wrote undoes nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta_lake import LakeOfDelta
from iceberg_lake import LakeOfIceberg
from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta_rs import side_table as delta
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.side_table import DeltaSideTable
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.adapters.formats.iceberg.side_tables import side_table as iceberg
from lakeward.adapters.formats.iceberg.side_tables.side_table import IcebergSideTable
from lakeward.adapters.formats.shared.change_log import retention
from lakeward.adapters.formats.shared.change_log.entries import KIND, RECORD
from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName, Within
from lakeward.core.errors import CommitConflict
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position
from lakeward.core.pipeline.job import Idle
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.core.schema import Type, parse_type
from lakeward.plugins.testing import Player, Script
from lakeward.plugins.testing.scripts import NAME, PACKED

ITEM = TableName("shop", "item")
COLUMNS = {KIND: Type("string"), names.BATCH: Type("bigint"), RECORD: Type("string")}

Open = Callable[[], Any]


def no_spark() -> SparkSession:
    pytest.fail("it needs no Spark")


def test_a_map_of_times_without_a_zone_is_kept_in_delta(tmp_path: Path) -> None:
    """delta-rs makes no such table, and adds such a column to one that has the feature."""
    times = parse_type("struct<a: map<string, list<timestamp_ntz>>>")
    found = {"a": [("b", [datetime(2026, 1, 1)])]}
    plain = parse_type("struct<b: int>")
    for more in (
        {**COLUMNS, "third": plain},
        {**COLUMNS, "first": times},
        {**COLUMNS, "first": times, "second": times},
    ):
        side_table: Any = in_delta(tmp_path)()
        rows = {name: [found if name in ("first", "second") else None] for name in more}
        schema = pa.schema([(name, arrow_type(type_)) for name, type_ in more.items()])
        side_table.add(more, [], pa.table(rows, schema), count=0)
    read = side_table.rows("true", ("first", "second")).to_pylist()
    assert sorted(map(str, read)) == sorted(
        str({"first": first, "second": second}) for first, second in ((None, None), (found, None), (found, found))
    )


def in_iceberg(folder: Path) -> Open:
    catalog = IcebergCatalog(IcebergOptions(warehouse="lake"), folder)
    return partial(IcebergSideTable, catalog, ITEM, no_spark, CHANGES, {}, tuple)


def in_delta(folder: Path) -> Open:
    places = Places("lake", "{schema}", folder)
    return partial(DeltaSideTable, places, ITEM, no_spark, CHANGES, {}, tuple)


def add(side_table: Any, kind: str, batch: int, *, type_: str = "bigint") -> None:
    columns = {**COLUMNS, "id": Type(type_)}
    side_table.add(columns, [], pa.table({KIND: [kind], names.BATCH: [batch]}), count=1, partition_by=KIND)


def written(side_table: Any) -> list[tuple[str, int]]:
    rows = side_table.rows(f"{names.BATCH} > 0", (KIND, names.BATCH)).to_pylist()
    return sorted((row[KIND], row[names.BATCH]) for row in rows)


@pytest.mark.parametrize("make", [in_iceberg, in_delta])
def test_one_of_two_wins(make: Callable[[Path], Open], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both had looked before either wrote: of two records of a batch nobody could tell which one counts."""
    mine, its = make(tmp_path)(), make(tmp_path)()
    add(mine, "batch", 1)
    seen = mine.load()
    add(its, "batch", 2)
    monkeypatch.setattr(mine, "_prepare_table", lambda *_: seen)
    with pytest.raises(CommitConflict):
        add(mine, "batch", 2)
    assert written(its) == [("batch", 1), ("batch", 2)]


def test_rewriting_for_a_wider_type_loses_no_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, its = in_delta(tmp_path)(), in_delta(tmp_path)()
    add(mine, "batch", 1, type_="int")
    overwrite = mine.overwrite

    def meanwhile(*of: Any) -> None:
        add(its, "batch", 2, type_="int")
        overwrite(*of)

    with monkeypatch.context() as patch:
        patch.setattr(mine, "overwrite", meanwhile)
        with pytest.raises(CommitConflict):
            add(mine, "batch", 3)
    assert written(its) == [("batch", 1), ("batch", 2)]
    add(mine, "batch", 3)
    assert written(its) == [("batch", 1), ("batch", 2), ("batch", 3)]


def test_iceberg_widens_a_column_without_rewriting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, its = in_iceberg(tmp_path)(), in_iceberg(tmp_path)()
    add(mine, "batch", 1, type_="int")
    seen = mine.load()
    add(its, "batch", 2, type_="int")
    monkeypatch.setattr(mine, "load", lambda: seen)
    add(mine, "batch", 3)
    assert written(its) == [("batch", 1), ("batch", 2), ("batch", 3)]


def test_a_version_before_a_trim_is_readable_for_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, trimming = in_delta(tmp_path)(), in_delta(tmp_path)()
    add(reading, "change", 1)
    seen = reading.load()
    trimming.forget(f"{names.BATCH} <= 1")
    trimming.expire()
    with monkeypatch.context() as patch:
        patch.setattr(reading, "load", lambda: seen)
        assert written(reading) == [("change", 1)]
    monkeypatch.setattr(delta, "HOURS_KEPT", 0)
    trimming.expire()
    assert not list(Path(str(reading.folder)).rglob("part-*.parquet"))


DIMENSION = Dimension(name=NAME, schema=PACKED, key=("h", "id"))
LAKES = {"iceberg": LakeOfIceberg, "delta": LakeOfDelta}


def changed(batch: int, row: int, **cells: Any) -> ChangeEvent:
    """Return an event that sends a part of its row."""
    sent = {"h": 0, "id": row, "a": UNSET, "b": UNSET} | cells
    operation = Operation.UPDATE if UNSET in sent.values() else Operation.INSERT
    position = Position(1, batch * 100, batch, row)
    return ChangeEvent(operation=operation, position=position, key=(0, row), cells=sent, time=batch * 100)


def script() -> Script:
    """Three deliveries; the mark passes the first one with the second."""
    deliveries = [
        [changed(1, 1, a=1, b=1), changed(1, 2, a=1, b=1)],
        [changed(2, 1, a=2), changed(2, 2, b=2)],
        [changed(3, 1, b=3), changed(3, 2, a=3)],
    ]
    dimension = Dimension(name=NAME, schema=PACKED, key=("h", "id"), lateness=Within(10))
    return Script(dimension, deliveries, [event for items in deliveries for event in items], in_part=True)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("kind", LAKES)
def test_a_trim_keeps_what_another_process_has_recorded_of_the_next_batch(
    kind: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_TRIM_EVERY", 1)
    lake = LAKES[kind](spark, tmp_path)
    player, other = Player(script(), lake), Player(script(), lake)
    remembered: list[Any] = []

    def meanwhile(step: str) -> None:
        if step == "trim" and player.source.arrived == 2 and not remembered:
            other.source.arrived = 3
            job = other.job()
            prepared = prepare_next_batch(job)
            assert not isinstance(prepared, Idle)
            job.opened.change_log.record_batch(prepared.plan, prepared.resolved)
            remembered.append(job.opened.change_log.change_log.table)
            remembered.append(written(remembered[0]))

    player.deliver()
    player.meanwhile = meanwhile
    player.deliver()
    side_table, before = remembered
    assert ("change", 3) in before
    assert [entry for entry in written(side_table) if entry[1] == 3] == [entry for entry in before if entry[1] == 3]


@pytest.mark.spark
@pytest.mark.parametrize("kind", LAKES)
def test_a_trim_of_a_changed_change_log_is_refused(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    lake = LAKES[kind](spark, tmp_path)
    side_table = lake.open(DIMENSION).change_log.change_log.table
    add(side_table, "change", 1)
    since, rows = side_table.version, side_table.frame("true")
    add(side_table, "change", 2)
    with pytest.raises(CommitConflict):
        side_table.replace(f"{KIND} = 'change'", [rows], since)
    assert written(side_table) == [("change", 1), ("change", 2)]


@pytest.mark.spark
def test_iceberg_keeps_few_snapshots(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    side_table = LAKES["iceberg"](spark, tmp_path).open(DIMENSION).change_log.change_log.table
    for batch in range(1, 5):
        add(side_table, "change", batch)
    seen = side_table.load()
    side_table.forget(f"{names.BATCH} <= 4")
    side_table.expire()
    with monkeypatch.context() as patch:
        patch.setattr(side_table, "load", lambda: seen)
        assert written(side_table) == [("change", batch) for batch in range(1, 5)]
    for name, number, left in (("_MOST_KEPT", 2, 2), ("HOURS_KEPT", 0, 1)):
        monkeypatch.setattr(iceberg, name, number)
        side_table.expire()
        assert len(side_table.load().snapshots()) == left
