"""The first laws of a table: a few rows each, so that what is wrong is seen at once and in small."""

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
    """Return a change of a key, committed `at` a time, in an object of its own (`late`: in a later one)."""
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
    """Return a script; what cannot be applied is given up at its end."""
    dimension = Dimension(name=NAME, schema=PACKED, key=KEY, lateness=lateness, tolerance=TOLERANT)
    by_place = {item.position: item for items in deliveries for item in items}
    events = [item for item in by_place.values() if isinstance(item, ChangeEvent)]
    return Script(dimension, deliveries, events, in_part=in_part)


def a_table_that_was_never_written_stands_at_nothing(trial: Trial) -> None:
    """It has no columns and no progress, and opening it makes none."""
    dimension = _script().dimension
    for _ in range(2):
        standing = trial.bench.lake.open(dimension).table.standing()
        assert standing.schema is None, f"columns of a table that nobody wrote: {standing.schema}"
        assert standing.progress == Progress(), f"progress of a table that nobody wrote: {standing.progress}"


def a_row_is_read_back_with_the_progress_of_its_batch(trial: Trial) -> None:
    """Rows and progress become visible in one commit; a cell may be NULL, and zero is none."""
    script = _script([_insert(1, a=None, b=0)])
    trial.play(script)
    player = Player(script, trial.bench.lake).play()
    standing = trial.bench.lake.open(script.dimension).table.standing()
    assert standing.progress == player.moments[-1].progress
    assert standing.progress.batch == 1
    assert standing.schema is not None
    assert standing.schema.names == PACKED.names, f"columns of the table: {standing.schema.names}"


def an_update_takes_the_place_of_a_row(trial: Trial) -> None:
    """By its key alone; other rows stay."""
    trial.play(_script([_insert(1), _insert(1, 2)], [_update(2)]))


def a_change_upserts_whatever_it_is_called(trial: Trial) -> None:
    """An insert of a key that is there replaces the row, an update of one that is not makes one; both count."""
    trial.play(_script([_insert(1)], [_insert(2), _update(2, 2)]))


def a_delete_takes_a_row_away(trial: Trial) -> None:
    """And no other; one of a key that is not there does nothing; the row may come again."""
    trial.play(_script([_insert(1), _insert(1, 2)], [_delete(2), _delete(2, 3)], [_insert(3)]))


def a_soft_delete_leaves_the_last_values(trial: Trial) -> None:
    """Late ones, too; one of a key that is not there makes no row, and what comes again stands again."""
    inserts, gone = [_insert(1, key) for key in (1, 2, 3)], [_delete(4), _delete(4, 2), _delete(4, 9)]
    script = _script(inserts, gone, [_update(3, late=5), _insert(5, 2)], lateness=Unbounded())
    moment = trial.play(replace(script, dimension=replace(script.dimension, deletes=Deletes.SOFT))).moments[-1]
    shown = {key[1]: (cells["a"], cells[DELETED]) for key, (cells, _) in moment.rows.items()}
    assert shown == {1: (3, True), 2: (5, False), 3: (1, False)}, f"rows are {shown}"


def the_last_of_several_changes_of_a_key_stands(trial: Trial) -> None:
    """In one batch: what came before it is superseded."""
    together = [_insert(1), _insert(1, 2)], [_update(2), _delete(2, 2)], [_delete(3), _insert(3, 2)], [_insert(4)]
    trial.play(_script([event for events in together for event in events]))


def an_object_that_comes_again_changes_nothing(trial: Trial) -> None:
    """Nor do its events in another object of the same place; without a key its rows stand once as well."""
    first, second = [_insert(1), _insert(1, 2)], [_update(2), _delete(2, 2)]
    trial.play(_script(first, second, first, [*first, *second]))
    bare = _script(first, [*first, _insert(3)], first)
    trial.play(replace(bare, dimension=replace(bare.dimension, key=())))


def a_late_change_overwrites_nothing_that_is_newer(trial: Trial) -> None:
    """Where a table takes late events: neither a row, nor a delete that took one away."""
    late = [_update(2, late=5), _update(3, 2, late=5)]
    trial.play(_script([_insert(1), _insert(1, 2)], [_update(4), _delete(4, 2)], late, lateness=Unbounded()))


