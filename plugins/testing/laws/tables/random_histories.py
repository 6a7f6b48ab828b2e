"""The laws of a table on histories drawn at random: its script, what ends it, and what must be seen then.

`docs/explanation/semantics.md` has them as a table; each docstring begins with the words that it has there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from lakeward.core.dimension import ORDERED, Lateness, Ties, Unbounded, Within
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.facts import PARTIAL, Capability
from lakeward.plugins.testing import cases
from lakeward.plugins.testing.bench import FOREIGN, Law, Trial, expected
from lakeward.plugins.testing.laws.tables import (
    concurrent_writers,
    first_laws,
    image_match,
    log_regressions,
    missing_columns,
    rollbacks,
    soft_deletes,
    state_machine,
    surrogate_numbers,
    versions,
)
from lakeward.plugins.testing.player import CRASHES, UNCOMMITTED, Player
from lakeward.plugins.testing.scripts import Item, Script, pack, pack_late, pack_reloaded

_DRAWN: Final[list[Law]] = []
_PARTIAL: Final = tuple(sorted(item.value for item in PARTIAL))
_ALL: Final = len(CRASHES)
_Check: TypeAlias = Callable[[Trial], None]
_BOUNDS: Final[tuple[Lateness, ...]] = (Within(3), Unbounded())


def _law(*needs: str, cases: Mapping[str, Any] | None = None, **size: Any) -> Callable[[_Check], _Check]:
    def take(check: _Check) -> _Check:
        statement = check.__doc__ or ""
        name, opens = check.__name__, frozenset(needs)
        _DRAWN.append(Law(name=name, statement=statement, check=check, needs=opens, cases=cases or {}, **size))
        return check

    return take


@_law(few=5, share=1.0)
def any_delivery_of_many_histories_gives_their_databases(trial: Trial) -> None:
    """Convergence, batching, idempotence, conservation: splits and repetitions change nothing."""
    trial.play(pack(trial.random, trial.histories))


@_law(few=5, share=0.625)
def what_waits_in_quarantine_follows_in_order(trial: Trial) -> None:
    """Quarantine: rows that cannot be applied hold their keys; once they are given up, what waited is applied."""
    bad, settles = (0.03, 0.05) if trial.is_packed else (0.05, 0.3)
    truncates = trial.can(Capability.TRUNCATE) and (trial.is_packed or trial.random.random() < 0.3)
    script = pack(trial.random, trial.histories, bad=bad, settles=settles, truncates=truncates)
    player = trial.play(script)
    assert not trial.is_packed or any(moment.quarantine for moment in player.moments)


@_law(few=3, share=0.15, often=_ALL, seldom=6)
def a_crash_at_any_step_changes_nothing(trial: Trial) -> None:
    """Crash, conservation: after each, the table is at every moment what it would have been without."""
    truncates = trial.can(Capability.TRUNCATE) and trial.random.random() < 0.3
    script = pack(trial.random, trial.histories, bad=0.05, truncates=truncates)
    ends = trial.ends()
    player = trial.play(script, ends)
    missed = [end for end in ends[: len(player.moments)] if end not in player.crashed]
    elsewhere = [step for step, _ in missed if step not in ("select_objects", "note")]
    assert len(elsewhere) <= script.deliveries.count([]), "but to give up an entry takes nothing, each is reached"
    totals = player.moments[-1].progress.totals
    assert totals.read == sum(map(len, script.deliveries)), "an event is counted twice, or not at all"
    assert totals.add_up()


@_law(few=3, share=0.15, once=True)
def every_step_of_the_pipeline_is_crashed_at(trial: Trial) -> None:
    """Crash: the steps are those of the pipeline, and every one of them is reached, before and after it."""
    left = list(CRASHES)
    for _ in range(20):
        player = trial.play(pack(trial.random, trial.histories, bad=0.05), left)
        left = [end for end in left if end not in player.crashed]
        if not left:
            break
    assert not left, f"never ended at {left}"


@_law(few=3, share=0.625, often=_ALL)
def after_every_held_row_is_fixed_or_discarded_the_tables_are_those_of_the_mended_feed(trial: Trial) -> None:
    """Quarantine: rows are mended, wait, are replayed or given up, in any order; spoilt files come again."""
    settles = 0.1 if trial.is_packed else 0.3
    bad = 0.05 if trial.is_packed else 0.1
    script = pack(trial.random, trial.histories, bad=bad, settles=settles, fixed=0.6)
    trial.play(script, trial.ends())


@_law(few=3, share=0.3, often=6, seldom=4)
def a_row_is_mended_in_its_place_whatever_the_mark(trial: Trial) -> None:
    """Quarantine, where files come in any order that the lateness allows, and the mark has passed what is held."""
    lateness = Within(3) if trial.is_packed else trial.random.choice(_BOUNDS)
    bad = 0.05 if trial.is_packed else 0.08
    script = pack_late(trial.random, trial.histories, lateness, bad=bad, fixed=0.6)
    trial.play(script, trial.ends())


@_law(cases={"within": Within(3), "unbounded": Unbounded()}, few=4, share=0.375, often=5, seldom=4)
def any_order_within_the_lateness_gives_their_databases(trial: Trial) -> None:
    """Lateness: objects come late, within the bound or whenever, and again; nothing is too late."""
    bad = 0.02 if trial.is_packed else trial.random.choice([0.0, 0.05])
    truncates = trial.can(Capability.TRUNCATE) and (trial.is_packed or trial.random.random() < 0.3)
    script = pack_late(trial.random, trial.histories, trial.case, bad=bad, truncates=truncates)
    player = trial.play(script, trial.ends())
    assert player.crashed
    has_mark = player.moments[-1].progress.low_watermark is not None
    assert has_mark <= isinstance(trial.case, Within), "without a bound no mark may rise"


_OTHERWISE: Final = 1000
"""What the other of two changes that tie says."""

_TIED: Final = {
    "ordered": (ORDERED, 0.0),
    "within": (Within(3), 0.0),
    "unbounded": (Unbounded(), 0.0),
    "unique": (Within(3), 0.5),
}


@_law(cases=_TIED, few=4, share=0.1, often=5, seldom=3, weight=0.5)
def what_ties_is_held_until_a_person_has_said_of_it(trial: Trial) -> None:
    """Quarantine: of facts at one place the first stands; another is given up, or replayed as the later."""
    lateness, renamed = trial.case
    bad = 0.02 if trial.is_packed else trial.random.choice([0.0, 0.05])
    drawn = pack_late(trial.random, trial.histories, lateness, bad=bad, renamed=renamed)
    fixes = {event.position: event for event in drawn.events if trial.random.random() < 0.6}
    script = replace(drawn, dimension=replace(drawn.dimension, ties=Ties.QUARANTINE), fixes=fixes)
    seen = [found for moment in expected(script) for found in moment.quarantine.items()]
    gone = {place for place, (reason, *_) in seen if reason == Reason.TIE.value and place not in fixes}
    script = replace(script, events=[event for event in script.events if event.position not in gone])
    player = trial.play(script, trial.ends())
    assert renamed or not trial.is_packed or Reason.TIE.value in player.reasons


def with_twins(script: Script) -> Script:
    """Let each key change come twice at its place, in one object, with other cells the second time."""

    def duplicate_objects(items: Sequence[Item]) -> list[Item]:
        moves = [item for item in items if isinstance(item, ChangeEvent) and item.old_key is not None]
        again = [replace(event, cells={**event.cells, "b": _OTHERWISE}) for event in moves]
        placed = [_in_row(2 * item.position.row, item) for item in items]
        placed += [_in_row(2 * event.position.row + 1, event) for event in again]
        return sorted(placed, key=lambda item: item.position)

    events = [item for item in duplicate_objects(script.events) if isinstance(item, ChangeEvent)]
    return replace(script, deliveries=[duplicate_objects(items) for items in script.deliveries], events=events)


def _in_row(row: int, item: Item) -> Item:
    return replace(item, position=item.position._replace(row=row))


@_law(*_PARTIAL, few=3, share=0.1, often=6, seldom=3, weight=0.25)
def what_ties_in_part_or_moves_is_held_alike(trial: Trial) -> None:
    """Quarantine, where cells are not sent and keys change: a key change that ties holds both its keys."""
    lateness = Within(3) if trial.is_packed else trial.random.choice(_BOUNDS)
    drawn = with_twins(pack_late(trial.random, trial.histories, lateness, in_part=True))
    fixes = {event.position: event for event in drawn.events if trial.random.random() < 0.6}
    script = replace(drawn, dimension=replace(drawn.dimension, ties=Ties.QUARANTINE), fixes=fixes)
    player = trial.play_alike(script, trial.ends(UNCOMMITTED))
    assert not trial.is_packed or Reason.TIE.value in player.reasons


@_law(few=4, share=0.1)
def what_comes_too_late_is_told_apart(trial: Trial) -> None:
    """Lateness: what lies below the mark is refused and counted, and the mark is the reference's at each moment."""
    script = pack_late(trial.random, trial.histories, Within(3), too_late=True, bad=0.1)
    player = trial.play_alike(script)
    last = player.moments[-1].progress
    assert last.totals.add_up()
    if trial.is_packed:
        assert last.totals.quarantined, "a feed in which nothing is too late says nothing"
        assert last.low_watermark is not None


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


