"""Rows of the driving source that a joined table cannot show, and the warnings about them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from joined_laws import shapes, tables_of

from lakeward.core.dimension import TableName
from lakeward.core.events import Key
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.omitted_rows import OmittedRows, find_omitted_rows
from lakeward.core.joined.rows import SourceRow


def joining(shape: str, unknown: Mapping[str, str] | None = None) -> JoinDefinition:
    return validate_joined(
        JoinDeclaration(name=TableName("dw", "t"), sources=shapes()[shape], unknown=unknown), tables_of()
    )


@pytest.mark.parametrize(
    ("customers", "unknown", "found"),
    [
        ([7, None, 7, None], None, OmittedRows(keyless=2)),
        ([7, -1], None, OmittedRows()),
        ([7, -1], {}, OmittedRows(unknown=True)),
        ([7, -1], {"orders_customer": "-2"}, OmittedRows()),
        ([], {}, OmittedRows()),
    ],
)
def test_rows_without_a_key_are_counted_and_a_row_with_the_key_of_the_unknown_row_is_found(
    customers: list[int | None], unknown: Mapping[str, str] | None, found: OmittedRows
) -> None:
    orders: dict[Key, list[SourceRow]] = {
        (number,): [SourceRow({"id": number, "customer": one})] for number, one in enumerate(customers)
    }
    assert find_omitted_rows(joining("groups", unknown), {"orders": orders, "customer": {}, "region": {}}) == found


def test_warnings_say_which_rows_why_and_what_to_do() -> None:
    joined = joining("groups").joined
    assert OmittedRows(keyless=1_200, unknown=True).warnings(joined) == [
        "1,200 rows of orders (shop.orders) left out: NULL in customer, and NULL is no key. A rule of that table "
        "(`default`) gives what comes a value.",
        "orders (shop.orders) has a row with the key of the unknown row, which is shown in its place: what points "
        "at nothing points there. Give the unknown row a key that none has (`unknown`).",
    ]
    assert OmittedRows().warnings(joined) == []
