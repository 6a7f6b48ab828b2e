"""What stands beside a table that is rolled back, in one step or several; the tables beside it are real ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta_rs.change_log_versions import DeltaChangeLogVersions
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.side_table import DeltaSideTable
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.adapters.formats.iceberg.side_tables.change_log_versions import IcebergChangeLogVersions
from lakeward.adapters.formats.iceberg.side_tables.side_table import IcebergSideTable
from lakeward.adapters.formats.shared.change_log import batch_record
from lakeward.adapters.formats.shared.change_log.entries import BATCH, DELETE, KIND, RECORD
from lakeward.adapters.formats.shared.operations.rollback import RestorableSideTables, TableVersions
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.ports import Acknowledgement, Version
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type

ITEM = TableName("shop", "item")
DIMENSION = Dimension(name=ITEM, schema=Schema((Column("id", Type("bigint")),)), key=("id",))
COLUMNS = {KIND: "string", "_lakeward_epoch": "int", "_lakeward_batch": "bigint", RECORD: "string", "id": "bigint"}
ARROW = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}


@dataclass
class Line:
    """Stands for a table with a commit for each batch."""

    batch: int

    def versions(self) -> list[Version]:
        found = range(1, self.batch + 1)
        return [Version(name=str(n), progress=Progress(batch=n)) for n in reversed(found)]

    def find(self, name: str) -> Version | None:
        return next((version for version in self.versions() if version.name == name), None)

    def is_at(self, name: str) -> bool:
        return name == str(self.batch)

    def check(self, name: str) -> None: ...

    def go_back(self, version: Version) -> None:
        self.batch = version.progress.batch


def no_spark() -> SparkSession:
    pytest.fail("it needs no Spark")


class OfIceberg(IcebergChangeLogVersions):
    """Keeps without a table beside the companion, which would say what no commit needs any more."""

    def keep(self, batch: int) -> None:
        table = self.catalog.load(self.name, CHANGES)
        assert table is not None
        snapshot = table.current_snapshot()
        assert snapshot is not None
        table.manage_snapshots().create_tag(snapshot.snapshot_id, f"lakeward-before-{batch}").commit()


def in_iceberg(folder: Path) -> RestorableSideTables:
    catalog = IcebergCatalog(IcebergOptions(warehouse="lake"), folder)
    make = partial(IcebergSideTable, catalog, ITEM, no_spark)
    return RestorableSideTables(DIMENSION, make, no_spark, OfIceberg(catalog, ITEM))


def in_delta(folder: Path) -> RestorableSideTables:
    make = partial(DeltaSideTable, Places("lake", "{schema}", folder), ITEM, no_spark)
    return RestorableSideTables(
        DIMENSION, make, no_spark, DeltaChangeLogVersions(make(CHANGES, {}, tuple), lambda: 1)
    )


def add(kept: RestorableSideTables, kind: str, batch: int, record: str, key: int | None = None) -> None:
    cells = dict(zip(COLUMNS, (kind, 1, batch, record, key), strict=True))
    rows = pa.Table.from_pylist(
        [cells], schema=pa.schema([(name, ARROW[type_]) for name, type_ in COLUMNS.items()])
    )
    types = {name: Type(type_) for name, type_ in COLUMNS.items()}
    kept.change_log.table.add(types, [], rows, count=0, partition_by=KIND)


def trimmed_with_32(kept: RestorableSideTables) -> None:
    """Give a companion a delete of batch 3 that was forgotten with batch 32, and batches up to 40."""
    add(kept, DELETE, 3, "7", 7)
    batches: dict[str, Any] = {"objects": [], "at": 1, "epoch": 1, "schema": []}
    for batch in (3, 10, 32):
        add(kept, BATCH, batch, json.dumps(batches))
    kept.change_log_versions.keep(32)
    kept.change_log.table.forget(f"{KIND} = '{DELETE}' and _lakeward_batch <= 3")
    add(kept, BATCH, 40, json.dumps(batches))


@pytest.mark.parametrize("make", [in_iceberg, in_delta])
@pytest.mark.parametrize("stands", [40, 10])
def test_trimmed_entries_return(tmp_path: Path, make: Callable[[Path], RestorableSideTables], stands: int) -> None:
    kept = make(tmp_path)
    trimmed_with_32(kept)
    line = Line(40)
    versions = TableVersions(kept, lambda: line)  # type: ignore[arg-type,return-value]
    line.batch = stands
    assert "5" in [version.name for version in versions.versions()]
    versions.roll_back(versions.preview_rollback("5"))
    assert line.batch == 5
    found = kept.change_log.table.rows(f"{KIND} = '{DELETE}'", ("id", "_lakeward_batch")).to_pylist()
    assert found == [{"id": 7, "_lakeward_batch": 3}]


def test_missing_files_of_a_change_log_are_noticed_before_the_table_is_rolled_back(tmp_path: Path) -> None:
    kept = in_delta(tmp_path)
    trimmed_with_32(kept)
    change_log, line = kept.change_log.table, Line(40)
    assert isinstance(change_log, DeltaSideTable)
    table = change_log.load()
    assert table is not None
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    versions = TableVersions(kept, lambda: line)  # type: ignore[arg-type,return-value]
    assert [int(version.name) for version in versions.versions()] == [*range(39, 31, -1)]
    with pytest.raises(TableError, match="removed by others"):
        versions.preview_rollback("5")
    assert line.batch == 40


@pytest.mark.parametrize("make", [in_iceberg, in_delta])
def test_a_run_stops_after_a_killed_rollback(tmp_path: Path, make: Callable[[Path], RestorableSideTables]) -> None:
    """See docs/how-to/rollback.md: what one batch leaves looks as behind a crash in it, and is forgotten so."""
    kept = make(tmp_path)
    said = json.dumps({"objects": [], "at": 1, "epoch": 1, "schema": []})
    for batch in (30, 31):
        add(kept, BATCH, batch, said)
    kept.forget()
    assert kept.read_state(Progress(batch=30)).objects == {}
    add(kept, BATCH, 32, said)
    kept.forget()
    with pytest.raises(TableError, match="was rolled back to batch 30"):
        kept.read_state(Progress(batch=30))
    kept.change_log_versions.keep(32)
    kept.forget()
    with pytest.raises(TableError, match="was rolled back to batch 31"):
        kept.read_state(Progress(batch=31))


@pytest.mark.parametrize("make", [in_iceberg, in_delta])
def test_later_decisions_are_read_again(tmp_path: Path, make: Callable[[Path], RestorableSideTables]) -> None:
    kept = make(tmp_path)
    batches: dict[str, Any] = {"objects": [], "at": 1, "epoch": 1, "schema": []}
    for batch in (5, 6, 7):
        add(kept, BATCH, batch, json.dumps(batches))
    said = Acknowledgement(code="LEDGER-001", about=("a",), by="me", reason=None, at=1, epoch=1)
    add(kept, "ack", 6, batch_record.decision_text(said))
    for _ in range(2):
        with pytest.raises(TableError, match="rolled back to batch 5"):
            kept.read_state(Progress(batch=5))
    assert kept.read_state(Progress(batch=7)).decisions == (said,)


@pytest.mark.parametrize("make", [in_iceberg, in_delta])
def test_a_restored_change_log_loses_no_entry_of_another_process(
    tmp_path: Path, make: Callable[[Path], RestorableSideTables], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, other = make(tmp_path), make(tmp_path)
    trimmed_with_32(kept)
    target, name = (
        (kept.change_log_versions.change_log, "load")
        if isinstance(kept.change_log_versions, DeltaChangeLogVersions)
        else (IcebergChangeLogVersions, "_load")
    )
    load = getattr(target, name)

    def meanwhile(*of: Any) -> Any:
        loaded = load(*of)
        monkeypatch.undo()
        add(other, DELETE, 41, "8", 8)
        return loaded

    monkeypatch.setattr(target, name, meanwhile)
    with pytest.raises(CommitConflict):
        kept.change_log_versions.restore(5, 32)
    found = other.change_log.table.rows(f"{KIND} = '{DELETE}'", ("id", "_lakeward_batch")).to_pylist()
    assert found == [{"id": 8, "_lakeward_batch": 41}]
    kept.change_log_versions.restore(5, 32)
    found = other.change_log.table.rows(f"{KIND} = '{DELETE}'", ("id", "_lakeward_batch")).to_pylist()
    assert found == [{"id": 7, "_lakeward_batch": 3}]