@_law(few=4, share=0.1)
def a_time_in_the_future_moves_no_mark_and_makes_nothing_too_late(trial: Trial) -> None:
    """Lateness holds for all else, and the mark is at each moment as if it had not come."""
    script = pack_late(trial.random, trial.histories, Within(3))
    place = trial.random.randint(1, len(script.deliveries))
    without = expected(script)
    ahead = with_a_time_in_the_future(script, place, is_believed=False)
    player = trial.play(ahead, trial.ends())
    progress = player.moments[-1].progress
    assert progress.ahead == (10**9, f"{place:04d}/{ahead.events[-1].position.object}")
    assert progress.time == without[-1].progress.time
    marks = [moment.progress.low_watermark for moment in player.moments]
    assert marks.pop(place) == marks[place - 1]
    assert marks == [moment.progress.low_watermark for moment in without]


@_law(few=3, share=0.25, often=_ALL, seldom=4)
def a_table_without_a_key_keeps_each_fact_once(trial: Trial) -> None:
    """Crash: however often one makes a batch repeat, and so for rows that are mended."""
    fixed = 0.6 if trial.is_packed else trial.random.choice([0.0, 0.6])
    script = pack(trial.random, trial.histories, bad=0.1 if fixed else 0.05, fixed=fixed, key=())
    player = trial.play(script, trial.ends())
    assert player.crashed


