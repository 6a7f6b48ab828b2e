"""Joined tables on Spark against the core: the rows that a batch writes and removes.

Many shops are joined in one job: each has a number, which is of the key of its tables and of all links.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import count
from random import Random
from typing import Any

import pytest
from frames import to_frame
from joined_commits import RARE, Follower, Source
from joined_feeds import declared, kinds_of, of_shops, tables_of
from joined_laws import COLUMNS, DAY, Lake, Shop, shapes
from lookup_laws import NUMBERED, Facts, lookups
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.rows.system_columns import row_columns
from lakeward.adapters.spark.history.instants import of_countable
from lakeward.adapters.spark.history.versions import Versions
from lakeward.adapters.spark.joined import difference, joined_rows, touched_keys
from lakeward.adapters.spark.joined.difference import compare_history, compare_mirror
from lakeward.adapters.spark.joined.joined_rows import join_frames
from lakeward.adapters.spark.joined.omitted_rows import find_omitted_rows
from lakeward.adapters.spark.joined.source_frames import AT, JoinedSource, sources_of
from lakeward.adapters.spark.joined.touched_keys import find_touched_keys
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import TableName
from lakeward.core.events import Cell, Key
from lakeward.core.history.instants import valid_instant_range
from lakeward.core.history.options import ByRun, History, ValidityColumns
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType
from lakeward.core.joined.join import Place
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.omitted_rows import find_omitted_rows as omitted_by_core
from lakeward.core.joined.plan import JoinPlan
from lakeward.core.joined.rows import RowsBySource, SourceRow
from lakeward.core.joined.touched_keys import SourceChange, SourceChanges
from lakeward.core.schema import Type

pytestmark = pytest.mark.spark

SHOPS = 60
BATCHES = 3 if "LAKEWARD_LONG" in os.environ else 2
FEW = 20
"""As many shops are enough to find a mistake."""
BY_DAY = ValidityColumns(type=Type("date"))


@dataclass
class Town:
    """Many shops, whose tables are read as one."""

    joining: JoinDefinition
    shops: list[Shop]

    def change(self, random: Random, *, is_new: bool) -> None:
        """Change each shop some times; one that is new gets most of its rows."""
        for shop in self.shops:
            for _ in range(15 if is_new else random.randrange(5)):
                shop.change(self.names, late=any(self.joining.reads_versions(name) for name in self.names))
                shop.now += random.randrange(3)

    @property
    def names(self) -> Sequence[str]:
        return list(self.joining.joined.sources)

    def tables(self) -> RowsBySource:
        return {name: dict(self._rows(name)) for name in self.names}

    def _rows(self, name: str) -> Iterable[tuple[Key, Sequence[SourceRow]]]:
        versions = self.joining.reads_versions(name)
        for number, shop in enumerate(self.shops):
            found = shop.versions(name) if versions else shop.rows(name)
            for key, rows in found.items():
                yield (number, *key), [replace(one, cells={"shop": number, **one.cells}) for one in rows]

    def changes(self) -> SourceChanges:
        found: dict[str, dict[Key, SourceChange]] = {name: {} for name in self.names}
        for number, shop in enumerate(self.shops):
            for name, of in shop.touched(self.joining).items():
                for key, one in of.items():
                    before = [{"shop": number, **cells} for cells in one.before]
                    found[name][number, *key] = replace(one, before=before)
            shop.changes.clear()
        return found


@dataclass
class Table:
    """A joined table as Spark keeps it: rows in the columns that it has, by where they lie."""

    spark: SparkSession
    joining: JoinDefinition
    rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    wrote: int = 0

    @property
    def columns(self) -> Mapping[str, str]:
        stored = self.joining.dimension.stored
        types = {**{c.name: c.type for c in stored.schema}, **row_columns(self.joining.dimension)}
        return {name: ddl(type_) for name, type_ in types.items() if name != names.BATCH}

    def standing(self) -> DataFrame:
        listed = ", ".join(f"{name} {type_}" for name, type_ in {**self.columns, POS: "bigint"}.items())
        frame = to_frame(self.spark, [(*row, pos) for pos, row in self.rows.items()], listed)
        return frame.selectExpr("*", f"'file' AS {FILE}")

    def join(self, plan: JoinPlan, tables: RowsBySource, changes: SourceChanges) -> None:
        of = sources_of(self.joining)
        frames = {name: self.frame(of[name], tables[name]) for name in of}
        keys = {name: self.touched(of[name], found) for name, found in changes.items()}
        before = {name: self.before(of[name], found) for name, found in changes.items()}
        touched = find_touched_keys(self.joining, keys, before, frames) if changes else None
        touched = None if touched is None else touched.localCheckpoint()
        rows = join_frames(self.joining, frames, None if plan.reasons else touched)
        differ = compare_mirror if self.joining.joined.history is None else compare_history
        found = differ(plan, self.standing(), rows, touched)
        assert found.skipped is None
        assert find_omitted_rows(self.joining, frames) == omitted_by_core(self.joining, tables)
        removed = [row[0] for row in found.removed.select(POS).collect()]
        written = [tuple(row) for row in found.written.select(*self.columns).collect()]
        found.cached.unpersist()
        assert len(removed) == len(set(removed))
        for pos in removed:
            del self.rows[pos]
        start = max(self.rows, default=0) + 1 + plan.batch * 100_000
        self.rows |= {start + number: row for number, row in enumerate(written)}
        self.wrote = len(written)

    def frame(self, source: JoinedSource, table: Mapping[Key, Sequence[SourceRow]]) -> DataFrame:
        rows = [self.row(source, one) for of_key in table.values() for one in of_key]
        return self.named(source, rows)

    def before(self, source: JoinedSource, changes: Mapping[Key, SourceChange]) -> DataFrame:
        return self.named(
            source, [self.row(source, SourceRow(cells)) for one in changes.values() for cells in one.before]
        )

    def row(self, source: JoinedSource, one: SourceRow) -> tuple[Any, ...]:
        cells = [one.cells.get(name) for name in source.table.stored.schema.names]
        return (*cells, one.instant, one.valid_from, one.valid_to)

    def named(self, source: JoinedSource, rows: list[tuple[Any, ...]]) -> DataFrame:
        own = ", ".join(f"{name} int" for name in source.table.stored.schema.names)
        frame = to_frame(self.spark, rows, f"{own}, known bigint, since bigint, until bigint")
        return source.select_needed(frame, "known", "since", "until")

    def touched(self, source: JoinedSource, changes: Mapping[Key, SourceChange]) -> DataFrame:
        listed = ", ".join(f"{name} int" for name in source.key)
        rows = [(*key, one.instant) for key, one in changes.items()]
        return to_frame(self.spark, rows, f"{listed}, {source.instant} bigint")

    def shown(self) -> dict[Place, tuple[Any, ...]]:
        found = {}
        for row in self.rows.values():
            cells = dict(zip(self.columns, row, strict=True))
            key = tuple(cells[name] for name in self.joining.dimension.key)
            own = {c.name: cells[c.name] for c in self.joining.dimension.schema}
            previous = {name: value for name, value in cells.items() if name.startswith("previous_")}
            begins, ends = (_instant(cells.get(name)) for name in ("valid_from", "valid_to"))
            assert (key, begins or 0) not in found
            found[key, begins or 0] = (ends, own, previous)
        return found


def _instant(value: Cell) -> int | None:
    match value:
        case datetime():
            return round((value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 10**6)
        case date():
            return value.toordinal() - date(1970, 1, 1).toordinal()
        case _:
            return None


def shown_by_core(lake: Lake) -> dict[Place, tuple[Any, ...]]:
    prefixed = {p: {f"previous_{n}": value for n, value in one.previous.items()} for p, one in lake.rows.items()}
    return {place: (one.valid_to, dict(one.cells), prefixed[place]) for place, one in lake.rows.items()}


def check(spark: SparkSession, town: Town, random: Random) -> None:
    """Play a town in batches: each time both are the same, and Spark writes no row that did not change."""
    lake, table = Lake(town.joining), Table(spark, town.joining)
    for number in range(BATCHES):
        town.change(random, is_new=number == 0)
        changes, tables = town.changes(), town.tables()
        plan = lake.planned(DAY * (number + 1), whole=number == 2 and random.random() < 0.5)
        if plan.is_first:
            changes = {}
        lake.commit(plan, lake.joined(plan, tables, changes))
        table.join(plan, tables, changes)
        assert table.shown() == shown_by_core(lake)
        assert table.wrote == len(lake.wrote & lake.rows.keys())


def mirrors(shape: str, random: Random, shops: int = SHOPS) -> Town:
    joined = declared(shape, random, unknown={})
    return Town(validate_joined(joined, tables_of(None)), [Shop(random) for _ in range(shops)])


def compared(shape: str, random: Random, shops: int = SHOPS) -> Town:
    history = History(validity=ByRun(), validity_columns=BY_DAY) if random.random() < 0.3 else History()
    joined = declared(shape, random, unknown={})
    joined = replace(joined, history=replace(history, kinds=kinds_of(joined)))
    return Town(validate_joined(joined, tables_of(None)), [Shop(random) for _ in range(shops)])


def all_over_time(shape: str, random: Random, shops: int = SHOPS) -> Town:
    return over_time(shape, random, shops, as_now=0)


def over_time(shape: str, random: Random, shops: int = SHOPS, as_now: float = 0.3) -> Town:
    joined = declared(shape, random, unknown={})
    now = frozenset(name for name in joined.others if random.random() < as_now)
    of = {name: replace(one, as_now=name in now) for name, one in joined.sources.items()}
    joined = replace(joined, sources=of, history=History(kinds=kinds_of(joined)))
    return Town(validate_joined(joined, tables_of(History())), [Shop(random) for _ in range(shops)])


def looked_up(shape: str, random: Random, shops: int = SHOPS) -> Town:
    found = {name: of_shops(name, place, one) for place, (name, one) in enumerate(lookups()[shape].items())}
    waits = random.choice([*found])
    for name in [*found][1:]:
        last = dict.fromkeys([*found[name].columns][-1:], "-1")
        found[name] = (
            replace(found[name], way=JoinType.INNER) if name == waits else replace(found[name], otherwise=last)
        )
    joined = JoinDeclaration(name=TableName("dw", "joined"), sources=found, unknown={})
    return Town(validate_joined(joined, tables_of(NUMBERED)), [Facts(random) for _ in range(shops)])


GATE = [(compared, "facts"), (all_over_time, "counts"), (looked_up, "facts")]
LONG = [(make, shape) for make in (mirrors, compared, over_time) for shape in shapes()]
LONG += [(looked_up, shape) for shape in lookups()]


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        *GATE,
        *[pytest.param(*case, marks=pytest.mark.long) for case in LONG if case not in GATE],
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_spark_joins_as_the_core_does(active: SparkSession, make: Any, shape: str) -> None:
    random = Random(f"{make.__name__} {shape}")
    check(active, make(shape, random), random)


@pytest.mark.parametrize(("shape", "key"), [("groups", "orders_customer"), ("dimension", "customer_id")])
@pytest.mark.parametrize("unknown", [None, "-1", "1"])
def test_spark_finds_the_omitted_rows_that_the_core_finds(
    active: SparkSession, shape: str, key: str, unknown: str | None
) -> None:
    texts = None if unknown is None else {"shop": "0", key: unknown}
    town = Town(validate_joined(declared(shape, Random(1), unknown=texts), tables_of(None)), [Shop(Random(1))])
    [shop] = town.shops
    shop.put("customer", 1, 1, {"id": 1, "name": 5, "region": None})
    for number, customer in enumerate([None, 1, 2]):
        shop.put("orders", number, 1, {"id": number, "customer": customer, "amount": 7, "at": None})
    tables, of, table = town.tables(), sources_of(town.joining), Table(active, town.joining)
    found = find_omitted_rows(town.joining, {name: table.frame(of[name], tables[name]) for name in of})
    assert found == omitted_by_core(town.joining, tables)
    assert (found.keyless, found.unknown) == (1 if shape == "groups" else 0, unknown == "1")


@dataclass
class Towns(Source):
    """A source of many shops, which forgets and is emptied in all of them at once."""

    def write(self, random: Random, batch: int) -> None:
        rows, deletes = dict(self.now.rows), dict(self.now.deletes)
        for key in ((shop, random.randrange(3)) for shop in range(SHOPS) for _ in range(2)):
            if random.random() < 0.3:
                deletes |= {key: batch} if rows.pop(key, None) else {}
            else:
                cells = {column: random.choice([None, 0, 1, 2]) for column in COLUMNS[self.name]}
                rows[key] = {**cells, "shop": key[0], COLUMNS[self.name][0]: key[1]}, batch
        self.commit(batch, rows, deletes)


def check_past(spark: SparkSession, shape: str, random: Random) -> None:
    """Whatever happens to its sources, Spark dates a joined history of them as the core does."""
    joined = declared(shape, random, unknown={}, history=History())
    joining, clock = validate_joined(joined, tables_of(None)), count(1)
    loads = [1, 0, 0.5, 0][: len(joined.sources)]
    random.shuffle(loads)
    of = zip(joined.sources, loads, strict=True)
    towns = {name: Towns(name, clock, random, share) for name, share in of}
    lake, table = Lake(joining), Table(spark, joining)
    follower = Follower(lake, towns)
    for source in towns.values():
        source.commit(1, {}, {})
        for _ in range(3):
            source.change(random, ["rows"])
    for number in range(4):
        if number:
            for source in random.sample([*towns.values()], len(towns) - (number > 1)):
                source.change(random, ["rows", *RARE] if number > 1 else ["rows"])
                source.change(random, ["rows"])
        plan = follower.plan(next(clock))
        assert plan is not None
        tables, changes = follower.read(plan)
        lake.commit(plan, lake.joined(plan, tables, changes))
        table.join(plan, tables, changes)
        assert table.shown() == shown_by_core(lake)


@pytest.mark.parametrize(
    "shape",
    ["dimension", *[pytest.param(shape, marks=pytest.mark.long) for shape in shapes() if shape != "dimension"]],
)
def test_spark_dates_changes_as_the_core_does(active: SparkSession, shape: str) -> None:
    check_past(active, shape, Random(shape))


def test_a_failed_comparison_leaves_no_cached_frame(active: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    active.catalog.clearCache()
    town = over_time("summary", Random(1), 1)
    town.change(Random(1), is_new=True)
    monkeypatch.setattr(difference.VersionRows, "changed", lambda *_: "named_struct('wrong', 'not a version')")
    with pytest.raises(AnalysisException):
        Table(active, town.joining).join(Lake(town.joining).planned(DAY), town.tables(), {})
    assert active._jsparkSession.sharedState().cacheManager().isEmpty()


def null_equals_null(_: Any, one: Sequence[str], other: Sequence[str]) -> list[Any]:
    return [F.col(left).eqNullSafe(F.col(right)) for left, right in zip(one, other, strict=True)]


def any_aggregate_is_the_greatest(original: Any, self: JoinedSource, aggregate: Aggregate) -> str:
    return str(original(self, replace(aggregate, function=Function.MAX, by=None)))


def changes_without_a_time_are_dated(original: Any, rows: DataFrame, links: Sequence[str]) -> Any:
    return original(rows.withColumn("undated", F.expr("CAST(array() AS array<int>)")), links)


def play(spark: SparkSession, make: Any, shape: str) -> None:
    """Play a few shops or, without `make`, sources that date their changes."""
    if make is None:
        check_past(spark, shape, Random(shape))
    else:
        random = Random(f"{make.__name__} {shape}")
        check(spark, make(shape, random, FEW), random)


MISTAKES: Mapping[str, tuple[Any, str, Any, Any, str]] = {
    "changes without the rows before": (
        touched_keys,
        "_changed_links",
        lambda f, source, changes, _, table: f(source, changes, None, table),
        mirrors,
        "groups",
    ),
    "unchanged rows written": (difference._ShownVersions, "equal", lambda *_: "false", compared, "dimension"),
    "NULL equals NULL": (joined_rows, "equal_links", null_equals_null, mirrors, "deep"),
    "any aggregate": (JoinedSource, "_aggregate_sql", any_aggregate_is_the_greatest, mirrors, "groups"),
    "version left open": (Versions, "closed", lambda _, self, versions, *__: versions, compared, "facts"),
    "no dates of changes": (
        difference,
        "_change_instant",
        lambda f, plan, _, is_dated: f(plan, "row.instant", is_dated),
        compared,
        "facts",
    ),
    "instants left out": (
        joined_rows,
        "_moments",
        lambda f, *given: f(*given).where(f"{AT} % 2 = 0"),
        over_time,
        "facts",
    ),
    "all is dated": (difference, "_is_dated", lambda *_: "true", None, "dimension"),
    "no undated changes": (touched_keys, "_dated_links", changes_without_a_time_are_dated, None, "dimension"),
}
FIRST = next(iter(MISTAKES))


@pytest.mark.parametrize(
    ("where", "name", "broken", "make", "shape"),
    [
        pytest.param(*mistake, id=title, marks=[] if title == FIRST else pytest.mark.long)
        for title, mistake in MISTAKES.items()
    ],
)
def test_a_mistake_makes_spark_differ_from_the_core(
    active: SparkSession, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, broken: Any, make: Any, shape: str
) -> None:
    original = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *given: broken(original, *given))
    with pytest.raises(AssertionError):
        play(active, make, shape)


@pytest.mark.parametrize(
    "shown", [BY_DAY, replace(BY_DAY, open_end=2_932_896), ValidityColumns(type=Type("int")), ValidityColumns()]
)
def test_instants_at_which_no_version_may_begin_date_nothing_on_spark(
    active: SparkSession, shown: ValidityColumns
) -> None:
    history, asked = (
        History(validity_columns=shown),
        [-719_163, -719_162, 7, 2_932_895, 2_932_896, 2**31 - 1, 2**31],
    )
    least, most = valid_instant_range(history)
    values = ", ".join(f"({at}L)" for at in asked)
    found = active.sql(f"SELECT {of_countable('at', history)} FROM VALUES {values} AS t(at)").collect()
    assert [at for (at,) in found] == [at if least <= at <= most else None for at in asked]


@pytest.mark.parametrize("shape", ["dimension", pytest.param("summary", marks=pytest.mark.long)])
def test_spark_skips_keys_with_an_instant_at_the_open_end_as_the_core_does(
    active: SparkSession, shape: str
) -> None:
    random = Random(shape)
    town = over_time(shape, random, FEW)
    history = History(validity_columns=ValidityColumns(open_end=14))
    town.joining = validate_joined(replace(town.joining.joined, history=history), tables_of(History()))
    town.change(random, is_new=True)
    lake, table, tables = Lake(town.joining), Table(active, town.joining), town.tables()
    plan = lake.planned(DAY)
    written = lake.joined(plan, tables, {})
    assert written.skipped
    assert written.rows
    of = sources_of(town.joining)
    frames = {name: table.frame(of[name], tables[name]) for name in of}
    found = compare_history(plan, table.standing(), join_frames(town.joining, frames, None), None)
    keys = {key: json.dumps([*map(str, key)], separators=(",", ":")) for key in written.skipped}
    assert found.skipped is not None
    assert found.skipped.keys == len(written.skipped)
    assert found.skipped.example == min(f"{keys[key]}: {why}" for key, why in written.skipped.items())
    assert found.written.count() == len(written.rows)
    assert found.removed.count() == 0
    assert found.opened == sum(one.is_current for one in written.rows.values())
    found.cached.unpersist()
