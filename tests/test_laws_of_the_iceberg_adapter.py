"""The laws of a table on Spark and Iceberg: many histories in each job, read back by PyIceberg.

The memory adapter, which the model judges, says what must be seen after each batch:
rows with their positions, every count, and what waits in quarantine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lakes import CRASHES, UNCOMMITTED, MemoryLake, Player, Script, pack, pack_late, pack_reloaded
from spark import MakeLake

from lakeward.adapters.iceberg import companion
from lakeward.adapters.iceberg.options import TableOptions
from lakeward.core.dimension import ORDERED, Lateness, Unbounded, Within
from lakeward.core.memory import Reason

pytestmark = pytest.mark.spark

SEEDS = st.integers(0, 2**32)
packed = settings(
    max_examples=1,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
"""An example is dozens of histories; to make it smaller would take hours."""

LAYOUTS = {
    "format 2": TableOptions(),
    "copy-on-write, partitioned by a value": TableOptions(
        write_mode="copy-on-write", partition_by=["truncate(3, a)"]
    ),
    "format 3, partitioned and sorted": TableOptions(
        format_version=3, partition_by=["bucket(3, b)"], sort_by=["a desc"]
    ),
    "partitioned by a value": TableOptions(partition_by=["truncate(3, a)"]),
    "format 3, copy-on-write": TableOptions(format_version=3, write_mode="copy-on-write"),
}


def play_both(script: Script, lake: object, ends: Sequence[tuple[str, str]] = ()) -> tuple[Player, Player]:
    """Play a script to Iceberg and to the memory adapter; the first moment that differs ends it."""
    expected = Player(script, MemoryLake()).play()
    return Player(script, lake, expected=expected.moments).play(ends), expected


@pytest.mark.parametrize("layout", LAYOUTS)
@packed
@given(seed=SEEDS)
def test_any_delivery_of_many_histories_gives_their_databases(make_lake: MakeLake, layout: str, seed: int) -> None:
    """Convergence, batching, idempotence, conservation, however the table is laid out."""
    script = pack(Random(seed), 40)
    player, expected = play_both(script, make_lake(LAYOUTS[layout]))
    assert player.promised == expected.promised
    assert player.moments[-1].rows == script.truth


@packed
@given(seed=SEEDS)
def test_what_waits_in_quarantine_follows_in_order(make_lake: MakeLake, seed: int) -> None:
    """Rows that cannot be applied hold their keys; once given up, what waited is applied."""
    script = pack(Random(seed), 25, bad=0.03, settles=0.05, truncates=True)
    player, expected = play_both(script, make_lake())
    assert any(moment.quarantine for moment in player.moments)
    assert player.promised == expected.promised
    assert player.moments[-1].rows == script.truth


@packed
@given(seed=SEEDS)
def test_after_every_held_row_is_fixed_or_discarded_the_tables_are_those_of_the_mended_feed(
    make_lake: MakeLake, seed: int
) -> None:
    """Quarantine: rows are mended, wait, and are replayed; spoilt files come again; a crash changes nothing."""
    random = Random(seed)
    script = pack(random, 25, bad=0.05, settles=0.1, fixed=0.6)
    player, expected = play_both(script, make_lake(), random.sample(CRASHES, 6))
    assert player.promised == expected.promised
    assert player.moments[-1].rows == script.truth


@packed
@given(seed=SEEDS)
def test_a_row_is_mended_in_its_place_whatever_the_mark(make_lake: MakeLake, seed: int) -> None:
    """Quarantine, where files come late and the mark has passed what is held."""
    random = Random(seed)
    script = pack_late(random, 12, Within(3), bad=0.05, fixed=0.6)
    player, expected = play_both(script, make_lake(), random.sample(CRASHES, 4))
    assert player.promised == expected.promised
    assert player.moments[-1].rows == script.truth


@pytest.mark.parametrize("lateness", [Within(3), Unbounded()], ids=repr)
@packed
@given(seed=SEEDS)
def test_any_order_within_the_lateness_gives_their_databases(
    make_lake: MakeLake, lateness: Lateness, seed: int
) -> None:
    """Lateness: objects come late, within the bound or whenever, and again; nothing is too late."""
    random = Random(seed)
    script = pack_late(random, 15, lateness, bad=0.02, truncates=True)
    player, expected = play_both(script, make_lake(), random.sample(CRASHES, 4))
    assert player.crashed
    assert player.promised == expected.promised
    assert player.moments[-1].rows == script.truth


@pytest.mark.parametrize("lateness", [ORDERED, Within(3)], ids=repr)
@packed
@given(seed=SEEDS)
def test_rows_that_are_sent_in_part_and_keys_that_change_give_their_databases(
    make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch, lateness: Lateness, seed: int
) -> None:
    """Events meet what is remembered, mended ones too; memory is trimmed with each batch, as that of the model."""
    monkeypatch.setattr(companion, "_TRIM_EVERY", 1)
    bad = 0.0 if lateness == ORDERED else 0.02
    random = Random(seed)
    truncates = lateness != ORDERED
    script = pack_late(random, 6, lateness, bad=bad, fixed=0.6, in_part=True, truncates=truncates)
    player, expected = play_both(script, make_lake(), random.sample(UNCOMMITTED, 3))
    assert player.promised == expected.promised
    assert player.moments[-1].rows == script.truth


@packed
@given(seed=SEEDS)
def test_key_changes_that_no_rule_decides_are_held_alike(
    make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Where a feed does not tell its transactions, at every moment, truncates and mended rows among it."""
    monkeypatch.setattr(companion, "_TRIM_EVERY", 1)
    random = Random(seed)
    script = pack_late(random, 4, Within(3), bad=0.05, fixed=0.6, in_part=True, truncates=True, untold=0.6)
    player, expected = play_both(script, make_lake(), random.sample(UNCOMMITTED, 3))
    assert Reason.KEY_SHIFT.value in expected.reasons
    assert player.promised == expected.promised


