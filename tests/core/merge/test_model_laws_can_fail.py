"""Each sentence of the memory's algorithm, taken away, breaks a law on some feed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import model_laws
import pytest
from model_laws import Way, check_feed, check_fold, check_other_names, check_quarantine, check_reload, check_ties

from lakeward.core.dimension import Lateness, Ordered, Unbounded, Within
from lakeward.core.events import SourceOrder
from lakeward.core.history.options import History
from lakeward.core.merge import change_log, settle
from lakeward.core.merge.change_log import ChangeLogContents
from lakeward.core.merge.fold import Fold, _Transaction
from lakeward.core.merge.settling import arrivals, duplicates, folding
from lakeward.core.merge.settling.hold_filter import filter_by_holds
from lakeward.core.merge.ties import ties_with

FEEDS = 3000
"""How many feeds a broken model gets to betray itself; most need a few dozen."""


def marks_what_it_saw(memory: ChangeLogContents, lateness: Lateness) -> SourceOrder | None:
    return memory.high_watermark.source_order if memory.high_watermark and isinstance(lateness, Within) else None


def forgets_deletes(memory: ChangeLogContents, objects: int) -> None:
    memory.changes = {place: change for place, change in memory.changes.items() if change.waiting}


def check_versions(random: Random, lateness: Lateness) -> None:
    check_feed(random, lateness, Way(History()))


def play(law: Callable[[Random, Lateness], None], lateness: Lateness, feeds: int) -> int:
    """Hold so many feeds to a law, up to the first that breaks it; return how many that is."""
    for seed in range(feeds):
        law(Random(seed), lateness)
    return feeds


class Mistake(NamedTuple):
    """A mistake in the attribute `name` of a module or class, and the law that finds it on some feed of many."""

    where: object
    name: str
    broken: Any
    law: Callable[[Random, Lateness], None]
    lateness: Lateness


MISTAKES: Mapping[str, Mistake] = {
    "no memory is read": Mistake(folding, "slow_keys", lambda *_: set(), check_feed, Within(3)),
    "no base rows are kept": Mistake(settle, "bases_to_remember", lambda *_: [], check_feed, Within(3)),
    "stored rows are the base": Mistake(
        folding, "rows_before_remembered", model_laws.stored_rows, check_feed, Unbounded()
    ),
    "held keys hold nothing": Mistake(
        settle,
        "filter_by_holds",
        lambda before, arrived: filter_by_holds(before, replace(arrived, holds={})),
        check_quarantine,
        Ordered(),
    ),
    "keys are not linked": Mistake(folding, "link_keys", lambda *_: {}, check_feed, Unbounded()),
    "the watermark is what was seen": Mistake(
        settle, "next_low_watermark", marks_what_it_saw, check_feed, Within(3)
    ),
    "the watermark rises within loads": Mistake(
        ChangeLogContents, "is_loading", property(lambda _: False), check_feed, Within(3)
    ),
    "deletes are forgotten": Mistake(change_log, "_forget_beyond", forgets_deletes, check_feed, Ordered()),
    "nothing is pinned": Mistake(change_log, "_pin", lambda *_: None, check_quarantine, Within(3)),
    "transactions are parted": Mistake(
        change_log, "_split_transactions", lambda *_: set(), check_versions, Within(3)
    ),
    "facts are told by their place": Mistake(
        duplicates, "fact", lambda _, event: event.position, check_other_names, Unbounded()
    ),
    "ties pass": Mistake(arrivals, "hold_ties", lambda _, arrived, __: arrived, check_ties, Unbounded()),
    "ties of a batch alone are found": Mistake(
        arrivals, "find_ties", lambda _, arrived: ties_with(arrived.fresh, (), {}), check_ties, Within(3)
    ),
    "what is forgotten is not folded": Mistake(
        model_laws, "trim", model_laws.forgets_without_folding, check_feed, Within(3)
    ),
    "no transactions are known": Mistake(Fold, "transaction", lambda *_: _Transaction(), check_fold, Unbounded()),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_broken_model_breaks_a_law(monkeypatch: pytest.MonkeyPatch, mistake: Mistake) -> None:
    monkeypatch.setattr(mistake.where, mistake.name, mistake.broken)
    with pytest.raises(AssertionError):
        play(mistake.law, mistake.lateness, FEEDS)


@pytest.mark.parametrize(
    "law", [check_fold, check_feed, check_other_names, check_quarantine, check_reload, check_ties]
)
def test_the_same_feeds_break_no_law_of_the_right_model(law: Callable[[Random, Lateness], None]) -> None:
    """What breaks the broken models above is their being broken."""
    assert play(law, Within(3), 200) == 200
