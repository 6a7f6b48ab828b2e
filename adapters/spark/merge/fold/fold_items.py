"""What a fold is made from: the keys of events as texts, the chains that they make, and items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.version_rows import VERSIONS
from lakeward.adapters.spark.history.versions import Versions
from lakeward.adapters.spark.merge.fold.expression import ITEM, OF_HISTORY
from lakeward.adapters.spark.merge.resolution import ID, hashed, standing
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import cells_type
from lakeward.adapters.spark.sql.keys import key_columns, key_text
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import DELETED, Dimension
from lakeward.core.errors import TableError
from lakeward.core.events import Position
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Column, Schema

MOST_LINKS: Final = 250_000
"""More key changes than that are not looked at in one batch: those that it reaches."""

KEY, OLD_KEY, CHAIN = "_lakeward_key_text", "_lakeward_old_text", "_lakeward_chain"
LINKED: Final = "_lakeward_linked"
PLACE_COLUMNS: Final = (names.SEQUENCE, names.OBJECT, names.ROW)


def with_all(frame: DataFrame) -> DataFrame:
    """Give a frame the columns of partial events and key changes that it lacks."""
    lacking = {names.UNSET: "array<string>", names.TRANSACTION: "string"}
    added = [f"CAST(NULL AS {type_}) AS {name}" for name, type_ in lacking.items() if name not in frame.columns]
    return frame.selectExpr("*", *added)


def with_absent(events: DataFrame, plan: MergePlan) -> DataFrame:
    """Say of updates that columns and fields which the batch has not were not sent: they keep what stands.

    A struct that is NULL has no fields, and was sent whole.
    """
    if not plan.evolution.lacks:
        return events
    within = [
        f"CASE WHEN {quoted(*path[:-1])} IS NOT NULL THEN {text(quoted(*path))} END"
        for path in plan.evolution.lacking
    ]
    absent = f"array_compact(array({', '.join([*map(text, plan.evolution.absent), *within])}))"
    unset = f"CASE WHEN {names.OPERATION} = 'update' THEN array_union({_SENT_NOT}, {absent}) ELSE {names.UNSET} END"
    return with_all(events).withColumn(names.UNSET, F.expr(unset))


def said_nothing_of(events: DataFrame) -> str:
    """Return what remembered events did not send, with what the table got since they came, as SQL."""
    return f"array_union({_SENT_NOT}, {names.CAME_SINCE})" if names.CAME_SINCE in events.columns else _SENT_NOT


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a table, as a text that is equal where keys are."""

    dimension: Dimension

    @property
    def columns(self) -> Sequence[Column]:
        """The columns of the key."""
        return key_columns(self.dimension)

    def text(self, of: str = "") -> str:
        """Return the text of the key in a frame, as SQL; `of` is the prefix of a struct that has it."""
        return key_text(self.columns, of)

    def named(self, events: DataFrame) -> DataFrame:
        """Give events the texts of their key and of the key that they left."""
        events = with_all(events)
        if names.OLD not in events.columns:
            fields = [f"{quoted(c.name)}:{ddl(c.type)}" for c in self.columns]
            events = events.selectExpr("*", f"CAST(NULL AS struct<{','.join(fields)}>) AS {names.OLD}")
        old = f"CASE WHEN {names.OLD} IS NOT NULL THEN {self.text(names.OLD + '.')} END"
        return events.selectExpr("*", f"{self.text()} AS {KEY}", f"{old} AS {OLD_KEY}")

    def of_keys(self, keys: DataFrame) -> DataFrame:
        """Return keys with their texts."""
        return keys.selectExpr(*map(quoted, self.dimension.key), f"{self.text()} AS {KEY}")

    def named_rows(self, rows: DataFrame) -> DataFrame:
        """Give rows the text of their key, in the place of the key."""
        return rows.selectExpr("*", f"{self.text()} AS {KEY}").drop(*self.dimension.key)

    def distinct(self, events: Sequence[DataFrame]) -> DataFrame:
        """Return the keys that events touch, those that they left included."""
        key = self.dimension.key
        parts = []
        for frame in events:
            parts.append(frame.selectExpr(*map(quoted, key), KEY))
            old = [f"{names.OLD}.{quoted(name)} AS {quoted(name)}" for name in key]
            parts.append(frame.where(f"{OLD_KEY} IS NOT NULL").selectExpr(*old, f"{OLD_KEY} AS {KEY}"))
        return reduce(DataFrame.unionByName, parts).dropDuplicates([KEY])

    def chained(self, links: DataFrame | None) -> Callable[[DataFrame], DataFrame]:
        """Return what gives each key of a frame its chain."""

        def chain(frame: DataFrame) -> DataFrame:
            if links is None:
                return frame.selectExpr("*", f"{KEY} AS {CHAIN}")
            return frame.join(links, KEY, "left").selectExpr(
                *map(quoted, frame.columns), f"coalesce({LINKED}, {KEY}) AS {CHAIN}"
            )

        return chain


