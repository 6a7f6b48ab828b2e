"""What tables of other engines have within their columns that the source could not be written to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import MagicMock

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import IntegerType, ListType, MapType, NestedField, StringType, StructType
from sparkless import no_spark

from lakeward.adapters.formats.delta.operations.adoption import DeltaExternalTable
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.side_table import DeltaSideTable
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.operations.adoption import IcebergExternalTable
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.adapters.formats.iceberg.side_tables.side_table import IcebergSideTable
from lakeward.adapters.formats.shared.operations.adoption import TableAdoption
from lakeward.adapters.formats.shared.side_tables import quarantine
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.memory import MemorySource, MemoryTarget
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.merge.change_log import Reason
from lakeward.core.operations.adopt import AdoptionRequest, adopt
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import Commit, ExternalTable
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type

NAME = TableName("shop", "item")
DIMENSION = Dimension(name=NAME, schema=Schema((Column("id", Type("int")),)), key=("id",))


def refused(theirs: Any) -> list[str]:
    return [reason.split()[2] for reason in theirs.refused(DIMENSION)]


def test_fields_of_iceberg_that_are_required_are_named_by_their_paths(tmp_path: Path) -> None:
    pair = StructType(NestedField(10, "x", IntegerType(), required=True), NestedField(11, "y", IntegerType()))
    schema = IcebergSchema(
        NestedField(1, "id", IntegerType(), required=True),
        NestedField(2, "at", pair),
        NestedField(3, "tags", ListType(12, StringType(), element_required=True)),
        NestedField(4, "free", ListType(13, StringType(), element_required=False)),
        NestedField(5, "sizes", MapType(14, StringType(), 15, IntegerType(), value_required=True)),
        NestedField(6, "names", MapType(16, StringType(), 17, StringType(), value_required=False)),
    )
    lake = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    lake.create_namespace("shop")
    table = lake.create_table(("shop", "item"), schema)
    assert refused(IcebergExternalTable(MagicMock(), NAME, ("shop", "item"), table)) == [
        "at.x",
        "tags.element",
        "sizes.value",
    ]


def test_features_of_delta_that_stand_in_the_way_are_named_with_how_to_be_rid_of_them(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": pa.array([], pa.int32())}))
    features = ["checkpointProtection", "clustering", "domainMetadata", "icebergCompatV2"]
    features += ["materializePartitionColumns"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    log = tmp_path / "_delta_log"
    (log / f"{1:020}.json").write_text(json.dumps({"protocol": protocol}) + "\n")
    theirs = DeltaExternalTable(MagicMock(), NAME, MagicMock(), DeltaTable(str(tmp_path)))
    assert list(theirs.refused(DIMENSION)) == [
        "it has the table feature icebergCompatV2",
        "it has the table feature materializePartitionColumns "
        "(`ALTER TABLE … DROP FEATURE 'materializePartitionColumns'`)",
    ]


def test_fields_of_delta_that_are_not_null_are_named_by_their_paths(tmp_path: Path) -> None:
    pair = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.int32())])
    columns = {"id": pa.int32(), "at": pair, "all": pa.list_(pair), "by": pa.map_(pa.string(), pair)}
    schema = pa.schema([*columns.items(), ("tags", pa.list_(pa.field("element", pa.string(), nullable=False)))])
    deltalake.write_deltalake(str(tmp_path), pa.Table.from_pylist([], schema))
    theirs = DeltaExternalTable(MagicMock(), NAME, MagicMock(), DeltaTable(str(tmp_path)))
    assert refused(theirs) == ["at.x", "all.element.x", "by.value.x"]


def of_delta(folder: Path) -> Callable[..., Any]:
    return partial(DeltaSideTable, Places("lake", "{schema}", folder), NAME, no_spark)


def of_iceberg(folder: Path) -> Callable[..., Any]:
    return partial(IcebergSideTable, IcebergCatalog(IcebergOptions(warehouse="lake"), folder), NAME, no_spark)


class ExternalTableReader:
    """A table of another job, with no row."""

    state = "7"

    def columns(self) -> Schema:
        return DIMENSION.schema

    def refused(self, _dimension: Dimension) -> Sequence[str]:
        return ()

    def rows(self) -> NoReturn:
        raise AssertionError

    def take_over(self, _changes: Any, _progress: Progress) -> Commit:
        return Commit("8", 0, 0)


def left_in_quarantine(kept: SideTables) -> None:
    """Leave a row there that holds its key, of the first batch of a table that was dropped."""
    word: dict[str, Any] = {
        **dict.fromkeys((names.EPOCH, names.OBJECT, names.ROW, names.BATCH), 1),
        names.SEQUENCE: Decimal(1),
        names.OPERATION: "update",
        names.REASON: Reason.CAST.value,
        quarantine.STATE: quarantine.HELD,
        quarantine.KEY: "1",
        quarantine.OBJECT_NAME: "00000001",
        quarantine.SINCE: datetime(2026, 11, 21, tzinfo=UTC),
    }
    columns = {**quarantine._columns(DIMENSION.sequences), "id": Type("int")}
    kept.quarantine.table.add(columns, [], pa.table({name: [value] for name, value in word.items()}), count=0)


@pytest.mark.parametrize("make", [of_delta, of_iceberg])
def test_an_old_quarantine_is_not_adopted(tmp_path: Path, make: Callable[[Path], Callable[..., Any]]) -> None:
    """Replayed, it would be applied over newer rows."""
    kept = SideTables(DIMENSION, make(tmp_path), no_spark)
    left_in_quarantine(kept)
    assert [entry.key for entry in kept.quarantine.entries(Progress(batch=1))] == ["1"]
    opened = MemoryTarget().open(DIMENSION)
    opened = replace(opened, change_log=kept, quarantine=kept, adoption=TableAdoption(kept, ExternalTableReader))
    job: Job[Any] = Job(dimension=DIMENSION, source=MemorySource(), opened=opened)
    foreign = ExternalTable(state="7", schema=DIMENSION.schema, rows=3)
    adopt(job, AdoptionRequest(external=foreign, applied=[], remaining=[]))
    again = SideTables(DIMENSION, make(tmp_path), no_spark)
    assert again.entries(Progress(batch=1)) == []
