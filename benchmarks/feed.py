"""What both ways are fed with: a table of twelve columns, its full load and its changes, as DMS writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.dms.writer import Change, DmsWriter, Style
from lakeward.core.dimension import TableName
from lakeward.core.events import UNSET, Operation
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

STAY: Final = frozenset({"customer", "city", "channel"})
"""Columns that no update changes."""

NOT_SENT: Final = "~"

_SCHEMA: Final = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in TYPES.items()))
_ROWS_PER_LOAD_FILE: Final = 500_000
_LOADED: Final = datetime(2026, 1, 1, tzinfo=UTC)

Ids: TypeAlias = npt.NDArray[np.int64]


class Feed:
    """A source table that is loaded once and then changed; the same seed gives the same feed.

    Commit times are unique and rise, so that by any order the newest event of a key is the same.
    """

    def __init__(self, landing: Path, rows: int, seed: int = 3, table: TableName = TABLE) -> None:
        self.random = np.random.default_rng(seed)
        self.is_living = np.arange(rows + 1) > 0
        self.clock = 0
        self.late: pa.Table | None = None
        self.written: dict[Path, pa.Table] = {}
        self._loads = DmsWriter(landing, table, _SCHEMA, Style(format="parquet", timestamp_column=TIME))
        self._changes = DmsWriter(landing, table, _SCHEMA, Style(timestamp_column=TIME))

    def load(self) -> list[Path]:
        """Write the full load: Parquet files, the rows in the order of their keys."""
        rows = self._rows(np.flatnonzero(self.is_living))
        files = self._loads.load(rows, _LOADED, _ROWS_PER_LOAD_FILE)
        for place, file in enumerate(files):
            self.written[file] = rows.slice(place * _ROWS_PER_LOAD_FILE, _ROWS_PER_LOAD_FILE)
        return files

    def change(self, keys: int, files: int = 1) -> list[Path]:
        """Change so many keys, chosen uniformly, by two events each; write them as so many CSV files.

        Of the keys 80 % are updated twice, 15 % are new and then updated, 5 % are updated and
        then deleted; the events of all of them are mixed.
        """
        events = self._events(keys)
        if self.late is not None:
            events, self.late = pa.concat_tables([self.late, events]), None
        size = -(-len(events) // files)
        parts = [events.slice(start, size) for start in range(0, len(events), size)]
        return [self._write(part) for part in parts]

    def change_but(self, keys: int, late: float) -> list[Path]:
        """Change so many keys, and hold a share of the events back: they come with the next file."""
        events = self._events(keys)
        is_late = self.random.random(len(events)) < late
        file = self._write(events.filter(pa.array(~is_late)))
        self.late = events.filter(pa.array(is_late))
        return [file]

    def in_part(self, files: Sequence[Path], landing: Path) -> list[Path]:
        """Give files to another landing folder; there no update sends the columns that stay."""
        writer = DmsWriter(
            landing, TABLE, _SCHEMA, Style(timestamp_column=TIME, dialect=Dialect(no_sup_text=NOT_SENT))
        )
        writer.folder.mkdir(parents=True, exist_ok=True)
        given = []
        for file in files:
            if OP in self.written[file].column_names:
                changes = [_change(event) for event in self.written[file].to_pylist()]
                given.append(writer.changes(changes, changes[-1].time))
            else:
                given.append(writer.folder / file.name)
                given[-1].hardlink_to(file)
        return given

    def wait(self, minutes: int) -> None:
        """Let time pass at the source."""
        self.clock += minutes * 60_000

    def insert(self) -> Path:
        """Insert one row, in a file of its own."""
        return self.append(1)

    def append(self, rows: int) -> Path:
        """Insert so many rows, in one file."""
        made = self._rows(np.arange(len(self.is_living), len(self.is_living) + rows))
        self.is_living = np.append(self.is_living, np.ones(rows, bool))
        return self._write(self._with_operations(made, np.repeat(["I"], rows)))

    def _write(self, events: pa.Table) -> Path:
        file = self._changes.changes(events, datetime.fromisoformat(events[TIME][-1].as_py()))
        self.written[file] = events
        return file

    def _events(self, keys: int) -> pa.Table:
        fresh, gone = keys * 15 // 100, keys * 5 // 100
        known = self.random.choice(np.flatnonzero(self.is_living), keys - fresh, replace=False)
        made = np.arange(len(self.is_living), len(self.is_living) + fresh)
        self.is_living = np.append(self.is_living, np.ones(fresh, bool))
        self.is_living[known[:gone]] = False
        first = np.repeat(["U", "I"], [len(known), fresh])
        second = np.repeat(["D", "U"], [gone, keys - gone])
        places = np.sort(self.random.permutation(2 * keys).reshape(2, keys), axis=0)
        order = np.argsort(places, axis=None)
        operations = np.concatenate([first, second])[order]
        return self._with_operations(self._rows(np.tile(np.concatenate([known, made]), 2)[order]), operations)

    def _with_operations(self, rows: pa.Table, operations: npt.NDArray[np.str_]) -> pa.Table:
        """Return rows as events, committed a millisecond apart."""
        numbers = np.arange(self.clock, self.clock + len(rows)) + 1
        self.clock += len(rows)
        times = pa.array(np.datetime64(_LOADED.replace(tzinfo=None), "us") + numbers * 1000).cast(pa.string())
        return rows.add_column(0, TIME, times).add_column(0, OP, pa.array(operations, pa.string()))

    def _rows(self, ids: Ids) -> pa.Table:
        """Make up rows of these keys; some texts need quotes, a fifth of the shipping times is NULL.

        The columns that STAY depend on the key alone.
        """
        random, count = self.random, len(ids)
        shipped = random.integers(1_700_000_000_000_000, 1_800_000_000_000_000, count)
        words = self._one_of("plain", "two words", "with, comma", 'with "quotes"', "Grüße", "x" * 40, count=count)
        columns: dict[str, Any] = {
            KEY: ids,
            "customer": ids * 7_919 % 1_000_000,
            "status": self._one_of("open", "paid", "shipped", "returned", count=count),
            "city": pa.array(["Bonn", "Köln", "Kiel", "Trier", "Ulm"]).take(pa.array(ids % 5)),
            "note": pc.binary_join_element_wise(words, pa.array(ids).cast(pa.string()), " "),
            "quantity": random.integers(1, 100, count, np.int32),
            "price": pa.array(random.integers(1, 1_000_000, count)).cast(pa.decimal128(21, 2)),
            "discount": random.integers(0, 100, count) / 100,
            "is_paid": random.random(count) < 0.5,
            "ordered_on": pa.array(random.integers(18_000, 20_000, count, np.int32), pa.date32()),
            "shipped_at": pa.array(shipped, pa.timestamp("us", "UTC"), mask=random.random(count) < 0.2),
            "channel": pa.array(["web", "shop", "phone"]).take(pa.array(ids % 3)),
        }
        return pa.table(columns)

    def _one_of(self, *texts: str, count: int) -> pa.Array:
        return pa.array(texts).take(pa.array(self.random.integers(0, len(texts), count)))


def _change(event: Mapping[str, Any]) -> Change:
    operation = {"I": Operation.INSERT, "U": Operation.UPDATE, "D": Operation.DELETE}[event[OP]]
    unsent = STAY if operation is Operation.UPDATE else frozenset()
    return Change(
        operation,
        [UNSET if name in unsent else event[name] for name in TYPES],
        datetime.fromisoformat(event[TIME]).replace(tzinfo=UTC),
    )


def expected_rows(feed: Feed, files: Sequence[Path]) -> dict[int, dict[str, Any]]:
    """Return the rows that these files leave, by their keys: one event after the other, in plain Python."""
    rows: dict[int, dict[str, Any]] = {}
    for file in files:
        for row in feed.written[file].to_pylist():
            if row.get(OP) == "D":
                rows.pop(row[KEY], None)
            else:
                rows[row[KEY]] = {name: row[name] for name in TYPES}
    return rows
