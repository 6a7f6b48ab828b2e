"""Each sentence of the memory's algorithm, taken away, breaks a law on some feed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from random import Random
from typing import Any

import model_laws
import pytest
from model_laws import Way, check_feed, check_fold, check_other_names, check_quarantine, check_reload, check_ties

from lakeward.core.dimension import Dimension, Lateness, Ordered, Unbounded, Within
from lakeward.core.events import ChangeEvent, Key, Position, SourceOrder
from lakeward.core.history.options import History
from lakeward.core.merge import change_log, settle
from lakeward.core.merge.change_log import ChangeLogContents
from lakeward.core.merge.delivery import Delivery
from lakeward.core.merge.fold import Fold, Row, _Transaction
from lakeward.core.merge.settling import arrivals, duplicates, folding
from lakeward.core.merge.settling.arrivals import Arrivals
from lakeward.core.merge.settling.folding import Links
from lakeward.core.merge.settling.hold_filter import FilteredEvents, filter_by_holds
from lakeward.core.merge.settling.table_before import TableBefore
from lakeward.core.merge.ties import Tie, ties_with

FEEDS = 3000
"""How many feeds a broken model gets to betray itself; most need a few dozen."""


def reads_no_memory(before: TableBefore, passing: FilteredEvents, links: Links) -> set[Key]:
    return set()


def keeps_no_bases(before: TableBefore, arrived: Arrivals, passing: FilteredEvents) -> list[object]:
    return []


def takes_stored_rows_for_bases(before: TableBefore, keys: Iterable[Key]) -> dict[Key, Row]:
    return {key: before.rows[key] for key in keys if key in before.rows}


def lets_all_through(before: TableBefore, arrived: Arrivals) -> FilteredEvents:
    return filter_by_holds(before, replace(arrived, holds={}))


def links_no_keys(before: TableBefore, passing: FilteredEvents) -> Links:
    return {}


def lets_ties_pass(before: TableBefore, arrived: Arrivals, delivery: Delivery) -> Arrivals:
    return arrived


def tells_ties_of_a_batch_alone(before: TableBefore, arrived: Arrivals) -> list[Tie]:
    return ties_with(arrived.fresh, (), {})


def marks_what_it_saw(memory: ChangeLogContents, lateness: Lateness) -> SourceOrder | None:
    return memory.high_watermark.source_order if memory.high_watermark and isinstance(lateness, Within) else None


def marks_within_loads(memory: ChangeLogContents) -> bool:
    return False


def forgets_deletes(memory: ChangeLogContents, objects: int) -> None:
    memory.changes = {place: change for place, change in memory.changes.items() if change.waiting}


def forgets_without_folding(dimension: Dimension, memory: ChangeLogContents) -> None:
    if memory.low_watermark is not None:
        memory.changes = {
            place: c for place, c in memory.changes.items() if place.source_order > memory.low_watermark
        }


def pins_nothing(memory: ChangeLogContents, keys: set[Key], mark: SourceOrder) -> Position | None:
    return None


def parts_transactions(memory: ChangeLogContents, keys: set[Key], mark: SourceOrder) -> set[Hashable]:
    return set()


def tells_facts_by_their_place(dimension: Dimension, event: ChangeEvent) -> Hashable:
    return event.position


def knows_no_transactions(self: Fold, event: ChangeEvent) -> _Transaction:
    return _Transaction()


def check_versions(random: Random, lateness: Lateness) -> None:
    check_feed(random, lateness, Way(History()))


def play(law: Callable[[Random, Lateness], None], lateness: Lateness, feeds: int) -> int:
    """Hold so many feeds to a law, up to the first that breaks it; return how many that is."""
    for seed in range(feeds):
        law(Random(seed), lateness)
    return feeds


@pytest.mark.parametrize(
    ("where", "name", "broken", "law", "lateness"),
    [
        (folding, "slow_keys", reads_no_memory, check_feed, Within(3)),
        (settle, "bases_to_remember", keeps_no_bases, check_feed, Within(3)),
        (folding, "rows_before_remembered", takes_stored_rows_for_bases, check_feed, Unbounded()),
        (settle, "filter_by_holds", lets_all_through, check_quarantine, Ordered()),
        (folding, "link_keys", links_no_keys, check_feed, Unbounded()),
        (settle, "next_low_watermark", marks_what_it_saw, check_feed, Within(3)),
        (ChangeLogContents, "is_loading", property(marks_within_loads), check_feed, Within(3)),
        (change_log, "_forget_beyond", forgets_deletes, check_feed, Ordered()),
        (change_log, "_pin", pins_nothing, check_quarantine, Within(3)),
        (change_log, "_split_transactions", parts_transactions, check_versions, Within(3)),
        (duplicates, "fact", tells_facts_by_their_place, check_other_names, Unbounded()),
        (arrivals, "hold_ties", lets_ties_pass, check_ties, Unbounded()),
        (arrivals, "find_ties", tells_ties_of_a_batch_alone, check_ties, Within(3)),
        (model_laws, "trim", forgets_without_folding, check_feed, Within(3)),
        (Fold, "transaction", knows_no_transactions, check_fold, Unbounded()),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_model_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch,
    where: object,
    name: str,
    broken: Any,
    law: Callable[[Random, Lateness], None],
    lateness: Lateness,
) -> None:
    """The law fails on some feed of many."""
    monkeypatch.setattr(where, name, broken)
    with pytest.raises(AssertionError):
        play(law, lateness, FEEDS)


@pytest.mark.parametrize(
    "law", [check_fold, check_feed, check_other_names, check_quarantine, check_reload, check_ties]
)
def test_the_same_feeds_break_no_law_of_the_right_model(law: Callable[[Random, Lateness], None]) -> None:
    """What breaks the broken models above is their being broken."""
    assert play(law, Within(3), 200) == 200
