"""The laws of joined tables: refreshed batch by batch from the touched keys, they are as if made anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from history_model import of_one_key, periods
from joined_model import by_sql

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key
from lakeward.core.history.options import ByRun, History, Kind, ValidityColumns
from lakeward.core.history.version_checks import violation
from lakeward.core.history.versions import Versions, last_versions, order_versions
from lakeward.core.joined import join as joins
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType, Source
from lakeward.core.joined.join import JoinResult, Place
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.plan import JoinPlan, SourceCommit, SourceState, plan_join
from lakeward.core.joined.rows import RowsBySource, SourceRow
from lakeward.core.joined.touched_keys import SourceChange, SourceChanges, find_touched_keys, select_needed_rows
from lakeward.core.schema import Column, Schema, Type

Image = Mapping[str, object]
Seen = tuple[int, int | None, tuple[tuple[str, object], ...]]

COLUMNS: Mapping[str, Sequence[str]] = {
    "customer": ("id", "name", "region"),
    "address": ("id", "city", "country"),
    "region": ("code", "title"),
    "orders": ("id", "customer", "amount", "at"),
}
KEYS: Mapping[str, Sequence[str]] = {name: columns[:1] for name, columns in COLUMNS.items()}
DAY = 86_400_000_000


def source(name: str, *columns: str, **options: object) -> Source:
    """Return a source of whose columns some are taken, by names that say where they are from."""
    selection = {f"{name}_{column}": column for column in columns}
    return Source(table=TableName("shop", name), columns=selection, **options)


SUMS = {
    "orders_count": Aggregate(Function.COUNT),
    "amounts": Aggregate(Function.COUNT, "amount"),
    "total": Aggregate(Function.SUM, "amount"),
    "least": Aggregate(Function.MIN, "amount"),
    "most": Aggregate(Function.MAX, "amount"),
    "last": Aggregate(Function.LATEST, "amount", "at"),
}

MOST_OF_A_COUNTRY = Aggregate(Function.MAX, "city")


def shapes() -> dict[str, dict[str, Source]]:
    """Return what is joined in the laws: by keys, by other columns, in chains, with groups."""
    customer = source("customer", "id", "name")
    address = source("address", "city", on=("id",), to=("id",))
    region = source("region", "title", on=("code",), to=("region",))
    orders = source("orders", on=("customer",), to=("id",), aggregates=SUMS)
    of_country = source("address", on=("country",), to=("region",), aggregates={"city": MOST_OF_A_COUNTRY})
    of_order = source("customer", "name", on=("id",), to=("customer",))
    return {
        "dimension": {"customer": customer, "address": address, "region": region},
        "chain": {
            "customer": customer,
            "address": address,
            "region": replace(region, beside="address", to=("country",)),
        },
        "summary": {"customer": customer, "orders": orders, "region": region},
        "counts": {
            "customer": customer,
            "orders": source("orders", "customer", on=("customer",), to=("id",), aggregates=SUMS),
            "address": of_country,
            "region": replace(region, beside="orders", to=("customer",)),
        },
        "groups": {
            "orders": source("orders", "customer", on=("customer",), aggregates=SUMS),
            "customer": of_order,
            "region": replace(region, beside="customer"),
        },
        "deep": {
            "orders": source("orders", "id", "amount"),
            "customer": of_order,
            "address": replace(of_country, beside="customer"),
        },
        "facts": {
            "orders": source("orders", "id", "amount"),
            "customer": of_order,
            "region": replace(region, beside="customer"),
            "address": replace(address, to=("customer",)),
        },
    }


def random_mirror(random: Random) -> JoinDeclaration:
    """Return a declared joined mirror, with left and inner joins."""
    name, found = random.choice(list(shapes().items()))
    driving, *_ = found
    sources = {n: of if n == driving else replace(of, way=random.choice([*JoinType])) for n, of in found.items()}
    return JoinDeclaration(name=TableName("shop", name), sources=sources, unknown=random.choice([None, {}]))


def tables_of(history: History | None = None) -> dict[TableName, Dimension]:
    """Return the tables of the shop, all of them mirrors or all histories."""
    found = {}
    for name, columns in COLUMNS.items():
        schema = Schema(tuple(Column(column, Type("int")) for column in columns))
        table = TableName("shop", name)
        found[table] = Dimension(name=table, schema=schema, key=tuple(KEYS[name]), history=history)
    return found


@dataclass
class Shop:
    """A database that changes: its rows at all times, and the changes since the last batch."""

    random: Random
    log: dict[tuple[str, int], list[tuple[int, Image | None]]] = field(default_factory=lambda: defaultdict(list))
    changes: dict[tuple[str, int], tuple[int, list[Image]]] = field(default_factory=dict)
    now: int = 1

    def change(self, names: Sequence[str], *, late: bool = False) -> None:
        """Change a row now or, if `late`, perhaps earlier."""
        name, key = self.random.choice(names), self.random.randrange(3)
        time = self.random.randrange(1, self.now + 1) if late and self.random.random() < 0.3 else self.now
        self.put(name, key, time, None if self.random.random() < 0.3 else self.image(name, key))

    def put(self, name: str, key: int, time: int, image: Image | None) -> None:
        """Set a row at some time, or without an image delete it."""
        self.changes.setdefault((name, key), (time, [one.cells for one in self.versions(name).get((key,), [])]))
        before = self.changes[name, key][1]
        self.changes[name, key] = max(time, self.changes[name, key][0]), before
        self.log[name, key].append((time, image))

    def image(self, name: str, key: int) -> Image:
        values = {column: self.random.choice([None, 0, 1, 2]) for column in COLUMNS[name][1:]}
        return {COLUMNS[name][0]: key, **values}

    def versions(self, name: str) -> dict[Key, list[SourceRow]]:
        """Return all versions of the rows of a table."""
        found: dict[Key, list[SourceRow]] = {}
        for (of, key), moments in self.log.items():
            if of == name:
                found_periods = periods(sorted(moments, key=lambda moment: moment[0]), COLUMNS[name])
                found[(key,)] = [SourceRow(one.image, None, one.valid_from, one.valid_to) for one in found_periods]
        return found

    def rows(self, name: str) -> dict[Key, list[SourceRow]]:
        """Return the rows of a table as they are now, with the times of their last changes."""
        found: dict[Key, list[SourceRow]] = {}
        for (of, key), moments in self.log.items():
            time, image = sorted(moments, key=lambda moment: moment[0])[-1]
            if of == name and image is not None:
                found[(key,)] = [SourceRow(image, time)]
        return found

    def at(self, name: str, time: int) -> list[Image]:
        """Return the rows of a table as they were at a time."""
        found = []
        for (of, _), moments in self.log.items():
            past = [moment for moment in sorted(moments, key=lambda moment: moment[0]) if moment[0] <= time]
            if of == name and past and past[-1][1] is not None:
                found.append(past[-1][1])
        return found

    def touched(self, joining: JoinDefinition) -> SourceChanges:
        """Return the changes since the last batch, with no more of the rows before than is needed."""
        found: dict[str, dict[Key, SourceChange]] = defaultdict(dict)
        for (name, key), (time, before) in self.changes.items():
            found[name][(key,)] = SourceChange(before if joining.needs_earlier_rows(name) else (), time)
        return found


@dataclass
class Lake:
    """A stored joined table, changed as `join` says."""

    joining: JoinDefinition
    rows: dict[Place, joins.Version] = field(default_factory=dict)
    plan: JoinPlan | None = None
    wrote: set[Place] = field(default_factory=set)

    def stored(self) -> dict[Key, Versions]:
        """Return the stored versions by key."""
        found: dict[Key, list[joins.Version]] = defaultdict(list)
        for (key, _), version in self.rows.items():
            found[key].append(version)
        return {key: order_versions(versions) for key, versions in found.items()}

    def planned(self, ran: int = 0, *, whole: bool = False) -> JoinPlan:
        """Return the plan of the next batch; with `whole`, one that makes all rows anew."""
        progress = None if self.plan is None else self.plan.progress
        batch = 1 if progress is None else progress.batch + 1
        now = {name: SourceState(now=SourceCommit(batch, str(batch))) for name in self.joining.joined.sources}
        found = plan_join(self.joining, progress, now, ran)
        assert found is not None
        return replace(found, reasons=("requested",)) if whole else found

    def joined(self, plan: JoinPlan, tables: RowsBySource, changes: SourceChanges) -> JoinResult:
        """Join all rows or, where the plan allows it, no more than are needed."""
        stored = self.stored()
        if plan.reasons:
            return joins.join(plan, tables, changes, stored)
        keys = find_touched_keys(self.joining, changes, tables)
        needed = {key: versions for key, versions in stored.items() if key in keys}
        if not self.joining.over_time:
            needed = {key: last_versions(versions) for key, versions in needed.items()}
        return joins.join(plan, select_needed_rows(self.joining, tables, keys), changes, needed)

    def commit(self, plan: JoinPlan, written: JoinResult) -> None:
        """Commit a batch."""
        assert not written.removed & written.rows.keys()
        self.rows = {place: row for place, row in self.rows.items() if place not in written.removed}
        self.rows |= written.rows
        self.wrote = {*written.removed, *written.rows}
        self.plan = plan

    def shown(self) -> dict[Place, Seen]:
        """Return what a reader sees of each version, by place."""
        return {place: seen(version) for place, version in self.rows.items()}

    def current(self) -> dict[Key, Image]:
        """Return the rows that are current, by key."""
        return {key: version.cells for (key, _), version in self.rows.items() if version.is_current}


def seen(version: joins.Version) -> Seen:
    return version.valid_from, version.valid_to, tuple({**version.cells, **previous_values(version)}.items())


def previous_values(version: joins.Version) -> Image:
    return {f"previous_{name}": value for name, value in version.previous.items()}


def model(joining: JoinDefinition, rows: Callable[[str], Iterable[Image]]) -> dict[Key, Image]:
    """Return the joined rows as SQL makes them, and the unknown one."""
    joined = joining.joined
    found = by_sql(joined, KEYS, COLUMNS, {name: rows(name) for name in joined.sources})
    key = joining.dimension.key
    made: dict[Key, Image] = {} if joining.unknown is None else {joining.unknown[0]: joining.unknown[1]}
    return made | {tuple(row[name] for name in key): row for row in found}


def change_and_plan(random: Random, shop: Shop, lake: Lake, *, late: bool = False) -> JoinPlan:
    """Change the database some times, and plan a batch."""
    for _ in range(random.randrange(1, 6)):
        shop.change(list(lake.joining.joined.sources), late=late)
        shop.now += random.randrange(3)
    return lake.planned(DAY * (shop.now // 3), whole=random.random() < 0.2)


def check_mirror(random: Random) -> None:
    """A joined mirror has the rows of SQL, and only changed rows are written."""
    lake, shop = Lake(validate_joined(random_mirror(random), tables_of())), Shop(random)
    for _ in range(random.randrange(1, 6)):
        plan = change_and_plan(random, shop, lake)
        before = lake.current()
        commit_batch(lake, plan, {name: shop.rows(name) for name in lake.joining.joined.sources}, shop)
        now = model(lake.joining, lambda name: shop.at(name, shop.now))
        assert lake.current() == now
        changed = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
        assert lake.wrote == {(key, 0) for key in changed}


def commit_batch(lake: Lake, plan: JoinPlan, tables: RowsBySource, shop: Shop) -> None:
    """Commit a batch; the same batch again, and one that makes all rows anew, change nothing.

    A batch that makes all rows anew needs changes only for their dates.
    """
    is_dated = lake.joining.joined.history is not None and not lake.joining.over_time
    changes = {} if plan.reasons and not is_dated else shop.touched(lake.joining)
    written = lake.joined(plan, tables, changes)
    lake.commit(plan, written)
    assert lake.joined(replace(plan, reasons=()), tables, changes) == JoinResult()
    assert lake.joined(replace(plan, reasons=("again",)), tables, changes) == JoinResult()
    shop.changes.clear()


KINDS = {
    "customer_name": Kind.KEEP_FIRST,
    "region_title": Kind.PREVIOUS,
    "last": Kind.OVERWRITE,
    "total": Kind.OVERWRITE,
}


def history_of(random: Random, joined: JoinDeclaration) -> History:
    """Return a history that tracks all columns, or has columns of several kinds."""
    key = validate_joined(joined, tables_of()).dimension.key
    selection = {own for one in joined.sources.values() for own in (*one.columns, *one.aggregates)} - {*key}
    kinds = {name: kind for name, kind in KINDS.items() if name in selection}
    return random.choice([History(), History(kinds=kinds)])


def check_over_time(random: Random) -> None:
    """A history of histories is as if made anew, and as of any time what SQL makes of its sources then."""
    joined = random_mirror(random)
    joined = replace(joined, history=history_of(random, joined))
    now = {name for name in joined.others if random.random() < 0.3}
    joined = replace(joined, sources={n: replace(of, as_now=n in now) for n, of in joined.sources.items()})
    joining = validate_joined(joined, tables_of(History()))
    lake, shop = Lake(joining), Shop(random)
    for _ in range(random.randrange(1, 5)):
        plan = change_and_plan(random, shop, lake, late=True)
        tables = {name: shop.rows(name) if name in now else shop.versions(name) for name in joined.sources}
        before = lake.shown()
        commit_batch(lake, plan, tables, shop)
        anew = Lake(joining)
        anew.commit(plan, anew.joined(replace(plan, reasons=("anew",)), tables, {}))
        assert lake.shown() == anew.shown()
        shown = lake.shown()
        assert lake.wrote == {place for place in before.keys() | shown if before.get(place) != shown.get(place)}
        check_whole(joining, lake)
        for time in range(shop.now + 2):
            check_as_of(lake, time, lambda name, at=time: shop.at(name, shop.now if name in now else at))


def check_whole(joining: JoinDefinition, lake: Lake) -> None:
    columns = joins._columns(joining)
    assert [found for one in lake.stored().values() if (found := violation(columns, one))] == []


def check_as_of(lake: Lake, time: int, rows: Callable[[str], Iterable[Image]]) -> None:
    """The versions valid at a time have the tracked columns of the sources joined as of then."""
    joining = lake.joining
    names = (*joining.dimension.key, *joins._columns(joining).tracked)
    found = {key: one.cells for (key, _), one in lake.rows.items() if one.covers(time)}
    right = model(joining, rows)
    assert {k: [c[n] for n in names] for k, c in found.items()} == {
        k: [c[n] for n in names] for k, c in right.items()
    }


def check_compared(random: Random) -> None:
    """A history of mirrors has what SQL makes after each run, from that run on."""
    joined = random_mirror(random)
    kinds = history_of(random, joined)
    by_run = replace(kinds, validity=ByRun(), validity_columns=ValidityColumns(type=Type("date")))
    joining = validate_joined(replace(joined, history=by_run), tables_of())
    lake, shop = Lake(joining), Shop(random)
    columns = joins._columns(joining)
    moments: dict[Key, list[tuple[int, Image | None]]] = defaultdict(list)
    before: dict[Key, Image] = {}
    for _ in range(random.randrange(1, 7)):
        plan = change_and_plan(random, shop, lake)
        commit_batch(lake, plan, {name: shop.rows(name) for name in joined.sources}, shop)
        now = model(joining, lambda name: shop.at(name, shop.now))
        for key in before.keys() | now.keys():
            begins = (
                0 if joining.unknown and now.get(key) == joining.unknown[1] and not moments[key] else shop.now // 3
            )
            if before.get(key) != now.get(key):
                moments[key].append((begins, now.get(key)))
        before = now
        expected = {
            k: of_one_key(m, columns.tracked, columns.first_values, columns.previous) for k, m in moments.items()
        }
        right = {
            (key, one.valid_from): (one.valid_to, one.image, one.previous)
            for key, all_ in expected.items()
            for one in all_
        }
        assert {p: (one.valid_to, one.cells, one.previous) for p, one in lake.rows.items()} == right
        check_whole(joining, lake)


def check_each_change(random: Random) -> None:
    """A history of mirrors that are joined after each change equals the history of their histories."""
    joined = random_mirror(random)
    joined = replace(joined, history=history_of(random, joined))
    lake, shop = Lake(validate_joined(joined, tables_of())), Shop(random)
    for _ in range(random.randrange(1, 12)):
        shop.change(list(joined.sources))
        plan = lake.planned(whole=random.random() < 0.2)
        commit_batch(lake, plan, {name: shop.rows(name) for name in joined.sources}, shop)
        shop.now += 1 + random.randrange(3)
    joining = validate_joined(joined, tables_of(History()))
    anew = Lake(joining)
    tables = {name: shop.versions(name) for name in joined.sources}
    anew.commit(anew.planned(), anew.joined(anew.planned(), tables, {}))
    assert lake.shown() == anew.shown()
