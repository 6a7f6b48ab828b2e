"""The laws can fail: each mistake that an adapter could make is seen by them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product, repeat
from random import Random

import broken_iceberg
import broken_memory
import pytest
from lakes import CRASHES, Lake, MemoryLake, Player, Script, pack, pack_late
from spark import MakeLake

from lakeward.adapters.iceberg.options import TableOptions
from lakeward.adapters.memory import MemoryTable
from lakeward.core.dimension import Within
from lakeward.core.errors import LakewardError

SEEN = (AssertionError, LakewardError)
"""How a law fails: what it finds is another table, or the adapter's own checks stop it."""

HISTORIES = 300


def _law(play: Callable[[int], object]) -> None:
    for seed in range(HISTORIES):
        play(seed)


def _played_late(seed: int, kind: type[MemoryTable] = MemoryTable) -> Player:
    return _compared(pack_late(Random(seed), 2, Within(3)), MemoryLake(kind))


def _played_with_unset(seed: int, kind: type[MemoryTable] = MemoryTable) -> Player:
    return _compared(pack(Random(seed), 2, unset=True), MemoryLake(kind))


def _compared(script: Script, lake: Lake) -> Player:
    expected = Player(script, MemoryLake()).play()
    return Player(script, lake, expected=expected.moments).play()


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


def test_memory_that_forgets_deletes_above_the_mark_breaks_a_law() -> None:
    with pytest.raises(SEEN):
        _law(lambda seed: _played_late(seed, broken_memory.ForgetsDeletesAboveTheMark))


def test_memory_that_nulls_what_was_not_sent_breaks_a_law() -> None:
    with pytest.raises(SEEN):
        _law(lambda seed: _played_with_unset(seed, broken_memory.NullsWhatWasNotSent))


@pytest.mark.parametrize("kind", broken_memory.MISTAKES_WITH_MENDED_ROWS, ids=lambda kind: kind.__name__)
def test_a_memory_adapter_that_mends_wrongly_breaks_the_law_of_quarantine(kind: type[MemoryTable]) -> None:
    with pytest.raises(SEEN):
        _law(lambda seed: _mended(seed, kind))


def test_the_same_mended_histories_break_nothing_that_is_whole() -> None:
    """What breaks the adapters above is their being broken."""
    _law(_mended)


def _mended(seed: int, kind: type[MemoryTable] = MemoryTable) -> None:
    script = pack(Random(seed), 2, bad=0.1, fixed=0.6)
    assert Player(script, MemoryLake(kind)).play().moments[-1].rows == script.truth


def test_a_queue_that_acknowledges_first_breaks_a_law() -> None:
    with pytest.raises(SEEN):
        _law(lambda seed: _played(seed, queue=broken_memory.AcknowledgesFirst()))


def test_the_same_histories_break_nothing_that_is_whole() -> None:
    """What breaks the adapters above is their being broken."""
    for play, seed in product((_played, _played_late, _played_with_unset), range(HISTORIES)):
        player = play(seed)
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


@pytest.mark.spark
@pytest.mark.parametrize(
    "break_it", broken_iceberg.MISTAKES_WITH_MENDED_ROWS, ids=lambda function: function.__name__
)
def test_an_iceberg_adapter_that_mends_wrongly_breaks_the_law_of_quarantine(
    monkeypatch: pytest.MonkeyPatch, make_lake: MakeLake, break_it: broken_iceberg.Break
) -> None:
    """One script shows them all; whole, it plays to its end (the test after this)."""
    player = _mended_on_iceberg(make_lake)
    break_it(monkeypatch, player)
    with pytest.raises(SEEN):
        player.play()


@pytest.mark.spark
def test_the_same_mended_rows_break_no_whole_iceberg_adapter(make_lake: MakeLake) -> None:
    _mended_on_iceberg(make_lake).play()


def _mended_on_iceberg(make_lake: MakeLake) -> Player:
    return _on_iceberg(make_lake, pack(Random(8), 4, bad=0.1, fixed=0.8))


def _on_iceberg(make_lake: MakeLake, script: Script | None = None) -> Player:
    script = script or pack(Random(7), 25)
    expected = Player(script, MemoryLake()).play()
    return Player(script, make_lake(PARTITIONED), expected=expected.moments)


@pytest.mark.spark
@pytest.mark.parametrize("break_it", broken_iceberg.LATE_BREAKS, ids=lambda function: function.__name__)
def test_a_broken_iceberg_adapter_breaks_a_law_of_lateness(
    monkeypatch: pytest.MonkeyPatch, make_lake: MakeLake, break_it: broken_iceberg.Break
) -> None:
    player = _late_on_iceberg(make_lake)
    break_it(monkeypatch, player)
    with pytest.raises(SEEN):
        player.play()


@pytest.mark.spark
def test_the_same_late_script_breaks_no_whole_iceberg_adapter(make_lake: MakeLake) -> None:
    player = _late_on_iceberg(make_lake).play()
    assert player.promised == [moment.promised for moment in player.expected or ()]


@pytest.mark.spark
@pytest.mark.parametrize("break_it", broken_iceberg.PART_BREAKS, ids=lambda function: function.__name__)
def test_a_broken_iceberg_adapter_breaks_a_law_of_rows_in_part(
    monkeypatch: pytest.MonkeyPatch, make_lake: MakeLake, break_it: broken_iceberg.Break
) -> None:
    player = _in_part_on_iceberg(make_lake)
    break_it(monkeypatch, player)
    with pytest.raises(SEEN):
        player.play()


@pytest.mark.spark
def test_the_same_rows_in_part_break_no_whole_iceberg_adapter(make_lake: MakeLake) -> None:
    player = _in_part_on_iceberg(make_lake).play()
    assert player.promised == [moment.promised for moment in player.expected or ()]


def _in_part_on_iceberg(make_lake: MakeLake) -> Player:
    script = pack_late(Random(5), 5, Within(3), bad=0.04, in_part=True)
    expected = Player(script, MemoryLake()).play()
    return Player(script, make_lake(), expected=expected.moments)


def _late_on_iceberg(make_lake: MakeLake) -> Player:
    script = pack_late(Random(26), 4, Within(3), too_late=True)
    expected = Player(script, MemoryLake()).play()
    return Player(script, make_lake(), expected=expected.moments)