@_law(FOREIGN, few=3, share=0.1, weight=0.25)
def commits_of_another_writer_change_nothing(trial: Trial) -> None:
    """Crash, with foreign commits between the batches: what another writer does hides no progress and no memory."""
    lateness = trial.random.choice(_BOUNDS)
    script = pack_late(trial.random, trial.histories, lateness, bad=0.03)
    bench = trial.make()
    player = Player(script, bench.lake, expected=expected(script))
    assert bench.foreign is not None
    player.between = lambda: bench.foreign(script.dimension)  # type: ignore[misc]
    assert player.play(trial.ends()).moments[-1].rows == script.truth


@_law(Capability.UNSET.value, few=5, share=0.15)
def cells_that_were_not_sent_keep_their_values(trial: Trial) -> None:
    """Schema: what an event lacks is what the event before it left, however they are split into batches."""
    script = pack(trial.random, trial.histories, unset=True)
    trial.play(replace(script, in_part=True))


_LATENESS: Final = {"ordered": ORDERED, "within": Within(3), "unbounded": Unbounded()}


@_law(*_PARTIAL, cases=_LATENESS, few=4, share=0.15, often=5, seldom=3)
def rows_that_are_sent_in_part_and_keys_that_change_give_their_databases(trial: Trial) -> None:
    """Lateness with all that a row depends on: cells not sent, keys that change, swaps within a transaction.

    An `ordered` table refuses key changes: it has no memory from which a transaction could be
    taken up again in the next batch. Behind a commit, what found no row is listed a batch later.
    """
    is_ordered = trial.case == ORDERED
    script = pack_late(trial.random, trial.histories, trial.case, bad=0.0 if is_ordered else 0.03, in_part=True)
    trial.play(script, trial.ends(UNCOMMITTED))
    if not trial.is_packed:
        trial.play(script, trial.ends(), is_exact=False)


@_law(*_PARTIAL, few=3, share=0.15, often=6, seldom=3)
def rows_in_part_and_key_changes_are_mended_into_their_place(trial: Trial) -> None:
    """Quarantine, where cells are not sent and keys change: what was not sent stays so, and the old key goes."""
    lateness = Within(3) if trial.is_packed else trial.random.choice(_BOUNDS)
    bad, fixed = (0.02, 0.6) if trial.is_packed else (0.08, 0.8)
    truncates = trial.can(Capability.TRUNCATE) and trial.is_packed
    histories = trial.histories
    script = pack_late(trial.random, histories, lateness, bad=bad, fixed=fixed, in_part=True, truncates=truncates)
    trial.play(script, trial.ends(UNCOMMITTED))
    if not trial.is_packed:
        trial.play(script, trial.ends(), is_exact=False)


