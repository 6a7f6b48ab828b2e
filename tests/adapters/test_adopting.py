"""What tables of other engines have within their columns that the source could not be written to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import deltalake
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import IntegerType, ListType, MapType, NestedField, StringType, StructType

from lakeward.adapters.delta.adopting import DeltaTheirs
from lakeward.adapters.iceberg.adopting import IcebergTheirs
from lakeward.core.dimension import Dimension, TableName
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
    assert refused(IcebergTheirs(MagicMock(), NAME, ("shop", "item"), table)) == [
        "at.x",
        "tags.element",
        "sizes.value",
    ]


def test_features_of_delta_that_stand_in_the_way_are_named_with_how_to_be_rid_of_them(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": pa.array([], pa.int32())}))
    features = [
        "checkpointProtection",
        "clustering",
        "domainMetadata",
        "icebergCompatV2",
        "materializePartitionColumns",
    ]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    log = tmp_path / "_delta_log"
    (log / f"{1:020}.json").write_text(json.dumps({"protocol": protocol}) + "\n")
    theirs = DeltaTheirs(MagicMock(), NAME, str(tmp_path), DeltaTable(str(tmp_path)))
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
    theirs = DeltaTheirs(MagicMock(), NAME, str(tmp_path), DeltaTable(str(tmp_path)))
    assert refused(theirs) == ["at.x", "all.element.x", "by.value.x"]