def links_of(spark: SparkSession, events: Sequence[DataFrame]) -> DataFrame | None:
    """Return the chain of each key that a key change joins to another, or None where there is no key change."""
    return chains_of(spark, _links(events), "key changes")


def links_of_all(spark: SparkSession, events: DataFrame) -> DataFrame | None:
    """Return the same, however many key changes there are: too many for the driver are worked out by joins."""
    links = _links([events])
    found = _few(links)
    return _joined(links) if found is None else _chains(spark, found)


def links_met(spark: SparkSession, arrived: DataFrame, known: DataFrame) -> DataFrame | None:
    """Return the chain of each key that key changes join to others, of the keys that the events of a batch reach.

    Of those that are remembered the batch may reach few, where they are too many to be looked at: so the batch is
    made, the mark moves on, and they are forgotten.
    """
    links = _links([arrived, known])
    found = _few(links)
    if found is not None:
        return _chains(spark, found)
    links = links.localCheckpoint()
    reached, before = keys_of(arrived).localCheckpoint(), -1
    while before < (count := reached.count()) <= 2 * MOST_LINKS:
        before = count
        near = links.join(reached, KEY, "left_semi").selectExpr(f"{OLD_KEY} AS {KEY}")
        far = links.join(reached.withColumnRenamed(KEY, OLD_KEY), OLD_KEY, "left_semi").select(KEY)
        reached = reached.union(near).union(far).distinct().localCheckpoint()
    return chains_of(spark, links.join(reached, KEY, "left_semi"), "key changes")


def _links(events: Sequence[DataFrame]) -> DataFrame:
    parts = [frame.where(f"{OLD_KEY} IS NOT NULL").select(OLD_KEY, KEY) for frame in events]
    return reduce(DataFrame.unionByName, parts)


def chains_of(spark: SparkSession, links: DataFrame, what: str) -> DataFrame | None:
    """Return the chain of each text that a link, `what` it is in words, joins to another; None where none does.

    Raises TableError where there are more than may be looked at.
    """
    found = _few(links)
    if found is None:
        raise TableError(
            f"more than {MOST_LINKS:,} {what} meet in one batch",
            found="those that are remembered, and those of the batch",
            todo="Nothing was applied. Make `lateness` or `max_files` smaller.",
        )
    return _chains(spark, found)


def _few(links: DataFrame) -> pa.Table | None:
    """Return links, or None where they are more than may be looked at."""
    found = to_arrow(links.limit(MOST_LINKS + 1))
    return None if found.num_rows > MOST_LINKS else found


def _chains(spark: SparkSession, links: pa.Table) -> DataFrame | None:
    if not links.num_rows:
        return None
    return F.broadcast(from_arrow(spark, components(links[OLD_KEY], links[KEY])))


def _joined(links: DataFrame) -> DataFrame:
    """Return what `components` does, by as many joins as the longest chain has links."""
    one, other, before = (f"{names.PREFIX}{name}" for name in ("one", "other", "before"))
    ends = [(KEY, OLD_KEY), (OLD_KEY, KEY), (KEY, KEY), (OLD_KEY, OLD_KEY)]
    near = reduce(DataFrame.union, [links.selectExpr(f"{a} AS {one}", f"{b} AS {other}") for a, b in ends])
    near = near.distinct().localCheckpoint()
    labels = near.groupBy(F.col(one).alias(KEY)).agg(F.min(other).alias(LINKED)).localCheckpoint()
    while True:
        met = near.join(labels.withColumnRenamed(KEY, other), other)
        least = met.groupBy(F.col(one).alias(KEY)).agg(F.min(LINKED).alias(LINKED)).localCheckpoint()
        moved = least.join(labels.withColumnRenamed(LINKED, before), KEY).where(f"{LINKED} < {before}")
        if moved.isEmpty():
            return least
        labels = least


