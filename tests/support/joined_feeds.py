"""Many shops whose changes are delivered as files, joined tables of them in a lake, and the expected rows.

Each shop has a number, which is part of the keys of its tables and of all links, so one project holds many feeds.
The expected rows are those that SQL makes in SQLite, or plain Python where versions are looked up.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import partial
from random import Random
from typing import Any

import joined_shops
from history_model import of_one_key
from joined_model import by_sql
from joined_shops import COLUMNS, KINDS, Image, Shop, shapes

from lakeward.core.dimension import TableName
from lakeward.core.events import Key
from lakeward.core.history.options import ByRun, History
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import JoinDeclaration, JoinType, Source
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.merge.fold import columns_of

KEYS = {name: ("shop", columns[0]) for name, columns in COLUMNS.items()}
ALL = {name: ("shop", *columns) for name, columns in COLUMNS.items()}
SOURCE = 'timestamp_column = "moment"\nbefore_image_prefix = "BI_"\nnull_text = ""'
tables_of = partial(joined_shops.tables_of, more=("shop",))
"""Return the tables of all shops, all of them mirrors or all histories."""
ZERO = datetime(2026, 11, 1, tzinfo=UTC)
"""The time 0 of the shops; each of them counts hours."""
ZERO_DAY = (ZERO - datetime(1970, 1, 1, tzinfo=UTC)).days

Seen = Mapping[tuple[Key, int], tuple[int | None, Image, Image]]
"""The rows of a joined table by key and beginning: their ends, cells, and previous values."""


def of_shops(name: str, place: int, source: Source) -> Source:
    """Return a source that is joined within a shop."""
    columns = {"shop": "shop", **source.columns} if place == 0 else source.columns
    on = ("shop", *source.on) if source.on else ()
    return replace(source, columns=columns, on=on, to=("shop", *source.to) if source.to else ())


def draw_declaration(
    shape: str, random: Random, history: History | None = None, as_now: float = 0.0
) -> JoinDeclaration:
    """Return a declaration; rows that find none of one source go: of several, hardly any would be left.

    A history has columns of several kinds. `as_now` is the share of the other sources that are as they are now.
    """
    names = [*shapes()[shape]]
    ways = {random.choice(names[1:]): JoinType.INNER}
    now = {name for name in names[1:] if as_now and random.random() < as_now}
    sources = {
        name: replace(of_shops(name, place, one), way=ways.get(name, JoinType.LEFT), as_now=name in now)
        for place, (name, one) in enumerate(shapes()[shape].items())
    }
    if history is not None:
        selection = {own for one in sources.values() for own in (*one.columns, *one.aggregates)}
        history = replace(history, kinds={own: kind for own, kind in KINDS.items() if own in selection})
    return JoinDeclaration(name=TableName("dw", "joined"), sources=sources, history=history, unknown={})


@dataclass(frozen=True)
class Event:
    """The image of a row from some time on (None: deleted); `was` is its key before."""

    name: str
    time: int
    key: int
    image: Image | None
    was: int

    def line(self, shop: int) -> str:
        """Return the change of a shop as DMS writes it, with the key from before it behind the columns."""
        cells = self.image or {KEYS[self.name][1]: self.key}
        values = [shop, *(cells.get(column) for column in COLUMNS[self.name]), shop, self.was]
        operation = "D" if self.image is None else "U"
        at = (ZERO + timedelta(hours=self.time)).strftime("%Y-%m-%d %H:%M:%S.000000")
        return ",".join([operation, at, *("" if value is None else str(value) for value in values)]) + "\n"


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


# Settings.


def in_lake(joined: JoinDeclaration, name: str) -> JoinDefinition:
    """Return a joined table of the lake, whose tables are mirrors and a history of each."""
    named = replace(joined, name=TableName("dw", name))
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
        case Enum():
            return written(value.value)
        case bool() | str() | list() | tuple():
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


def settings_of(names: Iterable[str], joined: Iterable[JoinDeclaration]) -> str:
    """Return the settings of tables of the shops, and of what is joined of them."""
    defaults = '[defaults]\nlateness = "30d"\nmode = ["mirror", "history"]\n'
    tables = [
        f'[tables."shop.{name}"]\nkey = {written(KEYS[name])}\n'
        f"columns = {written(dict.fromkeys(ALL[name], 'int'))}\n"
        for name in names
    ]
    return "\n".join([defaults, *tables, *map(section, joined)])


# Comparisons.


@dataclass
class JoinedShops:
    """A joined table of many shops, and the rows that it has after each run.

    With `each_change` the table is joined after each change of a shop, so that times of changes date versions.
    `beginning` is 1970, as the shops count.
    """

    joining: JoinDefinition
    shops: Sequence[Shop]
    each_change: bool = False
    beginning: int = 0
    moments: dict[Key, list[tuple[int, Image | None]]] = field(default_factory=lambda: defaultdict(list))
    before: Mapping[Key, Image] = field(default_factory=dict)

    @property
    def joined(self) -> JoinDeclaration:
        return self.joining.joined

    @property
    def now(self) -> int:
        return max(shop.now for shop in self.shops)

    def at(self, name: str, time: int) -> list[Image]:
        """Return the rows of a table as they were at a time."""
        return [{"shop": n, **row} for n, shop in enumerate(self.shops) for row in shop.at(name, time)]

    def versions(self, name: str) -> list[Image]:
        """Return all versions of the rows of a table, with what its history adds."""
        return [
            {"shop": n, **row.cells}
            for n, shop in enumerate(self.shops)
            for rows in shop.versions(name).values()
            for row in rows
        ]

    def joined_at(self, time: int) -> dict[Key, Image]:
        """Return the joined rows of a time, and the unknown one; what is `as_now`, as it is."""
        sources = self.joined.sources
        rows = {
            name: self.versions(name) if one.at else self.at(name, self.now if one.as_now else time)
            for name, one in sources.items()
        }
        key, unknown = self.joining.dimension.key, self.joining.unknown
        made: dict[Key, Image] = {} if unknown is None else {tuple(unknown[name] for name in key): unknown}
        return made | {tuple(row[name] for name in key): row for row in by_sql(self.joined, KEYS, ALL, rows)}

    def expected(self, run: int) -> Seen:
        """Return the rows after a run of that day."""
        if self.joined.history is None:
            return {(key, 0): (None, row, {}) for key, row in self.joined_at(self.now).items()}
        columns = columns_of(self.joining.dimension)
        assert columns is not None
        return {
            (key, one.valid_from): (one.valid_to, one.image, {f"previous_{n}": v for n, v in one.previous.items()})
            for key, moments in (self._over_time() if self.joining.over_time else self._by_runs(run)).items()
            for one in of_one_key(moments, columns.tracked, columns.first_values, columns.previous)
        }

    def check(self, columns: Sequence[str], read: Iterable[Sequence[Any]], run: int) -> None:
        """Compare the rows that a reader finds after a run of that day with the expected ones."""
        rows = [dict(zip(columns, map(as_number, row), strict=True)) for row in read]
        check_equal(seen(self.joining, rows), self.expected(run), f"after the run of day {run}")

    def _over_time(self) -> Mapping[Key, list[tuple[int, Image | None]]]:
        """Return the joined rows of all times; at the time 0 there is the unknown one alone."""
        past = {time or self.beginning: self.joined_at(time) for time in range(self.now + 1)}
        keys = {key for rows in past.values() for key in rows}
        return {key: [(time, rows.get(key)) for time, rows in past.items()] for key in keys}

    def _by_runs(self, run: int) -> Mapping[Key, list[tuple[int, Image | None]]]:
        """Return the states of each joined row at each run that changed it, with their instants."""
        rows = self.joined_at(self.now)
        for key in self.before.keys() | rows.keys():
            if self.before.get(key) != rows.get(key):
                is_unknown = rows.get(key) == self.joining.unknown and not self.moments[key]
                begins = self.shops[int(str(key[0]))].now if self.each_change else run
                self.moments[key].append((self.beginning if is_unknown else begins, rows.get(key)))
        self.before = rows
        return self.moments


def seen(joining: JoinDefinition, rows: Iterable[Mapping[str, Any]]) -> Seen:
    """Return the rows of a joined table, whose times are numbers, by key and beginning."""
    result: dict[tuple[Key, int], tuple[int | None, Image, Image]] = {}
    for row in rows:
        place = (tuple(row[name] for name in joining.dimension.key), row.get("valid_from", 0))
        assert place not in result
        own = {name: row[name] for name in joining.dimension.schema.names}
        previous = {name: value for name, value in row.items() if name.startswith("previous_")}
        result[place] = (row.get("valid_to"), own, previous)
    return result


def check_equal(found: Mapping[Any, object], right: Mapping[Any, object], when: str) -> None:
    """Compare what is found of each key; the message names a few that differ."""
    differing = [key for key in found.keys() | right.keys() if found.get(key) != right.get(key)]
    examples = [f"{key}: {found.get(key)}, not {right.get(key)}" for key in differing[:5]]
    assert not differing, f"{when} {len(differing)} of {len(right)} differ: {examples}"


def as_number(value: Any, zero: datetime = ZERO, unit: timedelta = timedelta(hours=1)) -> Any:
    """Return a time in units since `zero`, as the shops count it, and a day by how many there are since then."""
    if isinstance(value, datetime):
        at = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return (at - zero) // unit
    return (value - zero.date()).days if isinstance(value, date) else value
