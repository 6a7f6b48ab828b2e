"""Which columns of a table and its source are compared, in which types, and why others are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from memory_jobs import columns

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.history.options import History, Kind
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.schema_changes.evolution import Policies
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.core.shaping.column_rules import Rename, Rule, Trim
from lakeward.core.shaping.shape import shape
from lakeward.core.verification.compared_columns import ComparedColumns, match_columns, source_schema

ITEM = TableName("shop", "item")


def source(**types: str) -> SourceTable:
    """Return a table of a database; `native:ours` has that native name, and `?` has no type in lakeward."""
    columns = []
    for name, type_ in types.items():
        native, _, ours = type_.rpartition(":")
        columns.append(
            SourceColumn(name=name, written=native or ours, type=None if ours == "?" else parse_type(ours))
        )
    return SourceTable(name=ITEM, columns=tuple(columns))


def match(
    there: SourceTable,
    here: Schema,
    *rules: Rule,
    key: str = "id",
    history: History | None = None,
    spelled: Callable[[str], str] = str,
    is_debezium: bool = False,
) -> ComparedColumns:
    dimension = Dimension(name=ITEM, schema=here, key=(key,), history=history)
    declared = Schema(tuple(Column(spelled(c.name), c.type) for c in there.columns if c.type is not None))
    return match_columns(
        dimension, shape(rules, declared if rules else Schema(())), there, spelled, is_debezium=is_debezium
    )


def types(found: ComparedColumns) -> dict[str, tuple[str, str]]:
    return {column.name: (str(column.read_as), str(column.type)) for column in found.columns}


@pytest.mark.parametrize(
    ("there", "here", "expected"),
    [
        ("int", "bigint", ("int", "bigint")),
        ("numeric:decimal(10,4)", "decimal(10,2)", ("decimal(10,4)", "decimal(10,2)")),
        ("float", "double", ("float", "float")),
        ("double", "float", ("double", "float")),
        ("boolean", "int", ("boolean", "int")),
        ("timestamp_ntz", "timestamp", ("timestamp_ntz", "timestamp")),
        ("jsonb:string", "string", ("string", "string")),
        ("int", "string", ("string", "string")),
        ("numeric:?", "decimal(12,2)", ("decimal(12,2)", "decimal(12,2)")),
        ("point:?", "string", ("string", "string")),
    ],
)
def test_both_sides_are_compared_as_the_type_of_the_table(there: str, here: str, expected: tuple[str, str]) -> None:
    found = match(source(id="int", x=there), columns(id="int", x=here))
    assert types(found)["x"] == expected
    assert found.left_out == {}


@pytest.mark.parametrize(
    ("there", "here", "why"),
    [
        ("varchar:string", "date", "it is varchar at the source and date in the table"),
        ("int", "timestamp", "it is int at the source and timestamp in the table"),
        ("point:?", "double", "it is point at the source and double in the table"),
        ("jsonb:string", "struct<a: int>", "it is a struct"),
    ],
)
def test_columns_that_cannot_be_compared_are_left_out_and_named(there: str, here: str, why: str) -> None:
    found = match(source(id="int", x=there), columns(id="int", x=here))
    assert ([*types(found)], found.left_out) == (["id"], {"x": why})


def test_columns_that_one_side_lacks_and_those_of_rules_are_named() -> None:
    rules = (Rename(column="name", to="title"), Trim(column="note"))
    found = match(
        source(id="int", name="string", note="string", internal="string"),
        columns(id="int", title="string", note="string", added="string"),
        *rules,
    )
    assert [(column.name, column.source.name) for column in found.columns] == [("id", "id"), ("title", "name")]
    assert found.left_out == {
        "note": "a rule makes it",
        "added": "the source does not have it",
        "internal": "the table does not have it",
    }
    assert source_schema(found).names == ("id", "name")


def test_names_are_matched_as_the_feed_spells_them_or_without_case() -> None:
    there = source(ID="int", Name="string")
    for spelled in (str.lower, str):
        found = match(there, columns(id="int", name="string"), spelled=spelled)
        assert [(column.name, column.source.name) for column in found.columns] == [("id", "ID"), ("name", "Name")]


def test_a_renamed_column_is_matched_by_its_old_name_at_the_source() -> None:
    policies = Policies(renames={"name": "title"})
    dimension = Dimension(name=ITEM, schema=columns(id="int", title="string"), key=("id",), policies=policies)
    form = shape((), Schema(()))
    for old in ("name", "title"):
        found = match_columns(dimension, form, source(**{"id": "int", old: "string"}))
        assert ([column.name for column in found.columns], found.left_out) == (["id", "title"], {})


def test_blanks_that_pad_a_text_do_not_count() -> None:
    there = source(id="int", a="bpchar:string", b="CHAR(5):string", c="varchar:string")
    found = match(there, columns(id="int", a="string", b="string", c="string"))
    assert [column.is_padded for column in found.columns] == [False, True, True, False]


def test_columns_that_keep_their_first_value_are_not_compared() -> None:
    history = History(kinds={"first": Kind.KEEP_FIRST, "last": Kind.OVERWRITE})
    found = match(
        source(id="int", first="string", last="string"),
        columns(id="int", first="string", last="string"),
        history=history,
    )
    assert found.left_out == {"first": "it keeps its first value"}


@pytest.mark.parametrize(
    ("there", "rules", "said"),
    [
        (source(other="int"), (), "the source does not have it"),
        (source(id="string"), (Trim(column="id"),), "a rule makes it"),
    ],
)
def test_a_key_that_the_source_does_not_have_unchanged_is_refused(
    there: SourceTable, rules: tuple[Rule, ...], said: str
) -> None:
    with pytest.raises(ConfigError, match="cannot be compared with its source") as refused:
        match(there, columns(id="string"), *rules)
    assert said in str(refused.value.found)


def test_a_table_without_a_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no key"):
        match_columns(Dimension(name=ITEM, schema=columns(id="int")), shape((), Schema(())), source(id="int"))


@pytest.mark.parametrize("there", ["time:string", "TIME(6):string", "timetz:?", "interval:?", "_date:?", "point:?"])
def test_types_that_debezium_rewrites_are_not_compared_as_text(there: str) -> None:
    there_too, here = source(id="int", x=there, y="uuid:string"), columns(id="int", x="string", y="string")
    assert match(there_too, here).left_out == {}
    found = match(there_too, here, is_debezium=True)
    written = there.partition(":")[0]
    assert found.left_out == {"x": f"Debezium writes {written} in a form of its own"}
