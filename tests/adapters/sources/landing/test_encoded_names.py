"""Names of tables as parts of a URL of a bucket: any name makes one, and no two make the same."""

from __future__ import annotations

import pytest

from lakeward.adapters.aws.s3.access import normal_url
from lakeward.adapters.sources.landing.places import encode_names
from lakeward.core.dimension import TableName


@pytest.mark.parametrize(
    "name", ["#", "{x}", "[", "?", "*", "a/b", "a\\b", "..", ".", "a:b", "a%23", "\n", "a b", "ä€"]
)
def test_any_name_of_a_table_makes_one_part_of_a_url(name: str) -> None:
    made = encode_names(TableName("shop", name)).table
    assert normal_url(f"s3://shop/staging/{made}/x") == f"s3://shop/staging/{made}/x"
    assert not {"/", "%", ":", " "} & set(made)


def test_no_two_tables_have_one_encoded_name() -> None:
    names = ["a#", "a~23", "a~", "a~7e", "a~7e23", "A#", "a/", ".a", "~2ea", "a.b", "a~2eb"]
    assert len({encode_names(TableName("shop", name)) for name in names}) == len(names)


def test_a_plain_name_stays_as_it_is() -> None:
    assert encode_names(TableName("shop_1", "Order-lines.v2")) == TableName("shop_1", "Order-lines.v2")