def components(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.Table:
    """Return for each of the linked texts the least text that it is joined to, directly or not.

    >>> table = components(pa.chunked_array([["a", "c", "x"]]), pa.chunked_array([["b", "b", "y"]]))
    >>> dict(zip(table[KEY].to_pylist(), table[LINKED].to_pylist()))
    {'a': 'a', 'b': 'a', 'c': 'a', 'x': 'x', 'y': 'x'}
    """
    ends = np.concatenate([one.to_numpy(), other.to_numpy()])
    nodes, places = np.unique(ends, return_inverse=True)
    left, right = places[: len(one)], places[len(one) :]
    label = np.arange(len(nodes))
    while True:
        before = label.copy()
        least = np.minimum(label[left], label[right])
        np.minimum.at(label, left, least)
        np.minimum.at(label, right, least)
        label = label[label]
        if np.array_equal(before, label):
            return pa.table({KEY: pa.array(nodes, pa.string()), LINKED: pa.array(nodes[label], pa.string())})


@dataclass(frozen=True, slots=True)
class Items:
    """Makes the items of a fold from events and rows of a table; `versions` are those of a history."""

    schema: Schema
    versions: Versions | None = None

    def of_batch(self, events: DataFrame, plan: MergePlan) -> DataFrame:
        """Return the events of a batch."""
        content = f"xxhash64({hashed(plan)}, {names.UNSET})"
        return self._of_events(with_absent(events, plan), id=ID, unset=_SENT_NOT, content=content)

    def of_remembered(self, events: DataFrame, identifier: str = "bigint(NULL)") -> DataFrame:
        """Return events of batches before."""
        unset = said_nothing_of(events)
        return self._of_events(events, id=identifier, unset=unset)

    def _of_events(self, events: DataFrame, **given: str) -> DataFrame:
        at = f"named_struct('rank', 1, 'place', {EVENT_PLACE})"
        known = {"operation": names.OPERATION, "old": OLD_KEY, "transaction": names.TRANSACTION}
        known |= {"waits": f"size({_SENT_NOT}) > 0"}
        known |= {"instant": names.INSTANT} if self.versions is not None else {}
        return self._items(events, at=at, place=EVENT_PLACE, **known, **given)

    def of_rows(self, rows: DataFrame) -> DataFrame:
        """Return rows that stand; of a history, one row a key, with the versions to go on from."""
        if self.versions is not None:
            return self._of_keys(rows, self.versions)
        place = place_of([standing(name) for name in PLACE_COLUMNS])
        gone = f"coalesce({DELETED}, false)" if DELETED in rows.columns else "false"
        return self._items(rows, at=f"named_struct('rank', 0, 'place', {place})", place=place, gone=gone)

    def _of_keys(self, keys: DataFrame, versions: Versions) -> DataFrame:
        newest = f"try_element_at({VERSIONS}, -1)"
        place = versions.place_in_epoch(f"{newest}.place")
        is_live = f"{newest}.begins IS NOT NULL AND {newest}.ends IS NULL"
        return self._items(
            keys,
            at=f"named_struct('rank', 0, 'place', {place})",
            place=place,
            cells=f"CASE WHEN {is_live} THEN {newest}.cells END",
            gone=f"NOT ({is_live})",
            versions=VERSIONS,
        )

    def of_deletes(self, deletes: DataFrame) -> DataFrame:
        """Return the memory of deletes, given by key and place."""
        nothing = f"CAST(NULL AS {cells_type(self.schema)})"
        at = "named_struct('rank', 0, 'place', place)"
        return self._items(deletes, at=at, place="place", gone="true", cells=nothing)

    def with_truncates(self, items: str, truncates: Mapping[Position, int | None], place: str) -> str:
        """Return an array of items and these truncates, as SQL; `place` is the type of a position.

        In a history they count from the instant that stands beside each.
        """
        if not truncates:
            return items
        made = []
        for position, instant in truncates.items():
            at = place_literal(position, place)
            given = {"at": f"named_struct('rank', 1, 'place', {at})", "place": at, "operation": "'truncate'"}
            if instant is not None:
                given["instant"] = f"{instant}L"
            made.append(self._item((), key="''", **given))
        return f"concat({items}, array({', '.join(made)}))"

    def _items(self, frame: DataFrame, **given: str) -> DataFrame:
        return frame.selectExpr(CHAIN, f"{self._item(frame.columns, **given)} AS item")

    def _item(self, has: Collection[str], **given: str) -> str:
        cells = [
            f"'c{i}', CAST({quoted(c.name) if c.name in has else 'NULL'} AS {ddl(c.type)})"
            for i, c in enumerate(self.schema)
        ]
        known = {
            "id": "bigint(NULL)",
            "operation": "string(NULL)",
            "key": KEY,
            "old": "string(NULL)",
            "transaction": "string(NULL)",
            "unset": "CAST(array() AS array<string>)",
            "waits": "false",
            "cells": f"named_struct({', '.join(cells)})",
            "gone": "false",
            "content": "bigint(NULL)",
            "instant": "bigint(NULL)",
            **({} if self.versions is None else {"versions": self.versions.none}),
            **given,
        }
        listed = ITEM if self.versions is None else (*ITEM, *OF_HISTORY)
        fields = ", ".join(f"'{name}', {known[name]}" for name in listed)
        return f"named_struct({fields})"


def place_of(columns: Sequence[str]) -> str:
    """Return a position within an epoch, given by three columns, as SQL."""
    listed = [f"'{field}', {name}" for field, name in zip("sor", columns, strict=True)]
    return f"named_struct({', '.join(listed)})"


def place_literal(position: Position, place: str) -> str:
    """Return a position within its epoch as SQL; `place` is its type."""
    return f"CAST(({position.sequence}BD, {position.object}L, {position.row}L) AS {place})"


EVENT_PLACE: Final = place_of(PLACE_COLUMNS)
"""The place of an event, as SQL."""

_SENT_NOT: Final = f"coalesce({names.UNSET}, CAST(array() AS array<string>))"


def keys_of(events: DataFrame) -> DataFrame:
    """Return the texts of all keys of events."""
    return (
        events.select(KEY)
        .unionByName(events.where(f"{OLD_KEY} IS NOT NULL").selectExpr(f"{OLD_KEY} AS {KEY}"))
        .distinct()
    )
