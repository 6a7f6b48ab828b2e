"""Two tables of one of the source: `mode = ["mirror", "history"]`, and `reads`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.history.options import Track
from lakeward.entrypoints.settings.configuration import Configuration, validate

CUSTOMER, HISTORY = TableName("shop", "customer"), TableName("shop", "customer_history")
BOTH: dict[str, Any] = {"key": ["id"], "mode": ["mirror", "history"]}


def configured(tables: dict[str, Any], *found: TableName, **more: Any) -> Configuration:
    content = {
        "pipeline": {"name": "shop"},
        "source": {"kind": "dms", "path": "landing"},
        "target": {"kind": "iceberg", "warehouse": "lake"},
        "tables": tables,
        **more,
    }
    return validate(content, Path("lakeward.toml"), found)


def dimensions(found: Configuration) -> dict[TableName, Dimension]:
    return {name: found.dimension(name) for name in found.tables}


def test_a_table_of_both_modes_is_a_mirror_and_beside_it_a_history() -> None:
    own = {"history": {"first_load": "1900-01-01"}, "columns": {"id": "int", "city": "string"}}
    found = configured({"shop.customer": {**BOTH, "track": ["city"], **own}})
    mirror, history = dimensions(found).values()
    assert (mirror.name, mirror.source, mirror.history) == (CUSTOMER, CUSTOMER, None)
    assert (history.name, history.source, history.schema) == (HISTORY, CUSTOMER, mirror.schema)
    assert history.history is not None
    assert history.history.track == Track(frozenset({"city"}), but=False)
    assert history.history.first_load is not None
    assert (found.siblings_of(CUSTOMER), found.siblings_of(HISTORY)) == ([HISTORY], [CUSTOMER])


def test_soft_deletes_are_those_of_the_mirror() -> None:
    found = dimensions(configured({"shop.customer": {**BOTH, "deletes": "soft"}}))
    assert [one.is_soft for one in found.values()] == [True, False]
    history = {"key": ["id"], "mode": "history"}
    of_all = dimensions(configured({"shop.customer": history}, defaults={"deletes": "soft"}))
    assert [one.is_soft for one in of_all.values()] == [False]
    with pytest.raises(ConfigError, match="`deletes` is for a mirror"):
        configured({"shop.customer": {**history, "deletes": "soft"}})


def test_two_tables_of_one_need_the_same_of_its_rows_so_that_these_are_read_once() -> None:
    alone = dimensions(configured({"shop.customer": {"key": ["id"]}}))[CUSTOMER]
    assert (alone.keeps_text, alone.readers) == (False, 1)
    both = dimensions(configured({"shop.customer": BOTH})).values()
    assert [(one.keeps_text, one.readers) for one in both] == [(True, 2)] * 2


def test_the_history_is_called_as_the_settings_say() -> None:
    found = configured({"shop.customer": {**BOTH, "history_table": "versions"}})
    assert [*found.tables] == [CUSTOMER, TableName("shop", "versions")]


def test_a_history_of_a_table_with_a_star_in_its_name_is_no_pattern() -> None:
    found = configured({'shop."5*"': BOTH})
    assert [*found.tables] == [TableName("shop", "5*"), TableName("shop", "5*_history")]
    assert found.source_names[TableName("shop", "5*_history")] == TableName("shop", "5*")


def test_defaults_and_patterns_may_say_both() -> None:
    found = configured(
        {"shop.*": {"key": ["id"]}}, CUSTOMER, defaults={"mode": ["history", "mirror"], "track": ["*"]}
    )
    assert [*found.tables] == [CUSTOMER, HISTORY]
    assert [one.history is None for one in dimensions(found).values()] == [True, False]


@pytest.mark.parametrize(
    "tables",
    [
        {"shop.customer": BOTH, "shop.CUSTOMER_history": {"key": ["id"]}},
        {name: {**BOTH, "history_table": "versions"} for name in ("shop.customer", "shop.item")},
        {"shop.customer": {**BOTH, "history_table": "customer"}},
    ],
)
def test_a_history_has_the_name_of_no_other_table(tables: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="its history would have the name of another table"):
        configured(tables)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"key": ["id"], "mode": ["mirror"]}, "these modes cannot be combined"),
        ({"key": ["id"], "mode": ["mirror", "mirror"]}, "these modes cannot be combined"),
        ({"key": ["id"], "mode": ["mirror", {"x": 1}]}, "these modes cannot be combined"),
        ({"key": ["id"], "history_table": "versions"}, "names a table beside a mirror"),
        ({**BOTH, "history_table": 5}, "no name of a table"),
        ({**BOTH, "history_table": "lake.versions"}, "no name of a table"),
        ({"key": ["id"], "reads": "shop.*"}, "this is a pattern"),
    ],
)
def test_what_names_no_pair_of_tables_is_refused(own: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        configured({"shop.customer": own})
    assert words in f"{error.value.what} {error.value.found}"


def test_two_tables_read_one_with_settings_of_their_own() -> None:
    reader = {"key": ["id"], "mode": "history", "reads": "shop.customer", "partition_by": ["is_current"]}
    found = configured({"shop.customer": {"key": ["id"]}, "lake.versions": reader})
    versions = TableName("lake", "versions")
    assert found.dimension(versions).source == CUSTOMER
    assert found.siblings_of(CUSTOMER) == [versions]
    assert found.format_options()[versions] == {"partition_by": ["is_current"]}
    assert found.format_options()[CUSTOMER] == {}


def test_a_table_may_be_read_under_another_name_alone() -> None:
    found = configured({"lake.customer": {"key": ["id"], "reads": "shop.customer", "source": {"load": "a"}}})
    assert found.source_options() == {CUSTOMER: {"load": "a"}}
    assert found.siblings_of(TableName("lake", "customer")) == []


def test_what_the_source_calls_a_table_is_found_in_any_case_unless_that_is_another_table() -> None:
    reader = {"key": ["id"], "reads": "SHOP.Customer"}
    found = configured({"shop.customer": {"key": ["id"]}, "lake.versions": reader})
    assert found.source_names[TableName("lake", "versions")] == CUSTOMER
    other = {"SHOP.Customer": {"skip": True}, "shop.customer": {"key": ["id"]}, "lake.versions": reader}
    assert configured(other).source_names[TableName("lake", "versions")] == TableName("SHOP", "Customer")


@pytest.mark.parametrize("key", ["reads", "history_table"])
def test_what_names_one_table_is_not_said_of_many(key: str) -> None:
    for section in ({"tables": {"shop.*": {key: "x.y"}}}, {"tables": {}, "defaults": {key: "x.y"}}):
        with pytest.raises(ConfigError, match="is for one table"):
            configured(**section)


def test_tables_that_read_one_say_the_same_of_its_files() -> None:
    reader = {"key": ["id"], "reads": "shop.customer", "source": {"load": "a"}}
    with pytest.raises(ConfigError, match="read the same source table with different options"):
        configured({"shop.customer": {"key": ["id"]}, "lake.versions": reader})
