"""Simulated DMS task: writes the full load and the changes of the shop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from lakeward.adapters.sources.dms.writer import Change, DmsWriter, Style
from lakeward.core.dimension import Dimension
from lakeward.core.events import Operation
from lakeward.entrypoints.demo.database import Logged, Row, key_of
from lakeward.entrypoints.demo.shop import TABLES, Shop

STYLE: Final = Style(timestamp_column="committed_at")
"""The default format of DMS with the commit time: no header, no Op column in the full load."""

_ROWS_PER_LOAD_FILE: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """Numbers of what the simulated task wrote, and of the difficult cases in it.

    `during_load` is the number of transactions during the full load, which may contain a part of them. `ties` is
    the number of keys with several changes at one commit time, `inserted_again` that of keys inserted after a
    delete.
    """

    load_rows: int
    during_load: int
    changes: int
    ties: int
    inserted_again: int


def capture(shop: Shop, landing: Path, transactions: int) -> Captured:
    """Run a number of transactions, and write the full load and the changes into the landing folder.

    The load is read in chunks while transactions go on. So it is no consistent state of the shop, and contains
    changes that are also written as changes. A table without a key would have such rows twice; it is read at once,
    at the time from which changes are captured.
    """
    writers = {table: DmsWriter(landing, table.name, table.schema, STYLE) for table in TABLES}
    shop.live(transactions // 4)
    start, transactions_before = shop.database.last_change, shop.transactions
    load_rows = 0
    for table in sorted(TABLES, key=lambda table: bool(table.key)):
        load = _load_in_pieces if table.key else _load_at_once
        load_rows += load(shop, table, writers[table])
    during_load = shop.transactions - transactions_before
    shop.live(max(0, transactions - shop.transactions))
    log = shop.database.log(start)
    for table, writer in writers.items():
        _write_changes([logged for logged in log if logged.table == table.name.table], writer, shop.random)
    changes_at = Counter((logged.table, logged.committed, _key(logged)) for logged in log)
    return Captured(
        load_rows=load_rows,
        during_load=during_load,
        changes=len(log),
        ties=sum(number > 1 for number in changes_at.values()),
        inserted_again=_inserted_again(log),
    )


def _load_at_once(shop: Shop, table: Dimension, writer: DmsWriter) -> int:
    rows = shop.database.rows(table)
    writer.load(rows, shop.clock, _ROWS_PER_LOAD_FILE)
    return len(rows)


def _load_in_pieces(shop: Shop, table: Dimension, writer: DmsWriter) -> int:
    """Read the rows in key order, and run transactions after each chunk."""
    count, last = 0, None
    while rows := shop.database.rows(table, after=last, limit=_ROWS_PER_LOAD_FILE):
        writer.load(rows, shop.clock)
        count, last = count + len(rows), key_of(table, rows[-1])
        shop.live(shop.random.randrange(1, 5))
    return count


def _write_changes(log: Sequence[Logged], writer: DmsWriter, random: Random) -> None:
    """Write the changes of a table to files of random length, which may end within a transaction."""
    start = 0
    while start < len(log):
        end = start + random.randrange(5, 40)
        part = [Change(logged.operation, _image(logged), logged.committed) for logged in log[start:end]]
        writer.changes(part, log[start:end][-1].committed)
        start = end


def _image(logged: Logged) -> Row:
    """Return the row that DMS writes: the before image of a delete, else the after image."""
    return (logged.before if logged.operation is Operation.DELETE else logged.after) or ()


def _key(logged: Logged) -> Row:
    (table,) = [table for table in TABLES if table.name.table == logged.table]
    return key_of(table, _image(logged))


def _inserted_again(log: Sequence[Logged]) -> int:
    deleted: set[tuple[str, Row]] = set()
    inserted: set[tuple[str, Row]] = set()
    for logged in log:
        row = (logged.table, _key(logged))
        if logged.operation is Operation.DELETE:
            deleted.add(row)
        elif logged.operation is Operation.INSERT and row in deleted:
            inserted.add(row)
    return len(inserted)
