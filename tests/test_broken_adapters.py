"""The laws can fail: each mistake that an adapter could make is seen by them.

Those that a table of any format could make alike are in `test_broken_formats.py`, for each law of the kit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import repeat
from random import Random
from typing import Any

import broken_beliefs
import broken_corpus
import broken_delta
import broken_hudi
import broken_iceberg
import broken_images
import broken_memory
import broken_numbers
import broken_upkeep
import contested
import pytest
from delta_lake import LakeOfDelta
from hudi_lake import EVERY_COMMIT, LakeOfHudi
from spark import MakeLake

from lakeward.adapters.formats.delta.options import TableOptions as DeltaOptions
from lakeward.adapters.formats.hudi.options import TableOptions as HudiOptions
from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.adapters.formats.shared.change_log import retention
from lakeward.adapters.memory import MemoryQueue, MemoryTable
from lakeward.core.dimension import Dimension, Unbounded, Within
from lakeward.core.errors import LakewardError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import Capability
from lakeward.plugins.testing import LAWS, Bench, Law, try_law
from lakeward.plugins.testing.bench import COLUMNS, Trial
from lakeward.plugins.testing.laws.tables import state_machine
from lakeward.plugins.testing.player import CRASHES, MemoryLake, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, Item, Script, pack, pack_late, pack_reloaded

SEEN = (AssertionError, LakewardError)
"""How a law fails: what it finds is another table, or the adapter's own checks stop it."""

HISTORIES = 100
"""So many show each mistake of the reference adapter."""

BY_LAW = {
    **broken_memory.BY_LAW,
    **broken_corpus.BY_LAW,
    **broken_beliefs.BY_LAW,
    **broken_images.BY_LAW,
    **broken_numbers.BY_LAW,
}

OF_MEMORY: Mapping[str, Callable[[Random], Script]] = {
    "in order": lambda random: pack(random, 2, bad=0.05),
    "late": lambda random: pack_late(random, 2, Within(3)),
    "in part": lambda random: pack(random, 2, unset=True),
    "truncated": lambda random: pack(random, 2, truncates=True),
    "mended": lambda random: pack(random, 2, bad=0.1, fixed=0.6),
    "other names": lambda random: pack_late(random, 2, Within(3), renamed=0.5),
    "reloaded": lambda random: pack_reloaded(random, pack_late(random, 2, Within(3), bad=0.1), 2, bad=0.1),
    "mended in part": lambda random: pack_late(random, 2, Unbounded(), bad=0.1, fixed=0.6, in_part=True),
}
"""Scripts by the mistakes that they show; each mistake is shown by one of many."""


def _parts_of_loaded_rows() -> Script:
    """Return a full load, a part of one of its rows, and an older one that comes later, in a batch each."""

    def event(operation: Operation, place: Position, **cells: object) -> ChangeEvent:
        at = None if place.sequence == LOAD_SEQUENCE else place.sequence
        return ChangeEvent(operation=operation, position=place, key=(0, 1), cells={**KEY, **cells}, time=at)

    load = event(Operation.READ, Position(1, LOAD_SEQUENCE, 1, 1), a=1, b=2)
    part = event(Operation.UPDATE, Position(1, 3, 3, 1), a=UNSET, b=20)
    late = event(Operation.UPDATE, Position(1, 2, 2, 1), a=10, b=UNSET)
    dimension = Dimension(name=NAME, schema=PACKED, key=tuple(KEY), lateness=Within(3))
    return Script(dimension, [[load], [part], [late]], [load, late, part], in_part=True)


def _undecided() -> Script:
    """Return key changes that no rule decides: one in time, and one that waits until a truncate lifts it."""

    def event(operation: Operation, at: int, row: int, key: int, **more: Any) -> ChangeEvent:
        cells = {"h": 0, "id": key, "a": at, "b": more.pop("b", at)}
        return ChangeEvent(
            operation=operation, position=Position(1, at, at, row), key=(0, key), cells=cells, time=at, **more
        )

    def onto_two(at: int) -> list[ChangeEvent]:
        move = event(Operation.UPDATE, at, 1, 2, old_key=(0, 1))
        return [move, event(Operation.UPDATE, at, 2, 2, b=UNSET)]

    rows = [event(Operation.INSERT, 1, row, row) for row in (1, 2)]
    bad = Reject(Position(1, 3, 3, 1), Reason.CAST, ((0, 1),), time=3)
    truncate = ChangeEvent(operation=Operation.TRUNCATE, position=Position(1, 6, 6, 1), time=6)
    deliveries: list[list[Item]] = [rows, onto_two(2), [bad], [*onto_two(4), event(Operation.UPDATE, 5, 1, 2)]]
    dimension = Dimension(name=NAME, schema=PACKED, key=tuple(KEY), lateness=Unbounded())
    return Script(dimension, [*deliveries, [truncate]], [], in_part=True)


