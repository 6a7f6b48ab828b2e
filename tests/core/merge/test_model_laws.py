"""The laws of the mirror, on the model alone: thousands of random feeds.

`apply` is compared with the simulated database itself; `settle`, which knows batches,
memory and marks, is compared with `apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


Law = Callable[[Random, Lateness], None]

WITHOUT_ORDER = [Within(3), Unbounded()]
LAWS: Mapping[str, tuple[Law, Sequence[Lateness]]] = {
    "the fold of a feed is the simulated database": (check_fold, MODES),
    "any split into batches, repetition, and order within the lateness give the same table": (check_feed, MODES),
    "a table that is ordered for a while is the same": (check_changed_lateness, WITHOUT_ORDER),
    "copies under other names change nothing, where sequences are unique": (check_other_names, MODES),
    "held keys wait in order, and a repaired quarantine gives the table of the repaired feed": (
        check_quarantine,
        MODES,
    ),
    "rows of the old epoch stay until a reload is complete, and go in that commit": (check_reload, MODES),
    "held ties are replayed at their position, and nothing is applied by arrival alone": (check_ties, MODES),
}


@pytest.mark.parametrize(
    ("law", "lateness"),
    [pytest.param(law, one, id=f"{text}: {one!r}") for text, (law, modes) in LAWS.items() for one in modes],
)
@thorough
@given(random=RANDOMS)
def test_a_law_of_the_mirror_holds(law: Law, lateness: Lateness, random: Random) -> None:
    law(random, lateness)
