"""A shop in a running database, with random changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

SHOP = """
CREATE TABLE shop.customer (
    id int PRIMARY KEY, name varchar(40) NOT NULL DEFAULT 'nobody', balance numeric(10,2), note text);
CREATE TABLE shop.orders (
    region varchar(2), number int, total numeric(10,2), due time DEFAULT '10:11:12', PRIMARY KEY (region, number));
"""
"""In SQL of both databases."""


@dataclass
class ShopWriter:
    """Draws transactions that are valid for any rows. Some change nothing."""

    random: Random
    more: list[str] = field(default_factory=list)
    """Columns of text that were added to customers."""
    keys: int = 12
    """The number of keys: with few, most changes meet a row."""

    writing: threading.Lock = field(default_factory=threading.Lock)
    """Only its holder writes: two writers would meet each other's rows and columns that do not exist yet."""

    def add_column(self, tell: Callable[[str], object], name: str, transactions: int) -> None:
        """Give customers a column of text, which transactions write from then on."""
        with self.writing:
            tell(f"ALTER TABLE shop.customer ADD COLUMN {name} varchar(20)")
            self.more.append(name)
            tell(self.draw(transactions))

    def draw(self, transactions: int) -> str:
        drawn = [
            "".join(self._draw_change() for _ in range(self.random.randint(1, 5))) for _ in range(transactions)
        ]
        return "".join(f"BEGIN; {changes} COMMIT; " for changes in drawn)

    @contextmanager
    def changes(self, tell: Callable[[str], object], transactions: int, pause: float) -> Iterator[None]:
        """Change the shop during the context: so many transactions after each pause of so many seconds."""
        is_over = threading.Event()

        def live() -> None:
            while not is_over.wait(pause):
                with self.writing:
                    tell(self.draw(transactions))

        thread = threading.Thread(target=live)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _draw_change(self) -> str:
        key, other = self.random.sample(range(self.keys), 2)
        amount = f"{self.random.randint(-99_999, 99_999) / 100:.2f}"
        draw = self.random.choice([self._draw_of_a_customer, self._draw_of_an_order])
        return draw(key, other, amount)

    def _draw_of_a_customer(self, key: int, other: int, amount: str) -> str:
        table, row = "shop.customer", f"id = {key}"
        match self.random.choice(["insert", "insert", "amount", "amount", "note", "more", "delete", "key", "swap"]):
            case "insert":
                values = f"{key}, 'é {amount}', {amount}, REPEAT('{key} ', 2000)"
                return _insert(table, "id, name, balance, note", values, row)
            case "amount":
                return f"UPDATE {table} SET balance = {amount} WHERE {row}; "
            case "note":
                note = self.random.choice(["NULL", "''", "'short'", f"REPEAT('{amount} ', 1000)"])
                return f"UPDATE {table} SET note = {note} WHERE {row}; "
            case "more":
                return "".join(f"UPDATE {table} SET {name} = '{amount}' WHERE {row}; " for name in self.more)
            case "delete":
                return f"DELETE FROM {table} WHERE {row}; "
            case "key":
                return _update_key(table, f"id = {other}", row)
            case _:
                moves = ((key, -1), (other, key), (-1, other))
                return "".join(f"UPDATE {table} SET id = {new} WHERE id = {old}; " for old, new in moves)

    def _draw_of_an_order(self, key: int, other: int, amount: str) -> str:
        table, region = "shop.orders", self.random.choice(["eu", "us"])
        row = f"region = '{region}' AND number = {key}"
        match self.random.choice(["insert", "insert", "amount", "amount", "delete", "key"]):
            case "insert":
                return _insert(table, "region, number, total", f"'{region}', {key}, {amount}", row)
            case "amount":
                return f"UPDATE {table} SET total = {amount} WHERE {row}; "
            case "delete":
                return f"DELETE FROM {table} WHERE {row}; "
            case _:
                return _update_key(table, f"region = '{region}', number = {other}", row)


def _insert(table: str, columns: str, values: str, row: str) -> str:
    return f"INSERT INTO {table} ({columns}) SELECT {values} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {row}); "


def _update_key(table: str, new: str, row: str) -> str:
    selection = f"SELECT 1 FROM {table} other WHERE {new.replace(', ', ' AND ')}"
    return f"UPDATE {table} SET {new} WHERE {row} AND NOT EXISTS ({selection}); "
