"""Shops whose rows change, and the shapes in which their tables are joined, for the laws of joined tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from random import Random

from history_model import periods

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key
from lakeward.core.history.options import ByColumn, History, Kind, ValidityColumns
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, Source
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.schema import Column, Schema, Type

Image = Mapping[str, object]


@dataclass(frozen=True)
class SourceRow:
    """A row of a source, and when it changed last; of a history, a version with its validity."""

    cells: Image
    instant: int | None = None
    valid_from: int | None = None
    valid_to: int | None = None


@dataclass(frozen=True)
class SourceChange:
    """A change of a key: when it was, and the rows before it where these are needed."""

    before: Sequence[Image] = ()
    instant: int | None = None


Rows = Mapping[Key, Sequence[SourceRow]]
Changes = Mapping[str, Mapping[Key, SourceChange]]
"""The changed keys of each source."""

COLUMNS: Mapping[str, Sequence[str]] = {
    "customer": ("id", "name", "region"),
    "address": ("id", "city", "country"),
    "region": ("code", "title"),
    "orders": ("id", "customer", "amount", "at"),
}


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

KINDS = {
    "customer_name": Kind.KEEP_FIRST,
    "region_title": Kind.PREVIOUS,
    "last": Kind.OVERWRITE,
    "total": Kind.OVERWRITE,
}
"""The kinds of some columns in joined histories; the others are tracked."""


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


def tables_of(history: History | None = None, more: Sequence[str] = ()) -> dict[TableName, Dimension]:
    """Return the tables of the shop, all mirrors or all histories; their keys begin with the columns `more`."""
    found = {}
    for name, columns in COLUMNS.items():
        schema = Schema(tuple(Column(column, Type("int")) for column in (*more, *columns)))
        table = TableName("shop", name)
        found[table] = Dimension(name=table, schema=schema, key=(*more, columns[0]), history=history)
    return found


def define_shape(shape: str, history: History | None = None, of: History | None = None) -> JoinDefinition:
    """Return a joined table of one of the shapes, of mirrors or histories `of`."""
    joined = JoinDeclaration(name=TableName("dw", "t"), sources=shapes()[shape], history=history)
    return validate_joined(joined, tables_of(of))


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
        return {(key,): [SourceRow(image, time)] for key, time, image in self._states(name, inf)}

    def at(self, name: str, time: int) -> list[Image]:
        """Return the rows of a table as they were at a time."""
        return [image for _, _, image in self._states(name, time)]

    def _states(self, name: str, upto: float) -> Iterator[tuple[int, int, Image]]:
        """Yield the key of each row of a table at a time, its last change up to then, and its image."""
        for (of, key), moments in self.log.items():
            past = [moment for moment in sorted(moments, key=lambda moment: moment[0]) if moment[0] <= upto]
            time, image = past[-1] if past else (0, None)
            if of == name and image is not None:
                yield key, time, image

    def touched(self, joining: JoinDefinition) -> Changes:
        """Return the changes since the last batch, with no more of the rows before than is needed."""
        found: dict[str, dict[Key, SourceChange]] = defaultdict(dict)
        for (name, key), (time, before) in self.changes.items():
            found[name][(key,)] = SourceChange(before if joining.needs_earlier_rows(name) else (), time)
        return found


NUMBERED = History(validity=ByColumn("moment"), validity_columns=ValidityColumns(type=Type("bigint")))
"""The options of the tables of the shop. Its times and `orders.at` are numbers."""


def lookups() -> dict[str, dict[str, Source]]:
    """Return the lookups of the law: of facts, of groups of facts, and by more than the key of a member."""
    validity = {"since": "valid_from", "until": "valid_to"}
    customer = source("customer", "name", on=("id",), to=("customer",), at="at")
    return {
        "facts": {
            "orders": source("orders", "id", "amount"),
            "customer": replace(customer, columns={**customer.columns, **validity}),
            "region": source("region", "title", on=("code",), to=("region",), beside="customer"),
            "address": source("address", "city", on=("id",), to=("customer",), at="at"),
        },
        "groups": {
            "orders": replace(
                source("orders", "customer", "at", on=("customer", "at")),
                aggregates={"orders_count": Aggregate(Function.COUNT)},
            ),
            "customer": customer,
        },
        "more than the key": {
            "orders": source("orders", "id"),
            "customer": replace(customer, on=("id", "region"), to=("customer", "amount")),
        },
    }


class Facts(Shop):
    """A shop whose orders have a past, present or future time, or none."""

    def image(self, name: str, key: int) -> Image:
        """Return a changed row."""
        image = super().image(name, key)
        return {**image, "at": self.random.choice([None, *range(self.now + 2)])} if name == "orders" else image

    def versions(self, name: str) -> dict[Key, list[SourceRow]]:
        """Return all versions of the rows of a table, with what its history adds."""
        return {
            key: [
                replace(one, cells={**one.cells, "valid_from": one.valid_from, "valid_to": one.valid_to})
                for one in known
            ]
            for key, known in super().versions(name).items()
        }
