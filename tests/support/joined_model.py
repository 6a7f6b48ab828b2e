"""Joined rows by SQL, in SQLite: what Spark's are held to, and none of its code."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType, Source

Image = Mapping[str, object]
Database = Mapping[str, Iterable[Image]]
"""The rows of each source."""


def by_sql(
    joined: JoinDeclaration, keys: Mapping[str, Sequence[str]], columns: Mapping[str, Sequence[str]], rows: Database
) -> list[dict[str, object]]:
    """Return the joined rows of sources with these keys and columns, in no order; without the unknown one.

    A source that is looked up also has the columns `valid_from` and `valid_to`.
    """
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    for name, images in rows.items():
        own = [*columns[name], *(["valid_from", "valid_to"] if joined.sources[name].at else [])]
        connection.execute(f"CREATE TABLE {name} ({', '.join(own)})")
        values = [[image[column] for column in own] for image in images]
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(own))})", values)
    found = [dict(row) for row in connection.execute(query(joined, keys))]
    connection.close()
    return found


def query(joined: JoinDeclaration, keys: Mapping[str, Sequence[str]]) -> str:
    names = list(joined.sources)
    shown = [
        _value(name, source, own)
        for name, source in joined.sources.items()
        for own in (*source.columns, *source.aggregates)
    ]
    text = f"SELECT {', '.join(shown)} FROM ({_part(joined, names[0], keys)}) {names[0]}"
    for name in names[1:]:
        source = joined.sources[name]
        partner = source.beside or names[0]
        link = " AND ".join(
            f"{name}.by_{on} = {partner}.by_{to}" for on, to in zip(source.on, source.to, strict=True)
        )
        if source.at is not None:
            link += f" AND {name}.by_valid_from <= {partner}.by_{source.at}"
            link += f" AND ({name}.by_valid_to IS NULL OR {partner}.by_{source.at} < {name}.by_valid_to)"
        way = "LEFT" if source.way is JoinType.LEFT else "INNER"
        text += f" {way} JOIN ({_part(joined, name, keys)}) {name} ON {link}"
    return text


def _value(name: str, source: Source, own: str) -> str:
    value, default = f"{name}.{own}", source.otherwise.get(own)
    if own in source.aggregates and source.aggregates[own].function is Function.COUNT:
        value = f"coalesce({value}, 0)"
    if default is not None:
        value = f"CASE WHEN {name}.by_{source.on[0]} IS NULL THEN {default} ELSE {value} END"
    return f"{value} AS {own}"


def _part(joined: JoinDeclaration, name: str, keys: Mapping[str, Sequence[str]]) -> str:
    """Return a source with its columns renamed, those that something is joined by beside them."""
    source = joined.sources[name]
    children = [other for other in joined.sources.values() if _beside(joined, other) == name]
    links = {*source.on, *(to for other in children for to in (*other.to, *([other.at] if other.at else [])))}
    links |= {"valid_from", "valid_to"} if source.at else set()
    shown = [f"one.{column} AS {own}" for own, column in source.columns.items()]
    shown += [f"one.{column} AS by_{column}" for column in sorted(links)]
    if not source.aggregates:
        return f"SELECT {', '.join(shown)} FROM {name} one"
    shown += [f"{_aggregate(one, name, source, keys[name])} AS {own}" for own, one in source.aggregates.items()]
    whole = " AND ".join(f"one.{column} IS NOT NULL" for column in source.on)
    return f"SELECT {', '.join(shown)} FROM {name} one WHERE {whole} GROUP BY {', '.join(source.on)}"


def _beside(joined: JoinDeclaration, source: Source) -> str | None:
    return source.beside or next(iter(joined.sources)) if source.to else None


def _aggregate(aggregate: Aggregate, name: str, source: Source, key: Sequence[str]) -> str:
    if aggregate.function is not Function.LATEST:
        return f"{aggregate.function.value}({'*' if aggregate.column is None else f'one.{aggregate.column}'})"
    order = ", ".join(f"other.{column} DESC" for column in (aggregate.by or "", *key))
    equal = " AND ".join(f"other.{column} = one.{column}" for column in source.on)
    return f"(SELECT other.{aggregate.column} FROM {name} other WHERE {equal} ORDER BY {order} LIMIT 1)"
