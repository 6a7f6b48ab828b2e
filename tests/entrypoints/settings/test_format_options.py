"""Options of table formats are settings: what is wrong with them is said before anything starts, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_lake
from commands import Command
from projects import DMS, write

TABLE = """
[tables."shop.orders"]
key = ["id"]
{option}
columns = {{ id = "int", name = "string", at = "timestamp", size = "double" }}
"""

COMMANDS = [("plan",), ("status",), ("run", "--once"), ("quarantine", "list")]


def configure(folder: Path, kind: str, option: str) -> None:
    write(folder, DMS.replace("iceberg", kind), TABLE.format(option=option))


@pytest.mark.parametrize(
    ("kind", "option", "words"),
    [
        ("hudi", 'buckets = "8"', '[tables."shop.orders".buckets]: input should be a valid integer'),
        ("hudi", 'partition_by = "name"', '[tables."shop.orders".partition_by]: input should be a valid list'),
        ("hudi", 'partition_by = ["nam"]', "shop.orders: 'nam' under partition_by names no column"),
        ("hudi", 'partition_by = ["at"]', "shop.orders: rows cannot be partitioned by 'at'"),
        ("hudi", 'properties = { "hoodie.index.type" = "SIMPLE" }', "is not for `properties` to say"),
        ("hudi", 'properties = { "hoodie.compaction.payload.class" = "x.Y" }', "is not for `properties` to say"),
        ("hudi", 'properties = { "hoodie.clean.commits.retaned" = "9" }', "mean 'hoodie.clean.commits.retained'?"),
        ("delta", "write_mode = true", '[tables."shop.orders".write_mode]'),
        ("delta", 'partition_by = ["day(at)"]', "Delta knows no transforms"),
        ("delta", 'partition_by = ["nam"]', "Did you mean 'name'?"),
        ("delta", 'properties = { "delta.enableDeletionVectors" = "false" }', "is not for `properties` to say"),
        ("iceberg", 'format_version = "2"', '[tables."shop.orders".format_version]'),
        ("iceberg", 'properties = { "write.merge.mode" = "copy-on-write" }', "Say it by `write_mode`"),
        ("iceberg", 'properties = { "format-version" = "3" }', "Say it by `format_version`"),
        ("iceberg", 'properties = { "current-schema" = "{}" }', "current-schema is not for `properties` to say"),
        ("iceberg", 'partition_by = ["day(att)"]', "shop.orders: 'day(att)' under partition_by names no column"),
        ("iceberg", 'partition_by = ["week(at)"]', "'week(at)' under partition_by is no transform of Iceberg"),
        ("iceberg", 'partition_by = ["size"]', "rows cannot be partitioned by size it is a double"),
        ("iceberg", 'sort_by = ["nam desc"]', "'nam desc' under sort_by names no column"),
    ],
)
def test_an_option_that_cannot_be_is_an_error_of_the_settings(
    lakeward: Command, tmp_path: Path, kind: str, option: str, words: str
) -> None:
    configure(tmp_path, kind, option)
    (tmp_path / "landing").mkdir()
    for command in COMMANDS:
        ended = lakeward(*command)
        assert (ended.code, words in " ".join(ended.err.split())) == (1, True), (command, ended.err)
        assert "lakeward.toml: " in ended.err
    assert not (tmp_path / "lake").exists()


JOINED = """
[joined."dw.fact"]
{option}
[joined."dw.fact".sources.orders]
table = "shop.orders"
columns = ["id", "name"]
"""


@pytest.mark.parametrize("kind", ["iceberg", "delta", "hudi"])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        (
            "nonsense = 1",
            """[joined."dw.fact"] has no key 'nonsense' docs/reference/settings.md lists every key.""",
        ),
        ('partition_bi = ["id"]', """[joined."dw.fact"] has no key 'partition_bi' Did you mean 'partition_by'?"""),
        ("unknow = true", """[joined."dw.fact"] has no key 'unknow' Did you mean 'unknown'?"""),
        ('partition_by = "id"', '[joined."dw.fact".partition_by]: input should be a valid list'),
    ],
)
def test_what_is_wrong_with_a_joined_table_is_said_of_its_own_section(
    lakeward: Command, tmp_path: Path, kind: str, option: str, words: str
) -> None:
    write(tmp_path, DMS.replace("iceberg", kind), TABLE.format(option=""), JOINED.format(option=option))
    (tmp_path / "landing").mkdir()
    ended = lakeward("status")
    assert (ended.code, words in " ".join(ended.err.split())) == (1, True), ended.err


def test_what_is_wrong_with_a_table_may_be_meant_as_a_key_of_tables_alone(
    lakeward: Command, tmp_path: Path
) -> None:
    configure(tmp_path, "iceberg", "unknow = true\nschem = {}")
    ended = " ".join(lakeward("status").err.split())
    assert """[tables."shop.orders"] has no key 'unknow' [tables."shop.orders"] has no key 'schem'""" in ended
    assert "Did you mean 'schema'?" in ended
    assert "unknown" not in ended


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("iceberg", 'partition_by = ["day(at)", "name"]'),
        ("iceberg", 'sort_by = ["name desc"]'),
        ("iceberg", 'mode = "history"\npartition_by = ["is_current"]'),
        ("delta", 'deletes = "soft"\npartition_by = ["_lakeward_deleted"]'),
        ("hudi", 'properties = { "hoodie.cleaner.commits.retained" = "9", "hoodie.clean.as.a.later.hudi" = "1" }'),
    ],
)
def test_options_that_can_be_are_taken(lakeward: Command, tmp_path: Path, kind: str, option: str) -> None:
    configure(tmp_path, kind, option)
    assert lakeward("status").code == 0


DIM = """
[joined."dw.dim"]
mode = "history"
partition_by = ["{column}"]

[joined."dw.dim".sources.orders]
table = "shop.orders"
columns = {{ id = "id", called = "name" }}
"""


@pytest.mark.parametrize("kind", ["iceberg", "delta", "hudi"])
def test_options_of_a_joined_table_are_put_to_the_columns_that_it_will_have(
    lakeward: Command, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "landing").mkdir()
    for column, code in [("name", 1), ("is_current", 0), ("called", 0)]:
        joined = DIM.format(column=column)
        write(tmp_path, DMS.replace("iceberg", kind), TABLE.format(option='mode = "history"'), joined)
        ended = lakeward("status")
        assert (ended.code, "dw.dim: 'name' under partition_by names no column" in ended.err) == (code, code == 1)
    assert not (tmp_path / "lake").exists()


def test_a_table_that_is_there_does_not_depend_on_what_it_could_be_made_with(
    lakeward: Command, tmp_path: Path
) -> None:
    configure(tmp_path, "iceberg", 'partition_by = ["gone"]')
    small_lake.make(tmp_path)
    assert "names no column" not in lakeward("status").err


def test_columns_that_are_not_declared_are_not_missed(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, DMS, '[tables."shop.orders"]\nkey = ["id"]\npartition_by = ["of_the_files"]\n')
    assert lakeward("status").code == 0
