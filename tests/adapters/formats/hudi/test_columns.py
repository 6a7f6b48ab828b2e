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
AVRO: dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
    "decimal(10,2)": {
        "type": "fixed",
        "name": "fixed",
        "namespace": "hoodie.t.d",
        "size": 5,
        "logicalType": "decimal",
        "precision": 10,
        "scale": 2,
    },
    "list<int>": {"type": "array", "items": ["null", "int"]},
    "map<string,bigint>": {"type": "map", "values": ["null", "long"]},
    "struct<a:int,b:list<string>>": {
        "type": "record",
        "name": "s",
        "fields": [
            {"name": "a", "type": ["null", "int"]},
            {"name": "b", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
        ],
    },
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


@pytest.mark.parametrize("name", ["a b", "1a", "a-b", "a.b", "", "m²", "é"])
def test_names_that_avro_has_not_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="Hudi has no column"):
        check_table(dimension(**{"id": "int", name: "int"}), TableOptions())


def test_names_within_columns_are_looked_at_too() -> None:
    inner = Type("struct", parts=(Column("a b", Type("int")),))
    odd = Schema((Column("id", Type("int")), Column("s", Type("list", parts=(Column("element", inner),)))))
    with pytest.raises(ConfigError, match="'a b'"):
        check_table(Dimension(name=TableName("shop", "item"), schema=odd, key=("id",)), TableOptions())


def test_maps_of_other_keys_than_texts_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot hold the column 'm'"):
        check_table(dimension(id="int", m="list<map<int,string>>"), TableOptions())


@pytest.mark.parametrize("name", ["_hoodie_file_name", "_hoodie_is_deleted"])
def test_columns_of_hudi_are_not_for_others(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        check_table(dimension(**{"id": "int", name: "string"}), TableOptions())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (TableOptions(partition_by=["idd"]), "Did you mean 'id'?"),
        (TableOptions(partition_by=["price"]), "rows cannot be partitioned by 'price'"),
        (TableOptions(partition_by=["at"]), "rows cannot be partitioned by 'at'"),
        (TableOptions(properties={"hoodie.index.type": "SIMPLE"}), "not for `properties` to say"),
    ],
)
def test_options_that_cannot_be_are_refused(options: TableOptions, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_table(dimension(id="int", price="double", at="timestamp"), options)
    assert says in f"{refused.value} {refused.value.todo}"


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.storage.layout.type",
        "hoodie.populate.meta.fields",
        "hoodie.schema.on.read.enable",
        "path",
        "hoodie.write.table.version",
        "hoodie.write.concurrency.mode",
        "as.of.instant",
        "hoodie.metadata.enable",
    ],
)
def test_properties_that_may_change_rows_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not for `properties` to say"):
        check_table(dimension(id="int"), TableOptions(properties={name: "x"}))


def test_properties_of_the_writer_are_taken() -> None:
    check_table(dimension(id="int"), TableOptions(properties={"hoodie.compact.inline.max.delta.commits": "3"}))


@pytest.mark.parametrize(
    "made", [TableOptions(buckets=2), TableOptions(partition_by=["id"]), TableOptions(write_mode="copy-on-write")]
)
def test_what_says_where_rows_lie_cannot_change(made: TableOptions) -> None:
    with pytest.raises(ConfigError, match="cannot change"):
        check_change(dimension(id="int"), TableOptions(), Layout.of(made), Evolution(Schema(())))


@pytest.mark.parametrize("wanted", ["id", "no"])
def test_a_column_that_rows_are_partitioned_by_keeps_its_name(wanted: str) -> None:
    rename = SchemaChange(Kind.RENAME, "id", None, None, to="no")
    changes = Evolution(Schema(()), ((rename, Policy.EVOLVE),))
    made = Layout.of(TableOptions(partition_by=["id"]))
    with pytest.raises(ConfigError, match="'id' cannot be renamed: the table is partitioned by it"):
        check_change(dimension(no="int"), TableOptions(partition_by=[wanted]), made, changes)


def test_a_column_of_the_record_key_of_another_job_keeps_its_name() -> None:
    rename = SchemaChange(Kind.RENAME, "id", None, None, to="no")
    changes = Evolution(Schema(()), ((rename, Policy.EVOLVE),))
    made = Layout([], "merge-on-read", 4, {RECORD_KEY: "id"})
    with pytest.raises(ConfigError, match="'id' cannot be renamed: its record key has it"):
        check_change(dimension(no="int"), TableOptions(), made, changes)


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    check_place(dimension(id="int"), DiskFolder(tmp_path / "none"))
    check_place(dimension(id="int"), DiskFolder(tmp_path))
    (tmp_path / "thesis.doc").touch()
    with pytest.raises(TableError, match="is no Hudi table, and not empty"):
        check_place(dimension(id="int"), DiskFolder(tmp_path))


def test_a_table_of_an_older_hudi_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    check_place(dimension(id="int"), DiskFolder(tmp_path))
    (tmp_path / ".hoodie" / "20240101000000000.deltacommit").touch()
    with pytest.raises(TableError, match="lakeward did not make") as refused:
        check_place(dimension(id="int"), DiskFolder(tmp_path))
    assert "older Hudi" in str(refused.value.found)


def test_a_table_whose_commits_say_no_columns_is_left_alone(tmp_path: Path) -> None:
    timeline = tmp_path / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    (timeline / "20261122000001000_20261122000002000.commit").touch()
    with pytest.raises(TableError, match="lakeward did not make"):
        check_place(dimension(id="int"), DiskFolder(tmp_path))
