"""The laws can fail: they fail on each mistake of these tables.

`test_broken_formats.py` has the mistakes that a table of any format could make, for each law of the kit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import repeat
from random import Random
from typing import Any, TypeAlias

import broken_corpus
import broken_delta
import broken_feeds
import broken_hudi
import broken_iceberg
import broken_images
import broken_memory
import broken_memory_versions
import broken_tables
import broken_upkeep
import contested
import pytest
from broken_ports import AnyTable, bench_of
from hudi_lake import EVERY_COMMIT
from mutations import Break
from spark import MakeLake

from lakeward.adapters.formats.hudi.options import TableOptions as HudiOptions
from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.adapters.formats.shared.change_log import retention
from lakeward.adapters.memory import MemoryTable
from lakeward.core.dimension import Dimension, Unbounded, Within
from lakeward.core.errors import LakewardError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import Capability
from lakeward.plugins.testing import LAWS, Bench, Law, try_law
from lakeward.plugins.testing.bench import COLUMNS, Trial
from lakeward.plugins.testing.laws.tables import state_machine
from lakeward.plugins.testing.player import MemoryLake, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, Item, Script, pack, pack_late

SEEN = (AssertionError, LakewardError)
"""How a law fails: its table differs, or a check of the adapter stops it."""

HISTORIES = 100
"""The number of tries of a law. It is enough to show each mistake of the reference adapter."""

Mistake: TypeAlias = type[MemoryTable] | type[AnyTable]

BY_LAW: Mapping[str, Sequence[Mistake]] = {
    **broken_memory.BY_LAW,
    **broken_corpus.BY_LAW,
    **broken_images.BY_LAW,
    **broken_memory_versions.BY_LAW,
}


def _parts_of_loaded_rows() -> Script:
    """Return three batches: a full load, a partial update of a row, and an older one that comes late."""

    def event(operation: Operation, place: Position, **cells: object) -> ChangeEvent:
        at = None if place.sequence == LOAD_SEQUENCE else place.sequence
        return ChangeEvent(operation=operation, position=place, key=(0, 1), cells={**KEY, **cells}, time=at)

    load = event(Operation.READ, Position(1, LOAD_SEQUENCE, 1, 1), a=1, b=2)
    part = event(Operation.UPDATE, Position(1, 3, 3, 1), a=UNSET, b=20)
    late = event(Operation.UPDATE, Position(1, 2, 2, 1), a=10, b=UNSET)
    dimension = Dimension(name=NAME, schema=PACKED, key=tuple(KEY), lateness=Within(3))
    return Script(dimension, [[load], [part], [late]], [load, late, part], in_part=True)


def _undecided_key_changes() -> Script:
    """Return undecided key changes: one in time, and one that waits until a truncate ends its hold."""

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
    "undecided": _undecided_key_changes,
    "late and bad": lambda: pack_late(Random(3), 4, Within(3), too_late=True, bad=0.2),
    "mended": lambda: pack(Random(8), 4, bad=0.1, fixed=0.8),
}
"""Scripts by name. Each shows all of its mistakes."""


@cache
def _whole(name: str) -> Player:
    """Return a player of the correct reference adapter after a script without crashes."""
    return Player(OF_ICEBERG[name](), MemoryLake()).play()


def test_a_queue_that_acknowledges_before_the_commit_loses_rows() -> None:
    """A crash before the commit then loses the notice."""
    script, crashes = _whole("in order").script, repeat(("commit", "before"))
    assert Player(script, MemoryLake()).play(crashes).moments[-1].rows == script.truth
    player = Player(script, MemoryLake(), broken_memory.AcknowledgesFirst()).play(crashes)
    assert player.moments[-1].rows != script.truth


@pytest.mark.parametrize(
    ("name", "mistake"),
    [(name, mistake) for name, mistakes in BY_LAW.items() for mistake in mistakes],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_law_of_the_kit_fails_on_each_of_its_mistakes(name: str, mistake: Mistake) -> None:
    """At least one case of the law fails. `test_broken_formats.py` has the mistakes of any format."""
    (law,) = [law for law in LAWS if law.name == name]
    with pytest.raises(SEEN):
        _try_each_case(law, mistake)


def _try_each_case(law: Law, mistake: Mistake) -> None:
    # As on a slow table, the shortest sequence of moves that fails is not looked for: that one does is enough.
    packed = 2 if law is state_machine.LAW else None
    for case in law.cases.values() or [None]:
        try_law(law, lambda: _bench(mistake, histories=packed), case)


def _bench(mistake: Mistake, histories: int | None = None, *, alone: bool = False) -> Bench:
    """Return a bench of the reference adapter with a mistake; `alone`: of one that only keeps histories."""
    if issubclass(mistake, AnyTable):
        bench = contested.bench(broken_memory.KeepsHistoriesAlone if alone else contested.Contested)
        return replace(bench_of(bench.lake, mistake, histories, bench.foreign), examples=HISTORIES)
    kind = type(mistake.__name__, (broken_memory.KeepsHistoriesAlone, mistake), {}) if alone else mistake
    return contested.bench(kind, examples=HISTORIES, histories=histories)


ALONE = frozenset({Capability.HISTORY.value})
(HISTORIES_LAW,) = [law for law in LAWS if law.name == "any_order_and_any_crash_give_the_same_history"]
OPEN_ALONE = [way for way in HISTORIES_LAW.cases if not HISTORIES_LAW.closed_by(ALONE, way)]


def test_these_cases_are_open_to_a_table_that_only_keeps_histories() -> None:
    assert OPEN_ALONE == ["by the day of the run", "by the day of a late run"]


@pytest.mark.parametrize("mistake", [*BY_LAW[HISTORIES_LAW.name], broken_feeds.LosesTheLastEvent])
@pytest.mark.parametrize("way", OPEN_ALONE)
def test_a_table_that_only_keeps_histories_is_held_to_them(way: str, mistake: Mistake) -> None:
    def bench() -> Bench:
        return replace(_bench(mistake, 2, alone=True), foreign=None)

    assert bench().can == {*ALONE, COLUMNS}
    with pytest.raises(SEEN):
        try_law(HISTORIES_LAW, bench, HISTORIES_LAW.cases[way])


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
def test_laws_of_histories_hold_without_partial_rows_and_truncates(law: Law, case: str | None) -> None:
    kind = broken_memory.KeepsHistoriesWithoutParts
    try_law(law, lambda: Bench(lake=MemoryLake(kind)), None if case is None else law.cases[case])


def test_every_law_of_the_kit_has_a_mistake_that_it_shows() -> None:
    """On the reference adapter, or on a table of any format."""
    assert {*BY_LAW} | {*broken_tables.BY_LAW} == {law.name for law in LAWS}
    assert all([*BY_LAW.values(), *broken_tables.BY_LAW.values()])


IN_THE_GATE = ("in order", "late", "in part")
"""Scripts with which the gate tries one mistake of the Iceberg adapter. The others take long."""


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
    monkeypatch: pytest.MonkeyPatch, make_lake: MakeLake, name: str, break_it: Break
) -> None:
    player = _on_iceberg(make_lake, name)
    break_it(monkeypatch)
    crash = broken_iceberg.CRASH.get(break_it)
    with pytest.raises(SEEN):
        player.play(() if crash is None else repeat(crash))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("make", "break_it", "options"),
    [
        *[
            pytest.param("make_delta", *one, marks=[pytest.mark.long] if one[0] in broken_delta.LONG else [])
            for one in broken_delta.BROKEN.items()
        ],
        *[pytest.param("make_hudi", *mistake, marks=pytest.mark.hudi) for mistake in broken_hudi.BROKEN.items()],
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_delta_or_hudi_adapter_breaks_a_law(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    make: str,
    break_it: Break,
    options: object,
) -> None:
    """Mistakes in code of one format alone."""
    whole, make_lake = _whole("in order"), request.getfixturevalue(make)
    break_it(monkeypatch)
    with pytest.raises(SEEN):
        Player(whole.script, make_lake(options), expected=whole.moments).play()


OTHERS_ARE_LONG = {"iceberg": [], "delta": [pytest.mark.long], "hudi": [pytest.mark.long, pytest.mark.hudi]}
"""The gate tries these mistakes on one format."""


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
    break_it: Break,
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
def test_the_same_script_breaks_no_correct_iceberg_adapter(make_lake: MakeLake, name: str) -> None:
    player = _on_iceberg(make_lake, name).play(broken_iceberg.CRASH.values())
    assert player.crashed == list(broken_iceberg.CRASH.values())
    assert player.promised == _whole(name).promised


def _on_iceberg(make_lake: MakeLake, name: str) -> Player:
    whole = _whole(name)
    layout = TableOptions(partition_by=["truncate(3, a)"]) if name == "in order" else TableOptions()
    return Player(whole.script, make_lake(layout), expected=whole.moments)
