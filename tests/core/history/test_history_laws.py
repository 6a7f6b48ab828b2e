"""Any delivery of a feed gives its one history: the laws of `settle`, with all versions kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import model_laws
import pytest
from history_laws import check_altered, check_reload
from hypothesis import given, settings
from hypothesis import strategies as st
from model_laws import MODES, Way, check_changed_lateness, check_feed, check_other_names, check_quarantine
from tries import tries

from lakeward.core.dimension import Dimension, Lateness, Ordered, Unbounded, Within
from lakeward.core.events import Key
from lakeward.core.history import reloads
from lakeward.core.history.options import History, Kind, Track
from lakeward.core.history.versions import Versions
from lakeward.core.merge import change_log, settle
from lakeward.core.merge.change_log import BaseRow, Change, ChangeLogContents
from lakeward.core.merge.fold import Row, as_fold_base
from lakeward.core.merge.settling import change_log_entries, folding, table_before
from lakeward.core.merge.settling.arrivals import Arrivals
from lakeward.core.merge.settling.change_log_entries import bases_to_remember, changes_to_remember
from lakeward.core.merge.settling.folding import Links
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


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS, way=st.sampled_from(WAYS))
def test_any_delivery_gives_the_same_history(lateness: Lateness, random: Random, way: Way) -> None:
    """Batching, idempotence and lateness: any split, any repetition, any order within the lateness."""
    check_feed(random, lateness, way)


@pytest.mark.parametrize("lateness", [Within(3), Unbounded()], ids=repr)
@thorough
@given(random=RANDOMS, way=st.sampled_from(WAYS))
def test_a_table_that_is_ordered_for_a_while_has_the_same_history(
    lateness: Lateness, random: Random, way: Way
) -> None:
    check_changed_lateness(random, lateness, way)


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS, way=st.sampled_from(WAYS))
def test_copies_under_other_names_change_no_version(lateness: Lateness, random: Random, way: Way) -> None:
    check_other_names(random, lateness, way)


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS, way=st.sampled_from(WAYS))
def test_a_repaired_quarantine_gives_the_history_of_the_repaired_feed(
    lateness: Lateness, random: Random, way: Way
) -> None:
    check_quarantine(random, lateness, way)


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS, way=st.sampled_from(WAYS))
def test_a_reload_ends_missing_rows_and_keeps_all_versions(lateness: Lateness, random: Random, way: Way) -> None:
    check_reload(random, lateness, way)


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS, way=st.sampled_from(WAYS))
def test_versions_that_other_writers_alter_hold_their_keys_until_they_are_corrected(
    lateness: Lateness, random: Random, way: Way
) -> None:
    check_altered(random, lateness, way)


def forgets_witnesses(
    before: TableBefore, arrived: Arrivals, passing: FilteredEvents, verdicts: Verdicts
) -> list[Change]:
    """Those that changed nothing when they came: the row was as they say."""
    kept = changes_to_remember(before, arrived, passing, verdicts)
    stored = {key: row.cells for key, row in before.rows.items()}
    return [change for change in kept if stored.get(change.event.key) != change.event.cells]


def keeps_no_bases(before: TableBefore, arrived: Arrivals, passing: FilteredEvents) -> list[BaseRow]:
    return []


def keeps_rows_for_bases(row: Row) -> Row:
    return replace(row, versions=())


def keeps_one_version_for_bases(row: Row) -> Row:
    return replace(row, versions=row.versions[-1:])


def takes_stored_rows_for_bases(before: TableBefore, keys: Iterable[Key]) -> dict[Key, Row]:
    return {key: before.rows[key] for key in keys if key in before.rows}


def splices_by_start_alone(stored: Versions, base: Versions, found: Versions) -> Versions:
    return (*(one for one in stored if not base or one.valid_from < base[0].valid_from), *found)


def splices_twice(stored: Versions, base: Versions, found: Versions) -> Versions:
    return (*(one for one in stored if base and one not in found), *found)


def keeps_bases_of_events_alone(before: TableBefore, arrived: Arrivals, passing: FilteredEvents) -> list[BaseRow]:
    keys = {key for event in [*passing.passed, *passing.waiting] for key in event.keys}
    return [base for base in bases_to_remember(before, arrived, passing) if base.key in keys]


def reads_no_memory(before: TableBefore, passing: FilteredEvents, links: Links) -> set[Key]:
    return set()


def forgets_without_folding(dimension: Dimension, memory: ChangeLogContents) -> None:
    if memory.low_watermark is not None:
        memory.changes = {
            place: c for place, c in memory.changes.items() if place.source_order > memory.low_watermark
        }


def remembers_rows_from_before(
    dimension: Dimension, memory: ChangeLogContents, rows: Mapping[Key, Row | None]
) -> None:
    return None


def ends_nothing(rows: Mapping[Key, Row], *_: object, **__: object) -> Mapping[Key, Row]:
    return rows


def ends_all(row: Iterable[object]) -> set[Key]:
    return set()


def replaces_all(rows: Mapping[Key, Row], *_: object, **__: object) -> Mapping[Key, Row]:
    return {}


def sees_no_violation(self: TableBefore, row: Row | None) -> None:
    return None


def keeps_bases_of_what_waits(before: TableBefore, arrived: Arrivals, passing: FilteredEvents) -> list[BaseRow]:
    """Of versions that break a rule, too."""
    keys = {key for event in [*passing.passed, *passing.waiting] for key in event.keys}
    rows = {key: before.rows.get(key) for key in keys - set(before.bases)}
    return [] if before.is_ordered else [BaseRow(key, row and as_fold_base(row), 0) for key, row in rows.items()]


@pytest.mark.parametrize(
    ("where", "name", "broken", "law", "lateness"),
    [
        (settle, "changes_to_remember", forgets_witnesses, check_feed, Unbounded()),
        (settle, "bases_to_remember", keeps_no_bases, check_feed, Within(3)),
        (change_log_entries, "as_fold_base", keeps_rows_for_bases, check_feed, Within(3)),
        (folding, "as_fold_base", keeps_rows_for_bases, check_feed, Within(3)),
        (folding, "as_fold_base", keeps_one_version_for_bases, check_feed, Ordered()),
        (change_log, "as_fold_base", keeps_rows_for_bases, check_feed, Within(3)),
        (folding, "rows_before_remembered", takes_stored_rows_for_bases, check_feed, Unbounded()),
        (folding, "splice_versions", splices_by_start_alone, check_feed, Within(3)),
        (folding, "splice_versions", splices_twice, check_feed, Unbounded()),
        (settle, "bases_to_remember", keeps_bases_of_events_alone, check_feed, Within(3)),
        (folding, "slow_keys", reads_no_memory, check_feed, Unbounded()),
        (model_laws, "trim", forgets_without_folding, check_feed, Within(3)),
        (settle, "forget_applied_events", remembers_rows_from_before, check_changed_lateness, Unbounded()),
        (table_before, "rows_before_load", ends_nothing, check_reload, Ordered()),
        (table_before, "rows_before_load", replaces_all, check_reload, Ordered()),
        (reloads, "_keys", ends_all, check_reload, Ordered()),
        (TableBefore, "violation", sees_no_violation, check_altered, Within(3)),
        (settle, "bases_to_remember", keeps_bases_of_what_waits, check_altered, Within(3)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_model_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch,
    where: object,
    name: str,
    broken: Any,
    law: Callable[[Random, Lateness, Way], None],
    lateness: Lateness,
) -> None:
    monkeypatch.setattr(where, name, broken)
    with pytest.raises(AssertionError):
        play(law, lateness, FEEDS)


@pytest.mark.parametrize(
    "law",
    [check_feed, check_changed_lateness, check_other_names, check_quarantine, check_reload, check_altered],
)
def test_the_same_feeds_break_no_law_of_the_right_model(law: Callable[[Random, Lateness, Way], None]) -> None:
    play(law, Within(3), 200)


def play(law: Callable[[Random, Lateness, Way], None], lateness: Lateness, feeds: int) -> None:
    for seed in range(feeds):
        law(Random(seed), lateness, WAYS[seed % len(WAYS)])
