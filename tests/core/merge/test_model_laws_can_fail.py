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
from lakeward.core.events import ChangeEvent, Key, Mark, Position
from lakeward.core.history.options import History
from lakeward.core.merge import change_log, settle
from lakeward.core.merge.change_log import Memory
from lakeward.core.merge.delivery import Delivery
from lakeward.core.merge.fold import Fold, Row, _Transaction
from lakeward.core.merge.settling import arrivals, duplicates, folding
from lakeward.core.merge.settling.arrivals import Arrived
from lakeward.core.merge.settling.folding import Links
from lakeward.core.merge.settling.hold_filter import Passing, let_through
from lakeward.core.merge.settling.table_before import Before
from lakeward.core.merge.ties import Tie, ties_with

FEEDS = 3000
"""How many feeds a broken model gets to betray itself; most need a few dozen."""


def reads_no_memory(before: Before, passing: Passing, links: Links) -> set[Key]:
    return set()


def keeps_no_bases(before: Before, arrived: Arrived, passing: Passing) -> list[object]:
    return []


def takes_stored_rows_for_bases(before: Before, keys: Iterable[Key]) -> dict[Key, Row]:
    return {key: before.rows[key] for key in keys if key in before.rows}


def lets_all_through(before: Before, arrived: Arrived) -> Passing:
    return let_through(before, replace(arrived, holds={}))


def links_no_keys(before: Before, passing: Passing) -> Links:
    return {}


def lets_ties_pass(before: Before, arrived: Arrived, delivery: Delivery) -> Arrived:
    return arrived


def tells_ties_of_a_batch_alone(before: Before, arrived: Arrived) -> list[Tie]:
    return ties_with(arrived.fresh, (), {})


def marks_what_it_saw(memory: Memory, lateness: Lateness) -> Mark | None:
    return change_log.high_water.mark if change_log.high_water and isinstance(lateness, Within) else None


def marks_within_loads(memory: Memory) -> bool:
    return False


def forgets_deletes(memory: Memory, objects: int) -> None:
    change_log.changes = {place: change for place, change in change_log.changes.items() if change.waiting}


def forgets_without_folding(dimension: Dimension, memory: Memory) -> None:
    if change_log.mark is not None:
        change_log.changes = {place: c for place, c in change_log.changes.items() if place.mark > change_log.mark}


def pins_nothing(memory: Memory, keys: set[Key], mark: Mark) -> Position | None:
    return None


def parts_transactions(memory: Memory, keys: set[Key], mark: Mark) -> set[Hashable]:
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
        (folding, "rows_at_mark", takes_stored_rows_for_bases, check_feed, Unbounded()),
        (settle, "let_through", lets_all_through, check_quarantine, Ordered()),
        (folding, "link_keys", links_no_keys, check_feed, Unbounded()),
        (settle, "next_mark", marks_what_it_saw, check_feed, Within(3)),
        (Memory, "is_loading", property(marks_within_loads), check_feed, Within(3)),
        (change_log, "_forget_beyond", forgets_deletes, check_feed, Ordered()),
        (change_log, "_pin", pins_nothing, check_quarantine, Within(3)),
        (change_log, "_parted", parts_transactions, check_versions, Within(3)),
        (duplicates, "fact", tells_facts_by_their_place, check_other_names, Unbounded()),
        (arrivals, "hold_ties", lets_ties_pass, check_ties, Unbounded()),
        (arrivals, "ties_found", tells_ties_of_a_batch_alone, check_ties, Within(3)),
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
def test_the_same_feeds_break_nothing_that_is_whole(law: Callable[[Random, Lateness], None]) -> None:
    """What breaks the broken models above is their being broken."""
    assert play(law, Within(3), 200) == 200
