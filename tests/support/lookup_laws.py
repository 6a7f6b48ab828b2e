"""Shops whose facts look members up at their own times, and the rows that plain Python finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from joined_shops import KEYS, Image, Shop, SourceRow, source

from lakeward.core.events import Key
from lakeward.core.history.options import ByColumn, History, ValidityColumns
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType, Source
from lakeward.core.schema import Type

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
            key: [replace(one, cells={**one.cells, **_validity(one.valid_from, one.valid_to)}) for one in known]
            for key, known in super().versions(name).items()
        }


def _validity(begins: int | None, ends: int | None) -> Image:
    return {"valid_from": begins, "valid_to": ends}


def expected_rows(joined: JoinDeclaration, shop: Shop) -> list[Image]:
    """Return the joined rows, from what the rows of the shop were at each time; versions are not known here."""
    driving = joined.sources[joined.driving]
    groups: dict[Key, list[Image]] = defaultdict(list)
    for row in shop.at(joined.driving, shop.now):
        groups[tuple(row[column] for column in driving.on or KEYS[joined.driving])].append(row)
    rows = []
    for link, group in groups.items():
        found: dict[str, Image | None] = {joined.driving: group[0]}
        for name in joined.others:
            parent = found[joined.parent(name)]
            source = joined.sources[name]
            found[name] = None if parent is None else _member(shop, name, source, parent)
        inner = [name for name in joined.others if joined.sources[name].way is JoinType.INNER]
        if None not in link and all(found[name] is not None for name in inner):
            rows.append(_shown(joined, found) | dict.fromkeys(driving.aggregates, len(group)))
    return rows


def _member(shop: Shop, name: str, of: Source, parent: Image) -> Image | None:
    """Return the row that a row of the parent finds, of a lookup as of then, with its validity."""
    time = shop.now if of.at is None else parent[of.at]
    wanted = [parent[column] for column in of.to]
    if not isinstance(time, int) or None in wanted:
        return None
    found = [row for row in shop.at(name, time) if [row[column] for column in of.on] == wanted]
    if not found:
        return None
    since, until = time, time + 1
    while found[0] in shop.at(name, since - 1):
        since -= 1
    while until <= shop.now and found[0] in shop.at(name, until):
        until += 1
    return {**found[0], **_validity(since, until if until <= shop.now else None)}


def _shown(joined: JoinDeclaration, found: Mapping[str, Image | None]) -> dict[str, object]:
    return {
        own: int(of.otherwise[own]) if row is None and own in of.otherwise else None if row is None else row[column]
        for name, of in joined.sources.items()
        for row in [found[name]]
        for own, column in of.columns.items()
    }
