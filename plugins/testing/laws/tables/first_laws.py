"""The first laws of a table. Each has a few rows, so that a mistake is easy to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from lakeward.core.dimension import DELETED, ORDERED, Deletes, Dimension, Lateness, TableName, Ties, Unbounded
from lakeward.core.errors import SourceError
from lakeward.core.events import LOAD_SEQUENCE, READ_SEQUENCE, UNSET, ChangeEvent, Operation, Position
from lakeward.core.ledger.full_loads import LoadCompletion, ReloadRequest
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Acknowledgement, MaintenancePolicy, OperatorDecision
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.schema_changes.evolution import Policies, Policy
from lakeward.plugins.testing.bench import FOREIGN, Law, Trial, expected
from lakeward.plugins.testing.laws import odd_values
from lakeward.plugins.testing.laws.tables import typed_values
from lakeward.plugins.testing.player import ABOUT_THE_COMMIT, CRASHES, Lake, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Item, Script

KEY: Final = ("h", "id")


def _event(operation: Operation, at: int, key: int = 1, *, late: int | None = None, **more: Any) -> ChangeEvent:
    """Return a change of a key with source time `at`, in an object of its own: number `at`, or number `late`."""
    cells = {"h": 0, "id": key, "a": more.pop("a", at), "b": more.pop("b", 10 * at)}
    place = Position(1, at, at if late is None else late, key)
    return ChangeEvent(operation=operation, position=place, key=(0, key), cells=cells, time=at, **more)


def _insert(at: int, key: int = 1, **more: Any) -> ChangeEvent:
    return _event(Operation.INSERT, at, key, **more)


def _update(at: int, key: int = 1, **more: Any) -> ChangeEvent:
    return _event(Operation.UPDATE, at, key, **more)


def _delete(at: int, key: int = 1, **more: Any) -> ChangeEvent:
    return _event(Operation.DELETE, at, key, **more)


def _script(*deliveries: Sequence[Item], lateness: Lateness = ORDERED, in_part: bool = False) -> Script:
    """Return a script. Rows that cannot be applied are discarded at its end."""
    dimension = Dimension(name=NAME, schema=PACKED, key=KEY, lateness=lateness, tolerance=TOLERANT)
    by_place = {item.position: item for items in deliveries for item in items}
    events = [item for item in by_place.values() if isinstance(item, ChangeEvent)]
    return Script(dimension, deliveries, events, in_part=in_part)


def a_table_without_a_commit_has_no_progress(trial: Trial) -> None:
    """A table without a commit has no columns and no progress. Opening it does not create it."""
    dimension = _script().dimension
    for _ in range(2):
        state = trial.bench.lake.open(dimension).table.state()
        assert state.schema is None, f"columns of a table that was never written: {state.schema}"
        assert state.progress == Progress(), f"progress of a table that was never written: {state.progress}"


def a_row_is_read_back_with_the_progress_of_its_batch(trial: Trial) -> None:
    """Rows and progress become visible in one commit. NULL and zero are different values."""
    script = _script([_insert(1, a=None, b=0)])
    trial.play(script)
    player = Player(script, trial.bench.lake).play()
    state = trial.bench.lake.open(script.dimension).table.state()
    assert state.progress == player.moments[-1].progress
    assert state.progress.batch == 1
    assert state.schema is not None
    assert state.schema.names == PACKED.names, f"columns of the table: {state.schema.names}"


def an_update_replaces_a_row(trial: Trial) -> None:
    """An update replaces the row of its key. Other rows do not change."""
    trial.play(_script([_insert(1), _insert(1, 2)], [_update(2)]))


def inserts_and_updates_both_upsert(trial: Trial) -> None:
    """An insert replaces an existing row, and an update creates a missing one. Both are counted as applied."""
    trial.play(_script([_insert(1)], [_insert(2), _update(2, 2)]))


def a_delete_removes_a_row(trial: Trial) -> None:
    """A delete removes only the row of its key, and without a row does nothing. A later insert adds it again."""
    trial.play(_script([_insert(1), _insert(1, 2)], [_delete(2), _delete(2, 3)], [_insert(3)]))


def a_soft_delete_keeps_the_last_values(trial: Trial) -> None:
    """A soft delete keeps the last values, late ones too. It creates no row, and a later insert ends it."""
    inserts, gone = [_insert(1, key) for key in (1, 2, 3)], [_delete(4), _delete(4, 2), _delete(4, 9)]
    script = _script(inserts, gone, [_update(3, late=5), _insert(5, 2)], lateness=Unbounded())
    moment = trial.play(replace(script, dimension=replace(script.dimension, deletes=Deletes.SOFT))).moments[-1]
    cells_by_id = {key[1]: (cells["a"], cells[DELETED]) for key, (cells, _) in moment.rows.items()}
    assert cells_by_id == {1: (3, True), 2: (5, False), 3: (1, False)}, f"rows are {cells_by_id}"


def the_last_change_of_a_key_wins(trial: Trial) -> None:
    """Of several changes of a key in one batch the last is applied. The others are superseded."""
    together = [_insert(1), _insert(1, 2)], [_update(2), _delete(2, 2)], [_delete(3), _insert(3, 2)], [_insert(4)]
    trial.play(_script([event for events in together for event in events]))


def an_object_delivered_again_changes_nothing(trial: Trial) -> None:
    """An object, or its events in a later one, changes nothing the second time, with a key or without one."""
    first, second = [_insert(1), _insert(1, 2)], [_update(2), _delete(2, 2)]
    trial.play(_script(first, second, first, [*first, *second]))
    bare = _script(first, [*first, _insert(3)], first)
    trial.play(replace(bare, dimension=replace(bare.dimension, key=())))


def a_late_change_overwrites_nothing_newer(trial: Trial) -> None:
    """A late change overwrites neither a newer row nor a newer delete."""
    late = [_update(2, late=5), _update(3, 2, late=5)]
    trial.play(_script([_insert(1), _insert(1, 2)], [_update(4), _delete(4, 2)], late, lateness=Unbounded()))


def a_row_that_cannot_be_applied_holds_its_key(trial: Trial) -> None:
    """Later events of a held key wait, other keys continue, and a discard applies the waiting events."""
    bad = Reject(Position(1, 2, 2, 1), Reason.CAST, ((0, 1),), time=2)
    player = trial.play(_script([_insert(1), _insert(1, 2)], [bad, _update(2, 2)], [_update(3), _update(3, 2)]))
    held, released = player.moments[-2:]
    assert held.progress.held == 1
    assert held.quarantine[bad.position][:2] == (Reason.CAST.value, 1)
    assert not released.quarantine


def a_change_that_ties_with_a_stored_one_is_held_or_stops_the_table(trial: Trial) -> None:
    """With `quarantine` the stored change wins and the tied one holds its key; with `fail` nothing is written."""
    other = _update(2, a=7, late=3)
    script = _script([_insert(1), _insert(1, 2), _update(2)], [other, _update(4), _update(3, 2)])
    held = replace(script, events=[event for event in script.events if event is not other])
    held = replace(held, dimension=replace(script.dimension, ties=Ties.QUARANTINE))
    player = Player(held, trial.bench.lake, expected=expected(held))
    player.deliver()
    _stops_at_a_tie(Player(replace(held, dimension=replace(held.dimension, ties=Ties.FAIL)), trial.bench.lake))
    player.deliver()
    assert [entry[:2] for entry in player.moments[-1].quarantine.values()] == [(Reason.TIE.value, 1)]
    player.settle(Random(0), 1.0, iter(()))
    assert player.moments[-1].rows == held.truth


def _stops_at_a_tie(player: Player) -> None:
    """Deliver a change that ties with a stored one. Raises AssertionError if the table does not stop."""
    player.source.arrived, before = 1, player.observe()
    try:
        player.deliver()
    except SourceError:
        assert player.observe() == before, "a table that stops at a tie was changed"
    else:
        raise AssertionError("a table that must stop at a tie applied it")


@dataclass(frozen=True)
class _KeepsItsColumns(Script):
    """A script whose table does not get the new columns of its files."""

    def table_after(self, arrived: int) -> Dimension:
        """Return the dimension unchanged."""
        return self.dimension


def only_rows_that_show_a_column_change_are_refused(trial: Trial) -> None:
    """With policy `quarantine` only rows with a value in a new column are held. Others apply without the column."""
    insert = [_insert(1, key) for key in (1, 2, 3)]
    now = [_with(_update(2), c=7), _with(_update(2, 2), c=None), _with(_delete(2, 3), c=9)]
    complete_script = _script(insert, [_update(2, 2), _delete(2, 3)], [_update(3), _update(3, 2)])
    script = _KeepsItsColumns(
        replace(complete_script.dimension, policies=Policies(add=Policy.QUARANTINE)),
        [insert, now, complete_script.deliveries[2]],
        complete_script.events,
        columns={1: Schema((*PACKED, Column("c", parse_type("int"))))},
    )
    player = trial.play(script)
    _, refused, waiting, released = player.moments
    assert {place: (reason, waits) for place, (reason, waits, *_) in refused.quarantine.items()} == {
        now[0].position: (Reason.SCHEMA.value, 0)
    }, f"in quarantine is not the row alone that has a value in the new column: {refused.quarantine}"
    assert [key for key in refused.rows if refused.rows[key][1] == insert[0].position] == [(0, 1)]
    assert waiting.quarantine[now[0].position][:2] == (Reason.SCHEMA.value, 1), "the next event does not wait"
    assert not released.quarantine


def _with(event: ChangeEvent, **cells: Any) -> ChangeEvent:
    return replace(event, cells={**event.cells, **cells})


def operator_decisions_are_stored_with_the_table(trial: Trial) -> None:
    """Operator decisions are stored in order, also before the first batch. They change no rows and no progress."""
    script, lake = _script([_insert(1), _insert(1, 2)], [_update(2)]), trial.bench.lake
    recorded: list[OperatorDecision] = []
    player = Player(script, lake)
    decisions: list[list[OperatorDecision]] = [
        [Acknowledgement(code="LEDGER-001", about=("0000/1", "ü"), by="ann", reason=reason, at=at)]
        for at, reason in ((1, None), (2, "copied late"), (3, ""))
    ]
    if trial.can(Capability.RELOAD):
        decisions[-1] += [
            ReloadRequest(epoch=2, cut=7, by="ann", reason="it was wrong", at=4),
            LoadCompletion(epoch=2, about=("LOAD/1",), by="ben", at=5),
        ]
    for number, new in enumerate(decisions):
        for decision in new:
            _record(lake, script.dimension, decision)
            recorded.append(decision)
            _check_decisions(lake, script.dimension, recorded)
        if number < len(script.deliveries):
            player.deliver()
            _check_decisions(lake, script.dimension, recorded)
    assert player.observe() == player.moments[-1], "a decision changed the visible state of the table"


def _record(lake: Lake, dimension: Dimension, decision: OperatorDecision) -> None:
    """Record a decision. Raises AssertionError if it changes the table state."""
    opened = lake.open(dimension)
    before = opened.table.state()
    opened.change_log.read_state(before.progress)
    opened.change_log.record_decision(before.progress, decision)
    assert lake.open(dimension).table.state() == before, "a decision must not commit to the table"


def _check_decisions(lake: Lake, dimension: Dimension, recorded: Sequence[OperatorDecision]) -> None:
    opened = lake.open(dimension)
    stored = [*opened.change_log.read_state(opened.table.state().progress).decisions]
    assert stored == [*recorded], f"recorded were {recorded}, and stored are {stored}"


def a_batch_is_applied_once_after_a_crash_at_any_step(trial: Trial) -> None:
    """A process ends before or after any step of a batch, with packed histories only at its commit."""
    deliveries = [[_insert(1), _insert(1, 2)], [_update(2), _delete(2, 2)], [_insert(3, 2), _update(3)]]
    steps = [end for end in CRASHES if not trial.is_packed or end in ABOUT_THE_COMMIT]
    for ends in [steps[n : n + 3] for n in range(0, len(steps), 3)]:
        trial.play(_script(*deliveries), ends)


NEIGHBOURS: Final = (NAME, TableName(NAME.schema, f"{NAME.table}s"), TableName(f"{NAME.schema}s", NAME.table))


def tables_of_one_lake_are_independent(trial: Trial) -> None:
    """Tables with similar names or other schemas share no rows, progress, change log or quarantine."""
    players = []
    for number, name in enumerate(NEIGHBOURS, 1):
        bad = Reject(Position(1, 4, 4, number), Reason.CAST, ((0, number),), time=4)
        inserts = [_insert(2, key, a=number) for key in (1, 2, 3)]
        script = _script(inserts, [bad, _update(5, number), _delete(1, 3, late=5)], lateness=Unbounded())
        script = replace(script, dimension=replace(script.dimension, name=name))
        players.append(Player(script, trial.bench.lake, expected=expected(script)))
    for _ in range(2):
        for player in players:
            player.deliver()
        for player in players:
            assert player.observe() == player.moments[-1], (
                f"{player.script.dimension.name}: another table changed it"
            )
    for player in players:
        player.settle(Random(0), 1.0, iter(()))
        assert player.moments[-1].rows == player.script.truth


def a_commit_of_another_writer_hides_no_progress(trial: Trial) -> None:
    """Rows, progress and change log are read after commits of another writer, and the next batch follows."""
    script = _script([_insert(1), _insert(1, 2)], [_update(2), _delete(2, 2)], [_update(1, late=3), _insert(4, 2)])
    player = Player(script, trial.bench.lake)
    assert trial.bench.foreign is not None
    for _ in script.deliveries:
        player.deliver()
        for _ in range(2):
            trial.bench.foreign(script.dimension)
        progress = trial.bench.lake.open(script.dimension).table.state().progress
        assert progress == player.moments[-1].progress, "progress is not found after a commit of another writer"
    assert player.moments[-1].rows == script.truth


def maintenance_changes_no_row_and_hides_no_progress(trial: Trial) -> None:
    """Rows and progress are read after maintenance, and the next batch follows. A dry run changes nothing."""
    script = _script([_insert(1), _insert(1, 2)], [_update(2), _delete(2, 2)], [_update(1, late=3), _insert(4, 2)])
    player, policy = Player(script, trial.bench.lake), MaintenancePolicy(deleted=0.1, small=2, keep=1)
    for _ in script.deliveries:
        player.deliver()
        for is_dry in (True, False):
            opened = trial.bench.lake.open(script.dimension)
            assert opened.maintenance is not None, "a table that declares `maintain` has it"
            report = opened.maintenance.maintain(policy, is_dry=is_dry)
            assert player.observe() == player.moments[-1], "maintenance changed the visible state of the table"
            if not is_dry:
                again = opened.maintenance.maintain(policy, is_dry=True)
                assert (again.files, again.snapshots) == (0, 0), f"{report} was done, and {again} is due again"
    assert player.moments[-1].rows == script.truth


def a_snapshot_row_without_a_position_replaces_no_change(trial: Trial) -> None:
    """It restores no deleted row either. For a key without changes, the snapshot row that came last wins."""
    read = [
        replace(_event(Operation.READ, at, key), position=Position(1, READ_SEQUENCE, at, key))
        for at, key in ((1, 3), (3, 1), (3, 2), (3, 3))
    ]
    trial.play(_script([_insert(1), _insert(1, 2), read[0]], [_delete(2, 2)], read[1:]))


def a_truncate_removes_every_older_row(trial: Trial) -> None:
    """A truncate also removes rows of keys that are not in its batch. Later changes stay."""
    truncate = ChangeEvent(operation=Operation.TRUNCATE, position=Position(1, 2, 2, 1), time=2)
    trial.play(_script([_insert(1), _insert(1, 2)], [truncate], [_insert(3, 2)]))


def a_cell_that_was_not_sent_keeps_its_value(trial: Trial) -> None:
    """A cell that was not sent keeps the stored value. A NULL that was sent replaces it."""
    trial.play(_script([_insert(1), _insert(1, 2)], [_update(2, a=UNSET), _update(2, 2, a=None)], in_part=True))


def a_key_change_moves_the_row(trial: Trial) -> None:
    """A key change takes the cells that were not sent to the new key, and leaves no row under the old one."""
    moved = _update(2, 3, old_key=(0, 1))
    trial.play(_script([_insert(1), _insert(1, 2)], [moved], lateness=Unbounded(), in_part=True))


def a_full_load_replaces_all_rows(trial: Trial) -> None:
    """Reload: the commit of a full load of a new epoch removes all rows that the load does not have."""
    place = Position(2, LOAD_SEQUENCE, 1, 1)
    loaded = ChangeEvent(
        operation=Operation.READ, position=place, key=(0, 3), cells={"h": 0, "id": 3, "a": 7, "b": 7}
    )
    before = _script([_insert(1), _insert(1, 2)], [_update(2)])
    trial.play(Script(before.dimension, [*before.deliveries, [loaded]], [loaded], reloaded_with=2))


LAWS: Final = tuple(
    Law.of(check, *needs, once=True)
    for check, *needs in (
        (a_table_without_a_commit_has_no_progress,),
        (a_row_is_read_back_with_the_progress_of_its_batch,),
        (an_update_replaces_a_row,),
        (inserts_and_updates_both_upsert,),
        (a_delete_removes_a_row,),
        (a_soft_delete_keeps_the_last_values, Capability.SOFT_DELETE.value),
        (the_last_change_of_a_key_wins,),
        (an_object_delivered_again_changes_nothing,),
        (a_late_change_overwrites_nothing_newer,),
        (a_snapshot_row_without_a_position_replaces_no_change,),
        (a_truncate_removes_every_older_row, Capability.TRUNCATE.value),
        (a_cell_that_was_not_sent_keeps_its_value, Capability.UNSET.value),
        (a_key_change_moves_the_row, Capability.KEY_CHANGE.value),
        (a_full_load_replaces_all_rows, Capability.RELOAD.value),
        (a_row_that_cannot_be_applied_holds_its_key,),
        (a_change_that_ties_with_a_stored_one_is_held_or_stops_the_table,),
        (only_rows_that_show_a_column_change_are_refused,),
        (operator_decisions_are_stored_with_the_table,),
        (a_batch_is_applied_once_after_a_crash_at_any_step,),
        (a_commit_of_another_writer_hides_no_progress, FOREIGN),
        (maintenance_changes_no_row_and_hides_no_progress, Capability.MAINTAIN.value),
        (tables_of_one_lake_are_independent,),
        (odd_values.a_value_is_read_back_unchanged,),
        (typed_values.a_value_of_every_type_is_read_back_unchanged,),
    )
)
"""In the order in which the author of a new format can make them hold."""
