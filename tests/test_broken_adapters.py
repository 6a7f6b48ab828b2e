"""The laws can fail: each mistake that an adapter could make is seen by them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from random import Random

import broken_iceberg
import broken_memory
import pytest
from lakes import CRASHES, MemoryLake, Player, pack
from spark import MakeLake

from lakeward.adapters.iceberg.options import TableOptions
from lakeward.adapters.memory import MemoryTable
from lakeward.core.errors import LakewardError

SEEN = (AssertionError, LakewardError)
"""How a law fails: what it finds is another table, or the adapter's own checks stop it."""

HISTORIES = 300


def _law(play: Callable[[int], object]) -> None:
    for seed in range(HISTORIES):
        play(seed)


def _played(seed: int, kind: type[MemoryTable] = MemoryTable, queue: object = None) -> Player:
    random = Random(seed)
    script = pack(random, 2, bad=0.05)
    expected = Player(script, MemoryLake()).play()
    player = Player(script, MemoryLake(kind), expected=expected.moments)
    if queue is not None:
        player.queue = queue
    return player.play(random.sample(CRASHES, len(CRASHES)))


@pytest.mark.parametrize("kind", broken_memory.BROKEN_TABLES, ids=lambda kind: kind.__name__)
def test_a_broken_memory_adapter_breaks_a_law(kind: type[MemoryTable]) -> None:
    with pytest.raises(SEEN):
        _law(lambda seed: _played(seed, kind))


def test_a_queue_that_acknowledges_first_breaks_a_law() -> None:
    with pytest.raises(SEEN):
        _law(lambda seed: _played(seed, queue=broken_memory.AcknowledgesFirst()))


def test_the_same_histories_break_nothing_that_is_whole() -> None:
    """What breaks the adapters above is their being broken."""
    for seed in range(HISTORIES):
        player = _played(seed)
        assert player.promised == [moment.promised for moment in player.expected or ()]


PARTITIONED = TableOptions(partition_by=["truncate(3, a)"])


@pytest.mark.spark
@pytest.mark.parametrize("break_it", broken_iceberg.BREAKS, ids=lambda function: function.__name__)
def test_a_broken_iceberg_adapter_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch, make_lake: MakeLake, break_it: broken_iceberg.Break
) -> None:
    """One script shows them all; whole, it plays to its end (the test after this)."""
    player = _on_iceberg(make_lake)
    break_it(monkeypatch, player)
    crash = broken_iceberg.CRASH.get(break_it)
    with pytest.raises(SEEN):
        player.play(repeat(crash) if crash is not None else ())


@pytest.mark.spark
def test_the_same_script_breaks_no_whole_iceberg_adapter(make_lake: MakeLake) -> None:
    player = _on_iceberg(make_lake).play(broken_iceberg.CRASH.values())
    assert player.crashed == list(broken_iceberg.CRASH.values())
    assert player.promised == [moment.promised for moment in player.expected or ()]


def _on_iceberg(make_lake: MakeLake) -> Player:
    script = pack(Random(7), 25)
    expected = Player(script, MemoryLake()).play()
    return Player(script, make_lake(PARTITIONED), expected=expected.moments)
