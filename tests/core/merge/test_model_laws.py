"""The laws of the mirror, on the model alone: thousands of random feeds.

`apply` is compared with the simulated database itself; `settle`, which knows batches,
memory and marks, is compared with `apply`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_laws import (
    MODES,
    check_changed_lateness,
    check_feed,
    check_fold,
    check_other_names,
    check_quarantine,
    check_reload,
    check_ties,
)
from tries import tries

from lakeward.core.dimension import Lateness, Unbounded, Within

RANDOMS = st.randoms(use_true_random=False)
thorough = settings(max_examples=tries(75, 400), deadline=None)


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS)
def test_the_fold_of_a_feed_is_the_database(lateness: Lateness, random: Random) -> None:
    """The rows of the model are those of the simulated database."""
    check_fold(random, lateness)


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS)
def test_any_delivery_gives_the_same_table(lateness: Lateness, random: Random) -> None:
    """Any split into batches, repetition, and order within the lateness."""
    check_feed(random, lateness)


@pytest.mark.parametrize("lateness", [Within(3), Unbounded()], ids=repr)
@thorough
@given(random=RANDOMS)
def test_a_table_that_is_ordered_for_a_while_is_the_same(lateness: Lateness, random: Random) -> None:
    check_changed_lateness(random, lateness)


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS)
def test_copies_under_other_names_change_nothing(lateness: Lateness, random: Random) -> None:
    """Idempotence under other names, where sequences are unique."""
    check_other_names(random, lateness)


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS)
def test_a_repaired_quarantine_gives_the_table_of_the_repaired_feed(lateness: Lateness, random: Random) -> None:
    """Held keys wait in order; fixed or discarded, what waited follows."""
    check_quarantine(random, lateness)


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS)
def test_a_reload_gives_the_new_epoch_alone(lateness: Lateness, random: Random) -> None:
    """Rows of the old epoch stay until the new load is complete, and go in that commit."""
    check_reload(random, lateness)


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS)
def test_held_ties_are_replayed_at_their_position(lateness: Lateness, random: Random) -> None:
    """Nothing that arrival alone would put in order is applied without a person."""
    check_ties(random, lateness)
