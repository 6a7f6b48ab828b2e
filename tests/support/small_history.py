"""A lake of tables in plain Python that persists between commands, with a history of twelve keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import MEMORY, write

from lakeward.adapters import memory
from lakeward.adapters.memory import MemoryTable, MemoryTarget
from lakeward.core.events import Position
from lakeward.core.history.stored_options import options_of
from lakeward.core.history.versions import Version
from lakeward.core.merge.fold import row_of
from lakeward.core.progress import Progress
from lakeward.entrypoints.settings.configuration import load
from lakeward.entrypoints.settings.patterns import table_name

HISTORY = """
[tables."shop.customer"]
key = ["id"]
mode = "history"
columns = { id = "int", city = "string" }
"""
DAY = 86_400_000_000


def version(begins: int, ends: int | None, city: str, key: int = 1) -> Version:
    """Return a version that is valid from one day to another, counted from 1970."""
    cells, until = {"id": key, "city": city}, None if ends is None else ends * DAY
    return Version(begins * DAY, until, cells, Position(1, begins, 1, 1), begins)


@pytest.fixture
def kept_lake(monkeypatch: pytest.MonkeyPatch) -> MemoryTarget:
    """Return the lake that every command opens."""
    target = MemoryTarget()
    monkeypatch.setattr(memory, "build_target", lambda *_: target)
    return target


@pytest.fixture
def kept_history(kept_lake: MemoryTarget, tmp_path: Path) -> MemoryTable:
    """Return a history with two versions of each key."""
    name = table_name("shop.customer")
    dimension = load(write(tmp_path, MEMORY, HISTORY)).dimension(name)
    rows = {(key,): row_of((version(0, 5, "Bonn", key), version(5, None, "Ulm", key))) for key in range(12)}
    progress = Progress(batch=1, rows=24, history=options_of(dimension))
    return kept_lake.tables.setdefault(name, MemoryTable(dimension, exists=True, rows=rows, progress=progress))
