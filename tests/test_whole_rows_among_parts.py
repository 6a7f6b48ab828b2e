"""Batches of whole rows in a table that also gets partial rows: Spark resolves them without a fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from spark import MakeLake

from lakeward.adapters.formats.shared.change_log import retention
from lakeward.adapters.formats.shared.resolution import resolver
from lakeward.core.dimension import Dimension, Lateness, Within
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position
from lakeward.plugins.testing.player import Lake, MemoryLake, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Script

pytestmark = pytest.mark.spark


def _event(operation: Operation, at: int, key: int, position: Position) -> ChangeEvent:
    cells = {"h": 0, "id": key, "a": at, "b": -at}
    return ChangeEvent(operation=operation, position=position, key=(0, key), cells=cells, time=at)


def _with_old_key(event: ChangeEvent, old: int) -> ChangeEvent:
    return replace(event, old_key=(0, old), transaction=event.time) if (0, old) != event.key else event


@pytest.fixture
def without_fold(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record for each batch of Spark whether it was resolved without a fold. The change log is trimmed often."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 2)
    noted, whole_rows_suffice = list[bool](), resolver.whole_rows_suffice

    def note(*given: Any, has_late: bool) -> bool:
        noted.append(whole_rows_suffice(*given, has_late=has_late))
        return noted[-1]

    monkeypatch.setattr(resolver, "whole_rows_suffice", note)
    return noted


def _play(lake: Lake, lateness: Lateness, deliveries: Sequence[Sequence[ChangeEvent]]) -> Player:
    """Deliver changes to a lake. After each batch its table must equal the reference adapter."""
    dimension = Dimension(name=NAME, schema=PACKED, key=("h", "id"), lateness=lateness, tolerance=TOLERANT)
    script = Script(dimension, deliveries, [], in_part=True)
    expected = Player(script, MemoryLake()).play().moments
    return Player(script, lake, expected=expected).play()


@pytest.mark.usefixtures("by_spark")
def test_the_row_before_an_ordered_one_is_remembered_for_a_late_key_change(
    make_lake: MakeLake, without_fold: list[bool]
) -> None:
    """The row is below the low watermark. A late key change before the newer row takes a cell of it along."""
    insert, update = Operation.INSERT, Operation.UPDATE
    others = [[_event(insert, at, key, Position(1, at, key, 1))] for key, at in ((2, 90), (3, 180))]
    judged_one = _event(update, 200, 1, Position(1, 200, 4, 1))
    late = _event(update, 190, 5, Position(1, 190, 5, 1))
    late = _with_old_key(replace(late, cells={**late.cells, "b": UNSET}), 1)
    batches = [[_event(insert, 1, 1, Position(1, 1, 1, 1))], *others, [judged_one], [late]]
    rows = _play(make_lake(), Within(50), batches).moments[-1].rows
    assert without_fold[-2:] == [True, False]
    assert rows[0, 5][0]["b"] == -1


@pytest.mark.usefixtures("by_spark")
def test_a_late_whole_row_completes_a_newer_partial_one(make_lake: MakeLake, without_fold: list[bool]) -> None:
    insert, update = Operation.INSERT, Operation.UPDATE
    part = _event(update, 10, 1, Position(1, 10, 2, 1))
    part = replace(part, cells={**part.cells, "b": UNSET})
    late = _event(update, 5, 1, Position(1, 5, 3, 1))
    batches = [[_event(insert, 1, 1, Position(1, 1, 1, 1))], [part], [late]]
    rows = _play(make_lake(), Within(50), batches).moments[-1].rows
    assert without_fold == [True, False, False]
    assert (rows[0, 1][0]["a"], rows[0, 1][0]["b"]) == (10, -5)
