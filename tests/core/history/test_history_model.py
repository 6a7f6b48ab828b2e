"""The fold of a history against models that share no code with it, and against the law of section 4."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import history_laws
import pytest
from history_laws import check_as_of, check_database, check_key, check_split
from hypothesis import given, settings
from hypothesis import strategies as st
from tries import tries

from lakeward.core.events import Cell
from lakeward.core.history import versions
from lakeward.core.history.versions import Columns, Step, Version, Versions, apply_delete, apply_row
from lakeward.core.merge import fold

RANDOMS = st.randoms(use_true_random=False)
thorough = settings(max_examples=tries(75, 400), deadline=None)

FEEDS = 1000
"""How many feeds a broken fold gets to betray itself; most need a few."""

Image = Mapping[str, Cell]


@thorough
@given(random=RANDOMS)
def test_the_history_of_a_feed_is_that_of_the_database(random: Random) -> None:
    check_database(random)


@thorough
@given(random=RANDOMS)
def test_the_history_as_of_an_instant_is_the_database_as_it_was_then(random: Random) -> None:
    check_as_of(random)


@thorough
@given(random=RANDOMS)
def test_columns_of_every_kind_are_those_of_the_model(random: Random) -> None:
    check_key(random)


@thorough
@given(random=RANDOMS)
def test_a_fold_goes_on_from_the_last_two_versions(random: Random) -> None:
    check_split(random)


def ends_one_later(columns: Columns, before: Versions, cells: Image, step: Step) -> Versions:
    after = apply_row(columns, before, cells, step)
    return tuple(replace(v, valid_to=v.valid_to and v.valid_to + (v is not after[-1])) for v in after)


def ends_the_first(columns: Columns, before: Versions, cells: Image, step: Step) -> Versions:
    after = apply_row(columns, before, cells, step)
    is_ended = len(after) > len(before) > 1 and before[-1].is_current
    return (replace(after[0], valid_to=after[-1].valid_from), *before[1:], after[-1]) if is_ended else after


def ends_none(columns: Columns, before: Versions, cells: Image, step: Step) -> Versions:
    after = apply_row(columns, before, cells, step)
    return (*before, after[-1]) if len(after) > len(before) else after


def begins_anew_at_each(columns: Columns, before: Versions, cells: Image, step: Step) -> Versions:
    after = apply_row(columns, before, cells, step)
    return (*after[:-1], replace(after[-1], valid_from=step.instant or 0))


def lets_time_run_back(found: Versions, step: Step) -> int:
    return step.instant or 0


def keeps_what_is_empty(columns: Columns, before: Versions, cells: Image, step: Step) -> Versions:
    ended = before and before[-1].is_current and not columns.same(before[-1].cells, cells)
    return (
        (*before, apply_row(columns, before, cells, step)[-1]) if ended else apply_row(columns, before, cells, step)
    )


def goes_on_with_none(columns: Columns, before: Versions, cells: Image, step: Step) -> Versions:
    ended = before and not before[-1].is_current
    return (*before, apply_row(columns, (), cells, step)[-1]) if ended else apply_row(columns, before, cells, step)


def sees_no_witness(columns: Columns, before: Versions, cells: Image, step: Step) -> Versions:
    is_equal = before and before[-1].is_current and before[-1].cells == cells
    return before if is_equal else apply_row(columns, before, cells, step)


def leaves_it_open(before: Versions, step: Step) -> Versions:
    return before


def ends_what_is_empty(before: Versions, step: Step) -> Versions:
    is_empty = before and before[-1].is_current and before[-1].valid_from == step.instant
    return (*before[:-1], replace(before[-1], valid_to=step.instant)) if is_empty else apply_delete(before, step)


def compares_all(self: Columns, one: Image, other: Image) -> bool:
    return dict(one) == dict(other)


def overwrites_what_is_kept(columns: Columns, before: Version | None, cells: Image) -> Image:
    return cells


def forgets_what_was_before(columns: Columns, before: Version | None, cells: Image) -> Image:
    return dict.fromkeys(columns.previous)


def splices_twice(stored: Versions, base: Versions, found: Versions) -> Versions:
    return (*stored, *found)


def goes_on_from_one(found: Versions) -> Versions:
    return found[-1:]


@pytest.mark.parametrize(
    ("where", "name", "broken", "law"),
    [
        (fold, "apply_row", ends_one_later, check_database),
        (fold, "apply_row", ends_one_later, check_as_of),
        (fold, "apply_row", ends_the_first, check_database),
        (fold, "apply_row", ends_none, check_as_of),
        (fold, "apply_row", begins_anew_at_each, check_database),
        (fold, "apply_row", keeps_what_is_empty, check_database),
        (fold, "apply_row", goes_on_with_none, check_database),
        (fold, "apply_row", sees_no_witness, check_key),
        (versions, "_instant", lets_time_run_back, check_database),
        (fold, "apply_delete", leaves_it_open, check_as_of),
        (fold, "apply_delete", ends_what_is_empty, check_database),
        (Columns, "same", compares_all, check_database),
        (versions, "_with_first_values", overwrites_what_is_kept, check_key),
        (versions, "_previous_values", forgets_what_was_before, check_key),
        (history_laws, "splice_versions", splices_twice, check_split),
        (history_laws, "last_versions", goes_on_from_one, check_split),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_fold_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, broken: Any, law: Callable[[Random], None]
) -> None:
    monkeypatch.setattr(where, name, broken)
    with pytest.raises(AssertionError):
        play(law)


@pytest.mark.parametrize("law", [check_database, check_as_of, check_key, check_split])
def test_the_same_feeds_break_no_law_of_the_right_model(law: Callable[[Random], None]) -> None:
    play(law)


def play(law: Callable[[Random], None]) -> None:
    for seed in range(FEEDS):
        law(Random(seed))
