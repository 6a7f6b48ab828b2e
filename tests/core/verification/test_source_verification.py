"""Verification against a source that goes on: lag is never a certain difference, and lasting errors are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.core.events import LOAD_SEQUENCE, Position, Sequences
from lakeward.core.progress import Progress
from lakeward.core.verification.compared_columns import ComparedColumns
from lakeward.core.verification.row_comparison import RowDigest, compare_rows
from lakeward.core.verification.source_places import SourcePlace, has_passed
from lakeward.core.verification.source_verification import (
    Outcome,
    Proof,
    SourceComparison,
    SourceVerdict,
    SourceVerification,
    WaitPolicy,
    verify,
)

SECOND = 1_000_000
PLACE = 10**19
NOTHING = ComparedColumns()


@dataclass
class World:
    """A source whose log grows by a change a second, and a table that has a part of it; some keys are spoiled.

    A change is a key and whether it deletes the key. Values repeat after `values` changes. `delays` says by how
    many seconds the table is behind, second by second. A comparison takes `pause` seconds until the source is read,
    and as many afterwards.
    """

    changes: list[tuple[int, bool]]
    delays: list[int]
    spoiled: dict[int, int] = field(default_factory=dict)
    has_places: bool = True
    has_times: bool = True
    second: int = 0
    pause: int = 0
    values: int = 1_000
    sleeps: list[float] = field(default_factory=list)

    def rows(self, upto: int, spoiled: dict[int, int]) -> dict[int, tuple[int, int]]:
        """Return value and last change by key after a number of changes; a spoiled key stays until it changes."""
        found = {key: (-key - 1, 0) for key in range(5)}
        for number, (key, is_deleted) in enumerate(self.changes[:upto]):
            if is_deleted:
                found.pop(key, None)
            else:
                found[key] = (number % self.values, number + 1)
        for key, since in spoiled.items():
            touched = any(own == key for own, _ in self.changes[since:upto])
            if not touched:
                found[key] = (1_000_000 + key, 0)
        return found

    @property
    def applied(self) -> int:
        reached = [now - delay for now, delay in enumerate(self.delays[: self.second + 1])]
        return max(0, min(max(reached, default=0), len(self.changes)))

    @property
    def progress(self) -> Progress:
        place = Position(1, self.applied * PLACE, 1, 1) if self.applied else None
        return Progress(
            batch=1,
            high_watermark=place,
            sequences=Sequences.PLACES if self.has_places else Sequences.ARRIVAL,
            time=self.applied * SECOND if self.applied and self.has_times else None,
        )

    def place(self) -> SourcePlace:
        # The change of this second is the last that is committed; one that is applied later is behind it.
        return SourcePlace(
            time=self.second * SECOND if self.has_times else None,
            sequence=(self.second + 1) * PLACE if self.has_places else None,
        )

    def compare(self, among: frozenset[str] | None) -> SourceComparison:
        progress, begins, at = self.progress, self.place(), self.now()
        self.second += self.pause
        source = self.rows(self.second, {})
        self.second += self.pause
        table = self.rows(self.applied, {k: min(v, self.applied) for k, v in self.spoiled.items()})
        found = compare_rows(_digests(source, 0), _digests(table, 1), ranges=3, among=among)
        return SourceComparison(
            at=at,
            begins=begins,
            ends=self.place(),
            comparison=found,
            has_passed=lambda place: has_passed(progress, place, is_lifted=False),
        )

    def now(self) -> int:
        return self.second * SECOND

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.second += max(1, round(seconds))

    def verify(self, patience: int | None = None, kept: SourceVerdict | None = None) -> SourceVerification:
        def passes(place: SourcePlace) -> bool | None:
            return has_passed(self.progress, place, is_lifted=False)

        waiting = WaitPolicy(patience=patience, now=self.now, sleep=self.sleep)
        return verify(self.compare, NOTHING, passes, kept, waiting)


def _digests(rows: dict[int, tuple[int, int]], has_stamps: int) -> list[RowDigest]:
    return [RowDigest(key, f'["{key}"]', value, has_stamps * change) for key, (value, change) in rows.items()]


CHANGES = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=3, max_size=12).map(lambda some: some * 8)
DELAYS = st.lists(st.integers(0, 6), min_size=1, max_size=9).map(lambda some: some * 100)
PAUSES = st.integers(0, 2)


@given(
    changes=CHANGES,
    delays=DELAYS,
    starts=st.lists(st.tuples(st.integers(0, 25), st.sampled_from([None, 12, 20])), min_size=1, max_size=3),
    places_and_times=st.sampled_from([(True, True), (True, False), (False, True), (False, False)]),
    pause=PAUSES,
    values=st.sampled_from([2, 1_000]),
)
def test_a_change_that_has_not_arrived_yet_is_never_a_certain_difference(
    changes: list[tuple[int, bool]],
    delays: list[int],
    starts: list[tuple[int, int | None]],
    places_and_times: tuple[bool, bool],
    pause: int,
    values: int,
) -> None:
    if values == 2:  # of a row that goes and comes again as it was nothing tells
        changes = [(key, False) for key, _ in changes]
    world, kept = World(changes, delays, {}, *places_and_times, pause=pause, values=values), None
    for wait, patience in starts:
        world.second += wait
        # Patience is longer than any delay and the pauses, as whoever sets it says.
        found = world.verify(None if patience is None else patience * SECOND, kept)
        kept = found.verdict
        assert kept.outcome is not Outcome.DIFFERENT


@given(
    changes=CHANGES,
    delays=DELAYS,
    start=st.integers(0, 20),
    key=st.integers(0, 4),
    places=st.booleans(),
    pause=PAUSES,
)
def test_a_key_that_stays_wrong_is_found_and_no_other_is_named(
    changes: list[tuple[int, bool]], delays: list[int], start: int, key: int, places: bool, pause: int
) -> None:
    changes = [change for change in changes if change[0] != key]  # no later change corrects it
    world = World(changes, delays, spoiled={key: 0}, has_places=places, second=start, pause=pause)
    found = world.verify(12 * SECOND).verdict
    proven = [one.difference.key for one in found.differences if one.proof is not None]
    assert (found.outcome, proven) == (Outcome.DIFFERENT, [f'["{key}"]'])
    assert (found.through, found.through_at) == (None, None)


@given(changes=CHANGES, delays=DELAYS, start=st.integers(0, 20))
def test_a_table_that_catches_up_is_equal_through_the_first_place(
    changes: list[tuple[int, bool]], delays: list[int], start: int
) -> None:
    changes = changes[:start]  # the source rests from then on
    world = World(changes, delays, second=start)
    place = world.place()
    found = world.verify(10 * SECOND).verdict
    assert (found.outcome, found.through, found.differing) == (Outcome.EQUAL, place, 0)


def test_a_key_that_was_equal_once_counts_as_equal() -> None:
    world = World([(0, False), (1, False), (2, False)] * 20, [1] * 100, second=10)
    found = world.verify(20 * SECOND)
    assert (found.verdict.outcome, found.comparisons) == (Outcome.EQUAL, 2), "another change is on its way then"


def test_changes_committed_while_the_source_is_read_must_be_passed_too() -> None:
    changes = [(0, False)] * 11 + [(1, False)] + [(0, False)] * 20
    world = World(changes, [3] * 15 + [100] * 50, second=10, pause=2)  # that of key 1 is on its way throughout
    kept = world.verify().verdict
    assert '["1"]' in [one.difference.key for one in kept.differences]
    assert world.verify(kept=kept).verdict.outcome is Outcome.UNDECIDED


def spoiled(**options: Any) -> World:
    """Return a world at rest in which one key is wrong."""
    return World([(0, False)] * 5, [0] * 500, spoiled={3: 0}, second=10, **options)


def test_without_patience_a_difference_is_proven_once_the_table_has_passed_it() -> None:
    world = spoiled()
    first = world.verify().verdict
    assert (first.outcome, [one.proof for one in first.differences]) == (Outcome.UNDECIDED, [None])
    again = world.verify(kept=first).verdict
    assert (again.outcome, again.differences[0].since) == (Outcome.UNDECIDED, first.at), "nothing newer was applied"
    world.changes += [(1, False)] * 10
    world.second += 10
    last = world.verify(kept=again).verdict
    assert (last.outcome, last.differences[0].proof) == (Outcome.DIFFERENT, Proof.PASSED)
    assert last.differences[0].since == first.at
    assert world.sleeps == []


def test_time_decides_where_the_place_of_the_table_is_unknown() -> None:
    world = spoiled(has_places=False, has_times=False)
    assert not world.verify().can_pass
    found = world.verify(30 * SECOND)
    assert (found.verdict.outcome, found.verdict.differences[0].proof) == (Outcome.DIFFERENT, Proof.STOOD)
    assert (found.comparisons, sum(world.sleeps)) == (2, 30)


@pytest.mark.parametrize("patience", [1, 5, 6, 7])
def test_a_comparison_that_takes_longer_than_the_patience_is_followed_by_another(patience: int) -> None:
    world = spoiled(has_places=False, has_times=False, pause=3)
    found = world.verify(patience * SECOND)
    assert (found.verdict.outcome, found.comparisons) == (Outcome.DIFFERENT, 2)


def test_a_difference_of_an_earlier_verification_counts_from_then_on() -> None:
    world = spoiled(has_places=False, has_times=False)
    kept = world.verify().verdict
    world.second += 29
    found = world.verify(30 * SECOND, kept)
    assert (found.verdict.outcome, world.sleeps) == (Outcome.DIFFERENT, [1.0]), "it need not wait longer"
    world.spoiled = {}
    equal = world.verify(30 * SECOND, found.verdict).verdict
    assert (equal.outcome, equal.through_at) == (Outcome.EQUAL, world.now())
    world.spoiled = {2: 0}
    later = world.verify(kept=equal).verdict
    assert (later.outcome, later.through_at) == (Outcome.UNDECIDED, equal.at), "what was equal before is kept"


@pytest.mark.parametrize(
    ("progress", "place", "is_lifted", "passed"),
    [
        ({"high": 7}, SourcePlace(sequence=7 * PLACE), False, True),
        ({"high": 6}, SourcePlace(sequence=7 * PLACE), False, False),
        ({"high": 9}, SourcePlace(sequence=7 * PLACE), True, None),
        ({"high": 9}, SourcePlace(), False, None),
        ({"high": LOAD_SEQUENCE}, SourcePlace(sequence=7 * PLACE), False, None),
        ({"high": 7, "unit": PLACE // 10}, SourcePlace(time=4, sequence=7), False, True),
        ({"high": 9, "logs": ("~bin. 1",)}, SourcePlace(sequence=7 * PLACE, origin="bin. 2"), False, None),
        ({"high": 9, "logs": ("~bin. 1",)}, SourcePlace(sequence=7 * PLACE, origin="bin. 1"), False, True),
        ({"high": 9, "logs": ("~other. 1",)}, SourcePlace(sequence=7 * PLACE, origin="bin. 1"), False, None),
        ({"high": 9, "logs": ("~bin. 1",)}, SourcePlace(time=4, sequence=7 * PLACE, origin="bin. 2"), False, True),
        ({"high": 9, "times": True}, SourcePlace(time=5, sequence=7 * PLACE), False, False),
        ({"high": 0, "time": None}, SourcePlace(time=5), False, None),
    ],
)
def test_a_place_is_passed_by_the_log_where_it_is_the_same_else_by_time(
    progress: dict[str, Any], place: SourcePlace, is_lifted: bool, passed: bool | None
) -> None:
    made = Progress(
        high_watermark=Position(1, progress["high"] * progress.get("unit", PLACE), 1, 1),
        sequences=Sequences.TIMES if "times" in progress else Sequences.PLACES,
        logs=progress.get("logs"),
        time=progress.get("time", 5),
    )
    assert has_passed(made, place, is_lifted=is_lifted) is passed


def test_all_keys_are_compared_again_where_more_differ_than_are_named() -> None:
    world = spoiled()
    asked: list[frozenset[str] | None] = []

    def compare(among: frozenset[str] | None) -> SourceComparison:
        asked.append(among)
        compared = world.compare(among)
        return (
            replace(compared, comparison=replace(compared.comparison, differences=()))
            if len(asked) == 1
            else compared
        )

    passes: Callable[[SourcePlace], bool | None] = lambda _: True  # noqa: E731
    waiting = WaitPolicy(patience=5 * SECOND, now=world.now, sleep=world.sleep)
    found = verify(compare, NOTHING, passes, None, waiting)
    assert asked[:2] == [None, None]
    assert found.verdict.outcome is not Outcome.EQUAL
