"""Each law of the kit fails on broken tables of each format, and a test checks that none is left out.

Mistakes are made at the ports of a table, so that each is written once for all formats
(`broken_tables.py`). Some break how Spark resolves large batches, and are tried that way. Those of
`broken_small.py` break how the core resolves small batches. `test_broken_adapters.py` has the mistakes of single
formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import broken_memory
import broken_small
import contested
import pytest
from broken_ports import AnyTable, bench_of
from broken_tables import BY_LAW, DRAWS, DRAWS_OF, Draw
from law_sets import FEW_HISTORIES, IN_RANDOM_LAWS, TRIMMED
from resolution_switches import use_spark

from lakeward.adapters.formats.delta.table import DeltaTable
from lakeward.adapters.formats.hudi.table import HudiTable
from lakeward.adapters.formats.iceberg.table import IcebergTable
from lakeward.adapters.formats.shared.change_log import retention
from lakeward.core.errors import LakewardError
from lakeward.core.merge.facts import Capability
from lakeward.plugins.testing import LAWS, Bench, Law
from lakeward.plugins.testing.bench import COLUMNS, FOREIGN, Trial

SEEN = (AssertionError, LakewardError)
"""How a law fails: its table differs, or a check of the adapter stops it."""

MAKERS = {"iceberg": "make_lake", "delta": "make_delta", "hudi": "make_hudi"}
CAN: Mapping[str, frozenset[Capability]] = {
    "iceberg": IcebergTable.capabilities,
    "delta": DeltaTable.capabilities,
    "hudi": HudiTable.capabilities,
}
LAW = {law.name: law for law in LAWS}


def _run_on(kind: str) -> Sequence[str]:
    """Return the names of the laws that run on a format."""
    can = frozenset({capability.value for capability in CAN[kind]} | {FOREIGN, COLUMNS})
    return [law.name for law in LAWS if not law.closed_by(can)]


def _broken(kind: str) -> Sequence[tuple[str, type[AnyTable]]]:
    """Return the laws that run on a format, each with a mistake that must break it."""
    return [(name, mistake) for name in _run_on(kind) for mistake in BY_LAW.get(name, ())]


def _is_of_formats(mistake: type[AnyTable]) -> bool:
    """Return True for a mistake in code of the formats or in the plan, which the reference adapter does not use."""
    return "spoil" in vars(mistake) or mistake.change_plan is not AnyTable.change_plan


def _is_of_spark(mistake: type[AnyTable]) -> bool:
    """Return True for a mistake that only shows if Spark resolves the batches."""
    return mistake.by_spark or "spoil" in vars(mistake)


def _draws(name: str, mistake: type[AnyTable] | None = None) -> Draw:
    """Return the draw on which a law shows a mistake, or the default one."""
    found = DRAWS.get(name, Draw())
    return found if mistake is None else DRAWS_OF.get(mistake, found)


def _try(law: Law, bench: Callable[[Draw], Bench], draw: Draw) -> None:
    """Try a law once, on a draw that shows what breaks it."""
    cases: Sequence[Any] = [law.cases[draw.case]] if draw.case else [*law.cases.values()] or [None]

    def make() -> Bench:
        return bench(draw)

    law.check(Trial(law=law, make=make, bench=make(), random=Random(draw.seed), case=cases[0]))


def _of_memory(mistake: type[AnyTable]) -> Callable[[Draw], Bench]:
    def bench(draw: Draw) -> Bench:
        whole = contested.bench()
        return bench_of(whole.lake, mistake, draw.histories, whole.foreign)

    return bench


@pytest.mark.parametrize("kind", MAKERS)
def test_every_law_of_a_format_has_a_mistake_that_it_shows(kind: str) -> None:
    lacking = sorted(set(_run_on(kind)) - {name for name, _ in _broken(kind)})
    assert not lacking, f"{kind}: of these laws no broken table shows that they can fail: {', '.join(lacking)}"


def test_tables_of_mistakes_and_draws_name_laws() -> None:
    assert {*BY_LAW, *DRAWS, *TRIMMED} <= {*LAW}


@pytest.mark.parametrize(
    ("name", "draw"),
    [(name, _draws(name)) for name in LAW]
    + [(name, DRAWS_OF[mistake]) for name, all_ in BY_LAW.items() for mistake in all_ if mistake in DRAWS_OF],
)
def test_the_same_draws_break_no_correct_table(name: str, draw: Draw) -> None:
    """So the tables below fail for their mistakes, and not for their few histories."""
    _try(LAW[name], _of_memory(AnyTable), draw)


@pytest.mark.parametrize(
    ("name", "mistake"),
    [(name, mistake) for name, mistakes in BY_LAW.items() for mistake in mistakes if not _is_of_formats(mistake)],
)
def test_a_mistake_of_any_format_breaks_its_law_in_memory(name: str, mistake: type[AnyTable]) -> None:
    with pytest.raises(SEEN):
        _try(LAW[name], _of_memory(mistake), _draws(name, mistake))


RANDOM: Mapping[str, str | None] = {
    "any_delivery_gives_the_rows_of_the_source": None,
    "a_crash_at_any_step_changes_nothing": None,
    "a_reload_of_partial_rows_leaves_only_the_new_epoch": None,
    "any_sequence_of_moves_matches_the_reference_adapter": None,
    "partial_rows_and_key_changes_give_the_rows_of_the_source": "within",
}
"""Laws on random histories, with a case, that the gate runs on Spark as one try on many histories."""


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        (name, mistake)
        for name in sorted(IN_RANDOM_LAWS)
        for mistake in (*broken_memory.BY_LAW.get(name, ()), *BY_LAW[name])
        if not (issubclass(mistake, AnyTable) and _is_of_formats(mistake))
    ],
)
def test_a_mistake_that_breaks_a_small_law_breaks_one_on_random_histories(name: str, mistake: type[Any]) -> None:
    """So the gate runs the small law on the reference adapter, and a law on random histories on each format."""

    def bench(draw: Draw) -> Bench:
        if issubclass(mistake, AnyTable):
            return _of_memory(mistake)(draw)
        return contested.bench(mistake, histories=draw.histories)

    def is_broken(law: str, case: str | None) -> bool:
        try:
            _try(LAW[law], bench, Draw(FEW_HISTORIES, 0, case))
        except SEEN:
            return True
        return False

    assert any(is_broken(law, case) for law, case in RANDOM.items())


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "name", "mistake"),
    [
        pytest.param(kind, name, mistake, marks=[pytest.mark.hudi] if kind == "hudi" else [])
        for kind in MAKERS
        for name, mistake in _broken(kind)
    ],
)
def test_a_broken_table_breaks_its_law(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, mistake: type[AnyTable]
) -> None:
    if _is_of_spark(mistake):
        use_spark(monkeypatch)
    _break(request, monkeypatch, kind, name, mistake, _draws(name, mistake))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        pytest.param(name, mistake, marks=[pytest.mark.long] if mistake in broken_small.LONG else [])
        for name, mistakes in broken_small.BY_LAW.items()
        for mistake in mistakes
    ],
)
def test_a_broken_way_of_small_batches_breaks_its_law(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, name: str, mistake: type[AnyTable]
) -> None:
    """Small batches are resolved by the same code on all formats."""
    _break(request, monkeypatch, "iceberg", name, mistake, broken_small.DRAWS.get(mistake, _draws(name)))


def _break(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    name: str,
    mistake: type[AnyTable],
    draw: Draw,
) -> None:
    """Try a law on broken tables of a format, and see that it fails."""
    make = request.getfixturevalue(MAKERS[kind])
    mistake.spoil(monkeypatch)
    if name in TRIMMED:
        monkeypatch.setattr(retention, "_TRIM_EVERY", 1)

    def bench(draw: Draw) -> Bench:
        lake = make()
        return bench_of(lake, mistake, draw.histories, lake.commit_as_another_writer)

    with pytest.raises(SEEN) as seen:
        _try(LAW[name], bench, draw)
    print(str(seen.value).splitlines()[:3])