def a_row_that_cannot_be_applied_holds_its_key(trial: Trial) -> None:
    """What follows of that key waits, others flow; once the row is given up, what waited is applied."""
    bad = Reject(Position(1, 2, 2, 1), Reason.CAST, ((0, 1),), time=2)
    player = trial.play(_script([_insert(1), _insert(1, 2)], [bad, _update(2, 2)], [_update(3), _update(3, 2)]))
    held, released = player.moments[-2:]
    assert held.progress.held == 1
    assert held.quarantine[bad.position][:2] == (Reason.CAST.value, 1)
    assert not released.quarantine


def of_two_changes_at_one_place_the_first_stands_where_the_table_has_it(trial: Trial) -> None:
    """The other one holds its key until a person has said of it; or the table stops before anything is written."""
    other = _update(2, a=7, late=3)
    whole = _script([_insert(1), _insert(1, 2), _update(2)], [other, _update(4), _update(3, 2)])
    held = replace(whole, events=[event for event in whole.events if event is not other])
    held = replace(held, dimension=replace(whole.dimension, ties=Ties.QUARANTINE))
    player = Player(held, trial.bench.lake, expected=expected(held))
    player.deliver()
    _stops_at_a_tie(Player(replace(held, dimension=replace(held.dimension, ties=Ties.FAIL)), trial.bench.lake))
    player.deliver()
    assert [found[:2] for found in player.moments[-1].quarantine.values()] == [(Reason.TIE.value, 1)]
    player.settle(Random(0), 1.0, iter(()))
    assert player.moments[-1].rows == held.truth


def _stops_at_a_tie(player: Player) -> None:
    """Let the second delivery come to a table that has the first."""
    player.source.arrived, before = 1, player.look()
    try:
        player.deliver()
    except SourceError:
        assert player.look() == before, "a table that stops at a tie was changed"
    else:
        raise AssertionError("a table that is to stop at a tie took it")


@dataclass(frozen=True)
class _KeepsItsColumns(Script):
    """A script whose table does not follow the columns of its files."""

    def table_after(self, arrived: int) -> Dimension:
        """Return the dimension as it is."""
        return self.dimension


def rows_that_show_a_change_of_columns_are_refused_alone(trial: Trial) -> None:
    """Where its policy sends them into quarantine: they hold their keys, and others go on without the column."""
    insert = [_insert(1, key) for key in (1, 2, 3)]
    now = [_with(_update(2), c=7), _with(_update(2, 2), c=None), _with(_delete(2, 3), c=9)]
    whole = _script(insert, [_update(2, 2), _delete(2, 3)], [_update(3), _update(3, 2)])
    script = _KeepsItsColumns(
        replace(whole.dimension, policies=Policies(add=Policy.QUARANTINE)),
        [insert, now, whole.deliveries[2]],
        whole.events,
        columns={1: Schema((*PACKED, Column("c", parse_type("int"))))},
    )
    player = trial.play(script)
    _, refused, waiting, released = player.moments
    assert {place: (reason, waits) for place, (reason, waits, *_) in refused.quarantine.items()} == {
        now[0].position: (Reason.SCHEMA.value, 0)
    }, f"in quarantine is not the row alone that has a value in the new column: {refused.quarantine}"
    assert [key for key in refused.rows if refused.rows[key][1] == insert[0].position] == [(0, 1)]
    assert waiting.quarantine[now[0].position][:2] == (Reason.SCHEMA.value, 1), "what follows it does not wait"
    assert not released.quarantine


def _with(event: ChangeEvent, **cells: Any) -> ChangeEvent:
    return replace(event, cells={**event.cells, **cells})