@_law(*_PARTIAL, Capability.TRUNCATE.value, few=3, share=0.1, seldom=3, weight=0.25)
def key_changes_that_no_rule_decides_are_held_alike(trial: Trial) -> None:
    """Quarantine: where a feed does not tell its transactions, truncates and mended rows among it."""
    script = pack_late(
        trial.random, trial.histories, Within(3), bad=0.05, fixed=0.6, in_part=True, truncates=True, untold=0.6
    )
    player = trial.play_alike(script, trial.ends(UNCOMMITTED))
    assert not trial.is_packed or Reason.KEY_SHIFT.value in player.reasons


_OTHER_NAMES: Final = {
    "ordered": (ORDERED, False),
    "within": (Within(3), False),
    "unbounded": (Unbounded(), False),
}


@_law(cases=_OTHER_NAMES, few=4, share=0.15, often=5, seldom=3)
def objects_under_other_names_change_nothing_where_sequences_are_unique(trial: Trial) -> None:
    """Idempotence under other names: what was delivered first stands, in its place."""
    _play_other_names(trial, *trial.case)


@_law(*_PARTIAL, cases={"within": (Within(3), True), "unbounded": (Unbounded(), True)}, few=4, share=0.15, seldom=3)
def parts_of_rows_under_other_names_change_nothing_where_sequences_are_unique(trial: Trial) -> None:
    """Idempotence under other names, where cells are not sent and keys change."""
    _play_other_names(trial, *trial.case)


def _play_other_names(trial: Trial, lateness: Lateness, in_part: bool) -> None:
    bad = (0.0 if in_part else 0.03) if trial.is_packed else trial.random.choice([0.0, 0.05])
    truncates = trial.can(Capability.TRUNCATE) and (trial.is_packed or trial.random.random() < 0.3)
    script = pack_late(
        trial.random, trial.histories, lateness, in_part=in_part, bad=bad, renamed=0.5, truncates=truncates
    )
    if trial.is_packed or not in_part:
        trial.play(script, trial.ends())
    else:  # behind a commit what found no row is listed a batch later
        trial.play(script, trial.ends(), is_exact=False)
        trial.play(script, trial.ends(UNCOMMITTED))


@_law(Capability.RELOAD.value, few=2, share=0.1, often=6, seldom=4, weight=0.25)
def after_a_reload_the_table_is_that_of_the_new_epoch_alone(trial: Trial) -> None:
    """Reload: rows, memory, holds and what waits go with the epoch, at once; names come again."""
    _play_reload(trial, trial.random.choice((ORDERED, *_BOUNDS)), in_part=False)


@_law(Capability.RELOAD.value, *_PARTIAL, few=2, share=0.1, often=6, seldom=4, weight=0.25)
def after_a_reload_nothing_is_left_of_rows_in_part(trial: Trial) -> None:
    """Reload, with late events, cells that are not sent and key changes on both sides of it."""
    lateness = Within(3) if trial.is_packed else trial.random.choice(_BOUNDS)
    _play_reload(trial, lateness, in_part=True)


def _play_reload(trial: Trial, lateness: Lateness, *, in_part: bool) -> None:
    first = pack_late(trial.random, trial.histories, lateness, bad=0.05, fixed=0.3, in_part=in_part)
    script = pack_reloaded(trial.random, first, trial.histories, bad=0.05, fixed=0.6)
    player = trial.play(script, trial.ends(UNCOMMITTED if in_part else CRASHES))
    for moment in player.moments:
        assert {position.epoch for _, position in moment.rows.values()} <= {moment.progress.epoch}
        assert {position.epoch for position in moment.quarantine} <= {moment.progress.epoch}
    if in_part and not trial.is_packed:
        trial.play(script, trial.ends(), is_exact=False)


@_law(Capability.RELOAD.value, few=2, share=0.075, often=6, seldom=3, weight=0.25)
def a_reload_of_a_table_without_a_key_leaves_the_facts_of_the_new_epoch(trial: Trial) -> None:
    """Reload of a table that is only appended to."""
    before = pack(trial.random, trial.histories, bad=0.05, key=())
    trial.play(pack_reloaded(trial.random, before, trial.histories, bad=0.05), trial.ends())


_LAST: Final = (
    *(missing_columns.LAW, *soft_deletes.LAWS, *versions.LAWS),
    *(surrogate_numbers.LAW, rollbacks.LAW, *image_match.LAWS),
)

LAWS: Final = (
    *(*first_laws.LAWS, log_regressions.LAW, *concurrent_writers.LAWS, *cases.LAWS, state_machine.LAW),
    *(*_DRAWN, *_LAST),
)
"""All laws of a table: small ones first, so that a new table fails in small and at once."""
