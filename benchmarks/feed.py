"""What the benchmarks feed both ways with: a table of twelve columns, and changes to it, as DMS writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.dms.writer import DmsWriter, Style
from lakeward.core.dimension import TableName
from lakeward.core.schema import Column, Schema, parse_type

TABLE: Final = TableName("shop", "orders")
KEY: Final = "id"
OP: Final = "Op"
TIME: Final = "committed_at"
TYPES: Final = {
    KEY: "bigint",
    "customer": "bigint",
    "status": "string",
    "city": "string",
    "note": "string",
    "quantity": "int",
    "price": "decimal(12,2)",
    "discount": "double",
    "is_paid": "boolean",
    "ordered_on": "date",
    "shipped_at": "timestamp",
    "channel": "string",
}

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_SCHEMA: Final = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in TYPES.items()))
_ROWS_PER_LOAD_FILE: Final = 500_000

Rows = dict[int, dict[str, Any]]


class Feed:
    """A source table that is loaded once and then changed; the same seed gives the same feed.

    Commit times are unique and rise, so that the newest event of a key is the same by any order.
    """

    def __init__(self, landing: Path, rows: int, seed: int = 3) -> None:
        self.landing = landing
        self.random = np.random.default_rng(seed)
        self.living = np.ones(rows + 1, bool)
        self.living[0] = False
        self.clock = _START
        self._changes = DmsWriter(landing, TABLE, _SCHEMA, Style(timestamp_column=TIME))

    def load(self) -> list[Path]:
        """Write the full load: Parquet files with the rows in the order of their keys."""
        ids = np.arange(1, len(self.living), dtype=np.int64)
        style = Style(format="parquet", timestamp_column=TIME)
        return DmsWriter(self.landing, TABLE, _SCHEMA, style).load(self._rows(ids), self.clock, _ROWS_PER_LOAD_FILE)

    def change(self, keys: int, files: int) -> list[Path]:
        """Change so many keys, chosen uniformly, by two events each; write them as so many CSV files.

        Of the keys 80 % are updated twice, 15 % are new and then updated, 5 % are updated and
        then deleted. The events of all keys are mixed.
        """
        events = self._events(keys)
        size = -(-len(events) // files)
        return [self._write(events.slice(start, size)) for start in range(0, len(events), size)]

    def _events(self, keys: int) -> pa.Table:
        new, gone = keys * 15 // 100, keys * 5 // 100
        old = self.random.choice(np.flatnonzero(self.living), keys - new, replace=False)
        fresh = np.arange(len(self.living), len(self.living) + new)
        self.living = np.append(self.living, np.ones(new, bool))
        self.living[old[:gone]] = False
        ids = np.concatenate([old, fresh])
        first = np.where(np.arange(keys) < len(old), "U", "I")
        second = np.where(np.arange(keys) < gone, "D", "U")
        places = np.sort(self.random.permutation(2 * keys).reshape(2, keys), axis=0).ravel()
        order = np.argsort(places)
        times = np.datetime64(self.clock.replace(tzinfo=None), "us") + np.arange(1, 2 * keys + 1) * 1000
        self.clock += timedelta(milliseconds=2 * keys)
        table = self._rows(np.tile(ids, 2)[order])
        table = table.add_column(0, TIME, pa.array(times).cast(pa.string()))
        return table.add_column(0, OP, pa.array(np.concatenate([first, second])[order], pa.string()))

    def _write(self, events: pa.Table) -> Path:
        return self._changes.changes(events, datetime.fromisoformat(events[TIME][-1].as_py()))

    def _rows(self, ids: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
        """Make up rows of these keys; a fifth of the shipping times is NULL, some notes need quotes."""
        random, count = self.random, len(ids)
        words = np.array(["plain", "two words", "with, comma", 'with "quotes"', "Grüße", "x" * 40])
        moments = random.integers(0, 10**12, count) + 1_700_000_000_000_000
        columns = [
            ids,
            random.integers(1, 1_000_000, count),
            random.choice(np.array(["open", "paid", "shipped", "returned"]), count),
            random.choice(np.array(["Bonn", "Köln", "Kiel", "Trier", "Ulm"]), count),
            pc.binary_join_element_wise(pa.array(random.choice(words, count)), pa.array(ids).cast("string"), " "),
            random.integers(1, 100, count, np.int32),
            pa.array(random.integers(1, 10**6, count)).cast(pa.decimal128(19, 0)),
            random.integers(0, 100, count) / 100,
            pa.array(random.random(count) < 0.5),
            pa.array(random.integers(18_000, 20_000, count, np.int32), pa.date32()),
            pa.array(moments, pa.timestamp("us", "UTC"), mask=random.random(count) < 0.2),
            random.choice(np.array(["web", "shop", "phone"]), count),
        ]
        return pa.table([pa.array(column) for column in columns], list(TYPES))