KEY = {"h": 0, "id": 1}


OF_ICEBERG: Mapping[str, Callable[[], Script]] = {
    "in order": lambda: pack(Random(7), 25),
    "late": lambda: pack_late(Random(26), 4, Within(3), too_late=True),
    "in part": lambda: pack_late(Random(5), 5, Within(3), bad=0.04, in_part=True),
    "parts of loaded rows": _parts_of_loaded_rows,
    "truncated": lambda: pack_late(Random(45), 6, Within(3), truncates=True),
    "undecided": _undecided,
    "late and bad": lambda: pack_late(Random(3), 4, Within(3), too_late=True, bad=0.2),
    "mended": lambda: pack(Random(8), 4, bad=0.1, fixed=0.8),
    "other names": lambda: pack_late(Random(33), 3, Within(3), renamed=0.5),
    "reloaded": lambda: pack_reloaded(Random(2), pack_late(Random(1), 3, Within(3), bad=0.1), 2, bad=0.1),
}
"""One script each, which shows all its mistakes."""


@cache
def _whole(name: str, seed: int | None = None) -> Player:
    """Return what the whole memory adapter makes of a script, without a crash."""
    script = OF_ICEBERG[name]() if seed is None else OF_MEMORY[name](Random(seed))
    return Player(script, MemoryLake()).play()


def _are_right(name: str, lake: Callable[[], MemoryLake], queue: Callable[[], MemoryQueue] = MemoryQueue) -> bool:
    """Whether adapters that crash on the way end with the true rows; fails at what a whole one does not show."""
    for seed in range(HISTORIES):
        whole = _whole(name, seed)
        crashes = Random(seed).sample(CRASHES, len(CRASHES))
        player = Player(whole.script, lake(), queue(), expected=whole.moments).play(crashes)
        if player.moments[-1].rows != whole.script.truth:
            return False
    return True


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name, kinds in broken_memory.BROKEN.items() for kind in kinds],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_memory_adapter_breaks_a_law(name: str, kind: type[MemoryTable]) -> None:
    with pytest.raises(SEEN):
        assert _are_right(name, lambda: MemoryLake(kind))


def test_a_queue_that_acknowledges_first_breaks_a_law() -> None:
    with pytest.raises(SEEN):
        assert _are_right("in order", MemoryLake, broken_memory.AcknowledgesFirst)


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name, kinds in BY_LAW.items() for kind in kinds],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_law_of_the_kit_fails_on_what_it_is_there_to_show(name: str, kind: type[MemoryTable]) -> None:
    """In one of its cases, where it has some."""
    (law,) = [law for law in LAWS if law.name == name]
    with pytest.raises(SEEN):
        _try_each_case(law, kind)


def _try_each_case(law: Law, kind: type[MemoryTable]) -> None:
    # As on a slow table, the shortest play that fails is not looked for: that one does is enough.
    packed = 2 if law is state_machine.LAW else None
    for case in law.cases.values() or [None]:
        try_law(law, lambda: contested.bench(kind, examples=HISTORIES, histories=packed), case)


ALONE = frozenset({Capability.HISTORY.value})
(HISTORIES_LAW,) = [law for law in LAWS if law.name == "any_order_and_any_crash_give_the_one_history"]
OPEN_ALONE = [way for way in HISTORIES_LAW.cases if not HISTORIES_LAW.closed_by(ALONE, way)]


def test_ways_to_keep_histories_are_open_to_a_table_that_can_do_nothing_beside() -> None:
    assert OPEN_ALONE == ["by the day of the run", "by the day of a late run"]


@pytest.mark.parametrize("mistake", BY_LAW[HISTORIES_LAW.name])
@pytest.mark.parametrize("way", OPEN_ALONE)
def test_a_table_that_keeps_histories_alone_is_held_to_them(way: str, mistake: type[MemoryTable]) -> None:
    kind = type(mistake.__name__, (broken_memory.KeepsHistoriesAlone, mistake), {})
    assert Bench(lake=MemoryLake(kind)).can == {*ALONE, COLUMNS}
    with pytest.raises(SEEN):
        try_law(
            HISTORIES_LAW,
            lambda: Bench(lake=MemoryLake(kind), examples=HISTORIES, histories=2),
            HISTORIES_LAW.cases[way],
        )


