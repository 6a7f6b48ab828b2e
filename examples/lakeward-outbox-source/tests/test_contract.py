"""The laws of lakeward, on an outbox in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from lakeward_outbox_source import Outbox, OutboxSource
from lakeward_outbox_source.outbox import SCHEMA

from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent
from lakeward.core.ledger.selection import Limits
from lakeward.plugins.testing import Feed, Item, source_contract


def feed(tmp_path: Path) -> Feed:
    """Make a database with an empty outbox; parameters are fixtures of pytest."""
    file = tmp_path / "app.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute(SCHEMA)

    def put(dimension: Dimension, place: int, items: Sequence[Item]) -> None:
        """Write the rows as the application does, in one transaction; a row that is a reject has no key."""
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("DELETE FROM outbox WHERE txn = ?", (place,))
            for item in items:
                is_event = isinstance(item, ChangeEvent)
                operation = item.operation.value if is_event else "insert"
                row = json.dumps(item.cells if is_event else {"id": None, "a": "of nobody"})
                at = item.time or 0
                values = (place, item.position.row, at, *dimension.name, operation, row)
                database.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    return Feed(
        open=lambda: OutboxSource(Outbox(file), lambda: 2**60, Limits()),
        put=put,
        rows=lambda frame: frame,
    )


TestOutboxSource = source_contract(feed)
