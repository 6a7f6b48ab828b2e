"""Sources in memory that fail, or wait, while a test says so, and pipelines whose commands read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest
from commands import Command, Ended
from projects import MEMORY, write

from lakeward.adapters.memory import MemorySource, MemoryTarget
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.entrypoints import container as parts
from lakeward.entrypoints.commands import run as running
from lakeward.entrypoints.runtime.stop_signal import Stop

MINUTE: Final = 60_000_000
TABLES: Final = """
    [defaults.quarantine]
    max_share = 1.0
    [tables."shop.orders"]
    key = ["id"]
    columns = { id = "int", state = "string" }
    [tables."shop.lines"]
    key = ["id"]
    columns = { id = "int", state = "string" }
"""


class FailingSource(MemorySource):
    """One object a batch. Tables of `errors` fail, those of `awaited` wait for a full load; `looks` are noted."""

    def __init__(self) -> None:
        super().__init__(Limits(files=1))
        self.errors: dict[TableName, BaseException] = {}
        self.awaited: dict[TableName, AwaitedLoad] = {}
        self.looks: list[TableName] = []

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Select the next object of a table that neither fails nor waits."""
        self.looks.append(dimension.name)
        if dimension.name in self.errors:
            raise self.errors[dimension.name]
        if dimension.name in self.awaited:
            return ObjectSelection(awaited=self.awaited[dimension.name])
        return super().select_objects(dimension, object_history)


@dataclass
class FailingPipeline:
    """A pipeline of two tables whose commands run in this process, by a clock that tests turn."""

    lakeward: Command
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    source: FailingSource = field(default_factory=FailingSource)
    lake: MemoryTarget = field(default_factory=MemoryTarget)
    now: int = 1_796_083_200_000_000

    def __post_init__(self) -> None:
        """Let the commands read this source and write this lake, by this clock."""
        self.monkeypatch.setattr("lakeward.adapters.memory.MemorySource", lambda **_: self.source)
        self.monkeypatch.setattr("lakeward.adapters.memory.MemoryTarget", lambda: self.lake)
        self.monkeypatch.setattr(parts, "clock", lambda: self.now)

    def configure(self, *more: str) -> None:
        """Write the settings, with more sections."""
        write(self.folder, MEMORY, *more, TABLES)

    def run(self, minutes: float = 0, *words: str) -> Ended:
        """Run so many minutes later."""
        self.now += round(minutes * MINUTE)
        return self.lakeward("run", "--log", "off", *words)

    def follow(
        self, minutes: int, *words: str, meanwhile: Callable[[int], None] = lambda _: None, poll: str = "1m"
    ) -> Ended:
        """Follow for so many minutes of the clock, which goes on while the process pauses; log as JSON."""
        began = self.now

        def pause(stop: Stop, seconds: float) -> None:
            before, self.now = self.now, self.now + round(seconds * 1_000_000)
            for minute in range((before - began) // MINUTE + 1, (self.now - began) // MINUTE + 1):
                meanwhile(minute)

        self.monkeypatch.setattr(Stop, "pause", pause)
        self.monkeypatch.setattr(running, "Stop", partial(Stop, clock=lambda: self.now / 1e6))
        self.monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: self.now / 1e6))
        settings = self.folder / "lakeward.toml"
        text = settings.read_text("utf-8").replace('name = "shop"', f'name = "shop"\npoll = "{poll}"', 1)
        settings.write_text(text, "utf-8")
        return self.lakeward("run", "--follow", "--max-minutes", str(minutes), "--log", "json", *words)