@packed
@given(seed=SEEDS)
def test_what_comes_too_late_is_told_apart(make_lake: MakeLake, seed: int) -> None:
    """At every moment the table, its mark and its quarantine are those of the memory adapter."""
    script = pack_late(Random(seed), 4, Within(3), too_late=True, bad=0.1)
    player, expected = play_both(script, make_lake())
    assert expected.moments[-1].progress.totals.quarantined, "a feed in which nothing is too late says nothing"
    assert player.moments[-1].progress.mark is not None
    assert player.promised == expected.promised


def test_a_crash_before_and_after_every_step_changes_nothing(make_lake: MakeLake) -> None:
    """Crash: the steps are those of the pipeline, and every one of them is reached."""
    left = list(CRASHES)
    for seed in range(10):
        script = pack(Random(seed), 6, bad=0.05)
        player, expected = play_both(script, make_lake(), left)
        assert player.promised == expected.promised
        left = [end for end in left if end not in player.crashed]
        if not left:
            break
    assert not left


@packed
@given(seed=SEEDS)
def test_a_table_without_a_key_keeps_each_fact_once(make_lake: MakeLake, seed: int) -> None:
    """However often a crash makes a batch repeat, and so for rows that are mended."""
    ends = islice(Random(seed).sample(CRASHES, len(CRASHES)), 8)
    script = pack(Random(seed), 10, bad=0.05, fixed=0.6, key=())
    player, expected = play_both(script, make_lake(), list(ends))
    assert player.crashed
    assert player.promised == expected.promised
    assert player.moments[-1].rows == script.truth


@pytest.mark.parametrize(
    ("lateness", "in_part"), [(ORDERED, False), (Within(3), False), (Within(3), True)], ids=repr
)
@packed
@given(seed=SEEDS)
def test_objects_under_other_names_change_nothing_where_sequences_are_unique(
    make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch, lateness: Lateness, in_part: bool, seed: int
) -> None:
    """Idempotence under other names: what was delivered first stands, in its place."""
    monkeypatch.setattr(companion, "_TRIM_EVERY", 1)
    random = Random(seed)
    bad = 0.0 if in_part else 0.03
    script = pack_late(random, 6, lateness, in_part=in_part, bad=bad, renamed=0.5, truncates=True)
    player, expected = play_both(script, make_lake(), random.sample(CRASHES, 3))
    assert player.promised == expected.promised
    assert player.moments[-1].rows == script.truth


@packed
@given(seed=SEEDS)
def test_after_a_reload_the_table_is_that_of_the_new_epoch_alone(make_lake: MakeLake, seed: int) -> None:
    """Reload, with late events, rows in part, holds and crashes on both sides: no moment has rows of two epochs."""
    random = Random(seed)
    first = pack_late(random, 4, Within(3), bad=0.04, fixed=0.3, in_part=True)
    script = pack_reloaded(random, first, 4, bad=0.04, fixed=0.6)
    layout = LAYOUTS[random.choice([*LAYOUTS])]
    player, expected = play_both(script, make_lake(layout), random.sample(UNCOMMITTED, 4))
    assert player.promised == expected.promised
    assert player.moments[-1].rows == script.truth
    for moment in player.moments:
        assert {position.epoch for _, position in moment.rows.values()} <= {moment.progress.epoch}


@packed
@given(seed=SEEDS)
def test_a_reload_of_a_table_without_a_key_leaves_the_facts_of_the_new_epoch(
    make_lake: MakeLake, seed: int
) -> None:
    random = Random(seed)
    script = pack_reloaded(random, pack(random, 3, bad=0.05, key=()), 3, bad=0.05)
    player, expected = play_both(script, make_lake(), random.sample(CRASHES, 3))
    assert player.promised == expected.promised
    assert player.moments[-1].rows == script.truth
