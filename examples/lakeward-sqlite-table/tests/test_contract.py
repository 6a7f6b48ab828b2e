"""The laws of lakeward, on tables in SQLite."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lakeward_sqlite_table import TYPES, SqliteTarget

from lakeward.core.dimension import Dimension
from lakeward.core.events import Position
from lakeward.core.ports import Opened
from lakeward.plugins.testing import Bench, Item, Rows, table_contract


class SqliteLake:
    """A database in a folder, as a lake under test."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "lake.db"

    def open(self, dimension: Dimension) -> Opened[Any]:
        """Open the table as a new process would; the kit ends processes, not the power."""
        return SqliteTarget(self.file, now=lambda: 0, synchronous="OFF").open(dimension)

    def frame(self, dimension: Dimension, items: Sequence[Item], *, in_part: bool = False) -> Sequence[Item]:
        """Return the items: they are a frame of the memory family."""
        return items

    def rows(self, dimension: Dimension) -> Rows:
        """Read what stands with nothing but SQL; where there is a key, by its cells. No table has no rows."""
        found: dict[Any, Any] = {}
        with closing(sqlite3.connect(self.file)) as database:
            database.row_factory = sqlite3.Row
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [str(dimension.name)]).fetchone():
                return found
            for row in database.execute(f'SELECT * FROM "{dimension.name}" WHERE NOT _deleted'):
                cells = {name: row[name] for name in dimension.schema.names}
                place = Position(*json.loads(row["_lakeward_position"])["Position"])
                found[tuple(cells[name] for name in dimension.key) or tuple(place)] = (cells, place)
        return found


def vacuum(lake: SqliteLake, dimension: Dimension) -> None:
    """Commit as another writer does: each row is written again, and then the whole file."""
    with closing(sqlite3.connect(lake.file, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute(f'UPDATE "{dimension.name}" SET _deleted = _deleted')
        database.execute("VACUUM")


def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Make a bench with a new database."""
    lake = SqliteLake(tmp_path_factory.mktemp("lake"))
    examples = int(os.environ.get("EXAMPLES", "50"))
    return Bench(
        lake=lake,
        examples=examples,
        foreign=lambda dimension: vacuum(lake, dimension),
        changes_columns=False,
        types=frozenset(TYPES),
    )


TestSqliteTable = table_contract(bench)
