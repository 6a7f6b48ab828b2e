"""Joined tables against SQL, against themselves made anew, and with mistakes that the laws must find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import joined_past
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joined_commits import check_commits
from joined_laws import check_compared, check_each_change, check_mirror, check_over_time
from joined_past import check_past_of_commits, check_taken_back
from lookup_laws import check_lookup
from tries import tries

from lakeward.core.events import Cell, Key, canonical, same_cells
from lakeward.core.history.versions import Columns, Step, Version, Versions, apply_row
from lakeward.core.joined import join as joins
from lakeward.core.joined import plan as plans
from lakeward.core.joined import rows as rows_module
from lakeward.core.joined import touched as touching
from lakeward.core.joined import undated
from lakeward.core.joined.aggregates import Cells, aggregated
from lakeward.core.joined.declared import Aggregate, Function, Joined, JoinType
from lakeward.core.joined.join import JoinResult, StoredVersions, compare_row, find_difference
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.plan import JoinPlan, JoinProgress, SourceCommit, SourceState, plan_join
from lakeward.core.joined.rows import JoinedRow, RowsBySource, SourceRow, SourceRows, as_of, rows
from lakeward.core.joined.touched import (
    ChangeDates,
    SourceChange,
    SourceChanges,
    TouchedKeys,
    find_touched_keys,
    select_needed_rows,
)
from lakeward.core.joined.undated import is_dated

RANDOMS = st.randoms(use_true_random=False)
LAWS = (
    check_mirror,
    check_over_time,
    check_compared,
    check_each_change,
    check_commits,
    check_past_of_commits,
    check_taken_back,
    check_lookup,
)
thorough = settings(max_examples=tries(40, 200), deadline=None)

FEEDS = 1000
"""How many feeds a broken join gets to betray itself; most need a few."""

TELLING = (91, 348, 395, 444, 502, 611)
"""Feeds that find what others seldom do: they come first."""


@pytest.mark.parametrize("law", LAWS)
@thorough
@given(random=RANDOMS)
def test_what_is_made_of_touched_keys_is_what_is_made_anew(law: Callable[[Random], None], random: Random) -> None:
    law(random)


@pytest.mark.parametrize("law", LAWS)
def test_the_same_feeds_break_nothing_that_is_whole(law: Callable[[Random], None]) -> None:
    play(law, FEEDS // 5)


def forgets_what_was_before(
    joining: Joining, name: str, changes: Mapping[Key, SourceChange], table: SourceRows
) -> Iterable[tuple[Key | None, int | None]]:
    return looks_at_changes(joining, name, {key: replace(one, before=()) for key, one in changes.items()}, table)


def sees_what_was_before_alone(
    joining: Joining, name: str, changes: Mapping[Key, SourceChange], table: SourceRows
) -> Iterable[tuple[Key | None, int | None]]:
    return looks_at_changes(joining, name, changes, {})


def sees_one_source(joining: Joining, changes: SourceChanges, tables: RowsBySource) -> TouchedKeys:
    driving = joining.joined.driving
    return find_touched_keys(joining, {name: found for name, found in changes.items() if name == driving}, tables)


def sees_what_is_beside_the_first(self: Joined, name: str) -> Sequence[str]:
    return [] if name != self.driving else beneath(self, name)


def keeps_the_max(standing: StoredVersions, after: StoredVersions, keys: Iterable[Key]) -> JoinResult:
    kept = {}
    for key, versions in after.items():
        found = [one.cells.get("most") for one in (*standing.get(key, ()), *versions)]
        most = max((value for value in found if isinstance(value, int)), default=None)
        kept[key] = tuple(
            replace(one, cells={**one.cells, **({"most": most} if found[0] else {})}) for one in versions
        )
    return find_difference(standing, kept, keys)


def removes_nothing(standing: StoredVersions, after: StoredVersions, keys: Iterable[Key]) -> JoinResult:
    return replace(find_difference(standing, after, keys), removed=frozenset())


def joins_left(joining: Joining, tables: RowsBySource) -> dict[Key, JoinedRow]:
    return rows(joined_by(joining, JoinType.LEFT), tables)


def joins_inner(joining: Joining, tables: RowsBySource) -> dict[Key, JoinedRow]:
    return rows(joined_by(joining, JoinType.INNER), tables)


def joined_by(joining: Joining, way: JoinType) -> Joining:
    sources = {name: replace(one, way=way) for name, one in joining.joined.sources.items()}
    return replace(joining, joined=replace(joining.joined, sources=sources))


def lets_null_equal_null(cells: Cells, columns: Sequence[str]) -> Key:
    return tuple(canonical(cells[column]) for column in columns)


def writes_all_that_is_touched(one: Version, other: Version) -> bool:
    return False


def compares_no_previous_values(one: Version, other: Version) -> bool:
    return one.valid_to == other.valid_to and same_cells(one.cells, other.cells)


def makes_what_is_known_alone(joining: Joining, tables: RowsBySource) -> set[Key]:
    return {key for key in tables[joining.joined.driving] if not joining.is_grouped(joining.joined.driving)}


def ties_by_no_key(aggregate: Aggregate, images: Sequence[Cells], key: Sequence[str]) -> Cell:
    return aggregated(aggregate, sorted(images, key=lambda cells: str(cells["id"])), ())


def counts_null(aggregate: Aggregate, images: Sequence[Cells], key: Sequence[str]) -> Cell:
    return len(images) if aggregate.function is Function.COUNT else aggregated(aggregate, images, key)


def reads_one_of_a_group(joining: Joining, tables: RowsBySource, keys: Collection[Key]) -> RowsBySource:
    found = select_needed_rows(joining, tables, keys)
    return {name: dict([*table.items()][:1]) if name == "orders" else table for name, table in found.items()}


def ends_the_first(columns: Columns, before: Versions, cells: Cells, step: Step) -> Versions:
    after = apply_row(columns, before, cells, step)
    is_ended = len(after) > len(before) > 1 and before[-1].is_current
    return (replace(after[0], valid_to=after[-1].valid_from), *before[1:], after[-1]) if is_ended else after


def leaves_it_open(versions: Versions, step: Step) -> Versions:
    return versions


def sees_no_ends(joining: Joining, tables: RowsBySource) -> Sequence[int]:
    found = [one.valid_from for table in tables.values() for of_key in table.values() for one in of_key]
    return sorted({instant for instant in found if instant is not None} | ({0} if joining.unknown else set()))


def takes_all_as_it_is_now(tables: RowsBySource, instant: int) -> RowsBySource:
    return as_of(tables, 10**6)


def forgets_when_it_was_touched(
    plan: JoinPlan, versions: Versions, made: JoinedRow | None, touch: ChangeDates
) -> Versions:
    return compare_row(plan, versions, made, ChangeDates(None, touch.undated))


def takes_all_for_dated(
    plan: JoinPlan, columns: Columns, last: Version, made: JoinedRow | None, touch: ChangeDates
) -> bool:
    return True


def takes_what_is_told_for_dated(
    plan: JoinPlan, columns: Columns, last: Version, made: JoinedRow | None, touch: ChangeDates
) -> bool:
    return is_dated(plan, columns, last, made, touch._replace(undated=frozenset()))


def looks_at_what_is_touched_alone(
    plan: JoinPlan, columns: Columns, last: Version, made: JoinedRow | None, touch: ChangeDates
) -> bool:
    return is_dated(replace(plan, untold=frozenset()), columns, last, made, touch)


class OfItAlone(undated.SourceColumns):
    """Forgets that a row which is found otherwise shows what others are joined to it."""

    @classmethod
    def of(cls, joining: Joining, name: str, columns: Columns) -> OfItAlone:
        joined = joining.joined
        alone = {other: replace(one, beside=None) for other, one in joined.sources.items()}
        alone = {joined.driving: alone[joined.driving], name: alone[name]}
        return super().of(replace(joining, joined=replace(joined, sources=alone)), name, columns)


def lets_one_row_date_a_group(joining: Joining, name: str, last: Version, made: JoinedRow | None) -> bool:
    return made is not None and made.instants.get(name) is not None


def forgets_the_unknown(joining: Joining, tables: RowsBySource) -> dict[Key, JoinedRow]:
    return {key: made for key, made in rows(joining, tables).items() if not made.is_unknown}


def sees_nothing_taken_back(joining: Joining, name: str, passed: SourceCommit, state: SourceState) -> str | None:
    return cannot_tell(joining, name, passed, replace(state, goes_on=True))


def sees_nothing_emptied(joining: Joining, name: str, passed: SourceCommit, state: SourceState) -> str | None:
    return has_lost(joining, name, passed, replace(state, emptied=0))


def sees_nothing_spliced(joining: Joining, name: str, passed: SourceCommit, state: SourceState) -> str | None:
    return has_lost(joining, name, passed, replace(state, spliced=0))


def sees_nothing_forgotten(joining: Joining, name: str, passed: SourceCommit, state: SourceState) -> str | None:
    return has_lost(joining, name, passed, replace(state, remembers=0))


def sees_nothing_lost(joining: Joining, name: str, passed: SourceCommit, state: SourceState) -> str | None:
    return has_lost(joining, name, passed, replace(state, shows_before=True))


def takes_what_is_declared_anew_for_dated(
    plan: JoinPlan, columns: Columns, last: Version, made: JoinedRow | None, touch: ChangeDates
) -> bool:
    return is_dated(replace(plan, is_redeclared=False), columns, last, made, touch)


def takes_what_was_made_anew_for_unchanged(
    joining: Joining, progress: JoinProgress | None, states: Mapping[str, SourceState], ran: int = 0
) -> JoinPlan | None:
    plan = plan_join(joining, progress, states, ran)
    back = {name for name, state in states.items() if not state.goes_on and not state.emptied}
    return None if plan is None else replace(plan, untold=plan.untold - back)


def sees_nothing_since_it_was_taken_back(
    joining: Joining, progress: JoinProgress | None, states: Mapping[str, SourceState], ran: int = 0
) -> JoinPlan | None:
    plan = plan_join(joining, progress, states, ran)
    if plan is None:
        return None
    since = {name: batch for name, batch in plan.since.items() if states[name].goes_on}
    return replace(plan, since=since, before=plan.before & since.keys())


def looks_up_what_is_there_now(self: SourceRow, instant: int) -> bool:
    return self.valid_to is None


def closes_at_the_end(self: SourceRow, instant: int) -> bool:
    return covers(self, instant) or instant == self.valid_to


def opens_behind_the_start(self: SourceRow, instant: int) -> bool:
    return covers(self, instant) and instant != self.valid_from


def says_nothing_otherwise(self: Joining, name: str) -> Mapping[str, Cell]:
    return {}


def finds_any_where_no_time_is(self: Joining, name: str, beside: Cells) -> int | None:
    return asked_at(self, name, beside) or 1


def corrects_nothing_late(joining: Joining, changes: SourceChanges, tables: RowsBySource) -> TouchedKeys:
    others = {name: found for name, found in changes.items() if not joining.looks_up(name)}
    return find_touched_keys(joining, others, tables)


covers, asked_at = SourceRow.covers, Joining.asked_at
looks_at_changes, cannot_tell, has_lost = touching._changed, plans._cannot_tell, plans._has_lost
beneath = Joined.beneath


@pytest.mark.parametrize(
    ("where", "name", "broken", "law"),
    [
        (touching, "_changed", forgets_what_was_before, check_mirror),
        (touching, "_changed", forgets_what_was_before, check_over_time),
        (touching, "_changed", forgets_what_was_before, check_compared),
        (touching, "_changed", sees_what_was_before_alone, check_mirror),
        (joins, "find_touched_keys", sees_one_source, check_mirror),
        (joins, "find_touched_keys", sees_one_source, check_over_time),
        (joins, "find_touched_keys", sees_one_source, check_each_change),
        (Joined, "beneath", sees_what_is_beside_the_first, check_mirror),
        (joins, "find_difference", keeps_the_max, check_mirror),
        (joins, "find_difference", removes_nothing, check_mirror),
        (joins, "find_difference", removes_nothing, check_over_time),
        (joins, "rows", joins_left, check_mirror),
        (joins, "rows", joins_inner, check_mirror),
        (joins, "rows", joins_left, check_over_time),
        (joins, "rows", joins_inner, check_compared),
        (joins, "rows", forgets_the_unknown, check_mirror),
        (rows_module, "key_of", lets_null_equal_null, check_mirror),
        (joins, "_shows_the_same", writes_all_that_is_touched, check_mirror),
        (joins, "_shows_the_same", writes_all_that_is_touched, check_over_time),
        (joins, "_shows_the_same", compares_no_previous_values, check_over_time),
        (joins, "_keys", makes_what_is_known_alone, check_over_time),
        (rows_module, "aggregated", ties_by_no_key, check_mirror),
        (rows_module, "aggregated", counts_null, check_mirror),
        (joins, "select_needed_rows", reads_one_of_a_group, check_mirror),
        (joins, "apply_row", ends_the_first, check_over_time),
        (joins, "apply_row", ends_the_first, check_compared),
        (joins, "apply_delete", leaves_it_open, check_over_time),
        (joins, "apply_delete", leaves_it_open, check_compared),
        (joins, "_instants", sees_no_ends, check_over_time),
        (joins, "as_of", takes_all_as_it_is_now, check_over_time),
        (joins, "compare_row", forgets_when_it_was_touched, check_each_change),
        (joins, "is_dated", takes_all_for_dated, check_past_of_commits),
        (joins, "is_dated", takes_what_is_told_for_dated, check_past_of_commits),
        (joins, "is_dated", looks_at_what_is_touched_alone, check_past_of_commits),
        (joins, "is_dated", takes_what_is_declared_anew_for_dated, check_past_of_commits),
        (undated, "SourceColumns", OfItAlone, check_past_of_commits),
        (undated, "_says_when", lets_one_row_date_a_group, check_past_of_commits),
        (plans, "_cannot_tell", sees_nothing_taken_back, check_commits),
        (plans, "_has_lost", sees_nothing_emptied, check_commits),
        (plans, "_has_lost", sees_nothing_spliced, check_commits),
        (plans, "_has_lost", sees_nothing_forgotten, check_commits),
        (plans, "_has_lost", sees_nothing_lost, check_commits),
        (joined_past, "plan_join", takes_what_was_made_anew_for_unchanged, check_taken_back),
        (joined_past, "plan_join", sees_nothing_since_it_was_taken_back, check_taken_back),
        (SourceRow, "covers", looks_up_what_is_there_now, check_lookup),
        (SourceRow, "covers", closes_at_the_end, check_lookup),
        (SourceRow, "covers", opens_behind_the_start, check_lookup),
        (Joining, "otherwise", says_nothing_otherwise, check_lookup),
        (Joining, "asked_at", finds_any_where_no_time_is, check_lookup),
        (joins, "find_touched_keys", corrects_nothing_late, check_lookup),
        (touching, "_changed", forgets_what_was_before, check_lookup),
        (joins, "find_difference", removes_nothing, check_lookup),
        (joins, "rows", joins_left, check_lookup),
        (joins, "rows", joins_inner, check_lookup),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_join_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, broken: Any, law: Callable[[Random], None]
) -> None:
    monkeypatch.setattr(where, name, broken)
    with pytest.raises(AssertionError):
        play(law, FEEDS)


def play(law: Callable[[Random], None], feeds: int) -> None:
    for seed in (*TELLING, *range(feeds)):
        law(Random(seed))