def what_a_person_said_is_known_to_whoever_opens_the_table(trial: Trial) -> None:
    """In order, before there is a table and behind its batches; it changes neither rows nor progress."""
    script, lake, said = (
        _script([_insert(1), _insert(1, 2)], [_update(2)]),
        trial.bench.lake,
        list[OperatorDecision](),
    )
    player = Player(script, lake)
    words: list[list[OperatorDecision]] = [
        [Acknowledgement(code="LEDGER-001", about=("0000/1", "ü"), by="ann", reason=reason, at=at)]
        for at, reason in ((1, None), (2, "copied late"), (3, ""))
    ]
    if trial.can(Capability.RELOAD):
        words[-1] += [
            ReloadRequest(epoch=2, cut=7, by="ann", reason="it was wrong", at=4),
            LoadCompletion(epoch=2, about=("LOAD/1",), by="ben", at=5),
        ]
    for number, spoken in enumerate(words):
        for word in spoken:
            _say(lake, script.dimension, word)
            said.append(word)
            _check_words(lake, script.dimension, said)
        if number < len(script.deliveries):
            player.deliver()
            _check_words(lake, script.dimension, said)
    assert player.look() == player.moments[-1], "a word changed what can be seen of the table"


def _say(lake: Lake, dimension: Dimension, word: OperatorDecision) -> None:
    opened = lake.open(dimension)
    before = opened.table.standing()
    opened.change_log.read_state(before.progress)
    opened.change_log.record_decision(before.progress, word)
    assert lake.open(dimension).table.standing() == before, "a word is no commit of the table"


def _check_words(lake: Lake, dimension: Dimension, said: Sequence[OperatorDecision]) -> None:
    opened = lake.open(dimension)
    found = [*opened.change_log.read_state(opened.table.standing().progress).words]
    assert found == [*said], f"said was {said}, and known is {found}"


def a_process_that_ends_anywhere_leaves_a_table_that_goes_on(trial: Trial) -> None:
    """Before and after each step of a batch (about its commit, where a batch is slow); it is applied once."""
    deliveries = [[_insert(1), _insert(1, 2)], [_update(2), _delete(2, 2)], [_insert(3, 2), _update(3)]]
    steps = [end for end in CRASHES if not trial.is_packed or end in ABOUT_THE_COMMIT]
    for ends in [steps[n : n + 3] for n in range(0, len(steps), 3)]:
        trial.play(_script(*deliveries), ends)


NEIGHBOURS: Final = (NAME, TableName(NAME.schema, f"{NAME.table}s"), TableName(f"{NAME.schema}s", NAME.table))


def tables_of_one_lake_are_apart(trial: Trial) -> None:
    """Where the name of one begins as another's, and in another schema: rows, progress, memory and quarantine."""
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
            assert player.look() == player.moments[-1], f"{player.script.dimension.name}: another table changed it"
    for player in players:
        player.settle(Random(0), 1.0, iter(()))
        assert player.moments[-1].rows == player.script.truth


def a_commit_of_another_writer_hides_no_progress(trial: Trial) -> None:
    """Rows, progress and what is remembered are read back behind it, and the next batch follows."""
    script = _script([_insert(1), _insert(1, 2)], [_update(2), _delete(2, 2)], [_update(1, late=3), _insert(4, 2)])
    player = Player(script, trial.bench.lake)
    assert trial.bench.foreign is not None
    for _ in script.deliveries:
        player.deliver()
        for _ in range(2):
            trial.bench.foreign(script.dimension)
        standing = trial.bench.lake.open(script.dimension).table.standing()
        assert standing.progress == player.moments[-1].progress, "progress is not read behind another's commit"
    assert player.moments[-1].rows == script.truth


def maintenance_changes_no_row_and_hides_no_progress(trial: Trial) -> None:
    """Rows and progress are read back behind it, and the next batch follows; a dry run changes nothing at all."""
    script = _script([_insert(1), _insert(1, 2)], [_update(2), _delete(2, 2)], [_update(1, late=3), _insert(4, 2)])
    player, policy = Player(script, trial.bench.lake), MaintenancePolicy(deleted=0.1, small=2, keep=1)
    for _ in script.deliveries:
        player.deliver()
        for is_dry in (True, False):
            opened = trial.bench.lake.open(script.dimension)
            assert opened.maintenance is not None, "a table that declares `maintain` has it"
            told = opened.maintenance.maintain(policy, is_dry=is_dry)
            assert player.look() == player.moments[-1], "maintenance changed what can be seen of the table"
            if not is_dry:
                again = opened.maintenance.maintain(policy, is_dry=True)
                assert (again.files, again.snapshots) == (0, 0), f"{told} was done, and {again} is due again"
    assert player.moments[-1].rows == script.truth


