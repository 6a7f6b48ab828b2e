"""The laws of a table on random histories. Each draws a script and crashes, and says what the table must show.

A docstring begins with the property that the law tests; `docs/explanation/semantics.md` defines them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def _law(*needs: str, **more: Any) -> Callable[[_Check], _Check]:
    def add(check: _Check) -> _Check:
        _DRAWN.append(Law.of(check, *needs, **more))
        return check

    return add


@_law(few=5, share=1.0)
def any_delivery_gives_the_rows_of_the_source(trial: Trial) -> None:
    """Convergence, batching, idempotence, conservation: any batches and repeats give the rows of the source."""
    trial.play(pack(trial.random, trial.histories))


@_law(few=5, share=0.625)
def waiting_events_are_applied_in_order(trial: Trial) -> None:
    """Quarantine: a row that cannot be applied holds its key. After a discard the waiting events are applied."""
    bad, settles = (0.03, 0.05) if trial.is_packed else (0.05, 0.3)
    truncates = trial.can(Capability.TRUNCATE) and (trial.is_packed or trial.random.random() < 0.3)
    script = pack(trial.random, trial.histories, bad=bad, settles=settles, truncates=truncates)
    player = trial.play(script)
    assert not trial.is_packed or any(moment.quarantine for moment in player.moments)


@_law(few=3, share=0.15, often=_ALL, seldom=6)
def a_crash_at_any_step_changes_nothing(trial: Trial) -> None:
    """Crash, conservation: after each crash the table shows the same states as without it."""
    truncates = trial.can(Capability.TRUNCATE) and trial.random.random() < 0.3
    script = pack(trial.random, trial.histories, bad=0.05, truncates=truncates)
    ends = trial.ends()
    player = trial.play(script, ends)
    missed = [end for end in ends[: len(player.moments)] if end not in player.crashed]
    others = [step for step, _ in missed if step not in ("select_objects", "note")]  # a discard has neither step
    assert len(others) <= script.deliveries.count([]), f"steps at which no process ended: {others}"
    totals = player.moments[-1].progress.totals
    assert totals.read == sum(map(len, script.deliveries)), "an event is counted twice, or not at all"
    assert totals.adds_up()


@_law(few=3, share=0.15, once=True)
def every_step_of_the_pipeline_is_tried_with_a_crash(trial: Trial) -> None:
    """Crash: a process ends before and after every step of the pipeline."""
    untried = list(CRASHES)
    for _ in range(20):
        player = trial.play(pack(trial.random, trial.histories, bad=0.05), untried)
        untried = [end for end in untried if end not in player.crashed]
        if not untried:
            break
    assert not untried, f"never ended at {untried}"


@_law(few=3, share=0.625, often=_ALL)
def repaired_and_discarded_rows_give_the_rows_of_the_corrected_feed(trial: Trial) -> None:
    """Quarantine: rows are repaired, wait, are replayed or discarded in any order. Bad files come again."""
    settles = 0.1 if trial.is_packed else 0.3
    bad = 0.05 if trial.is_packed else 0.1
    script = pack(trial.random, trial.histories, bad=bad, settles=settles, fixed=0.6)
    trial.play(script, trial.ends())


@_law(few=3, share=0.3, often=6, seldom=4)
def a_repaired_row_is_applied_at_its_position(trial: Trial) -> None:
    """Quarantine, lateness: a repaired row is applied at its position, also at or below the low watermark."""
    lateness = Within(3) if trial.is_packed else trial.random.choice(_BOUNDS)
    bad = 0.05 if trial.is_packed else 0.08
    script = pack_late(trial.random, trial.histories, lateness, bad=bad, fixed=0.6)
    trial.play(script, trial.ends())


@_law(cases={"within": Within(3), "unbounded": Unbounded()}, few=4, share=0.375, often=5, seldom=4)
def any_order_within_the_lateness_gives_the_rows_of_the_source(trial: Trial) -> None:
    """Lateness: objects come late, within the bound or at any time, and again. No event is refused."""
    bad = 0.02 if trial.is_packed else trial.random.choice([0.0, 0.05])
    truncates = trial.can(Capability.TRUNCATE) and (trial.is_packed or trial.random.random() < 0.3)
    script = pack_late(trial.random, trial.histories, trial.case, bad=bad, truncates=truncates)
    player = trial.play(script, trial.ends())
    assert player.crashed
    has_mark = player.moments[-1].progress.low_watermark is not None
    assert has_mark <= isinstance(trial.case, Within), "without a bound no mark may rise"


_OTHERWISE: Final = 1000
"""A value that tells the second of two tied changes from the first."""

_TIED: Final = {
    "ordered": (ORDERED, 0.0),
    "within": (Within(3), 0.0),
    "unbounded": (Unbounded(), 0.0),
    "unique": (Within(3), 0.5),
}


@_law(cases=_TIED, few=4, share=0.1, often=5, seldom=3, weight=0.5)
def ties_are_held_until_an_operator_decides(trial: Trial) -> None:
    """Quarantine: of events that tie, the first is stored. The second is discarded, or replayed as the later."""
    lateness, renamed = trial.case
    bad = 0.02 if trial.is_packed else trial.random.choice([0.0, 0.05])
    drawn = pack_late(trial.random, trial.histories, lateness, bad=bad, renamed=renamed)
    fixes = {event.position: event for event in drawn.events if trial.random.random() < 0.6}
    script = replace(drawn, dimension=replace(drawn.dimension, ties=Ties.QUARANTINE), fixes=fixes)
    held = [entry for moment in expected(script) for entry in moment.quarantine.items()]
    discarded = {place for place, (reason, *_) in held if reason == Reason.TIE.value and place not in fixes}
    script = replace(script, events=[event for event in script.events if event.position not in discarded])
    player = trial.play(script, trial.ends())
    assert renamed or not trial.is_packed or Reason.TIE.value in player.reasons


def with_tied_key_changes(script: Script) -> Script:
    """Return the script with each key change twice at its position, in one object, the second with other cells."""

    def add_ties(items: Sequence[Item]) -> list[Item]:
        moves = [item for item in items if isinstance(item, ChangeEvent) and item.old_key is not None]
        ties = [replace(event, cells={**event.cells, "b": _OTHERWISE}) for event in moves]
        placed = [_in_row(2 * item.position.row, item) for item in items]
        placed += [_in_row(2 * event.position.row + 1, event) for event in ties]
        return sorted(placed, key=lambda item: item.position)

    events = [item for item in add_ties(script.events) if isinstance(item, ChangeEvent)]
    return replace(script, deliveries=[add_ties(items) for items in script.deliveries], events=events)


def _in_row(row: int, item: Item) -> Item:
    return replace(item, position=item.position._replace(row=row))


@_law(*_PARTIAL, few=3, share=0.1, often=6, seldom=3, weight=0.25)
def ties_of_partial_rows_and_key_changes_are_held(trial: Trial) -> None:
    """Quarantine, with partial rows and key changes: a key change that ties holds both of its keys."""
    lateness = Within(3) if trial.is_packed else trial.random.choice(_BOUNDS)
    drawn = with_tied_key_changes(pack_late(trial.random, trial.histories, lateness, in_part=True))
    fixes = {event.position: event for event in drawn.events if trial.random.random() < 0.6}
    script = replace(drawn, dimension=replace(drawn.dimension, ties=Ties.QUARANTINE), fixes=fixes)
    player = trial.play_alike(script, trial.ends(UNCOMMITTED))
    assert not trial.is_packed or Reason.TIE.value in player.reasons


@_law(few=4, share=0.1)
def events_below_the_low_watermark_are_refused(trial: Trial) -> None:
    """Lateness: events at or below the low watermark are refused and counted, as on the reference adapter."""
    script = pack_late(trial.random, trial.histories, Within(3), too_late=True, bad=0.1)
    player = trial.play_alike(script)
    last = player.moments[-1].progress
    assert last.totals.adds_up()
    if trial.is_packed:
        assert last.totals.quarantined, "no event of the feed is too late: it shows nothing"
        assert last.low_watermark is not None


def with_a_time_in_the_future(script: Script, place: int, *, is_believed: bool) -> Script:
    """Return the script with a change of another row, with a far future time, as delivery number `place`."""
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
def a_time_in_the_future_moves_no_watermark(trial: Trial) -> None:
    """Lateness: an event with a time in the far future changes no watermark and makes no other event late."""
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
def a_table_without_a_key_has_each_event_once(trial: Trial) -> None:
    """Crash: without a key, each event is one row, however often a crash repeats a batch, repaired rows too."""
    fixed = 0.6 if trial.is_packed else trial.random.choice([0.0, 0.6])
    script = pack(trial.random, trial.histories, bad=0.1 if fixed else 0.05, fixed=fixed, key=())
    player = trial.play(script, trial.ends())
    assert player.crashed


@_law(FOREIGN, few=3, share=0.1, weight=0.25)
def commits_of_another_writer_change_nothing(trial: Trial) -> None:
    """Crash, with commits of another writer between the batches: they hide no progress and no change log."""
    lateness = trial.random.choice(_BOUNDS)
    script = pack_late(trial.random, trial.histories, lateness, bad=0.03)
    bench = trial.make()
    player = Player(script, bench.lake, expected=expected(script))
    assert bench.foreign is not None
    player.between = lambda: bench.foreign(script.dimension)  # type: ignore[misc]
    assert player.play(trial.ends()).moments[-1].rows == script.truth


@_law(Capability.UNSET.value, few=5, share=0.15)
def cells_that_were_not_sent_keep_their_values(trial: Trial) -> None:
    """Schema: a cell that was not sent keeps the value of the event before it, for any batches."""
    script = pack(trial.random, trial.histories, unset=True)
    trial.play(replace(script, in_part=True))


_LATENESS: Final = {"ordered": ORDERED, "within": Within(3), "unbounded": Unbounded()}


@_law(*_PARTIAL, cases=_LATENESS, few=4, share=0.15, often=5, seldom=3)
def partial_rows_and_key_changes_give_the_rows_of_the_source(trial: Trial) -> None:
    """Lateness with partial rows, key changes, and swaps of keys within a transaction.

    An `ordered` table refuses key changes, because it cannot continue a transaction in the next batch. After a
    crash behind the commit, events that wait for their row are listed a batch later, so the counts differ.
    """
    is_ordered = trial.case == ORDERED
    script = pack_late(trial.random, trial.histories, trial.case, bad=0.0 if is_ordered else 0.03, in_part=True)
    trial.play(script, trial.ends(UNCOMMITTED))
    if not trial.is_packed:
        trial.play(script, trial.ends(), is_exact=False)


@_law(*_PARTIAL, few=3, share=0.15, often=6, seldom=3)
def repaired_partial_rows_and_key_changes_are_applied_at_their_position(trial: Trial) -> None:
    """Quarantine, with partial rows and key changes: a repair adds no cells, and a key change is complete."""
    lateness = Within(3) if trial.is_packed else trial.random.choice(_BOUNDS)
    bad, fixed = (0.02, 0.6) if trial.is_packed else (0.08, 0.8)
    truncates = trial.can(Capability.TRUNCATE) and trial.is_packed
    histories = trial.histories
    script = pack_late(trial.random, histories, lateness, bad=bad, fixed=fixed, in_part=True, truncates=truncates)
    trial.play(script, trial.ends(UNCOMMITTED))
    if not trial.is_packed:
        trial.play(script, trial.ends(), is_exact=False)


@_law(*_PARTIAL, Capability.TRUNCATE.value, few=3, share=0.1, seldom=3, weight=0.25)
def undecided_key_changes_are_held(trial: Trial) -> None:
    """Quarantine: key changes of unknown transactions are held, also with truncates and repaired rows."""
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
def copies_of_objects_change_nothing_if_sequences_are_unique(trial: Trial) -> None:
    """Idempotence: with unique sequences, an object under another name changes nothing. The first one is stored."""
    _play_other_names(trial, *trial.case)


@_law(*_PARTIAL, cases={"within": (Within(3), True), "unbounded": (Unbounded(), True)}, few=4, share=0.15, seldom=3)
def copies_of_partial_rows_change_nothing_if_sequences_are_unique(trial: Trial) -> None:
    """Idempotence under other names, with partial rows and key changes."""
    _play_other_names(trial, *trial.case)


def _play_other_names(trial: Trial, lateness: Lateness, in_part: bool) -> None:
    bad = (0.0 if in_part else 0.03) if trial.is_packed else trial.random.choice([0.0, 0.05])
    truncates = trial.can(Capability.TRUNCATE) and (trial.is_packed or trial.random.random() < 0.3)
    script = pack_late(
        trial.random, trial.histories, lateness, in_part=in_part, bad=bad, renamed=0.5, truncates=truncates
    )
    if trial.is_packed or not in_part:
        trial.play(script, trial.ends())
    else:  # after a crash behind the commit, waiting events are listed a batch later
        trial.play(script, trial.ends(), is_exact=False)
        trial.play(script, trial.ends(UNCOMMITTED))


@_law(Capability.RELOAD.value, few=2, share=0.1, often=6, seldom=4, weight=0.25)
def a_reload_leaves_only_the_new_epoch(trial: Trial) -> None:
    """Reload: rows, change log, holds and waiting events of the old epoch end in one commit. Names come again."""
    _play_reload(trial, trial.random.choice((ORDERED, *_BOUNDS)), in_part=False)


@_law(Capability.RELOAD.value, *_PARTIAL, few=2, share=0.1, often=6, seldom=4, weight=0.25)
def a_reload_of_partial_rows_leaves_only_the_new_epoch(trial: Trial) -> None:
    """Reload, with late events, partial rows and key changes before and after it."""
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
def a_reload_without_a_key_leaves_only_the_new_epoch(trial: Trial) -> None:
    """Reload of an append-only table."""
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
"""All laws of a table, small ones first, so that a new format fails early and on few rows."""
