"""Names of `lakeward.plugins.testing` that tests of table formats import from here."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.plugins.testing.moments import Moment
from lakeward.plugins.testing.player import CRASHES, UNCOMMITTED, Crash, Lake, MemoryLake, Player
from lakeward.plugins.testing.scripted_source import ScriptedSource
from lakeward.plugins.testing.scripts import (
    NAME,
    PACKED,
    TOLERANT,
    Item,
    Rows,
    Script,
    pack,
    pack_late,
    pack_reloaded,
)

__all__ = [
    "CRASHES",
    "NAME",
    "PACKED",
    "TOLERANT",
    "UNCOMMITTED",
    "Crash",
    "Item",
    "Lake",
    "MemoryLake",
    "Moment",
    "Player",
    "Rows",
    "Script",
    "ScriptedSource",
    "pack",
    "pack_late",
    "pack_reloaded",
    "play_both",
]


def play_both(script: Script, lake: Lake, ends: Sequence[tuple[str, str]] = ()) -> tuple[Player, Player]:
    """Play a script on a lake and on the reference adapter, up to the first moment that differs."""
    expected = Player(script, MemoryLake()).play()
    return Player(script, lake, expected=expected.moments).play(ends), expected
