"""The law of joined tables on Spark: after each batch they are what SQL makes of their sources.

Many shops are joined in one job: each has a number, which is part of the keys of its tables and of all links.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import joined_frames
import pytest
from joined_feeds import check_equal, draw_declaration, of_shops, tables_of
from joined_frames import DAY, Table, Town, make_plan
from joined_shops import NUMBERED, Facts, Shop, define_shape, lookups, shapes
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.instants import of_countable
from lakeward.adapters.spark.history.versions import Versions
from lakeward.adapters.spark.joined import difference, joined_rows, touched_keys
from lakeward.adapters.spark.joined.difference import _TOUCHED, _change_instant
from lakeward.adapters.spark.joined.source_frames import AT, INSTANT, JoinedSource
from lakeward.core.dimension import TableName
from lakeward.core.history.instants import valid_instant_range
from lakeward.core.history.options import ByRun, History, ValidityColumns
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType
from lakeward.core.joined.plan import JoinPlan, JoinProgress
from lakeward.core.schema import Type

pytestmark = pytest.mark.spark

SHOPS = 60
BATCHES = 3 if "LAKEWARD_LONG" in os.environ else 2
FEW = 20
"""As many shops are enough to find a mistake."""
BY_DAY = ValidityColumns(type=Type("date"))
BY_RUN = History(validity=ByRun(), validity_columns=BY_DAY)


def check(spark: SparkSession, make: str, shape: str, shops: int = SHOPS) -> None:
    """Join a town batch by batch: each time its rows are the expected ones, and no other row was written."""
    random = Random(f"{make} {shape}")
    town = TOWNS[make](shape, random, shops)
    table = Table(spark, town.joining)
    for batch in range(1, BATCHES + (3 if town.each_change else 1)):
        town.change(is_new=batch == 1)
        changes, before = town.changes(), table.shown()
        whole = batch == 3 and not town.each_change and random.random() < 0.5
        plan = make_plan(town.joining, batch, whole=whole)
        table.join(plan, town.tables(), changes)
        expected = town.expected(batch)
        check_equal(table.shown(), expected, f"after batch {batch}")
        assert table.wrote == sum(before.get(place) != row for place, row in expected.items())


def town_of(
    shape: str,
    random: Random,
    shops: int,
    history: History | None = None,
    of: History | None = None,
    *,
    as_now: float = 0.0,
    each_change: bool = False,
) -> Town:
    """Return a town of which mirrors or histories `of` are joined.

    A row of the first shop may have the key of the unknown row.
    """
    joined = draw_declaration(shape, random, history, as_now)
    columns = [*joined.sources[joined.driving].columns][1:]
    key = next(own for own in columns if own.endswith(("_id", "_customer")))
    joining = validate_joined(replace(joined, unknown={"shop": "0", key: "1"}), tables_of(of))
    return Town(joining, [Shop(random) for _ in range(shops)], each_change)


def looked_up(shape: str, random: Random, shops: int) -> Town:
    found = lookups()[shape]
    waits = random.choice([*found])
    for name in [*found][1:]:
        last = dict.fromkeys([*found[name].columns][-1:], "-1")
        options: dict[str, Any] = {"way": JoinType.INNER} if name == waits else {"otherwise": last}
        found[name] = replace(found[name], **options)
    of = {name: of_shops(name, place, one) for place, (name, one) in enumerate(found.items())}
    joined = JoinDeclaration(name=TableName("dw", "joined"), sources=of, unknown={})
    return Town(validate_joined(joined, tables_of(NUMBERED)), [Facts(random) for _ in range(shops)])


over_time = partial(town_of, history=History(), of=History(), as_now=0.3)
TOWNS: Mapping[str, Callable[[str, Random, int], Town]] = {
    "mirrors": town_of,
    "by_run": partial(town_of, history=BY_RUN),
    "each_change": partial(town_of, history=History(), each_change=True),
    "over_time": over_time,
    "all_over_time": partial(over_time, as_now=0.0),
    "looked_up": looked_up,
}
GATE = [("mirrors", "summary"), ("each_change", "facts"), ("all_over_time", "counts"), ("looked_up", "facts")]
LONG = [(make, shape) for make in ("mirrors", "by_run", "each_change", "over_time") for shape in shapes()]
LONG += [("looked_up", shape) for shape in lookups()]


@pytest.mark.parametrize(
    ("make", "shape"),
    [*GATE, *[pytest.param(*case, marks=pytest.mark.long) for case in LONG if case not in GATE]],
)
def test_a_joined_table_is_what_sql_makes_of_its_sources(active: SparkSession, make: str, shape: str) -> None:
    check(active, make, shape)


def test_a_failed_comparison_leaves_no_cached_frame(active: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    active.catalog.clearCache()
    town = over_time("summary", Random(1), 1)
    town.change(is_new=True)
    monkeypatch.setattr(difference.VersionRows, "changed", lambda *_: "named_struct('wrong', 'not a version')")
    with pytest.raises(AnalysisException):
        Table(active, town.joining).join(make_plan(town.joining, 1), town.tables(), {})
    assert active._jsparkSession.sharedState().cacheManager().isEmpty()


def links_after(original: Any, source: Any, changes: Any, _: Any, table: Any) -> Any:
    return original(source, changes, None, table)


def even_moments(original: Any, *given: Any) -> Any:
    return original(*given).where(f"{AT} % 2 = 0")


def null_equals_null(_: Any, one: Sequence[str], other: Sequence[str]) -> list[Any]:
    return [F.col(left).eqNullSafe(F.col(right)) for left, right in zip(one, other, strict=True)]


def any_aggregate_is_the_greatest(original: Any, self: JoinedSource, aggregate: Aggregate) -> str:
    return str(original(self, replace(aggregate, function=Function.MAX, by=None)))


def touched_without_a_time(original: Any, *given: Any) -> DataFrame:
    touched: DataFrame = original(*given)
    return touched.withColumn(INSTANT, F.lit(None).cast("bigint"))


MISTAKES: Mapping[str, tuple[Any, str, Any, str, str]] = {
    "changes without the rows before": (touched_keys, "_changed_links", links_after, "mirrors", "groups"),
    "unchanged rows written": (difference._ShownVersions, "equal", lambda *_: "false", "by_run", "dimension"),
    "NULL equals NULL": (joined_rows, "equal_links", null_equals_null, "mirrors", "deep"),
    "any aggregate": (JoinedSource, "_aggregate_sql", any_aggregate_is_the_greatest, "mirrors", "groups"),
    "no unknown row": (joined_rows, "_unknown", lambda *_: None, "over_time", "dimension"),
    "version left open": (Versions, "closed", lambda _, self, versions, *__: versions, "by_run", "facts"),
    "no times of changes": (joined_frames, "find_touched_keys", touched_without_a_time, "each_change", "facts"),
    "nothing otherwise": (JoinedSource, "_defaults", lambda *_: {}, "looked_up", "facts"),
    "instants left out": (joined_rows, "_moments", even_moments, "over_time", "facts"),
}
FIRST = next(iter(MISTAKES))


@pytest.mark.parametrize(
    ("where", "name", "broken", "make", "shape"),
    [
        pytest.param(*mistake, id=title, marks=[] if title == FIRST else pytest.mark.long)
        for title, mistake in MISTAKES.items()
    ],
)
def test_a_mistake_breaks_the_law(
    active: SparkSession, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, broken: Any, make: str, shape: str
) -> None:
    original = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *given, **named: broken(original, *given, **named))
    with pytest.raises(AssertionError):
        check(active, make, shape, FEW)


@pytest.mark.parametrize(
    "shown", [BY_DAY, replace(BY_DAY, open_end=2_932_896), ValidityColumns(type=Type("int")), ValidityColumns()]
)
def test_instants_at_which_no_version_may_begin_date_nothing_on_spark(
    active: SparkSession, shown: ValidityColumns
) -> None:
    history = History(validity_columns=shown)
    asked = [-719_163, -719_162, 7, 2_932_895, 2_932_896, 2**31 - 1, 2**31]
    least, most = valid_instant_range(history)
    values = ", ".join(f"({at}L)" for at in asked)
    found = active.sql(f"SELECT {of_countable('at', history)} FROM VALUES {values} AS t(at)").collect()
    assert [at for (at,) in found] == [at if least <= at <= most else None for at in asked]


@pytest.mark.parametrize("shape", ["dimension", pytest.param("summary", marks=pytest.mark.long)])
def test_keys_with_an_instant_at_the_open_end_are_skipped_with_a_reason(active: SparkSession, shape: str) -> None:
    random, end = Random(shape), 14
    town = over_time(shape, random, FEW)
    town.change(is_new=True)
    expected = town.expected(1)
    wrong: dict[Any, int] = {}
    for (key, begins), (ends, _, _) in sorted(expected.items(), key=lambda item: item[0][1]):
        if max(begins, ends or begins) >= end:
            wrong.setdefault(key, begins)
    right = {place: row for place, row in expected.items() if place[0] not in wrong}
    history = replace(town.joining.joined.history or History(), validity_columns=ValidityColumns(open_end=end))
    town.joining = validate_joined(replace(town.joining.joined, history=history), tables_of(History()))
    found = Table(active, town.joining).compared(make_plan(town.joining, 1), town.tables(), {})
    assert found.skipped is not None
    assert (found.skipped.keys, found.written.count(), found.removed.count()) == (len(wrong), len(right), 0)
    assert found.opened == sum(ends is None for ends, _, _ in right.values())
    key, _, words = found.skipped.example.partition(": ")
    assert json.loads(key) in [[*map(str, one)] for one in wrong]
    begins = wrong[tuple(map(int, json.loads(key)))]
    assert words == (
        f"a version begins or ends at the open end, or behind it (valid_from = 1970-01-01 00:00:00.{begins:06})"
    )
    found.cached.unpersist()


RUN = 20
TIMED, SINCE_LOAD = History(), History(first_load=3)


@pytest.mark.parametrize(
    ("history", "is_first", "times", "right"),
    [
        (TIMED, False, (None, 7, None), 7),  # a new row
        (TIMED, False, (9, 7, None), 9),
        (TIMED, False, (None, None, None), RUN),
        (TIMED, False, (8, 7, 5), 8),  # a change that a source lists
        (TIMED, False, (8, 9, 5), 9),
        (TIMED, False, (8, None, 5), 8),
        (TIMED, False, (4, 5, 5), 5),
        (TIMED, False, (None, 7, 5), 7),  # no source lists it, and a row is newer than the last version
        (TIMED, False, (None, 5, 5), RUN),
        (TIMED, False, (None, None, 5), RUN),
        (SINCE_LOAD, True, (None, 7, None), 3),
        (SINCE_LOAD, False, (None, 7, None), 7),
        (BY_RUN, False, (8, 7, 5), RUN),
    ],
)
def test_a_change_counts_from_its_time_and_from_the_run_where_nothing_dates_it(
    spark: SparkSession, history: History, is_first: bool, times: Sequence[int | None], right: int
) -> None:
    """The times are of the change that touched a key, of its row and of its last version, where there are such."""
    touched, row, reached = times
    plan = JoinPlan(
        joining=define_shape("dimension", history),
        progress=JoinProgress(batch=2, digest="", passed={}),
        ran=RUN if history is TIMED else RUN * DAY,
        is_first=is_first,
    )
    last = f"CASE WHEN {reached is not None} THEN named_struct('reached', bigint({reached or 'NULL'})) END"
    columns = f"bigint({touched or 'NULL'}) AS {_TOUCHED}, named_struct('instant', bigint({row or 'NULL'})) AS row"
    [[found]] = spark.sql(f"SELECT {_change_instant(plan)} FROM (SELECT {columns}, {last} AS last)").collect()
    assert found == right
