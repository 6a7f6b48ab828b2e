"""The laws of a table on the reference adapter, through the pipeline, on thousands of histories.

`test_broken_adapters.py` has the mistakes that the laws show.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import contested
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tries import tries

from lakeward.core.dimension import Lateness, Unbounded, Within
from lakeward.core.merge.change_log import Reason
from lakeward.plugins.testing import LAWS, Bench, MemoryLake, Player, table_contract
from lakeward.plugins.testing.bench import FOREIGN, TYPES, Trial
from lakeward.plugins.testing.laws.tables import concurrent_writers
from lakeward.plugins.testing.laws.tables.random_histories import with_a_time_in_the_future
from lakeward.plugins.testing.scripts import NAME, pack_late

TestMemory = table_contract(
    lambda: Bench(lake=MemoryLake(), examples=tries(25, 400), foreign=lambda _dimension: None)
)
CONTESTED = [law.name for law in LAWS if FOREIGN in law.needs or law in concurrent_writers.LAWS]
TestContested = table_contract(lambda: contested.bench(examples=25), laws=CONTESTED)


FOUND = {
    "undecided_key_changes_are_held": {
        14: "what waits comes again, and is refused as it is released: it was told as new, and counted as a copy"
    },
    "repaired_partial_rows_and_key_changes_are_applied_at_their_position": {
        61605: "half of a swap does not say its transaction: the other half was trimmed, and lost its row",
        2319: "what is mended meets a key change that no rule decides",
    },
}
"""Seeds on which laws failed once in thousands of tries."""


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in FOUND.items() for seed in seeds])
def test_a_law_holds_on_draws_that_failed_once(name: str, seed: int) -> None:
    (law,) = (law for law in LAWS if law.name == name)
    law.check(Trial(law=law, make=_bench, bench=_bench(), random=Random(seed)))


def _bench() -> Bench:
    return Bench(lake=MemoryLake())


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), lateness=st.sampled_from([Within(3), Unbounded()]))
def test_the_change_log_has_the_low_watermark_of_the_table(seed: int, lateness: Lateness) -> None:
    lake = MemoryLake()
    Player(pack_late(Random(seed), 4, lateness), lake).play()
    table = lake.target.tables[NAME]
    assert table.memory.low_watermark == table.progress.low_watermark


def test_an_update_without_a_row_is_final_below_the_low_watermark() -> None:
    """Until then it waits, and holds nothing. One of forty of these feeds has such an update."""
    lake = MemoryLake()
    Player(pack_late(Random(56), 4, Within(3), bad=0.1, in_part=True), lake).play()
    quarantined = lake.target.tables[NAME].quarantined.values()
    assert Reason.INCOMPLETE_ROW in [reject.reason for rejects in quarantined for reject in rejects]


def test_a_believed_time_in_the_future_makes_later_events_too_late() -> None:
    late = 0
    for seed in range(4):
        script = with_a_time_in_the_future(pack_late(Random(seed), 4, Within(3)), 1, is_believed=True)
        late += Player(script, MemoryLake()).play().moments[-1].progress.totals.quarantined
    assert late > 10


def test_the_low_watermark_rises_and_events_below_it_are_too_late() -> None:
    """Some events of these feeds are too late. Otherwise the law of late events would show nothing."""
    marks, late = 0, 0
    for seed in range(6):
        script = pack_late(Random(seed), 4, Within(3), too_late=True)
        player = Player(script, MemoryLake()).play()
        marks += player.moments[-1].progress.low_watermark is not None
        late += player.moments[-1].progress.totals.quarantined
        assert player.moments[-1].progress.totals.adds_up()
    assert marks > 2
    assert late > 30


def test_a_type_that_a_table_holds_and_its_bench_does_not_name_is_reported() -> None:
    """A format must refuse types that it cannot hold, so leaving one out of the bench hides nothing."""
    law = next(law for law in LAWS if law.name == "a_value_of_every_type_is_read_back_unchanged")
    bench = Bench(lake=MemoryLake(), types=TYPES - {"date"})
    with pytest.raises(AssertionError, match="holds no date, and it takes one"):
        law.check(Trial(law=law, make=lambda: replace(bench, lake=MemoryLake()), bench=bench, random=Random(0)))
