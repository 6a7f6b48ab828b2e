"""Many shops whose changes are delivered as files, joined tables of them in a lake, and the expected rows.

Each shop has a number, which is part of the keys of its tables and of all links, so one project holds many feeds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from itertools import product
from random import Random
from typing import Any

from history_model import of_one_key
from joined_model import by_sql
from joined_shops import COLUMNS, KINDS, Image, Shop, shapes
from project import Project

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key
from lakeward.core.history.options import ByRun, History, Kind
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import JoinDeclaration, JoinType, Source
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.merge.fold import columns_of
from lakeward.core.schema import Column, Schema, Type

KEYS = {name: ("shop", columns[0]) for name, columns in COLUMNS.items()}
ALL = {name: ("shop", *columns) for name, columns in COLUMNS.items()}
SOURCE = 'timestamp_column = "moment"\nbefore_image_prefix = "BI_"\nnull_text = ""'
ZERO = datetime(2026, 11, 1, tzinfo=UTC)
"""The time 0 of the shops; each of them counts hours."""

Seen = Mapping[str, Any]


def of_shops(name: str, place: int, source: Source) -> Source:
    """Return a source that is joined within a shop."""
    columns = {"shop": "shop", **source.columns} if place == 0 else source.columns
    on = ("shop", *source.on) if source.on else ()
    return replace(source, columns=columns, on=on, to=("shop", *source.to) if source.to else ())


def tables_of(history: History | None) -> Mapping[TableName, Dimension]:
    """Return the tables of all shops, all of them mirrors or all histories."""
    found = {}
    for name, columns in ALL.items():
        schema = Schema(tuple(Column(column, Type("int")) for column in columns))
        table = TableName("shop", name)
        found[table] = Dimension(name=table, schema=schema, key=KEYS[name], history=history)
    return found


def declared(shape: str, random: Random, **options: Any) -> JoinDeclaration:
    """Return a declaration; rows that find none of one source go: of several, hardly any would be left."""
    names = [*shapes()[shape]]
    inner = random.choice(names[1:])
    found = {
        name: replace(of_shops(name, place, one), way=JoinType.INNER if name == inner else JoinType.LEFT)
        for place, (name, one) in enumerate(shapes()[shape].items())
    }
    return JoinDeclaration(name=TableName("dw", "joined"), sources=found, **options)


def kinds_of(joined: JoinDeclaration) -> Mapping[str, Kind]:
    """Return kinds of some of the columns that are taken."""
    key = validate_joined(joined, tables_of(None)).dimension.key
    selection = {own for one in joined.sources.values() for own in (*one.columns, *one.aggregates)} - {*key}
    return {name: kind for name, kind in KINDS.items() if name in selection}


@dataclass(frozen=True)
class Event:
    """The image of a row from some time on (None: deleted); `was` is its key before."""

    name: str
    time: int
    key: int
    image: Image | None
    was: int


@dataclass
class Captured(Shop):
    """A shop that notes its changes in the order in which they come; rows may change their keys."""

    events: list[Event] = field(default_factory=list)
    delivered: int = 0

    def change(self, names: Sequence[str], *, late: bool = False) -> None:
        """Change a row, or its key; no two changes of one time are equal, which would be a copy.

        A change of a key has a time of its own: key shifts in one transaction are another law.
        """
        name, time = self.random.choice(names), self.now
        if late and self.random.random() < 0.3:
            time = self.random.randrange(1, self.now + 1)
        key = was = self.random.randrange(3)
        if self.random.random() < 0.2:
            was = self.random.choice([other for other in range(3) if other != key])
        is_deleted = key == was and self.random.random() < 0.3
        event = Event(name, time, key, None if is_deleted else self.image(name, key), was)
        same_time = [other for other in self.events if (other.name, other.time) == (name, time)]
        if event in same_time or (same_time and any(one.key != one.was for one in (event, *same_time))):
            return
        self.events.append(event)
        if was != key:
            self.put(name, was, time, None)
        self.put(name, key, time, event.image)


@dataclass
class Town:
    """Many shops, whose tables are delivered as one."""

    shops: Sequence[Captured]
    files: int = 0

    def change(self, names: Sequence[str], changes: range) -> None:
        """Change each shop some times, now and late."""
        for shop in self.shops:
            for _ in range(shop.random.choice(changes)):
                shop.change(names, late=True)
                shop.now += shop.random.randrange(3)

    def deliver(self, project: Project, names: Sequence[str]) -> None:
        """Deliver the new changes of each table in two files."""
        self.files += 1
        lines: dict[str, list[str]] = defaultdict(list)
        for number, shop in enumerate(self.shops):
            for event in shop.events[shop.delivered :]:
                lines[event.name].append(line(number, event))
            shop.delivered = len(shop.events)
        for name, part in product(names, range(2)):
            half = len(lines[name]) // 2
            written = lines[name][:half] if part == 0 else lines[name][half:]
            if written:
                project.put(f"202611{self.files:02}-10000000{part}.csv", "".join(written), f"shop/{name}")

    def at(self, name: str, time: int) -> list[Image]:
        """Return the rows of a table as they were at a time."""
        return [{"shop": n, **row} for n, shop in enumerate(self.shops) for row in shop.at(name, time)]

    @property
    def now(self) -> int:
        return max(shop.now for shop in self.shops)


def line(number: int, event: Event) -> str:
    """Return a change as DMS writes it, with the key from before it behind the columns."""
    cells = event.image or {KEYS[event.name][1]: event.key}
    values = [number, *(cells.get(column) for column in COLUMNS[event.name]), number, event.was]
    operation = "D" if event.image is None else "U"
    at = (ZERO + timedelta(hours=event.time)).strftime("%Y-%m-%d %H:%M:%S.000000")
    return ",".join([operation, at, *("" if value is None else str(value) for value in values)]) + "\n"


# Settings.


def in_lake(joined: JoinDeclaration, name: str, *, both: bool) -> JoinDefinition:
    """Return a joined table of the lake, whose tables are histories, or mirrors and a history of each."""
    named = replace(joined, name=TableName("dw", name))
    if not both:
        return validate_joined(named, tables_of(History()))
    if joined.history is None or isinstance(joined.history.validity, ByRun):
        return validate_joined(named, tables_of(None))
    histories = {TableName("shop", f"{one.table}_history"): of for one, of in tables_of(History()).items()}
    tables = {table: replace(of, name=table) for table, of in histories.items()}
    sources = {n: replace(of, table=TableName("shop", f"{n}_history")) for n, of in joined.sources.items()}
    return validate_joined(replace(named, sources=sources), tables)


def written(value: Any) -> str:
    """Return a value as TOML."""
    match value:
        case Mapping():
            return "{ " + ", ".join(f"{name} = {written(one)}" for name, one in value.items()) + " }"
        case TableName():
            return written(str(value))
        case list() | tuple():
            return "[" + ", ".join(map(written, value)) + "]"
        case Enum():
            return written(value.value)
        case bool() | int() | str():
            return json.dumps(value)
        case _:
            options = {one.name: getattr(value, one.name) for one in fields(value)}
            return written({name: one for name, one in options.items() if one not in (None, False, {}, ())})


def section(joined: JoinDeclaration) -> str:
    """Return a joined table as settings."""
    options: dict[str, Any] = {"unknown": joined.unknown is not None}
    history = joined.history
    if history is not None:
        options |= {"mode": "history", "history": {"kinds": dict(history.kinds)}}
        if isinstance(history.validity, ByRun):
            options["history"] |= {"validity": "run", "type": "date"}
    lines = "".join(f"{name} = {written(one)}\n" for name, one in options.items())
    lines += "".join(f"sources.{name} = {written(one)}\n" for name, one in joined.sources.items())
    return f'[joined."{joined.name}"]\n{lines}'


def settings_of(names: Iterable[str], mode: str, joined: Iterable[JoinDeclaration]) -> str:
    """Return the settings of tables of the shops, and of what is joined of them."""
    defaults = f'[defaults]\nlateness = "30d"\nmode = {mode}\n'
    tables = [
        f'[tables."shop.{name}"]\nkey = {written(KEYS[name])}\n'
        f"columns = {written(dict.fromkeys(ALL[name], 'int'))}\n"
        for name in names
    ]
    return "\n".join([defaults, *tables, *map(section, joined)])


# Comparisons.


@dataclass
class CheckedTable:
    """A joined table in the lake, and its comparison with the shops after each run."""

    joining: JoinDefinition
    moments: dict[Key, list[tuple[int, Image | None]]] = field(default_factory=lambda: defaultdict(list))
    before: Mapping[Key, Image] = field(default_factory=dict)

    @property
    def joined(self) -> JoinDeclaration:
        return self.joining.joined

    def rows(self, project: Project, name: TableName | None = None) -> list[Seen]:
        """Return its rows as a reader other than Spark finds them, with times as the shops count them."""
        name, columns = name or self.joined.name, self.joining.dimension.stored.schema.names
        found = project.read(name.table, name.schema, tuple(columns))
        return [dict(zip(columns, map(as_number, row), strict=True)) for row in found]

    def check(self, project: Project, town: Town, ran: int) -> None:
        """Compare it, after a run of that day, with the rows that plain SQL makes of the shops."""
        found = self.rows(project)
        if self.joined.history is None:
            agree(keyed(self.joining, found), self.model(town, town.now), "now")
        elif self.joining.over_time:
            self.check_over_time(town, found)
        else:
            self.check_by_run(town, found, ran)

    def check_over_time(self, town: Town, found: Sequence[Seen]) -> None:
        """As of each time its tracked columns are those of the sources joined as of then."""
        names = (*self.joining.dimension.key, *self.tracked)
        for time in range(town.now + 2):
            then = [row for row in found if row["valid_from"] <= time and not ended(row, time)]
            agree(of(names, keyed(self.joining, then)), of(names, self.model(town, time)), f"as of {time}")

    def check_by_run(self, town: Town, found: Sequence[Seen], ran: int) -> None:
        """Its versions begin and end with the runs that saw a change."""
        now = self.model(town, town.now)
        for key in self.before.keys() | now.keys():
            if self.before.get(key) != now.get(key):
                is_unknown = self.joining.unknown is not None and now.get(key) == self.joining.unknown
                begins = -day_of(ZERO) if is_unknown and not self.moments[key] else ran
                self.moments[key].append((begins, now.get(key)))
        self.before = now
        own = self.joining.dimension.schema.names
        expected = {
            (*key, one.valid_from): (one.valid_to, one.image)
            for key, moments in self.moments.items()
            for one in of_one_key(moments, self.tracked)
        }
        place = (*self.joining.dimension.key, "valid_from")
        shown = {tuple(row[n] for n in place): (row["valid_to"], {n: row[n] for n in own}) for row in found}
        assert len(shown) == len(found)
        agree(shown, expected, f"after the run of day {ran}")

    @property
    def tracked(self) -> Sequence[str]:
        columns = columns_of(self.joining.dimension)
        assert columns is not None
        return columns.tracked

    def model(self, town: Town, time: int) -> dict[Key, Image]:
        """Return the joined rows of a time as SQL makes them, and the unknown one; what is `as_now`, as it is."""
        sources = self.joined.sources
        return model(
            self.joining,
            {name: town.at(name, town.now if one.as_now else time) for name, one in sources.items()},
        )


def model(joining: JoinDefinition, rows: Mapping[str, Iterable[Image]] | Iterable[Image]) -> dict[Key, Image]:
    """Return joined rows by key, with the unknown one: those that SQL makes of the rows of sources, or these."""
    key, unknown = joining.dimension.key, joining.unknown
    found = by_sql(joining.joined, KEYS, ALL, rows) if isinstance(rows, Mapping) else rows
    made: dict[Key, Image] = {} if unknown is None else {tuple(unknown[name] for name in key): unknown}
    return made | {tuple(row[name] for name in key): row for row in found}


def keyed(joining: JoinDefinition, rows: Sequence[Seen]) -> dict[Key, Image]:
    """Return rows by their keys, of which there is one each, in the columns that are taken."""
    key, own = joining.dimension.key, joining.dimension.schema.names
    found = {tuple(row[name] for name in key): {name: row[name] for name in own} for row in rows}
    assert len(found) == len(rows)
    return found


def of(names: Sequence[str], rows: Mapping[Key, Image]) -> dict[Key, list[object]]:
    return {key: [row[name] for name in names] for key, row in rows.items()}


def agree(found: Mapping[Any, object], right: Mapping[Any, object], when: str) -> None:
    """Compare what is found of each key; the message names a few that differ."""
    differing = [key for key in found.keys() | right.keys() if found.get(key) != right.get(key)]
    examples = [f"{key}: {found.get(key)}, not {right.get(key)}" for key in differing[:5]]
    assert not differing, f"{when} {len(differing)} of {len(right)} differ: {examples}"


def ended(row: Seen, time: int) -> bool:
    return row["valid_to"] is not None and row["valid_to"] <= time


def as_number(value: Any) -> Any:
    """Return a time as the shops count it, and a day by how many there are since their first one."""
    if isinstance(value, datetime):
        at = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return (at - ZERO) // timedelta(hours=1)
    return (value - ZERO.date()).days if isinstance(value, date) else value


def day_of(at: datetime) -> int:
    return at.date().toordinal() - date(1970, 1, 1).toordinal()
