"""Any delivery of a feed gives its one history: the laws of `settle`, with all versions kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import model_laws
import pytest
from history_laws import check_altered, check_reload
from hypothesis import given, settings
from hypothesis import strategies as st
from model_laws import MODES, Way, check_changed_lateness, check_feed, check_other_names, check_quarantine
from tries import first_failure, tries

from lakeward.core.dimension import Lateness, Ordered, Unbounded, Within
from lakeward.core.history import reloads
from lakeward.core.history.options import History, Kind, Track
from lakeward.core.history.versions import Versions
from lakeward.core.merge import change_log, settle
from lakeward.core.merge.change_log import BaseRow, Change
from lakeward.core.merge.fold import Row, as_fold_base
from lakeward.core.merge.settling import change_log_entries, folding, table_before
from lakeward.core.merge.settling.arrivals import Arrivals
from lakeward.core.merge.settling.change_log_entries import bases_to_remember, changes_to_remember
from lakeward.core.merge.settling.hold_filter import FilteredEvents
from lakeward.core.merge.settling.table_before import TableBefore
from lakeward.core.merge.settling.verdicts import Verdicts

RANDOMS = st.randoms(use_true_random=False)
thorough = settings(max_examples=tries(40, 200), deadline=None)

WAYS = (
    Way(History()),
    Way(History(track=Track(frozenset({"a"}), but=False))),
    Way(History(kinds={"b": Kind.PREVIOUS}, previous_key=True)),
    Way(History(kinds={"b": Kind.KEEP_FIRST})),
)

FEEDS = 2000
"""How many feeds a broken model gets to betray itself; most need a few."""


Law = Callable[[Random, Lateness, Way], None]

LAWS: Mapping[str, tuple[Law, Sequence[Lateness]]] = {
    "any split into batches, repetition, and order within the lateness give the same history": (check_feed, MODES),
    "a table that is ordered for a while has the same history": (check_changed_lateness, [Within(3), Unbounded()]),
    "copies under other names change no version": (check_other_names, MODES),
    "a repaired quarantine gives the history of the repaired feed": (check_quarantine, MODES),
    "a reload ends missing rows and keeps all versions": (check_reload, MODES),
    "versions that other writers alter hold their keys until they are corrected": (check_altered, MODES),
}


@pytest.mark.parametrize(
    ("law", "lateness"),
    [pytest.param(law, one, id=f"{text}: {one!r}") for text, (law, modes) in LAWS.items() for one in modes],
)
@thorough
@given(random=RANDOMS, way=st.sampled_from(WAYS))
def test_a_law_of_histories_holds(law: Law, lateness: Lateness, random: Random, way: Way) -> None:
    law(random, lateness, way)


def forgets_witnesses(
    before: TableBefore, arrived: Arrivals, passing: FilteredEvents, verdicts: Verdicts
) -> list[Change]:
    """Those that changed nothing when they came: the row was as they say."""
    kept = changes_to_remember(before, arrived, passing, verdicts)
    stored = {key: row.cells for key, row in before.rows.items()}
    return [change for change in kept if stored.get(change.event.key) != change.event.cells]


def without_versions(row: Row) -> Row:
    return replace(row, versions=())


def splices_by_start_alone(stored: Versions, base: Versions, found: Versions) -> Versions:
    return (*(one for one in stored if not base or one.valid_from < base[0].valid_from), *found)


def splices_twice(stored: Versions, base: Versions, found: Versions) -> Versions:
    return (*(one for one in stored if base and one not in found), *found)


def keeps_bases_of_events_alone(before: TableBefore, arrived: Arrivals, passing: FilteredEvents) -> list[BaseRow]:
    keys = {key for event in [*passing.passed, *passing.waiting] for key in event.keys}
    return [base for base in bases_to_remember(before, arrived, passing) if base.key in keys]


def keeps_bases_of_what_waits(before: TableBefore, arrived: Arrivals, passing: FilteredEvents) -> list[BaseRow]:
    """Of versions that break a rule, too."""
    keys = {key for event in [*passing.passed, *passing.waiting] for key in event.keys}
    rows = {key: before.rows.get(key) for key in keys - set(before.bases)}
    return [] if before.is_ordered else [BaseRow(key, row and as_fold_base(row), 0) for key, row in rows.items()]


class Mistake(NamedTuple):
    """A mistake in the attribute `name` of a module or class, and the law that finds it on some feed of many."""

    where: object
    name: str
    broken: Any
    law: Law = check_feed
    lateness: Lateness = Within(3)


MISTAKES: Mapping[str, Mistake] = {
    "witnesses are forgotten": Mistake(settle, "changes_to_remember", forgets_witnesses, lateness=Unbounded()),
    "no base rows are kept": Mistake(settle, "bases_to_remember", lambda *_: []),
    "remembered base rows have no versions": Mistake(change_log_entries, "as_fold_base", without_versions),
    "base rows of a fold have no versions": Mistake(folding, "as_fold_base", without_versions),
    "base rows of a fold have one version": Mistake(
        folding, "as_fold_base", lambda row: replace(row, versions=row.versions[-1:]), lateness=Ordered()
    ),
    "forgotten changes leave base rows without versions": Mistake(change_log, "as_fold_base", without_versions),
    "stored rows are the base": Mistake(
        folding, "rows_before_remembered", model_laws.stored_rows, lateness=Unbounded()
    ),
    "versions are spliced by their start alone": Mistake(folding, "splice_versions", splices_by_start_alone),
    "versions are spliced twice": Mistake(folding, "splice_versions", splices_twice, lateness=Unbounded()),
    "base rows of events alone are kept": Mistake(settle, "bases_to_remember", keeps_bases_of_events_alone),
    "no memory is read": Mistake(folding, "slow_keys", lambda *_: set(), lateness=Unbounded()),
    "what is forgotten is not folded": Mistake(model_laws, "trim", model_laws.forgets_without_folding),
    "rows from before are remembered": Mistake(
        settle, "forget_applied_events", lambda *_: None, check_changed_lateness, Unbounded()
    ),
    "a load ends nothing": Mistake(
        table_before, "rows_before_load", lambda rows, *_, **__: rows, check_reload, Ordered()
    ),
    "a load replaces all": Mistake(table_before, "rows_before_load", lambda *_, **__: {}, check_reload, Ordered()),
    "a load ends all": Mistake(reloads, "_keys", lambda _: set(), check_reload, Ordered()),
    "no violation is seen": Mistake(TableBefore, "violation", lambda *_: None, check_altered),
    "base rows of what waits are kept": Mistake(
        settle, "bases_to_remember", keeps_bases_of_what_waits, check_altered
    ),
}


KNOWN = {"rows from before are remembered": 461}
"""Seeds of feeds that show mistakes which few feeds show."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_broken_model_breaks_a_law_and_the_right_one_does_not(name: str) -> None:
    mistake = MISTAKES[name]

    def play(seed: int) -> None:
        mistake.law(Random(seed), mistake.lateness, WAYS[seed % len(WAYS)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mistake.where, mistake.name, mistake.broken)
        seed = first_failure(play, FEEDS, KNOWN.get(name, 0))
    play(seed)
