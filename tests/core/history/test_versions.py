"""Versions of key changes and of events without an instant, and the rules that versions satisfy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from memory_jobs import UPDATE, columns, event, item

from lakeward.core.events import UNSET, ChangeEvent, Position
from lakeward.core.history.options import History
from lakeward.core.history.version_checks import VersionRule, violation
from lakeward.core.history.versions import Columns, Version, Versions, order_versions
from lakeward.core.merge.fold import Row, apply

SCHEMA = columns(id="int", a="int", b="int")
DIMENSION = item(SCHEMA, history=History())
COLUMNS = Columns(("a",))


def put(instant: int, place: int | None = None, key: int = 1, **cells: object) -> ChangeEvent:
    sequence, sent = instant if place is None else place, {"a": 0, "b": 0, **cells}
    return event(UPDATE, sequence, key, at=1, instant=instant, **sent)


def of(*events: ChangeEvent, key: int = 1) -> list[tuple[int, int | None, object, object]]:
    row = apply(DIMENSION, {}, events).rows.get((key,), Row({}, Position(1, 0, 0, 0)))
    return [(v.valid_from, v.valid_to, v.cells["a"], v.cells["b"]) for v in row.versions]


def test_a_key_change_ends_the_versions_of_one_key_and_begins_those_of_another() -> None:
    move = replace(put(5, key=2, a=1, b=UNSET), old_key=(1,))
    feed = [put(1, a=1, b=3), move]
    assert of(*feed) == [(1, 5, 1, 3)]
    assert of(*feed, key=2) == [(5, None, 1, 3)]
    rows = apply(DIMENSION, {}, [*feed, put(9, key=2, a=2)]).rows
    assert [version.previous_key for version in rows[(2,)].versions] == [(1,), None]


def test_an_event_without_an_instant_counts_from_the_one_that_its_key_has_reached() -> None:
    undated = replace(put(0, 9, a=2), instant=None)
    assert of(put(5, a=1), put(7, a=1, b=1), undated) == [(5, 7, 1, 0), (7, None, 2, 0)]
    with pytest.raises(ValueError, match="has no instant"):
        of(undated)


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


def test_versions_that_are_read_show_which_were_deleted() -> None:
    read = order_versions([version(7, None), version(1, 4), version(4, 5, 1)])
    assert [(v.valid_from, v.deleted) for v in read] == [(1, False), (4, True), (7, False)]
    assert order_versions([]) == ()
