"""Each sentence of the memory's algorithm, taken away, breaks a law on some feed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import model_laws
import pytest
from model_laws import Way, check_feed, check_fold, check_other_names, check_quarantine, check_ties
from tries import first_failure

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


KNOWN = {
    "held keys hold nothing": 123,
    "nothing is pinned": 160,
    "the watermark rises within loads": 181,
    "transactions are parted": 299,
}
"""Seeds of feeds that show mistakes which few feeds show."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_broken_model_breaks_a_law_and_the_right_one_does_not(name: str) -> None:
    mistake = MISTAKES[name]

    def play(seed: int) -> None:
        mistake.law(Random(seed), mistake.lateness)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mistake.where, mistake.name, mistake.broken)
        seed = first_failure(play, FEEDS, KNOWN.get(name, 0))
    play(seed)
