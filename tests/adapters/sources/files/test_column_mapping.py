"""How cells are written: by the format of a column, by a schema, by the settings of who wrote them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from plain_sources import source_of

from lakeward.adapters.sources.files.column_mapping import writings
from lakeward.adapters.sources.files.named_fields import refuse_both
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.messages.connect_schema import columns_of
from lakeward.adapters.sources.messages.json.wire_format import Wire, value_of
from lakeward.adapters.spark.sql.casts import TextFormat, to_type
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.schema import Column, Schema, parse_type

ITEM = Dimension(
    name=TableName("shop", "item"),
    schema=Schema((Column("price", parse_type("decimal(20,0)")), Column("data", parse_type("binary")))),
)


def options(format_: str, **settings: str) -> FilesOptions:
    return FilesOptions.model_validate({"path": "landing", "format": format_, **settings})


@pytest.mark.parametrize("format_", ["json", "dms-json"])
def test_bytes_are_hexadecimal_unless_their_format_says_otherwise(format_: str) -> None:
    """DMS writes RAW as `0xABCDEF`."""
    plain = writings(options(format_), ITEM, {})["data"]
    assert value_of("cell", parse_type("binary"), plain) == to_type("cell", parse_type("binary"), TextFormat())
    assert writings(options(format_), ITEM, {"data": "base64"})["data"].wire is Wire.BASE64


def test_bytes_of_debezium_are_as_its_mode_says() -> None:
    assert writings(options("debezium"), ITEM, {})["data"].wire is Wire.BASE64
    assert writings(options("debezium", binary="hex"), ITEM, {})["data"].wire is Wire.HEX


@pytest.mark.parametrize(
    ("type_", "name"), [("string", None), ("string", "io.debezium.data.Uuid"), ("bytes", None)]
)
@pytest.mark.parametrize("binary", ["bytes", "base64", "hex"])
@pytest.mark.parametrize("own", [None, "base64"])
def test_bytes_that_a_schema_calls_a_text_need_their_form(
    type_: str, name: str | None, binary: str, own: str | None
) -> None:
    schema = {"type": "struct", "fields": [{"field": "data", "type": type_, "name": name}]}
    (told,) = columns_of(json.dumps(schema), is_flat=True) or ()
    formats = {} if own is None else {"data": own}

    def written() -> Wire:
        return writings(options("debezium", binary=binary), ITEM, formats, {"data": told})["data"].wire

    if (type_, binary, own) == ("string", "bytes", None):
        with pytest.raises(ConfigError, match="how the bytes of data are written"):
            written()
    else:
        is_hex = binary == "hex" and type_ == "string" and own is None
        assert written() is (Wire.HEX if is_hex else Wire.BASE64)


@pytest.mark.parametrize(
    ("described", "wire"),
    [
        ({"type": "string"}, Wire.PLAIN),
        ({"type": "int64"}, Wire.UNSCALED),
        (
            {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "0"}},
            Wire.UNSCALED,
        ),
        ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, Wire.UNSCALED),
    ],
)
def test_a_declared_decimal_is_written_as_its_schema_says(described: dict[str, object], wire: Wire) -> None:
    """What it calls a number may be in base64 all the same: the message shows whether it is."""
    schema = json.dumps({"type": "struct", "fields": [{"field": "price", **described}]})
    told = {column.name: column for column in columns_of(schema, is_flat=True) or ()}
    said = options("debezium", types="schema", form="flattened")
    assert writings(said, ITEM, {}, told)["price"].wire is wire


def test_an_operation_that_is_a_column_and_a_field_of_another_stops_the_table() -> None:
    both = Schema((Column("_cdc.op", parse_type("string")), Column("_cdc", parse_type("struct<op: string>"))))
    with pytest.raises(SchemaConflict, match=r"a column '_cdc.op', which `operation` names, and a field"):
        refuse_both(ITEM, "a.parquet", both, "_cdc.op")
    for one in both:
        refuse_both(ITEM, "a.parquet", Schema((one,)), "_cdc.op")


def test_numbers_since_1970_are_not_read_from_csv(tmp_path: Path) -> None:
    (tmp_path / "shop" / "item").mkdir(parents=True)
    (tmp_path / "shop" / "item" / "1.csv").write_text("id,at\n1,1700000000000\n", "utf-8")
    source = source_of(tmp_path, {}, formats={ITEM.name: {"at": "epoch-millis"}})
    schema = Schema((Column("id", parse_type("int")), Column("at", parse_type("timestamp"))))
    dimension = replace(ITEM, schema=schema, key=("id",))
    with pytest.raises(ConfigError, match="the column at has the format epoch-millis, and its files are CSV"):
        source.read(dimension, source.select_objects(dimension, ObjectHistory()), 1)
