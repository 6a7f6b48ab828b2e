"""The laws of a table, through the pipeline, on the reference adapter: thousands of histories.

Convergence, batching, idempotence, crash and conservation. What the adapter must not do
is in `test_broken_adapters.py`.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import CRASHES, NAME, UNCOMMITTED, MemoryLake, Player, Script, pack, pack_late, pack_reloaded

from lakeward.core.dimension import ORDERED, Unbounded, Within
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.memory import Reason

SEEDS = st.integers(0, 2**32)
thorough = settings(max_examples=400, deadline=None)


@thorough
@given(seed=SEEDS)
def test_any_delivery_of_many_histories_gives_their_databases(seed: int) -> None:
    """Convergence, batching and idempotence: splits, repetitions and held keys change nothing."""
    random = Random(seed)
    script = pack(random, 5, bad=random.choice([0.0, 0.05]), truncates=random.random() < 0.3)
    player = Player(script, MemoryLake()).play()
    assert player.moments[-1].rows == script.truth
    assert not player.moments[-1].quarantine


@thorough
@given(seed=SEEDS)
def test_cells_that_were_not_sent_keep_their_values(seed: int) -> None:
    """Schema: what an event lacks is what the event before it left, however they are split into batches."""
    script = pack(Random(seed), 5, unset=True)
    player = Player(script, MemoryLake()).play()
    assert player.moments[-1].rows == script.truth


@thorough
@given(seed=SEEDS)
def test_a_crash_at_any_step_changes_nothing(seed: int) -> None:
    """Crash: after each, the table is at every moment what it would have been without."""
    random = Random(seed)
    script = pack(random, 3, bad=0.05, truncates=random.random() < 0.3)
    undisturbed = Player(script, MemoryLake()).play()
    ends = random.sample(CRASHES, len(CRASHES))
    player = Player(script, MemoryLake()).play(ends)
    missed = [end for end in ends[: len(player.moments)] if end not in player.crashed]
    elsewhere = [step for step, _ in missed if step not in ("take", "note")]
    assert len(elsewhere) <= script.deliveries.count([]), "but to give up an entry takes nothing, each is reached"
    assert player.promised == undisturbed.promised
    assert player.moments[-1].rows == script.truth


def test_every_step_before_and_after_is_crashed_at() -> None:
    """A step that no crash reaches would be a step without a test."""
    crashed: set[tuple[str, str]] = set()
    for seed in range(20):
        script = pack(Random(seed), 3, bad=0.05)
        left = [end for end in CRASHES if end not in crashed]
        crashed.update(Player(script, MemoryLake()).play(left).crashed)
    assert crashed == set(CRASHES)


@thorough
@given(seed=SEEDS)
def test_any_order_within_the_lateness_gives_their_databases(seed: int) -> None:
    """Lateness: objects come late, within a bound or whenever, and again; nothing is too late."""
    random = Random(seed)
    lateness = random.choice([Within(3), Unbounded()])
    truncates = random.random() < 0.3
    script = pack_late(random, 4, lateness, bad=random.choice([0.0, 0.05]), truncates=truncates)
    lake = MemoryLake()
    player = Player(script, lake).play(random.sample(CRASHES, 5))
    assert player.moments[-1].rows == script.truth
    assert not player.moments[-1].quarantine
    table = lake.target.tables[NAME]
    assert (table.progress.mark is not None) <= isinstance(lateness, Within)
    assert table.memory.mark == table.progress.mark


@thorough
@given(seed=SEEDS)
def test_rows_that_are_sent_in_part_and_keys_that_change_give_their_databases(seed: int) -> None:
    """Lateness with all that a row depends on: cells not sent, keys that change, swaps within a transaction.

    An `ordered` table refuses key changes: it has no memory from which a transaction could be
    taken up again in the next batch.
    """
    random = Random(seed)
    lateness = random.choice([ORDERED, Within(3), Unbounded()])
    script = pack_late(random, 4, lateness, bad=0.0 if lateness == ORDERED else 0.03, in_part=True)
    player = Player(script, MemoryLake()).play(random.sample(CRASHES, 5))
    assert player.moments[-1].rows == script.truth


def test_an_update_whose_row_never_came_is_final_once_the_mark_has_passed_it() -> None:
    """It waits until then, and holds nothing."""
    reasons = []
    for seed in range(130):
        lake = MemoryLake()
        Player(pack_late(Random(seed), 4, Within(3), bad=0.1, in_part=True), lake).play()
        table = lake.target.tables[NAME]
        reasons += [reject.reason for rejects in table.quarantined.values() for reject in rejects]
    assert Reason.INCOMPLETE_ROW in reasons


@thorough
@given(seed=SEEDS)
def test_objects_under_other_names_change_nothing_where_sequences_are_unique(seed: int) -> None:
    """Idempotence under other names: what was delivered first stands, in its place."""
    random = Random(seed)
    lateness = random.choice([ORDERED, Within(3), Unbounded()])
    in_part = lateness != ORDERED and random.random() < 0.5
    bad = random.choice([0.0, 0.05])
    truncates = random.random() < 0.3
    script = pack_late(random, 4, lateness, in_part=in_part, bad=bad, renamed=0.5, truncates=truncates)
    player = Player(script, MemoryLake()).play(random.sample(CRASHES, 5))
    assert player.moments[-1].rows == script.truth
    assert not player.moments[-1].quarantine


def with_a_time_in_the_future(script: Script, place: int, *, is_believed: bool) -> Script:
    """Deliver a change of another row, committed in the far future, as delivery number `place`."""
    times = [item.time for items in script.deliveries for item in items if item.time is not None]
    order = 1 + max(event.position.object for event in script.events)
    event = ChangeEvent(
        operation=Operation.INSERT,
        position=Position(1, 10**9, order, 1),
        key=(-1, 1),
        cells={"h": -1, "id": 1, "a": 1, "b": 1},
        time=10**9,
    )
    return replace(
        script,
        deliveries=[*script.deliveries[:place], [event], *script.deliveries[place:]],
        events=[*script.events, event],
        loaded_with=script.loaded_with + (place <= script.loaded_with),
        believed=None if is_believed else max(times, default=0),
    )


@thorough
@given(seed=SEEDS)
def test_a_time_in_the_future_moves_no_mark_and_makes_nothing_too_late(seed: int) -> None:
    """Lateness holds for all else, and the mark is at each moment as if it had not come."""
    random = Random(seed)
    script = pack_late(random, 4, Within(3))
    place = random.randint(1, len(script.deliveries))
    without = Player(script, MemoryLake()).play()
    lake = MemoryLake()
    ahead = with_a_time_in_the_future(script, place, is_believed=False)
    player = Player(ahead, lake).play(random.sample(CRASHES, 5))
    assert player.moments[-1].rows == ahead.truth
    assert not player.moments[-1].quarantine
    progress = player.moments[-1].progress
    assert progress.ahead == (10**9, f"{place:04d}/{ahead.events[-1].position.object}")
    assert progress.time == without.moments[-1].progress.time
    marks = [moment.progress.mark for moment in player.moments]
    assert marks.pop(place) == marks[place - 1]
    assert marks == [moment.progress.mark for moment in without.moments]
    assert lake.target.tables[NAME].memory.mark == progress.mark


def test_a_time_in_the_future_that_were_believed_would_make_what_follows_too_late() -> None:
    late = 0
    for seed in range(30):
        script = with_a_time_in_the_future(pack_late(Random(seed), 4, Within(3)), 1, is_believed=True)
        late += Player(script, MemoryLake()).play().moments[-1].progress.totals.quarantined
    assert late > 10


def test_the_mark_moves_and_what_lies_below_it_comes_too_late() -> None:
    """In feeds of any order, some events do; the law above would else say nothing."""
    marks, late = 0, 0
    for seed in range(30):
        script = pack_late(Random(seed), 4, Within(3), too_late=True)
        player = Player(script, MemoryLake()).play()
        marks += player.moments[-1].progress.mark is not None
        late += player.moments[-1].progress.totals.quarantined
        assert player.moments[-1].progress.totals.add_up()
    assert marks > 10
    assert late > 30


@thorough
@given(seed=SEEDS)
def test_every_event_is_counted_once(seed: int) -> None:
    """Conservation: what was delivered is what the counts say was read, whatever came in between."""
    random = Random(seed)
    script = pack(random, 3, bad=0.05)
    player = Player(script, MemoryLake()).play(random.sample(CRASHES, len(CRASHES)))
    totals = player.moments[-1].progress.totals
    assert totals.read == sum(map(len, script.deliveries))
    assert totals.add_up()


@thorough
@given(seed=SEEDS)
def test_a_table_without_a_key_keeps_each_fact_once(seed: int) -> None:
    """However often a crash makes a batch repeat."""
    random = Random(seed)
    script = pack(random, 3, bad=0.05, key=())
    player = Player(script, MemoryLake()).play(random.sample(CRASHES, len(CRASHES)))
    assert player.moments[-1].rows == script.truth


@thorough
@given(seed=SEEDS)
def test_after_every_held_row_is_fixed_or_discarded_the_tables_are_those_of_the_mended_feed(seed: int) -> None:
    """Quarantine: rows are mended and wait, are replayed or given up, in any order, over batches and crashes."""
    random = Random(seed)
    script = pack(random, 3, bad=0.1, fixed=0.6)
    undisturbed = Player(script, MemoryLake()).play()
    assert undisturbed.moments[-1].rows == script.truth
    assert not undisturbed.moments[-1].quarantine
    Player(script, MemoryLake(), expected=undisturbed.moments).play(random.sample(CRASHES, len(CRASHES)))


@thorough
@given(seed=SEEDS)
def test_a_row_is_mended_in_its_place_whatever_the_mark(seed: int) -> None:
    """Quarantine, where files come in any order that the lateness allows, and the mark has passed what is held."""
    random = Random(seed)
    script = pack_late(random, 3, random.choice([Within(3), Unbounded()]), bad=0.08, fixed=0.6)
    undisturbed = Player(script, MemoryLake()).play()
    assert undisturbed.moments[-1].rows == script.truth
    assert not undisturbed.moments[-1].quarantine
    Player(script, MemoryLake(), expected=undisturbed.moments).play(random.sample(CRASHES, 6))


@thorough
@given(seed=SEEDS)
def test_rows_in_part_and_key_changes_are_mended_into_their_place(seed: int) -> None:
    """Quarantine, where cells are not sent and keys change: what was not sent stays so, and the old key goes."""
    random = Random(seed)
    script = pack_late(random, 3, random.choice([Within(3), Unbounded()]), bad=0.08, fixed=0.8, in_part=True)
    undisturbed = Player(script, MemoryLake()).play()
    assert undisturbed.moments[-1].rows == script.truth
    assert not any(held for _, _, held, _ in undisturbed.moments[-1].quarantine.values())
    Player(script, MemoryLake(), expected=undisturbed.moments).play(random.sample(UNCOMMITTED, 6))
    assert Player(script, MemoryLake()).play(random.sample(CRASHES, 6)).moments[-1].rows == script.truth


@thorough
@given(seed=SEEDS)
def test_a_mended_row_of_a_table_without_a_key_is_added_once(seed: int) -> None:
    """However often a crash makes a batch repeat."""
    random = Random(seed)
    script = pack(random, 3, bad=0.1, fixed=0.6, key=())
    player = Player(script, MemoryLake()).play(random.sample(CRASHES, len(CRASHES)))
    assert player.moments[-1].rows == script.truth


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_after_a_reload_the_table_is_that_of_the_new_epoch_alone(seed: int) -> None:
    """Reload: rows, memory, holds and what waits go with the epoch, at once; names come again."""
    random = Random(seed)
    lateness = random.choice([ORDERED, Within(3), Unbounded()])
    in_part = lateness != ORDERED and random.random() < 0.5
    first = pack_late(random, 2, lateness, bad=0.05, fixed=0.3, in_part=in_part)
    script = pack_reloaded(random, first, 2, bad=0.05, fixed=0.6)
    undisturbed = Player(script, MemoryLake()).play()
    assert undisturbed.moments[-1].rows == script.truth
    for moment in undisturbed.moments:
        assert {position.epoch for _, position in moment.rows.values()} <= {moment.progress.epoch}
        assert {position.epoch for position in moment.quarantine} <= {moment.progress.epoch}
    if in_part:  # behind a commit what found no row is listed a batch later
        assert Player(script, MemoryLake()).play(random.sample(CRASHES, 6)).moments[-1].rows == script.truth
    else:
        Player(script, MemoryLake(), expected=undisturbed.moments).play(random.sample(CRASHES, 6))


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_a_reload_of_a_table_without_a_key_leaves_the_facts_of_the_new_epoch(seed: int) -> None:
    random = Random(seed)
    script = pack_reloaded(random, pack(random, 2, bad=0.05, key=()), 2, bad=0.05)
    player = Player(script, MemoryLake()).play(random.sample(CRASHES, 6))
    assert player.moments[-1].rows == script.truth
