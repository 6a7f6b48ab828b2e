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
from tries import first_failure, tries

from lakeward.core.events import Cell
from lakeward.core.history import versions
from lakeward.core.history.versions import Columns, Step, Versions, apply_delete, apply_row
from lakeward.core.merge import fold

RANDOMS = st.randoms(use_true_random=False)
thorough = settings(max_examples=tries(75, 400), deadline=None)

FEEDS = 1000
"""How many feeds a broken fold gets to betray itself; most need a few."""

Image = Mapping[str, Cell]


Law = Callable[[Random], None]
LAWS: Mapping[str, Law] = {
    "the history of a feed is that of the database": check_database,
    "the history as of an instant is the database as it was then": check_as_of,
    "columns of every kind are those of the model": check_key,
    "a fold goes on from the last two versions": check_split,
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@thorough
@given(random=RANDOMS)
def test_a_law_of_the_fold_holds(law: Law, random: Random) -> None:
    law(random)


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


def ends_what_is_empty(before: Versions, step: Step) -> Versions:
    is_empty = before and before[-1].is_current and before[-1].valid_from == step.instant
    return (*before[:-1], replace(before[-1], valid_to=step.instant)) if is_empty else apply_delete(before, step)


MISTAKES: Mapping[str, tuple[object, str, Any, Law]] = {
    "a version ends one instant later": (fold, "apply_row", ends_one_later, check_database),
    "a version ends one instant later, as of it": (fold, "apply_row", ends_one_later, check_as_of),
    "the first version is ended": (fold, "apply_row", ends_the_first, check_database),
    "no version is ended": (fold, "apply_row", ends_none, check_as_of),
    "a version begins anew at each change": (fold, "apply_row", begins_anew_at_each, check_database),
    "empty versions are kept": (fold, "apply_row", keeps_what_is_empty, check_database),
    "a deleted row goes on with no version": (fold, "apply_row", goes_on_with_none, check_database),
    "an equal row is no witness": (fold, "apply_row", sees_no_witness, check_key),
    "time runs back": (versions, "_instant", lambda _, step: step.instant or 0, check_database),
    "a delete leaves its version open": (fold, "apply_delete", lambda before, _: before, check_as_of),
    "a delete ends an empty version": (fold, "apply_delete", ends_what_is_empty, check_database),
    "all columns are compared": (Columns, "same", lambda _, one, other: {**one} == {**other}, check_database),
    "first values are overwritten": (versions, "_with_first_values", lambda *given: given[-1], check_key),
    "previous values are forgotten": (
        versions,
        "_previous_values",
        lambda columns, *_: dict.fromkeys(columns.previous),
        check_key,
    ),
    "versions are spliced twice": (
        history_laws,
        "splice_versions",
        lambda stored, _, found: (*stored, *found),
        check_split,
    ),
    "a fold goes on from one version": (history_laws, "last_versions", lambda found: found[-1:], check_split),
}


@pytest.mark.parametrize(("where", "name", "broken", "law"), MISTAKES.values(), ids=MISTAKES)
def test_a_broken_fold_breaks_a_law_and_the_right_one_does_not(
    where: object, name: str, broken: Any, law: Law
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, name, broken)
        seed = first_failure(lambda seed: law(Random(seed)), FEEDS)
    law(Random(seed))
