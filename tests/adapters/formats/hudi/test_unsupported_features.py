"""What the properties and the timeline of a Hudi table tell of one that another job made."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.adapters.formats.hudi.metadata.table_properties import properties_of
from lakeward.adapters.formats.hudi.operations.unsupported_features import Features
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Column, Schema, Type

SCHEMA = Schema((Column("id", Type("int")), Column("name", Type("string")), Column("at", Type("timestamp"))))
DIMENSION = Dimension(name=TableName("shop", "item"), schema=SCHEMA, key=("id",))
PLAIN = {
    "hoodie.table.name": "items",
    "hoodie.table.version": "9",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.keygenerator.type": "NON_PARTITION",
    "hoodie.table.metadata.partitions": "column_stats,files",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}
NEWEST = "20261121100000000"


def features(path: Path, *timeline: str, **properties: str) -> Features:
    """Return a table of these properties, whose names have `__` for a point, with such files in its timeline."""
    folder = path / ".hoodie" / "timeline"
    folder.mkdir(parents=True, exist_ok=True)
    for name in (f"{NEWEST}_{NEWEST}.commit", *timeline):
        (folder / name).touch()
    changed = {name.replace("__", "."): value for name, value in properties.items()}
    return Features(DiskFolder(path), {**PLAIN, **changed})


def refused(found: Features, options: TableOptions | None = None, dimension: Dimension = DIMENSION) -> list[str]:
    return list(found.refused(dimension, options or TableOptions()))


@pytest.mark.parametrize(
    "timeline", [[], ["20261121110000000.clean.requested", f"20261121110000000_{NEWEST}.clean"]]
)
def test_a_table_as_the_quick_start_of_hudi_makes_it_is_not_refused(tmp_path: Path, timeline: list[str]) -> None:
    assert refused(features(tmp_path, *timeline)) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("hoodie__table__version", "6", "it is of table version 6, and lakeward writes 9"),
        ("hoodie__populate__meta__fields", "false", "no record keys of their own"),
        ("hoodie__datasource__write__drop__partition__columns", "true", "lack the columns of the partitions"),
        ("hoodie__table__cdc__enabled", "true", "a log of changes"),
        ("hoodie__table__base__file__format", "ORC", "another format than Parquet"),
        ("hoodie__bootstrap__base__path", "/data", "the files of another table"),
        ("hoodie__table__metadata__partitions__inflight", "record_index", "an index of it is being built"),
        ("hoodie__table__metadata__partitions", "files,secondary_index_at", "it has the index secondary_index_at"),
        ("hoodie__table__keygenerator__type", "TIMESTAMP", "its keys are made by TIMESTAMP"),
        ("hoodie__table__recordkey__fields", "id,name", "its record key is id, name, and `key` is id"),
        ("hoodie__table__recordkey__fields", "", "its record key is made by Hudi, and `key` is id"),
        ("hoodie__table__partition__fields", "name", 'say `partition_by = ["name"]`, as it is partitioned'),
        ("hoodie__table__type", "COPY_ON_WRITE", 'say `write_mode = "copy-on-write"`, as it is made'),
    ],
)
def test_what_lakeward_cannot_write_is_named(tmp_path: Path, name: str, value: str, words: str) -> None:
    (reason,) = refused(features(tmp_path, **{name: value}))
    assert words in reason


def test_a_record_key_of_which_the_text_is_not_told_for_sure_is_named(tmp_path: Path) -> None:
    found = features(tmp_path, hoodie__table__recordkey__fields="at")
    dimension = Dimension(name=DIMENSION.name, schema=SCHEMA, key=("at",))
    assert "the text of a timestamp" in refused(found, dimension=dimension)[0]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (("20261121110000000.commit.requested", "20261121110000000.inflight"), "its commit of 20261121110000000"),
        (("20261121110000000.deltacommit.inflight",), "let the other job write once more"),
        (("20261121110000000.compaction.requested",), "CALL run_compaction(op => 'execute'"),
        (("20261121110000000.clustering.requested",), "CALL run_clustering(op => 'execute'"),
        # It is of another zone, and ahead of the clock.
        (
            ("29991121110000000_29991121110000000.commit",),
            "its timeline has the instant 29991121110000000, and it is 2",
        ),
        (("29991121110000000_29991121110000000.commit",), "(wait until then)"),
    ],
)
def test_incomplete_and_future_instants_are_named(tmp_path: Path, files: tuple[str, ...], words: str) -> None:
    (reason,) = refused(features(tmp_path, *files))
    assert words in reason


def test_columns_that_were_renamed_on_read_are_named(tmp_path: Path) -> None:
    found = features(tmp_path)
    schemas = tmp_path / ".hoodie" / ".schema"
    schemas.mkdir()
    (schemas / f"{NEWEST}.schemacommit").touch()
    (reason,) = refused(found)
    assert "`hoodie.schema.on.read.enable`" in reason


def test_a_class_that_merges_rows_is_no_reason_and_is_known(tmp_path: Path) -> None:
    found = features(
        tmp_path,
        hoodie__record__merge__mode="EVENT_TIME_ORDERING",
        hoodie__table__ordering__fields="at",
        hoodie__record__merge__property__hoodie__payload__delete__marker="D",
    )
    assert refused(found) == []
    assert found.other_merge_properties == [
        "hoodie.record.merge.mode",
        "hoodie.record.merge.property.hoodie.payload.delete.marker",
        "hoodie.table.ordering.fields",
    ]
    assert features(tmp_path).other_merge_properties == []


def test_how_rows_lie_is_what_each_write_is_told(tmp_path: Path) -> None:
    found = features(
        tmp_path,
        hoodie__table__recordkey__fields="id,name",
        hoodie__table__keygenerator__type="COMPLEX",
        hoodie__datasource__write__hive_style_partitioning="true",
    )
    told = found.write_options({"hoodie.index.type": "SIMPLE"})
    write = "hoodie.datasource.write."
    assert told[f"{write}recordkey.field"] == "id,name"
    assert told[f"{write}keygenerator.class"] == "org.apache.hudi.keygen.ComplexKeyGenerator"
    assert told[f"{write}hive_style_partitioning"] == "true"
    assert told[f"{write}partitionpath.urlencode"] == "false"


def test_properties_are_read_as_java_writes_them_or_from_their_backup(tmp_path: Path) -> None:
    folder = tmp_path / ".hoodie"
    folder.mkdir()
    assert properties_of(DiskFolder(tmp_path)) == {}
    (folder / "hoodie.properties.backup").write_text("#Updated at\nhoodie.table.name=a\\u00e9\n")
    assert properties_of(DiskFolder(tmp_path)) == {"hoodie.table.name": "aé"}
    (folder / "hoodie.properties").write_text('hoodie.table.create.schema={"type"\\:"record"}\nempty=\n')
    assert properties_of(DiskFolder(tmp_path)) == {"hoodie.table.create.schema": '{"type":"record"}', "empty": ""}
