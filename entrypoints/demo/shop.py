"""A small shop with random transactions from a seed: orders, customers, price changes, rollbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Final

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.entrypoints.demo.database import Database, RollBack, Row


def _table(name: str, key: tuple[str, ...], /, **columns: str) -> Dimension:
    schema = Schema(tuple(Column(column, parse_type(type_)) for column, type_ in columns.items()))
    return Dimension(name=TableName("shop", name), schema=schema, key=key)


CUSTOMERS: Final = _table(
    "customers",
    ("id",),
    id="bigint",
    name="string",
    email="string",
    notes="string",
    credit="decimal(10,2)",
    born="date",
    is_member="boolean",
    changed_at="timestamp",
)
PRODUCTS: Final = _table(
    "products", ("sku",), sku="string", title="string", price="decimal(8,2)", weight="double", added_on="date"
)
ORDERS: Final = _table(
    "orders",
    ("id",),
    id="bigint",
    customer_id="bigint",
    status="string",
    total="decimal(12,2)",
    card="string",
    ordered_at="timestamp",
)
ORDER_LINES: Final = _table(
    "order_lines",
    ("order_id", "line"),
    order_id="bigint",
    line="int",
    sku="string",
    quantity="int",
    price="decimal(8,2)",
)
VISITS: Final = _table("visits", (), at="timestamp", page="string", customer_id="bigint", seconds="double")

TABLES: Final = (ORDERS, ORDER_LINES, CUSTOMERS, PRODUCTS, VISITS)

LONGEST_PAUSE: Final = 30
"""The greatest number of seconds between two transactions."""

_NAMES: Final = (
    "Zoë Müller",
    'Anna "Ann" Lee',
    "O'Brien, Pat",
    "李雷",
    "Łukasz Żak",
    "Tom\tTab",
    "  Eve  ",
    "🦆 Duck",
)
_TEXTS: Final = (
    *(None, "", "NULL", "null", '""', '"', ",", "\\", "\\N", " ", "naïve café"),
    *("rings twice,\nthen waits", 'says "no, thanks"', "first line\r\nsecond line\n", "C:\\temp\\", "ends with \r"),
)
_PAGES: Final = ("/", "/cart", "/search?q=a,b", '/say?"hi"', "/日本", "")
_STATUSES: Final = ("new", "paid", "sent", "done")
_SKUS: Final = tuple(f"{kind}-{number:03}" for kind in ("CUP", "TEA", "TIN") for number in range(20))


class Shop:
    """The shop with its database and clock; the same seed gives the same transactions."""

    def __init__(self, file: Path, seed: int, opened: datetime) -> None:
        self.database = Database(file, TABLES)
        self.random = Random(seed)  # noqa: S311  # no secret
        self.clock = opened
        self.transactions = 0
        self.rolled_back = 0
        with self.database.transaction(self.clock):
            for sku in _SKUS:
                self._list_product(sku)
            for number in range(1, 61):
                self._join((number,))

    def live(self, transactions: int) -> None:
        """Run a number of transactions, some of which are rolled back."""
        for _ in range(transactions):
            self._pass_time()
            with self.database.transaction(self.clock):
                self._choose()()
                if self.random.random() < 0.05:
                    self.rolled_back += 1
                    raise RollBack
        self.transactions += transactions

    def _pass_time(self) -> None:
        """Advance the clock; two transactions may have the same commit time."""
        if self.random.random() < 0.85:
            self.clock += timedelta(milliseconds=self.random.randrange(1, 1000 * LONGEST_PAUSE))

    def _choose(self) -> Callable[[], None]:
        happenings: dict[Callable[[], None], int] = {
            self.order: 26,
            self.visit: 16,
            self.proceed: 15,
            self.amend: 9,
            self.change_customer: 12,
            self.join: 5,
            self.leave: 5,
            self.come_back: 4,
            self.cancel: 4,
            self.reprice: 5,
            self.relist: 5,
        }
        return self.random.choices(list(happenings), list(happenings.values()))[0]

    # Customers.

    def join(self) -> None:
        """Insert a customer."""
        self._join((self._next(CUSTOMERS),))

    def leave(self) -> None:
        """Delete a customer; the orders stay."""
        if key := self._any(self.database.keys(CUSTOMERS)):
            self.database.delete(CUSTOMERS, key)

    def come_back(self) -> None:
        """Insert a deleted customer again, with the same number."""
        present = set(self.database.keys(CUSTOMERS))
        if absent := self._any([(n,) for n in range(1, self._next(CUSTOMERS)) if (n,) not in present]):
            self._join(absent)

    def change_customer(self) -> None:
        """Update a customer, sometimes twice in one transaction, or without a change."""
        if key := self._any(self.database.keys(CUSTOMERS)):
            for _ in range(self.random.choice((1, 1, 2, 3))):
                self.database.update(
                    CUSTOMERS,
                    key,
                    notes=self.random.choice(_TEXTS),
                    email=self._email(key),
                    is_member=self.random.choice((True, False, None)),
                    changed_at=self.clock,
                )

    def _join(self, key: Row) -> None:
        self.database.insert(
            CUSTOMERS,
            id=key[0],
            name=self.random.choice(_NAMES),
            email=self._email(key),
            notes=self.random.choice(_TEXTS),
            credit=self._money(-500, 5000),
            born=self._some_day() if self.random.random() < 0.8 else None,
            is_member=self.random.choice((True, False)),
            changed_at=self.clock,
        )

    def _email(self, key: Row) -> str | None:
        return self.random.choice((None, "", f"c{key[0]}@example.org"))

    # Products.

    def reprice(self) -> None:
        """Change the prices of a few products in one transaction."""
        keys = self.database.keys(PRODUCTS)
        for key in self.random.sample(keys, min(len(keys), self.random.randrange(1, 9))):
            self.database.update(PRODUCTS, key, price=self._money(1, 90))

    def relist(self) -> None:
        """Delete a product, insert a deleted one again, or do both in one transaction."""
        present = self.database.keys(PRODUCTS)
        absent = [sku for sku in _SKUS if (sku,) not in present]
        if absent and self.random.random() < 0.6:
            self._list_product(self.random.choice(absent))
        elif key := self._any(present):
            self.database.delete(PRODUCTS, key)
            if self.random.random() < 0.3:
                self._list_product(key[0])

    def _list_product(self, sku: str) -> None:
        self.database.insert(
            PRODUCTS,
            sku=sku,
            title=self.random.choice(_TEXTS),
            price=self._money(1, 90),
            weight=self.random.choice((None, self.random.randrange(1, 5000) / 1000)),
            added_on=self.clock.date(),
        )

    # Orders.

    def order(self) -> None:
        """Insert an order; its total is updated with each line."""
        number = self._next(ORDERS)
        customer = self._any(self.database.keys(CUSTOMERS))
        self.database.insert(
            ORDERS,
            id=number,
            customer_id=customer and customer[0],
            status=_STATUSES[0],
            total=Decimal("0.00"),
            card=self.random.choice(_TEXTS),
            ordered_at=self.clock,
        )
        for line in range(1, self.random.randrange(2, 5)):
            self._add_line(number, line)
            self._set_total(number)

    def proceed(self) -> None:
        """Update the status of an order: paid, sent, or done."""
        under_way = [row for row in self.database.rows(ORDERS) if row[2] != _STATUSES[-1]]
        if under_way:
            order = self.random.choice(under_way)
            self.database.update(ORDERS, order[:1], status=_STATUSES[_STATUSES.index(order[2]) + 1])

    def amend(self) -> None:
        """Change a line of an order: delete and insert it again, or update it."""
        if key := self._any(self.database.keys(ORDER_LINES)):
            if self.random.random() < 0.5:
                self.database.delete(ORDER_LINES, key)
                self._add_line(*key)
            else:
                self.database.update(ORDER_LINES, key, quantity=self.random.randrange(1, 20))
            self._set_total(key[0])

    def cancel(self) -> None:
        """Delete an order with its lines. The number of the newest one is used again."""
        if key := self._any(self.database.keys(ORDERS)[-5:]):
            for line in self._lines(key[0]):
                self.database.delete(ORDER_LINES, line)
            self.database.delete(ORDERS, key)

    def _add_line(self, order: int, line: int) -> None:
        if product := self._any(self.database.keys(PRODUCTS)):
            price = self.database.row(PRODUCTS, product)["price"]
            quantity = self.random.randrange(1, 9)
            self.database.insert(
                ORDER_LINES, order_id=order, line=line, sku=product[0], quantity=quantity, price=price
            )

    def _set_total(self, order: int) -> None:
        lines = [self.database.row(ORDER_LINES, key) for key in self._lines(order)]
        total = sum((line["quantity"] * line["price"] for line in lines), Decimal("0.00"))
        self.database.update(ORDERS, (order,), total=total)

    def _lines(self, order: int) -> list[Row]:
        return [key for key in self.database.keys(ORDER_LINES) if key[0] == order]

    # Visits.

    def visit(self) -> None:
        """Insert page views, some of them equal; rows of this table are never changed."""
        customer = self._any(self.database.keys(CUSTOMERS))
        for _ in range(self.random.randrange(1, 6)):
            self.database.insert(
                VISITS,
                at=self.clock,
                page=self.random.choice(_PAGES),
                customer_id=self.random.choice((None, customer and customer[0])),
                seconds=self.random.choice((None, 0.0, 0.5, 12.25)),
            )

    # By chance.

    def _any(self, keys: Sequence[Row]) -> Row | None:
        return self.random.choice(keys) if keys else None

    def _next(self, table: Dimension) -> int:
        return max((int(key[0]) for key in self.database.keys(table)), default=0) + 1

    def _money(self, least: int, most: int) -> Decimal:
        return Decimal(self.random.randrange(least * 100, most * 100)) / 100

    def _some_day(self) -> object:
        return (self.clock - timedelta(days=self.random.randrange(6000, 30_000))).date()