@pytest.mark.parametrize(
    ("law", "case"),
    [
        (law, case)
        for law in LAWS
        if law.needs >= ALONE
        for case in law.cases or [None]
        if not law.closed_by(broken_memory.KeepsHistoriesWithoutParts.CAN, case)
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_laws_of_histories_hold_where_rows_are_whole_and_nothing_is_truncated(law: Law, case: str | None) -> None:
    kind = broken_memory.KeepsHistoriesWithoutParts
    try_law(law, lambda: Bench(lake=MemoryLake(kind)), None if case is None else law.cases[case])


def test_every_law_of_the_kit_is_shown_to_fail() -> None:
    assert sorted(BY_LAW) == sorted(law.name for law in LAWS)
    assert all(BY_LAW.values())


@pytest.mark.parametrize("name", OF_MEMORY)
def test_the_same_scripts_break_no_whole_memory_adapter(name: str) -> None:
    """What breaks the adapters above is their being broken; and a whole one is right."""
    assert _are_right(name, MemoryLake)


IN_THE_GATE = ("in order", "late", "in part", "reloaded")
"""Scripts of which the gate breaks the adapter of Iceberg once; the others take long."""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "break_it"),
    [
        pytest.param(name, break_it, marks=[pytest.mark.long] if place or name not in IN_THE_GATE else [])
        for name, breaks in broken_iceberg.BROKEN.items()
        for place, break_it in enumerate(breaks)
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_iceberg_adapter_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch, make_lake: MakeLake, name: str, break_it: broken_iceberg.Break
) -> None:
    player = _on_iceberg(make_lake, name)
    break_it(monkeypatch, player)
    crash = broken_iceberg.CRASH.get(break_it)
    with pytest.raises(SEEN):
        player.play(() if crash is None else repeat(crash))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "break_it", "options"), broken_delta.BROKEN, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_broken_delta_adapter_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch,
    make_delta: Callable[..., LakeOfDelta],
    name: str,
    break_it: broken_delta.Break,
    options: DeltaOptions,
) -> None:
    """In what is Delta's own; what formats share is broken above."""
    whole = _whole(name)
    break_it(monkeypatch)
    with pytest.raises(SEEN):
        Player(whole.script, make_delta(options), expected=whole.moments).play()


@pytest.mark.spark
@pytest.mark.hudi
@pytest.mark.parametrize(
    ("name", "break_it", "options"), broken_hudi.BROKEN, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_broken_hudi_adapter_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch,
    make_hudi: Callable[..., LakeOfHudi],
    name: str,
    break_it: broken_hudi.Break,
    options: HudiOptions,
) -> None:
    """In what is Hudi's own; what formats share is broken above."""
    whole = _whole(name)
    break_it(monkeypatch)
    with pytest.raises(SEEN):
        Player(whole.script, make_hudi(options), expected=whole.moments).play()


OTHERS_ARE_LONG = {"iceberg": [], "delta": [pytest.mark.long], "hudi": [pytest.mark.long, pytest.mark.hudi]}
"""The gate sees on one format that these mistakes are seen."""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "name", "break_it"),
    [
        pytest.param(kind, name, break_it, marks=[*OTHERS_ARE_LONG[kind], *([pytest.mark.long] if place else [])])
        for kind, laws in broken_upkeep.BROKEN.items()
        for name, breaks in laws.items()
        for place, break_it in enumerate(breaks)
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_rollback_or_maintenance_breaks_its_law(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    kind: str,
    name: str,
    break_it: broken_upkeep.Break,
) -> None:
    make = request.getfixturevalue({"iceberg": "make_lake", "delta": "make_delta", "hudi": "make_hudi"}[kind])
    options = HudiOptions(properties=EVERY_COMMIT) if kind == "hudi" else None
    monkeypatch.setattr(retention, "_TRIM_EVERY", 1)
    break_it(monkeypatch)
    (law,) = [law for law in LAWS if law.name == name]

    def bench() -> Bench:
        return Bench(lake=make(options), histories=20)

    with pytest.raises(SEEN):
        law.check(Trial(law=law, make=bench, bench=bench(), random=Random(broken_upkeep.SEED)))


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("name", OF_ICEBERG)
def test_the_same_script_breaks_no_whole_iceberg_adapter(make_lake: MakeLake, name: str) -> None:
    player = _on_iceberg(make_lake, name).play(broken_iceberg.CRASH.values())
    assert player.crashed == list(broken_iceberg.CRASH.values())
    assert player.promised == _whole(name).promised


def _on_iceberg(make_lake: MakeLake, name: str) -> Player:
    whole = _whole(name)
    layout = TableOptions(partition_by=["truncate(3, a)"]) if name == "in order" else TableOptions()
    return Player(whole.script, make_lake(layout), expected=whole.moments)
