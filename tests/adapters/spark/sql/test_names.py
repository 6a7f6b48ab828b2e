"""Names and texts reach Spark quoted: whatever they hold, they stay names and texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import PREFIX, quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.schema import Column, Type

ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(
    ("parts", "sql"),
    [
        (["orders"], "`orders`"),
        (["lake", "shop", "orders"], "`lake`.`shop`.`orders`"),
        (["odd.name"], "`odd.name`"),
        (["a`b"], "`a``b`"),
        (["``"], "``````"),
        (["x`; DROP TABLE y; --"], "`x``; DROP TABLE y; --`"),
        (["select"], "`select`"),
    ],
)
def test_a_name_is_quoted_part_by_part(parts: list[str], sql: str) -> None:
    assert quoted(*parts) == sql


@given(st.lists(ANYTHING, min_size=1, max_size=3))
def test_quoting_can_be_undone_so_no_two_names_meet(parts: list[str]) -> None:
    found = re.findall(r"`((?:[^`]|``)*)`(?:\.|$)", quoted(*parts), re.DOTALL)
    assert [part.replace("``", "`") for part in found] == parts


def test_a_field_of_a_struct_is_quoted_at_any_depth() -> None:
    inner = Type("struct", parts=(Column("a:int>, b`", Type("date")),))
    nested = Type("map", parts=(Column("key", Type("string")), Column("value", inner)))
    assert ddl(Type("list", parts=(Column("element", nested),))) == "array<map<string,struct<`a:int>, b```:date>>>"


@given(ANYTHING)
def test_a_text_ends_where_it_should(value: str) -> None:
    inner = re.fullmatch(r"'((?:[^'\\]|\\.)*)'", text(value), re.DOTALL)
    assert inner is not None
    assert re.sub(r"\\(.)", r"\1", inner[1], flags=re.DOTALL) == value


def test_every_column_that_is_added_has_the_prefix_that_settings_refuse() -> None:
    added = [value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)]
    assert len(added) > 5
    assert all(value.startswith(PREFIX) for value in added)
    assert names.POSITION == (names.EPOCH, names.SEQUENCE, names.OBJECT, names.ROW)
