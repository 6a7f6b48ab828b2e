"""Entries of tables in the Glue Data Catalog: they describe their tables, and readers find the tables by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.stub import ANY, Stubber
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType
from glue_catalog import Glue
from hudi import HudiTableBuilder
from hudi_files import write_table
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from lakeward.adapters.formats.delta.lake import DeltaLake
from lakeward.adapters.formats.delta.options import DeltaOptions
from lakeward.adapters.formats.delta_rs.description import description_of
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.hudi.lake import HudiLake
from lakeward.adapters.formats.hudi.options import HudiOptions
from lakeward.adapters.registrations.glue import build
from lakeward.adapters.registrations.glue.catalog import GlueCatalog
from lakeward.adapters.registrations.glue.entries import entry_of
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable
from lakeward.core.ports import CsvForm, DescribedColumn, TableDescription
from lakeward.core.schema import parse_type
from lakeward.plugins import Runtime
from lakeward.plugins.testing import RegistrationUnderTest, registration_contract

TABLE = TableName("Shop", "Orders")
NUMBERS = count(1)


def delta(glue: Glue) -> DeltaLake:
    return DeltaLake(DeltaOptions(warehouse=f"s3://{glue.bucket}/lake"), {}, Runtime(lambda: None))


def write(
    glue: Glue, place: str, folder: Path, fields: Sequence[Field], rows: Mapping[str, Sequence[Any]], **how: Any
) -> None:
    """Write a table on the disk, and upload its files: delta-rs blocks Python, so moto could not answer it."""
    schema = Schema([*fields])
    made = DeltaTable.create(str(folder / "made"), schema, **how)
    write_deltalake(made, pa.table(dict(rows), pa.schema(schema.to_arrow())), mode="append")
    for file in (folder / "made").rglob("*"):
        if file.is_file():
            glue.s3.put(f"{place}/{file.relative_to(folder / 'made').as_posix()}", file.read_bytes())


def field(name: str, type_: str, comment: str | None = None) -> Field:
    return Field(name, PrimitiveType(type_), metadata={} if comment is None else {"comment": comment})


def described(glue: Glue, **changes: Any) -> TableDescription:
    made = TableDescription(
        namespace="shop",
        name="orders",
        format="delta",
        location=f"s3://{glue.bucket}/lake/shop/orders",
        columns=(DescribedColumn(name="id", type=parse_type("bigint")),),
    )
    return replace(made, **changes)


def bench_of(kind: str) -> Callable[..., RegistrationUnderTest]:
    def bench(glue: Glue) -> RegistrationUnderTest:
        return RegistrationUnderTest(
            registration=glue.catalog(),
            others=glue.catalog("of others"),
            location="s3://lake/shop",
            format=kind,
            find=glue.find,
            writes=lambda: len(glue.changes),
        )

    return bench


TestGlueWithDelta = registration_contract(bench_of("delta"))
TestGlueWithHudi = registration_contract(bench_of("hudi"))


def test_a_delta_table_is_read_by_its_entry(glue: Glue, tmp_path: Path) -> None:
    lake = delta(glue)
    fields = [field("Id", "long", "the key"), field("state", "string")]
    rows = {"Id": [1, 2], "state": ["new", "old"]}
    write(glue, lake.places.of(TABLE), tmp_path, fields, rows, description="what customers\nordered")
    table = lake.describe(TABLE)
    assert table is not None
    glue.catalog().register(table)
    assert glue.changes == ["CreateDatabase", "CreateTable"]
    entry = glue.entry("shop", "orders")
    assert entry["StorageDescriptor"]["Columns"] == [
        {"Name": "id", "Type": "bigint", "Comment": "the key"},
        {"Name": "state", "Type": "string"},
    ]
    assert (entry["TableType"], entry["Description"]) == ("EXTERNAL_TABLE", "what customers ordered")
    assert entry["Parameters"] == {
        "EXTERNAL": "TRUE",
        "classification": "delta",
        "table_type": "DELTA",
        "spark.sql.sources.provider": "delta",
        "lakeward.pipeline": "shop",
    }
    place = entry["StorageDescriptor"]["SerdeInfo"]["Parameters"]["path"]
    assert place == entry["StorageDescriptor"]["Location"]
    delta_table = DeltaTable(place, storage_options=dict(lake.places.options or {}))
    assert delta_table.to_pyarrow_table().sort_by("Id").to_pydict() == {"Id": [1, 2], "state": ["new", "old"]}


def test_a_missing_table_and_a_quarantine_are_described(glue: Glue) -> None:
    lake = delta(glue)
    assert (lake.describe(TABLE), lake.describe(TABLE, quarantine=True)) == (None, None)
    schema = Schema([field("text", "string")])
    lake.places.create_table(TABLE, "__quarantine", schema, None, {})
    quarantine = lake.describe(TABLE, quarantine=True)
    assert quarantine is not None
    assert quarantine.identifier == ("Shop", "Orders__quarantine")
    hudi = HudiLake(HudiOptions(warehouse=f"s3://{glue.bucket}/lake"), {}, Runtime(lambda: None))
    assert (hudi.describe(TABLE), hudi.describe(TABLE, quarantine=True)) == (None, quarantine)
    assert hudi.identify(TABLE) == lake.identify(TABLE) == TABLE


FIELDS = [
    {"name": "id", "type": ["null", "long"], "doc": "the key"},
    {"name": "State", "type": ["null", "string"]},
    {"name": "total", "type": ["null", "double"]},
]


def hudi(glue: Glue, rows: Mapping[str, Sequence[Mapping[str, Any]]], **how: Any) -> TableDescription:
    lake = HudiLake(HudiOptions(warehouse=f"s3://{glue.bucket}/lake"), {}, Runtime(lambda: None))
    place = lake.places.of(TABLE)
    write_table(lambda name, content: glue.s3.put(f"{place}/{name}", content), FIELDS, rows, **how)
    description = lake.describe(TABLE)
    assert description is not None
    return description


ROWS = {
    "State=new": [{"id": 1, "State": "new", "total": 1.5}],
    "State=a%2Fb": [{"id": 2, "State": "a/b", "total": 2.5}],
}


def test_a_hudi_table_is_read_by_its_entry(glue: Glue) -> None:
    glue.catalog().register(hudi(glue, ROWS, partition_by="State"))
    entry = glue.entry("shop", "orders")
    storage = entry["StorageDescriptor"]
    assert [column["Name"] for column in storage["Columns"]][-3:] == ["_hoodie_file_name", "id", "total"]
    assert storage["Columns"][-2] == {"Name": "id", "Type": "bigint", "Comment": "the key"}
    assert entry["PartitionKeys"] == [{"Name": "state", "Type": "string"}]
    assert storage["InputFormat"] == "org.apache.hudi.hadoop.HoodieParquetInputFormat"
    pages = glue.client.get_paginator("get_partitions").paginate(DatabaseName="shop", TableName="orders")
    partitions = {tuple(one["Values"]): one["StorageDescriptor"] for page in pages for one in page["Partitions"]}
    assert {values: one["Location"] for values, one in partitions.items()} == {
        ("new",): f"{storage['Location']}/State=new",
        ("a/b",): f"{storage['Location']}/State=a%2Fb",
    }
    assert all(one["Columns"] == storage["Columns"] for one in partitions.values())
    options = {"aws_endpoint": glue.s3.endpoint, "aws_allow_http": "true", "aws_region": "eu-central-1"}
    place = storage["SerdeInfo"]["Parameters"]["path"]
    read = HudiTableBuilder.from_base_uri(place).with_storage_options(options).build().read()
    rows = pa.Table.from_batches([pa.record_batch(batch) for batch in read]).select(["id", "State"])
    assert sorted(rows.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "State": "new"},
        {"id": 2, "State": "a/b"},
    ]


def test_partitions_of_several_columns_are_found_on_a_disk(tmp_path: Path) -> None:
    lake = HudiLake(HudiOptions(warehouse="lake"), {}, Runtime(lambda: None, tmp_path))
    folder = Path(lake.places.of(TABLE))

    def put(name: str, content: bytes) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    rows = {f"State={state}/id={id_}": [{"id": id_, "State": state, "total": 1}] for id_, state in enumerate("ab")}
    write_table(put, FIELDS, rows, "State:simple,id:simple")
    description = lake.describe(TABLE)
    assert description is not None
    assert description.partitions is not None
    assert [partition.values for partition in description.partitions] == [("a", "0"), ("b", "1")]
    assert description.partitions[1].location == f"{folder}/State=b/id=1"
    assert description.partition_by == ("State", "id")


def test_the_entry_of_a_hudi_table_has_the_case_of_its_columns_for_spark(glue: Glue) -> None:
    table = hudi(glue, ROWS, partition_by="State", kind="MERGE_ON_READ")
    many = [DescribedColumn(name=f"column_{number}", type=parse_type("string")) for number in range(100)]
    entry = entry_of(replace(table, columns=(*table.columns, *many)))
    parameters = entry.parameters
    text = "".join(parameters[f"spark.sql.sources.schema.part.{part}"] for part in range(2))
    fields = Schema.from_json(text).fields
    assert ([one.name for one in fields[-2:]], parameters["spark.sql.sources.schema.numParts"]) == (
        ["column_99", "State"],
        "2",
    )
    assert {one.name: one.metadata for one in fields}["id"] == {"comment": "the key"}
    of_partitions = [parameters[f"spark.sql.sources.schema.{name}"] for name in ("numPartCols", "partCol.0")]
    assert of_partitions == ["1", "State"]
    assert str(entry.storage["InputFormat"]).endswith(".realtime.HoodieParquetRealtimeInputFormat")


def test_partition_entries_are_created_deleted_and_updated(glue: Glue) -> None:
    table = hudi(glue, ROWS, partition_by="State")
    catalog = glue.catalog()
    catalog.register(table)
    assert table.partitions is not None
    first, second = table.partitions
    many = [replace(first, values=(str(number),), location=f"{first.location}{number}") for number in range(130)]
    later = replace(
        table,
        partitions=(second, *many),
        columns=(*table.columns, DescribedColumn(name="more", type=parse_type("int"))),
    )
    glue.changes.clear()
    catalog.register(later)
    assert glue.changes == [
        "UpdateTable",
        *["BatchCreatePartition"] * 2,
        "BatchDeletePartition",
        "BatchUpdatePartition",
    ]
    catalog.register(later)
    assert len(glue.changes) == 5
    pages = glue.client.get_paginator("get_partitions").paginate(DatabaseName="shop", TableName="orders")
    partitions = [partition for page in pages for partition in page["Partitions"]]
    assert len(partitions) == 131
    assert {partition["StorageDescriptor"]["Columns"][-1]["Name"] for partition in partitions} == {"more"}


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("decimal(38,10)", "decimal(38,10)"),
        ("timestamp_ntz", "timestamp"),
        ("list<struct<a: int, b: list<date>>>", "array<struct<a:int,b:array<date>>>"),
        ("map<string, struct<at: timestamp, n: decimal(4,1)>>", "map<string,struct<at:timestamp,n:decimal(4,1)>>"),
    ],
)
def test_types_are_those_of_hive(glue: Glue, type_: str, expected: str) -> None:
    entry = entry_of(described(glue, columns=(DescribedColumn(name="x", type=parse_type(type_)),)))
    assert entry.storage["Columns"] == [{"Name": "x", "Type": expected}]


def test_tables_that_glue_does_not_allow_are_refused_before_anything_is_written(glue: Glue) -> None:
    odd = DescribedColumn(name="x", type=parse_type("struct<`a:b`: int>"))
    twice = [DescribedColumn(name=name, type=parse_type("int")) for name in ("a", "A")]
    for columns, words in (((odd,), "'a:b'"), (tuple(twice), "a and A")):
        with pytest.raises(ConfigError) as raised:
            glue.catalog().register(described(glue, columns=columns))
        assert words in str(raised.value)
    with pytest.raises(ConfigError, match="not in S3"):
        glue.catalog().register(described(glue, location="/lake/shop/orders"))
    assert glue.changes == []


def test_long_comments_are_one_line_and_end_in_an_ellipsis(glue: Glue) -> None:
    column = DescribedColumn(name="x", type=parse_type("int"), comment="a\tb\n" + "c" * 300)
    glue.catalog().register(described(glue, columns=(column,)))
    entry = glue.find(("shop", "orders"))
    assert entry is not None
    assert entry.columns == [("x", "a b " + "c" * 250 + "…")]


def test_a_table_is_logged_as_registered_only_if_its_entry_or_a_partition_was_written(glue: Glue) -> None:
    catalog, table = glue.catalog(), hudi(glue, ROWS, partition_by="State")
    assert table.partitions is not None
    changed_partition = replace(table.partitions[0], location=f"{table.location}/moved")
    steps = [
        (table, 1),
        (table, 0),
        (replace(table, comment="all orders"), 1),
        (replace(table, comment="all orders", partitions=table.partitions[1:]), 1),
        (replace(table, comment="all orders"), 1),
        (replace(table, comment="all orders", partitions=(changed_partition, *table.partitions[1:])), 1),
        (replace(table, comment="all orders", partitions=(changed_partition, *table.partitions[1:])), 0),
    ]
    for number, (description, lines) in enumerate(steps):
        with capture_logs() as logs:
            catalog.register(description)
        logged = [entry["as_"] for entry in logs if entry["event"] == "registered"]
        assert logged == ["Shop.Orders"] * lines, f"step {number}"


def test_fields_that_other_programs_added_to_an_entry_stay(glue: Glue) -> None:
    catalog, table = glue.catalog(), described(glue)
    catalog.register(table)
    entry = glue.entry("shop", "orders")
    own = {name: entry[name] for name in ("Name", "TableType", "Parameters", "StorageDescriptor")}
    own |= {"Owner": "analysts", "Parameters": {**entry["Parameters"], "team": "sales"}}
    glue.client.update_table(DatabaseName="shop", TableInput=own)
    catalog.register(replace(table, comment="what customers ordered"))
    entry = glue.entry("shop", "orders")
    assert (entry["Owner"], entry["Parameters"]["team"]) == ("analysts", "sales")


def test_the_entry_of_a_crawler_for_the_same_table_is_taken_over(glue: Glue) -> None:
    table = described(glue)
    glue.client.create_database(DatabaseInput={"Name": "shop"})
    made = {
        "Name": "orders",
        "TableType": "EXTERNAL_TABLE",
        "StorageDescriptor": {"Location": f"{table.location}/"},
        "Parameters": {"table_type": "delta"},
    }
    glue.client.create_table(DatabaseName="shop", TableInput=made)
    glue.catalog().register(table)
    assert glue.entry("shop", "orders")["StorageDescriptor"]["Columns"] == [{"Name": "id", "Type": "bigint"}]


@pytest.mark.parametrize("made", [{"TableType": "VIRTUAL_VIEW"}, {"Parameters": {"table_type": "ICEBERG"}}])
def test_an_entry_of_another_type_is_not_changed(glue: Glue, made: Mapping[str, Any]) -> None:
    table = described(glue)
    glue.client.create_database(DatabaseInput={"Name": "shop"})
    own = {"Name": "orders", "StorageDescriptor": {"Location": table.location}, **made}
    glue.client.create_table(DatabaseName="shop", TableInput=own)
    with pytest.raises(ConfigError) as raised:
        glue.catalog().register(table)
    assert "shop.orders in the Glue Data Catalog is another table, and was left as it is" in str(raised.value)
    assert glue.changes == ["CreateDatabase", "CreateTable"]


def test_entries_follow_a_moved_warehouse_with_a_warning(glue: Glue) -> None:
    catalog, table = glue.catalog(), described(glue)
    catalog.register(table)
    with capture_logs() as logged:
        catalog.register(replace(table, comment="what customers ordered"))
        catalog.register(replace(table, location=f"s3://{glue.bucket}/other/shop/orders"))
    (warning,) = [line for line in logged if line["log_level"] == "warning"]
    assert warning["table"] == "shop.orders in the Glue Data Catalog"
    assert (warning["before"], warning["now"]) == (table.location, f"s3://{glue.bucket}/other/shop/orders")
    entry = glue.find(("shop", "orders"))
    assert entry is not None
    assert entry.location == f"s3://{glue.bucket}/other/shop/orders"


def test_an_entry_keeps_no_parameters_of_the_earlier_format(glue: Glue) -> None:
    catalog = glue.catalog()
    catalog.register(described(glue))
    table = replace(described(glue), format="hudi")
    catalog.register(table)
    parameters = glue.entry("shop", "orders")["Parameters"]
    assert parameters == {**entry_of(table).parameters, "lakeward.pipeline": "shop"}


def test_tables_of_several_namespaces_share_a_configured_database(glue: Glue) -> None:
    catalog = glue.catalog(database="Lake", catalog_id="123456789012")
    catalog.register(described(glue))
    assert glue.find(("lake", "orders")) is not None
    with pytest.raises(ConfigError, match="would be one table"):
        catalog.check([("shop", "orders"), ("sales", "orders")])
    glue.catalog().check([("shop", "orders"), ("sales", "orders")])


def test_the_client_has_the_region_of_the_settings(glue: Glue) -> None:
    built = build({"region": "eu-west-1"}, Runtime(lambda: None))
    assert isinstance(built, GlueCatalog)
    assert built.client.meta.region_name == "eu-west-1"


def refused(glue: Glue, code: str, status: int = 400) -> LakewardError:
    catalog = glue.catalog()
    with Stubber(catalog.client) as stub:
        stub.add_client_error("get_table", code, "of a test", status)
        with pytest.raises(LakewardError) as raised:
            catalog.register(described(glue))
    return raised.value


def test_errors_of_glue_are_translated(glue: Glue) -> None:
    assert "may not be written" in str(refused(glue, "AccessDeniedException"))
    assert "docs/how-to/aws/catalogs.md" in str(refused(glue, "AccessDeniedException"))
    assert isinstance(refused(glue, "ThrottlingException"), StoreUnreachable)
    assert isinstance(refused(glue, "InternalServiceException", 500), StoreUnreachable)
    assert isinstance(refused(glue, "ConcurrentModificationException"), StoreUnreachable)


def test_refused_partitions_are_an_error(glue: Glue, monkeypatch: pytest.MonkeyPatch) -> None:
    table, catalog = hudi(glue, ROWS, partition_by="State"), glue.catalog()
    error = {"Errors": [{"ErrorDetail": {"ErrorCode": "InternalServiceException", "ErrorMessage": "not now"}}]}
    monkeypatch.setattr(catalog.client, "batch_create_partition", lambda **_: error)
    with pytest.raises(LakewardError, match="partitions cannot be registered"):
        catalog.register(table)


def test_a_database_of_another_process_is_no_error(glue: Glue, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = glue.catalog()
    get, missing = catalog.client.get_database, catalog.client.exceptions.EntityNotFoundException

    def miss(**asked: Any) -> Any:
        glue.client.create_database(DatabaseInput={"Name": asked["Name"]})
        monkeypatch.setattr(catalog.client, "get_database", get)
        raise missing({}, "GetDatabase")

    monkeypatch.setattr(catalog.client, "get_database", miss)
    catalog.register(described(glue))
    assert glue.find(("shop", "orders")) is not None


# The entry follows the columns of its table.


TYPES = ("integer", "long", "string", "double", "decimal(12,2)", "timestamp", "date")
COLUMN = st.tuples(st.sampled_from("aBcD"), st.sampled_from(TYPES), st.none() | st.sampled_from(["one", "two"]))
HISTORIES = st.lists(
    st.lists(COLUMN, min_size=1, max_size=4, unique_by=lambda column: column[0]), min_size=1, max_size=4
)


def follow(glue: Glue, folder: Path, history: Sequence[Sequence[tuple[str, str, str | None]]]) -> None:
    """Register a Delta table after each change of its columns."""
    name = TableName("shop", f"orders_{next(NUMBERS)}")
    places, catalog = Places("lake", "{schema}", folder), glue.catalog()
    for columns in history:
        schema = Schema([field(*column) for column in columns])
        DeltaTable.create(places.of(name), schema, mode="overwrite")
        table = description_of(places, name)
        assert table is not None
        in_s3 = replace(table, location=f"s3://{glue.bucket}{table.location}")
        catalog.register(in_s3)
        entry = glue.find(name)
        assert entry is not None
        assert entry.columns == [(column.lower(), comment or "") for column, _, comment in columns]
        types = [column["Type"] for column in glue.entry(*name)["StorageDescriptor"]["Columns"]]
        assert types == [{"integer": "int", "long": "bigint"}.get(type_, type_) for _, type_, _ in columns]


@pytest.fixture
def following(glue: Glue, tmp_path: Path) -> Callable[..., None]:
    return lambda history: follow(glue, tmp_path, history)


def test_an_entry_has_the_columns_of_its_table_after_any_changes(following: Callable[..., None]) -> None:
    given(HISTORIES)(settings(max_examples=10)(following))()


def test_entries_of_old_columns_are_found(following: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GlueCatalog, "_update", lambda *_: None)
    quick = settings(max_examples=10, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        given(HISTORIES)(quick(following))()


def test_an_entry_that_changed_meanwhile_is_not_overwritten(glue: Glue) -> None:
    catalog, table = glue.catalog(), described(glue)
    catalog.register(table)
    entry = glue.entry("shop", "orders")
    with Stubber(catalog.client) as stub:
        stub.add_response("get_table", {"Table": {**entry, "VersionId": "7"}})
        asked = {"DatabaseName": "shop", "TableInput": ANY, "SkipArchive": True, "VersionId": "7"}
        stub.add_client_error("update_table", "ConcurrentModificationException", "of a test", expected_params=asked)
        with pytest.raises(StoreUnreachable, match="another process at the same time"):
            catalog.register(replace(table, comment="changed"))


def raw(glue: Glue, **form: Any) -> TableDescription:
    given = {"delimiter": ";", "quote": '"', "null_text": "NULL", "has_header": False, **form}
    return described(glue, format="csv", is_raw=True, csv=CsvForm(**given))


def test_quoted_csv_is_read_by_open_csv_serde(glue: Glue) -> None:
    glue.catalog().register(raw(glue, has_header=True))
    entry = glue.entry("shop", "orders")
    serde = entry["StorageDescriptor"]["SerdeInfo"]
    assert serde["SerializationLibrary"] == "org.apache.hadoop.hive.serde2.OpenCSVSerde"
    assert serde["Parameters"] == {"separatorChar": ";", "quoteChar": '"', "escapeChar": "\x01"}
    assert entry["Parameters"]["skip.header.line.count"] == "1"
    glue.catalog().register(raw(glue))
    assert "skip.header.line.count" not in glue.entry("shop", "orders")["Parameters"]


def test_csv_without_quotes_is_read_by_lazy_simple_serde(glue: Glue) -> None:
    glue.catalog().register(raw(glue, quote="", null_text="\\N"))
    serde = glue.entry("shop", "orders")["StorageDescriptor"]["SerdeInfo"]
    assert serde["SerializationLibrary"] == "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
    assert (serde["Parameters"]["field.delim"], serde["Parameters"]["serialization.null.format"]) == (";", "\\N")


def test_parquet_files_have_the_formats_of_hive(glue: Glue) -> None:
    glue.catalog().register(described(glue, format="parquet", is_raw=True))
    entry = glue.entry("shop", "orders")
    assert entry["StorageDescriptor"]["InputFormat"].endswith("parquet.MapredParquetInputFormat")
    assert entry["Parameters"]["classification"] == "parquet"
    with pytest.raises(ConfigError, match="is another table"):
        glue.catalog("of others").register(described(glue))
