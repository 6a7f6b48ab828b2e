"""The laws of joined tables, without Spark, and mistakes that each law must find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joined_commits import check_commits
from joined_laws import check_compared, check_each_change, check_mirror, check_over_time
from lookup_laws import check_lookup
from tries import tries

from lakeward.core.events import Cell, Key, canonical, same_cells
from lakeward.core.history.versions import Columns, Step, Versions
from lakeward.core.joined import dates
from lakeward.core.joined import join as joins
from lakeward.core.joined import plan as plans
from lakeward.core.joined import rows as rows_module
from lakeward.core.joined import touched_keys as touching
from lakeward.core.joined.aggregates import Cells
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType
from lakeward.core.joined.join import JoinResult, StoredVersions
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.plan import SourceState
from lakeward.core.joined.rows import JoinedRow, RowsBySource, SourceRow
from lakeward.core.joined.touched_keys import ChangeDates

Law = Callable[[Random], None]
LAWS = (
    check_mirror,
    check_over_time,
    check_compared,
    check_each_change,
    check_commits,
    check_lookup,
)
thorough = settings(max_examples=tries(40, 200), deadline=None)

FEEDS = 1000
"""The number of feeds in which a mistake must be found; most need a few."""

FIRST_FEEDS = (91, 348, 395, 444, 502, 611)
"""Feeds that find rare mistakes: they come first."""


@pytest.mark.parametrize("law", LAWS)
@thorough
@given(random=st.randoms(use_true_random=False))
def test_a_joined_table_that_is_refreshed_by_keys_is_as_if_made_anew(law: Law, random: Random) -> None:
    law(random)


@pytest.mark.parametrize("law", LAWS)
def test_the_feeds_that_find_mistakes_find_none_in_the_code(law: Law) -> None:
    play(law, FEEDS // 5)


def play(law: Law, feeds: int) -> None:
    for seed in (*FIRST_FEEDS, *range(feeds)):
        law(Random(seed))


# Mistakes. Each takes the original function, then its arguments.


def changes_without_before(original: Any, joining: JoinDefinition, name: str, changes: Any, table: Any) -> Any:
    return original(joining, name, {key: replace(one, before=()) for key, one in changes.items()}, table)


def touched_by_the_driving_source(original: Any, joining: JoinDefinition, changes: Any, tables: Any) -> Any:
    return original(joining, {n: one for n, one in changes.items() if n == joining.joined.driving}, tables)


def touched_by_no_lookup(original: Any, joining: JoinDefinition, changes: Any, tables: Any) -> Any:
    return original(joining, {n: one for n, one in changes.items() if not joining.looks_up(n)}, tables)


def keeps_the_greatest_value(original: Any, standing: StoredVersions, after: Any, keys: Any) -> JoinResult:
    kept = {}
    for key, versions in after.items():
        values = [one.cells.get("most") for one in (*standing.get(key, ()), *versions)]
        most = max((value for value in values if isinstance(value, int)), default=None)
        greatest = {"most": most} if values[0] else {}
        kept[key] = tuple(replace(one, cells={**one.cells, **greatest}) for one in versions)
    return original(standing, kept, keys)


def joined_by(way: JoinType) -> Any:
    def broken(original: Any, joining: JoinDefinition, tables: RowsBySource) -> Any:
        sources = {name: replace(one, way=way) for name, one in joining.joined.sources.items()}
        return original(replace(joining, joined=replace(joining.joined, sources=sources)), tables)

    return broken


def keys_of_single_rows(_: Any, joining: JoinDefinition, tables: RowsBySource) -> set[Key]:
    return {key for key in tables[joining.joined.driving] if not joining.is_grouped(joining.joined.driving)}


def tie_without_key(original: Any, aggregate: Aggregate, images: Sequence[Cells], _: Any) -> Cell:
    return original(aggregate, sorted(images, key=lambda cells: str(cells["id"])), ())


def counts_null(original: Any, aggregate: Aggregate, images: Sequence[Cells], key: Any) -> Cell:
    return len(images) if aggregate.function is Function.COUNT else original(aggregate, images, key)


def one_row_of_a_group(original: Any, *given: Any) -> RowsBySource:
    found = original(*given)
    return {name: dict([*table.items()][:1]) if name == "orders" else table for name, table in found.items()}


def ends_the_first_version(original: Any, columns: Columns, before: Versions, cells: Cells, step: Step) -> Versions:
    after = original(columns, before, cells, step)
    is_ended = len(after) > len(before) > 1 and before[-1].is_current
    return (replace(after[0], valid_to=after[-1].valid_from), *before[1:], after[-1]) if is_ended else after


def instants_without_ends(_: Any, joining: JoinDefinition, tables: RowsBySource) -> Sequence[int]:
    found = [one.valid_from for table in tables.values() for of_key in table.values() for one in of_key]
    return sorted({instant for instant in found if instant is not None} | ({0} if joining.unknown else set()))


class NothingBeneath(dates.SourceColumns):
    """Forgets that a row which is found otherwise decides which rows are found by it."""

    @classmethod
    def of(cls, joining: JoinDefinition, name: str, columns: Columns) -> NothingBeneath:
        joined = joining.joined
        alone = {other: replace(one, beside=None) for other, one in joined.sources.items()}
        alone = {joined.driving: alone[joined.driving], name: alone[name]}
        return super().of(replace(joining, joined=replace(joined, sources=alone)), name, columns)


def plan_with(**changed: Any) -> Any:
    """Return a mistake of `is_dated`, which takes the plan first."""
    return lambda original, plan, *given: original(replace(plan, **changed), *given)


def state_with(**changed: Any) -> Any:
    """Return a mistake of `_gap`, which takes the state of a source last."""

    def broken(original: Any, joining: JoinDefinition, name: str, passed: Any, state: SourceState) -> str | None:
        return original(joining, name, passed, replace(state, **changed))

    return broken


def rows_without_unknown(original: Any, *given: Any) -> dict[Key, JoinedRow]:
    return {key: row for key, row in original(*given).items() if not row.is_unknown}


def all_rows_as_of_the_end(original: Any, tables: RowsBySource, _: int) -> RowsBySource:
    return original(tables, 10**6)


class Mistake(NamedTuple):
    """A mistake in the attribute `name` of a module or class, and the laws that find it."""

    name: str
    where: object
    attribute: str
    broken: Any
    laws: tuple[Law, ...]


MISTAKES = [
    Mistake(
        "changes without the rows before",
        touching,
        "_changed_links",
        changes_without_before,
        (check_mirror, check_over_time, check_compared, check_lookup),
    ),
    Mistake(
        "changes without the rows now",
        touching,
        "_changed_links",
        lambda f, joining, name, changes, _: f(joining, name, changes, {}),
        (check_mirror,),
    ),
    Mistake(
        "touched by the driving source alone",
        joins,
        "find_touched_keys",
        touched_by_the_driving_source,
        (check_mirror, check_over_time, check_each_change),
    ),
    Mistake("touched by no lookup", joins, "find_touched_keys", touched_by_no_lookup, (check_lookup,)),
    Mistake(
        "no chains of sources",
        JoinDeclaration,
        "children",
        lambda f, self, name: [] if name != self.driving else f(self, name),
        (check_mirror,),
    ),
    Mistake("greatest value kept", joins, "find_difference", keeps_the_greatest_value, (check_mirror,)),
    Mistake(
        "nothing removed",
        joins,
        "find_difference",
        lambda f, *given: replace(f(*given), removed=frozenset()),
        (check_mirror, check_over_time, check_lookup),
    ),
    Mistake(
        "left joins", joins, "join_rows", joined_by(JoinType.LEFT), (check_mirror, check_over_time, check_lookup)
    ),
    Mistake(
        "inner joins", joins, "join_rows", joined_by(JoinType.INNER), (check_mirror, check_compared, check_lookup)
    ),
    Mistake("no unknown row", joins, "join_rows", rows_without_unknown, (check_mirror,)),
    Mistake(
        "NULL equals NULL",
        rows_module,
        "key_of",
        lambda _, cells, columns: tuple(canonical(cells[column]) for column in columns),
        (check_mirror,),
    ),
    Mistake("unchanged rows written", joins, "_is_same_version", lambda *_: False, (check_mirror, check_over_time)),
    Mistake(
        "previous values not compared",
        joins,
        "_is_same_version",
        lambda _, one, other: one.valid_to == other.valid_to and same_cells(one.cells, other.cells),
        (check_over_time,),
    ),
    Mistake("keys of single rows alone", joins, "_all_keys", keys_of_single_rows, (check_over_time,)),
    Mistake("ties without the key", rows_module, "aggregated", tie_without_key, (check_mirror,)),
    Mistake("NULL counted", rows_module, "aggregated", counts_null, (check_mirror,)),
    Mistake("one row of a group", joins, "select_needed_rows", one_row_of_a_group, (check_mirror,)),
    Mistake("first version ended", joins, "apply_row", ends_the_first_version, (check_over_time, check_compared)),
    Mistake(
        "version left open",
        joins,
        "apply_delete",
        lambda _, versions, __: versions,
        (check_over_time, check_compared),
    ),
    Mistake("instants without ends", joins, "_instants", instants_without_ends, (check_over_time,)),
    Mistake("all rows as of the end", joins, "as_of", all_rows_as_of_the_end, (check_over_time,)),
    Mistake(
        "no dates of changes",
        joins,
        "compare_row",
        lambda f, plan, versions, row, touch: f(plan, versions, row, ChangeDates(None, touch.undated)),
        (check_each_change,),
    ),
    Mistake("all is dated", joins, "is_dated", lambda *_: True, (check_commits,)),
    Mistake(
        "changes without a time are dated",
        joins,
        "is_dated",
        lambda f, *given: f(*given[:-1], given[-1]._replace(undated=frozenset())),
        (check_commits,),
    ),
    Mistake(
        "sources that list no changes date them",
        joins,
        "is_dated",
        plan_with(incomplete_sources=frozenset()),
        (check_commits,),
    ),
    Mistake("another declaration is dated", joins, "is_dated", plan_with(is_redeclared=False), (check_commits,)),
    Mistake("source without those beneath", dates, "SourceColumns", NothingBeneath, (check_commits,)),
    Mistake(
        "one row dates a group",
        dates,
        "_dates_itself",
        lambda _, __, name, ___, row: row is not None and row.instants.get(name) is not None,
        (check_commits,),
    ),
    *[
        Mistake(f"unnoticed: {next(iter(changed))}", plans, "_gap", state_with(**changed), (check_commits,))
        for changed in ({"has_passed": True}, {"replaced": 0}, {"remembers": 0}, {"shows_before": True})
    ],
    Mistake("looked up now", SourceRow, "covers", lambda _, self, __: self.valid_to is None, (check_lookup,)),
    Mistake(
        "valid at its end",
        SourceRow,
        "covers",
        lambda f, self, at: f(self, at) or at == self.valid_to,
        (check_lookup,),
    ),
    Mistake(
        "not valid at its beginning",
        SourceRow,
        "covers",
        lambda f, self, at: f(self, at) and at != self.valid_from,
        (check_lookup,),
    ),
    Mistake("nothing otherwise", JoinDefinition, "otherwise", lambda *_: {}, (check_lookup,)),
    Mistake(
        "NULL time looked up", JoinDefinition, "lookup_instant", lambda f, *given: f(*given) or 1, (check_lookup,)
    ),
]


@pytest.mark.parametrize(
    ("mistake", "law"),
    [pytest.param(one, law, id=f"{one.name}-{law.__name__}") for one in MISTAKES for law in one.laws],
)
def test_a_mistake_breaks_a_law(monkeypatch: pytest.MonkeyPatch, mistake: Mistake, law: Law) -> None:
    original = getattr(mistake.where, mistake.attribute)
    is_class = isinstance(mistake.broken, type)
    broken = mistake.broken if is_class else lambda *given, **named: mistake.broken(original, *given, **named)
    monkeypatch.setattr(mistake.where, mistake.attribute, broken)
    with pytest.raises(AssertionError):
        play(law, FEEDS)
