"""The columns of Hudi tables: Avro as the commits have it, and what Hudi cannot hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.adapters.formats.hudi.checks import check_change, check_place, check_table
from lakeward.adapters.formats.hudi.metadata.columns import KEY, META_COLUMNS, columns_of
from lakeward.adapters.formats.hudi.operations.layout import RECORD_KEY, Layout
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.shared.rows.system_columns import SYSTEM_COLUMNS
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.schema import Column, Schema, Type, parse_type
from lakeward.core.schema_changes.evolution import Evolution, Kind, Policy, SchemaChange

OURS = [*META_COLUMNS, KEY, *SYSTEM_COLUMNS]
DECIMAL = {"logicalType": "decimal", "precision": 10, "scale": 2}
AVRO: dict[str, Any] = {
    **{name: name for name in ("boolean", "int", "float", "double", "string")},
    "bigint": "long",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
    "decimal(10,2)": {"type": "fixed", "name": "fixed", "namespace": "hoodie.t.d", "size": 5, **DECIMAL},
    "list<int>": {"type": "array", "items": ["null", "int"]},
    "map<string,bigint>": {"type": "map", "values": ["null", "long"]},
}
TEXTS = {"name": "b", "type": ["null", {"type": "array", "items": ["null", "string"]}]}
AVRO["struct<a:int,b:list<string>>"] = {
    "type": "record",
    "name": "s",
    "fields": [{"name": "a", "type": ["null", "int"]}, TEXTS],
}


def avro(**columns: Any) -> str:
    fields = [{"name": name, "type": ["null", "long"]} for name in OURS]
    fields += [{"name": name, "type": ["null", type_]} for name, type_ in columns.items()]
    return json.dumps({"type": "record", "name": "t_record", "fields": fields})


def dimension(**types: str) -> Dimension:
    columns = tuple(Column(name, parse_type(type_)) for name, type_ in types.items())
    return Dimension(name=TableName("shop", "item"), schema=Schema(columns), key=(columns[0].name,))


@pytest.mark.parametrize("type_", AVRO)
def test_types_of_avro_are_those_of_lakeward(type_: str) -> None:
    assert columns_of(avro(c=AVRO[type_]), "shop.item") == Schema((Column("c", parse_type(type_)),))


@pytest.mark.parametrize(
    "odd", [{"type": "long", "logicalType": "timestamp-millis"}, "uuid", {"type": "enum", "symbols": []}]
)
def test_a_type_that_lakeward_has_not_is_named(odd: Any) -> None:
    with pytest.raises(TableError, match="the column odd has a type that lakeward does not hold"):
        columns_of(avro(odd=odd), "shop.item")


def test_a_table_of_others_is_told_apart() -> None:
    foreign = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})
    with pytest.raises(TableError, match="lakeward did not make it"):
        columns_of(foreign, "shop.item")


def with_column(name: str, type_: str = "int") -> Dimension:
    return dimension(**{"id": "int", name: type_})


INNER = Type("list", parts=(Column("element", Type("struct", parts=(Column("a b", Type("int")),))),))
NESTED = Dimension(
    name=TableName("shop", "item"), schema=Schema((Column("id", Type("int")), Column("s", INNER))), key=("id",)
)
PRICES = dimension(id="int", price="double", at="timestamp")
OF_ROWS = [
    *("hoodie.index.type", "hoodie.storage.layout.type", "hoodie.populate.meta.fields", "path"),
    *("hoodie.schema.on.read.enable", "hoodie.write.table.version", "hoodie.write.concurrency.mode"),
    *("as.of.instant", "hoodie.metadata.enable"),
]
"""Properties that may change rows."""


@pytest.mark.parametrize(
    ("table", "options", "error"),
    [
        *[(with_column(name), {}, "Hudi has no column") for name in ["a b", "1a", "a-b", "a.b", "", "m²", "é"]],
        (NESTED, {}, "'a b'"),
        (with_column("m", "list<map<int,string>>"), {}, "cannot hold the column 'm'"),
        *[(with_column(name), {}, name) for name in ["_hoodie_file_name", "_hoodie_is_deleted"]],
        (PRICES, {"partition_by": ["idd"]}, "Did you mean 'id'?"),
        (PRICES, {"partition_by": ["price"]}, "rows cannot be partitioned by 'price'"),
        (PRICES, {"partition_by": ["at"]}, "rows cannot be partitioned by 'at'"),
        *[(PRICES, {"properties": {name: "x"}}, "not for `properties` to say") for name in OF_ROWS],
    ],
)
def test_invalid_columns_and_options_are_refused(table: Dimension, options: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_table(table, TableOptions(**options))
    assert error in f"{refused.value} {refused.value.todo}"


def test_properties_of_the_writer_are_taken() -> None:
    check_table(dimension(id="int"), TableOptions(properties={"hoodie.compact.inline.max.delta.commits": "3"}))


@pytest.mark.parametrize(
    "made", [TableOptions(buckets=2), TableOptions(partition_by=["id"]), TableOptions(write_mode="copy-on-write")]
)
def test_what_says_where_rows_lie_cannot_change(made: TableOptions) -> None:
    with pytest.raises(ConfigError, match="cannot change"):
        check_change(dimension(id="int"), TableOptions(), Layout.of(made), Evolution(Schema(())))


RENAME = Evolution(Schema(()), ((SchemaChange(Kind.RENAME, "id", None, None, to="no"), Policy.EVOLVE),))


@pytest.mark.parametrize(
    ("wanted", "layout", "reason"),
    [
        (["id"], Layout.of(TableOptions(partition_by=["id"])), "the table is partitioned by it"),
        (["no"], Layout.of(TableOptions(partition_by=["id"])), "the table is partitioned by it"),
        ([], Layout([], "merge-on-read", 4, {RECORD_KEY: "id"}), "its record key has it"),
    ],
)
def test_a_column_that_says_where_rows_lie_keeps_its_name(wanted: list[str], layout: Layout, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"'id' cannot be renamed: {reason}"):
        check_change(dimension(no="int"), TableOptions(partition_by=wanted), layout, RENAME)


@pytest.mark.parametrize(
    ("file", "error", "found"),
    [
        ("thesis.doc", "is no Hudi table, and not empty", ""),
        (".hoodie/20240101000000000.deltacommit", "lakeward did not make", "older Hudi"),
        (".hoodie/timeline/20261122000001000_20261122000002000.commit", "lakeward did not make", ""),
    ],
    ids=["something else", "a table of an older Hudi", "a table whose commits say no columns"],
)
def test_what_lakeward_did_not_make_is_left_alone(tmp_path: Path, file: str, error: str, found: str) -> None:
    check_place(dimension(id="int"), DiskFolder(tmp_path / "none"))
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    check_place(dimension(id="int"), DiskFolder(tmp_path))
    (tmp_path / file).touch()
    with pytest.raises(TableError, match=error) as refused:
        check_place(dimension(id="int"), DiskFolder(tmp_path))
    assert found in str(refused.value.found)