def a_snapshot_row_without_a_place_replaces_no_change(trial: Trial) -> None:
    """Nor does it bring a deleted row back; of a key without a change the last that came stands."""
    read = [
        replace(_event(Operation.READ, at, key), position=Position(1, READ_SEQUENCE, at, key))
        for at, key in ((1, 3), (3, 1), (3, 2), (3, 3))
    ]
    trial.play(_script([_insert(1), _insert(1, 2), read[0]], [_delete(2, 2)], read[1:]))


def a_truncate_takes_every_older_row_away(trial: Trial) -> None:
    """Those that nothing else in its batch names, too; what comes behind it stays."""
    truncate = ChangeEvent(operation=Operation.TRUNCATE, position=Position(1, 2, 2, 1), time=2)
    trial.play(_script([_insert(1), _insert(1, 2)], [truncate], [_insert(3, 2)]))


def a_cell_that_was_not_sent_keeps_its_value(trial: Trial) -> None:
    """It is not NULL; and NULL that was sent is."""
    trial.play(_script([_insert(1), _insert(1, 2)], [_update(2, a=UNSET), _update(2, 2, a=None)], in_part=True))


def a_change_of_a_key_moves_the_row(trial: Trial) -> None:
    """With the cells that were not sent; under the old key nothing stands."""
    moved = _update(2, 3, old_key=(0, 1))
    trial.play(_script([_insert(1), _insert(1, 2)], [moved], lateness=Unbounded(), in_part=True))


def a_full_load_takes_the_place_of_all_rows(trial: Trial) -> None:
    """A reload: rows that it does not hold are gone, in the commit that makes it visible."""
    place = Position(2, LOAD_SEQUENCE, 1, 1)
    loaded = ChangeEvent(
        operation=Operation.READ, position=place, key=(0, 3), cells={"h": 0, "id": 3, "a": 7, "b": 7}
    )
    before = _script([_insert(1), _insert(1, 2)], [_update(2)])
    trial.play(Script(before.dimension, [*before.deliveries, [loaded]], [loaded], reloaded_with=2))


LAWS: Final = tuple(
    Law(name=check.__name__, statement=check.__doc__ or "", check=check, needs=frozenset(needs), once=True)
    for check, *needs in (
        (a_table_that_was_never_written_stands_at_nothing,),
        (a_row_is_read_back_with_the_progress_of_its_batch,),
        (an_update_takes_the_place_of_a_row,),
        (a_change_upserts_whatever_it_is_called,),
        (a_delete_takes_a_row_away,),
        (a_soft_delete_leaves_the_last_values, Capability.SOFT_DELETE.value),
        (the_last_of_several_changes_of_a_key_stands,),
        (an_object_that_comes_again_changes_nothing,),
        (a_late_change_overwrites_nothing_that_is_newer,),
        (a_snapshot_row_without_a_place_replaces_no_change,),
        (a_truncate_takes_every_older_row_away, Capability.TRUNCATE.value),
        (a_cell_that_was_not_sent_keeps_its_value, Capability.UNSET.value),
        (a_change_of_a_key_moves_the_row, Capability.KEY_CHANGE.value),
        (a_full_load_takes_the_place_of_all_rows, Capability.RELOAD.value),
        (a_row_that_cannot_be_applied_holds_its_key,),
        (of_two_changes_at_one_place_the_first_stands_where_the_table_has_it,),
        (rows_that_show_a_change_of_columns_are_refused_alone,),
        (what_a_person_said_is_known_to_whoever_opens_the_table,),
        (a_process_that_ends_anywhere_leaves_a_table_that_goes_on,),
        (a_commit_of_another_writer_hides_no_progress, FOREIGN),
        (maintenance_changes_no_row_and_hides_no_progress, Capability.MAINTAIN.value),
        (tables_of_one_lake_are_apart,),
        (odd_values.a_value_is_read_back_as_it_came,),
        (typed_values.a_value_of_every_type_is_read_back_as_it_came,),
    )
)
"""In the order in which a new table learns them."""
