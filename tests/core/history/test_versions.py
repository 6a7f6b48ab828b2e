"""What section 4 of the semantics says of versions, sentence by sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from memory_jobs import columns, item

from lakeward.core.dimension import Dimension
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position
from lakeward.core.history.options import History, Kind, Track, ValidityColumns
from lakeward.core.history.version_checks import VersionRule, violation
from lakeward.core.history.versions import Columns, Version, Versions, order_versions
from lakeward.core.merge.fold import Row, apply
from lakeward.core.schema import Type

SCHEMA = columns(id="int", a="int", b="int")
DIMENSION = item(SCHEMA, history=History())
OF_A = replace(DIMENSION, history=History(track=Track(frozenset({"a"}), but=False)))
COLUMNS = Columns(("a",))


def event(
    operation: Operation, instant: int, place: int | None = None, key: int = 1, **cells: object
) -> ChangeEvent:
    position = Position(1, instant if place is None else place, 1, 1)
    sent = {"id": key, "a": 0, "b": 0, **cells}
    return ChangeEvent(operation=operation, position=position, key=(key,), cells=sent, instant=instant)


def put(instant: int, place: int | None = None, key: int = 1, **cells: object) -> ChangeEvent:
    return event(Operation.UPDATE, instant, place, key, **cells)


def gone(instant: int, place: int | None = None, key: int = 1) -> ChangeEvent:
    return event(Operation.DELETE, instant, place, key)


def of(dimension: Dimension, *events: ChangeEvent, key: int = 1) -> list[tuple[int, int | None, object, object]]:
    row = apply(dimension, {}, events).rows.get((key,), Row({}, Position(1, 0, 0, 0)))
    return [(v.valid_from, v.valid_to, v.cells["a"], v.cells["b"]) for v in row.versions]


def test_an_update_without_changes_moves_the_position_of_its_version() -> None:
    assert of(DIMENSION, put(1, a=1), put(10, a=1)) == [(1, None, 1, 0)]
    late = [put(1, a=1), put(10, a=1), put(5, a=2)]
    assert of(DIMENSION, *late) == [(1, 5, 1, 0), (5, 10, 2, 0), (10, None, 1, 0)]


def test_a_delete_and_a_later_insert_leave_a_gap() -> None:
    assert of(DIMENSION, put(1, a=1), gone(3), put(7, a=1)) == [(1, 3, 1, 0), (7, None, 1, 0)]


def test_a_late_delete_ends_a_version_at_its_instant() -> None:
    assert of(DIMENSION, put(1, a=1), put(9, a=2), gone(4)) == [(1, 4, 1, 0), (9, None, 2, 0)]


def test_delete_and_equal_re_insert_at_one_instant_leave_one_version() -> None:
    assert of(DIMENSION, put(1, a=1), gone(3, 3), put(3, 4, a=1)) == [(1, None, 1, 0)]


def test_a_row_inserted_and_deleted_at_one_instant_leaves_no_version() -> None:
    assert of(DIMENSION, put(3, 3, a=1), gone(3, 4)) == []


def test_an_untracked_change_overwrites_the_version_at_its_position() -> None:
    assert of(OF_A, put(1, a=1, b=1), put(4, a=1, b=2)) == [(1, None, 1, 2)]
    late = [put(1, a=1, b=1), put(9, a=2, b=9), put(4, a=1, b=2)]
    assert of(OF_A, *late) == [(1, 9, 1, 2), (9, None, 2, 9)]


def test_a_late_event_changes_the_inherited_values_of_later_versions() -> None:
    assert of(DIMENSION, put(1, a=1, b=1), put(9, a=2, b=UNSET), put(4, a=1, b=7)) == [
        (1, 4, 1, 1),
        (4, 9, 1, 7),
        (9, None, 2, 7),
    ]


def test_instants_never_fall_along_the_events_of_a_key() -> None:
    assert of(DIMENSION, put(5, 1, a=1), put(9, 2, a=1), put(3, 3, a=2)) == [(5, 9, 1, 0), (9, None, 2, 0)]


def test_a_truncate_closes_every_open_version() -> None:
    truncate = ChangeEvent(operation=Operation.TRUNCATE, position=Position(1, 5, 1, 1), instant=5)
    feed = [put(1, a=1), put(2, key=2), gone(3, key=2), truncate, put(7, key=3)]
    rows = apply(DIMENSION, {}, feed).rows
    ends = {key: [(v.valid_from, v.valid_to) for v in row.versions] for key, row in rows.items()}
    assert ends == {(1,): [(1, 5)], (2,): [(2, 3)], (3,): [(7, None)]}


def test_a_key_change_ends_the_versions_of_one_key_and_begins_those_of_another() -> None:
    move = replace(put(5, key=2, a=1, b=UNSET), old_key=(1,))
    feed = [put(1, a=1, b=3), move]
    assert of(DIMENSION, *feed) == [(1, 5, 1, 3)]
    assert of(DIMENSION, *feed, key=2) == [(5, None, 1, 3)]
    rows = apply(DIMENSION, {}, [*feed, put(9, key=2, a=2)]).rows
    assert [version.previous_key for version in rows[(2,)].versions] == [(1,), None]


def test_an_event_without_an_instant_counts_from_the_one_that_its_key_has_reached() -> None:
    undated = replace(put(0, 9, a=2), instant=None)
    assert of(DIMENSION, put(5, a=1), put(7, a=1, b=1), undated) == [(5, 7, 1, 0), (7, None, 2, 0)]
    with pytest.raises(ValueError, match="has no instant"):
        of(DIMENSION, undated)


def test_each_kind_of_column_shows_its_values() -> None:
    history = History(kinds={"a": Kind.KEEP_FIRST, "b": Kind.PREVIOUS})
    (version,) = (
        apply(replace(DIMENSION, history=history), {}, [put(1, a=1, b=1), put(2, a=2, b=2)]).rows[(1,)].versions
    )
    assert (version.cells["a"], version.cells["b"], version.previous) == (1, 2, {"b": 1})


def version(start: int, end: int | None, a: int = 0, *, deleted: bool = False) -> Version:
    return Version(start, end, {"a": a}, Position(1, start, 1, 1), start, deleted)


@pytest.mark.parametrize(
    ("versions", "rule"),
    [
        ((version(1, 5), version(5, None, 1)), None),
        ((version(1, 5, deleted=True), version(7, None)), None),
        ((version(1, 5, deleted=True),), None),
        ((), None),
        ((version(5, 5, deleted=True),), VersionRule.EMPTY),
        ((version(1, None), version(5, None, 1)), VersionRule.TWO_CURRENT),
        ((version(1, 6), version(5, None, 1)), VersionRule.OVERLAP),
        ((version(1, None), version(5, 6, 1)), VersionRule.OVERLAP),
        ((version(1, 4), version(5, None, 1)), VersionRule.GAP),
        ((version(1, 4),), VersionRule.GAP),
        ((version(1, 5), version(5, None)), VersionRule.EQUAL),
    ],
)
def test_each_rule_of_versions_is_checked(versions: Versions, rule: VersionRule | None) -> None:
    found = violation(COLUMNS, versions)
    assert (None if found is None else found.rule) is rule


def test_a_violation_names_rule_and_version() -> None:
    found = violation(COLUMNS, (version(1, None), version(5, None, 1)))
    assert found is not None
    assert (
        found.describe(ValidityColumns(type=Type("date"))) == "two versions are current (valid_from = 1970-01-02)"
    )


def test_versions_that_are_read_show_which_were_deleted() -> None:
    read = order_versions([version(7, None), version(1, 4), version(4, 5, 1)])
    assert [(v.valid_from, v.deleted) for v in read] == [(1, False), (4, True), (7, False)]
    assert order_versions([]) == ()
