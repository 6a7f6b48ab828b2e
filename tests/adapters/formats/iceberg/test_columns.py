"""Columns of tables that others change, too; no Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import FixedType, IcebergType, ListType, NestedField, TimestampNanoType, TimeType, UUIDType
from types_of_columns import TYPES

from lakeward.adapters.formats.iceberg.metadata.columns import check_paths, columns_in, to_iceberg
from lakeward.core.dimension import TableName
from lakeward.core.errors import SchemaConflict, TableError
from lakeward.core.schema import Column, Schema, Type


@given(TYPES)
def test_a_column_of_iceberg_has_the_type_that_it_was_made_of(type_: Type) -> None:
    schema = Schema((Column("a", type_),))
    assert columns_in(to_iceberg(schema), "shop.item") == schema


@pytest.mark.parametrize("type_", [UUIDType(), TimeType(), FixedType(4), TimestampNanoType()], ids=str)
@pytest.mark.parametrize("is_within", [False, True])
def test_a_type_of_another_writer_is_named_with_its_column(type_: IcebergType, is_within: bool) -> None:
    found = ListType(2, type_, element_required=False) if is_within else type_
    with pytest.raises(TableError, match=r"shop\.item: the column trace has a type") as raised:
        columns_in(IcebergSchema(NestedField(1, "trace", found, required=False)), "shop.item")
    assert f"it is {found}" in (raised.value.found or "")
    assert "DROP COLUMN" in (raised.value.todo or "")


def columns_of(types: st.SearchStrategy[Type]) -> st.SearchStrategy[list[Column]]:
    """Return columns of such types, each name once; one name may be the path of a field within another."""
    names = st.sampled_from(["a", "b", "a.b", "a.b.c", "a.element", "a.element.b", "b.value", "b.value.a"])
    return st.lists(st.builds(Column, names, types), min_size=1, max_size=3, unique_by=lambda column: column.name)


nested = st.recursive(
    st.just(Type("int")),
    lambda inner: st.one_of(
        columns_of(inner).map(lambda parts: Type("struct", parts=tuple(parts))),
        inner.map(lambda type_: Type("list", parts=(Column("element", type_),))),
        inner.map(lambda type_: Type("map", parts=(Column("key", Type("string")), Column("value", type_)))),
    ),
    max_leaves=4,
)


@given(columns_of(nested))
def test_columns_that_share_a_path_are_those_that_iceberg_refuses(columns: list[Column]) -> None:
    schema = Schema(tuple(columns))
    try:
        to_iceberg(schema)
    except ValueError:
        with pytest.raises(SchemaConflict):
            check_paths(TableName("shop", "item"), schema)
    else:
        check_paths(TableName("shop", "item"), schema)


def test_a_shared_path_is_named_with_both_that_have_it() -> None:
    within = Type("struct", parts=(Column("b", Type("int")),))
    with pytest.raises(SchemaConflict, match=r"shop\.item: a column and a field") as raised:
        check_paths(TableName("shop", "item"), Schema((Column("a.b", Type("int")), Column("a", within))))
    assert "the column 'a.b' and the field 'b' of the column 'a' are both a.b" in (raised.value.found or "")
