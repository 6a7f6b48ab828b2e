"""Columns of tables that others change, too; no Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import FixedType, IcebergType, ListType, NestedField, TimestampNanoType, TimeType, UUIDType
from types_of_columns import TYPES

from lakeward.adapters.iceberg.columns import columns_in, to_iceberg
from lakeward.core.errors import TableError
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
