"""The warnings of rows that a joined table cannot show."""

from __future__ import annotations

from joined_shops import shapes

from lakeward.core.dimension import TableName
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.joined.omitted_rows import OmittedRows


def test_warnings_say_which_rows_why_and_what_to_do() -> None:
    joined = JoinDeclaration(name=TableName("dw", "t"), sources=shapes()["groups"])
    assert OmittedRows(keyless=1_200, unknown=True).warnings(joined) == [
        "1,200 rows of orders (shop.orders) left out: NULL in customer, and NULL is no key. A rule of that table "
        "(`default`) gives what comes a value.",
        "orders (shop.orders) has a row with the key of the unknown row, which is shown in its place: what points "
        "at nothing points there. Give the unknown row a key that none has (`unknown`).",
    ]
    assert OmittedRows().warnings(joined) == []
