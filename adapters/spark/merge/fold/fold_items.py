"""The input of a fold: key texts, chains of keys, and items."""

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
from lakeward.adapters.spark.merge.resolution import ID, hashed, stored_column
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
"""The largest number of key changes that one batch may reach."""

KEY, OLD_KEY, CHAIN = "_lakeward_key_text", "_lakeward_old_text", "_lakeward_chain"
LINKED: Final = "_lakeward_linked"
PLACE_COLUMNS: Final = (names.SEQUENCE, names.OBJECT, names.ROW)


def with_all(frame: DataFrame) -> DataFrame:
    """Add the columns of partial events and key changes that a frame lacks."""
    lacking = {names.UNSET: "array<string>", names.TRANSACTION: "string"}
    added = [f"CAST(NULL AS {type_}) AS {name}" for name, type_ in lacking.items() if name not in frame.columns]
    return frame.selectExpr("*", *added)


def with_absent(events: DataFrame, plan: MergePlan) -> DataFrame:
    """Mark columns and fields that the batch lacks as unset in updates, so that the stored values are kept.

    A struct that is NULL was sent whole and has no unset fields.
    """
    if not plan.evolution.lacks_columns:
        return events
    within = [
        f"CASE WHEN {quoted(*path[:-1])} IS NOT NULL THEN {text(quoted(*path))} END"
        for path in plan.evolution.lacking
    ]
    absent = f"array_compact(array({', '.join([*map(text, plan.evolution.absent), *within])}))"
    with_absent_columns = f"array_union({_UNSET_OR_EMPTY}, {absent})"
    unset = f"CASE WHEN {names.OPERATION} = 'update' THEN {with_absent_columns} ELSE {names.UNSET} END"
    return with_all(events).withColumn(names.UNSET, F.expr(unset))


def unset_columns(events: DataFrame) -> str:
    """Return SQL for the columns that remembered events did not send, with those that the table got later."""
    return (
        f"array_union({_UNSET_OR_EMPTY}, {names.CAME_SINCE})"
        if names.CAME_SINCE in events.columns
        else _UNSET_OR_EMPTY
    )


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a table as a text. The texts are equal where the keys are equal."""

    dimension: Dimension

    @property
    def columns(self) -> Sequence[Column]:
        """The columns of the key."""
        return key_columns(self.dimension)

    def text(self, of: str = "") -> str:
        """Return SQL for the key text of a row; `of` is the prefix of the struct that has the key."""
        return key_text(self.columns, of)

    def with_key_texts(self, events: DataFrame) -> DataFrame:
        """Add the text of the key and, for key changes, the text of the old key to events."""
        events = with_all(events)
        if names.OLD not in events.columns:
            fields = [f"{quoted(c.name)}:{ddl(c.type)}" for c in self.columns]
            events = events.selectExpr("*", f"CAST(NULL AS struct<{','.join(fields)}>) AS {names.OLD}")
        old = f"CASE WHEN {names.OLD} IS NOT NULL THEN {self.text(names.OLD + '.')} END"
        return events.selectExpr("*", f"{self.text()} AS {KEY}", f"{old} AS {OLD_KEY}")

    def key_texts(self, keys: DataFrame) -> DataFrame:
        """Return keys with their texts."""
        return keys.selectExpr(*map(quoted, self.dimension.key), f"{self.text()} AS {KEY}")

    def with_key_text_only(self, rows: DataFrame) -> DataFrame:
        """Replace the key columns of rows by the key text."""
        return rows.selectExpr("*", f"{self.text()} AS {KEY}").drop(*self.dimension.key)

    def distinct(self, events: Sequence[DataFrame]) -> DataFrame:
        """Return the distinct keys of events, with the old keys of key changes."""
        key = self.dimension.key
        parts = []
        for frame in events:
            parts.append(frame.selectExpr(*map(quoted, key), KEY))
            old = [f"{names.OLD}.{quoted(name)} AS {quoted(name)}" for name in key]
            parts.append(frame.where(f"{OLD_KEY} IS NOT NULL").selectExpr(*old, f"{OLD_KEY} AS {KEY}"))
        return reduce(DataFrame.unionByName, parts).dropDuplicates([KEY])

    def chained(self, links: DataFrame | None) -> Callable[[DataFrame], DataFrame]:
        """Return a function that adds to each row of a frame the chain of its key."""

        def chain(frame: DataFrame) -> DataFrame:
            if links is None:
                return frame.selectExpr("*", f"{KEY} AS {CHAIN}")
            return frame.join(links, KEY, "left").selectExpr(
                *map(quoted, frame.columns), f"coalesce({LINKED}, {KEY}) AS {CHAIN}"
            )

        return chain


def links_of(spark: SparkSession, events: Sequence[DataFrame]) -> DataFrame | None:
    """Return the chain of each key that a key change joins to another; None if there is no key change."""
    return chains_of(spark, _key_links(events), "key changes")


def links_of_all(spark: SparkSession, events: DataFrame) -> DataFrame | None:
    """Return the chain of each key, for any number of key changes.

    Too many for the driver are resolved by joins.
    """
    links = _key_links([events])
    collected = _collect_links(links)
    return _components_by_joins(links) if collected is None else _chains(spark, collected)


def reached_links(spark: SparkSession, arrived: DataFrame, remembered: DataFrame) -> DataFrame | None:
    """Return the chain of each joined key, for the keys that the events of a batch reach.

    Where too many key changes are remembered for the driver, only those that the batch reaches are read. So the
    batch can still be applied, the low watermark rises, and old key changes are forgotten.
    """
    links = _key_links([arrived, remembered])
    collected = _collect_links(links)
    if collected is not None:
        return _chains(spark, collected)
    links = links.localCheckpoint()
    reached, before = keys_of(arrived).localCheckpoint(), -1
    while before < (count := reached.count()) <= 2 * MOST_LINKS:
        before = count
        old_keys = links.join(reached, KEY, "left_semi").selectExpr(f"{OLD_KEY} AS {KEY}")
        new_keys = links.join(reached.withColumnRenamed(KEY, OLD_KEY), OLD_KEY, "left_semi").select(KEY)
        reached = reached.union(old_keys).union(new_keys).distinct().localCheckpoint()
    return chains_of(spark, links.join(reached, KEY, "left_semi"), "key changes")


def _key_links(events: Sequence[DataFrame]) -> DataFrame:
    parts = [frame.where(f"{OLD_KEY} IS NOT NULL").select(OLD_KEY, KEY) for frame in events]
    return reduce(DataFrame.unionByName, parts)


def chains_of(spark: SparkSession, links: DataFrame, noun: str) -> DataFrame | None:
    """Return the chain of each text that a link joins to another; None if there are no links.

    `noun` names the links in an error message. Raises TableError if there are more than `MOST_LINKS`.
    """
    collected = _collect_links(links)
    if collected is None:
        raise TableError(
            f"more than {MOST_LINKS:,} {noun} meet in one batch",
            found="those that are remembered, and those of the batch",
            todo="Nothing was applied. Make `lateness` or `max_files` smaller.",
        )
    return _chains(spark, collected)


def _collect_links(links: DataFrame) -> pa.Table | None:
    """Return the links, or None if there are more than `MOST_LINKS`."""
    collected = to_arrow(links.limit(MOST_LINKS + 1))
    return None if collected.num_rows > MOST_LINKS else collected


def _chains(spark: SparkSession, links: pa.Table) -> DataFrame | None:
    if not links.num_rows:
        return None
    return F.broadcast(from_arrow(spark, components(links[OLD_KEY], links[KEY])))


def _components_by_joins(links: DataFrame) -> DataFrame:
    """Return the result of `components` by joins, as many as the longest chain has links."""
    one, other, before = (f"{names.PREFIX}{name}" for name in ("one", "other", "before"))
    ends = [(KEY, OLD_KEY), (OLD_KEY, KEY), (KEY, KEY), (OLD_KEY, OLD_KEY)]
    pairs = reduce(DataFrame.union, [links.selectExpr(f"{a} AS {one}", f"{b} AS {other}") for a, b in ends])
    pairs = pairs.distinct().localCheckpoint()
    labels = pairs.groupBy(F.col(one).alias(KEY)).agg(F.min(other).alias(LINKED)).localCheckpoint()
    while True:
        neighbours = pairs.join(labels.withColumnRenamed(KEY, other), other)
        least = neighbours.groupBy(F.col(one).alias(KEY)).agg(F.min(LINKED).alias(LINKED)).localCheckpoint()
        lowered = least.join(labels.withColumnRenamed(LINKED, before), KEY).where(f"{LINKED} < {before}")
        if lowered.isEmpty():
            return least
        labels = least


def components(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.Table:
    """Return for each linked text the least text that it is connected to, directly or not.

    >>> table = components(pa.chunked_array([["a", "c", "x"]]), pa.chunked_array([["b", "b", "y"]]))
    >>> dict(zip(table[KEY].to_pylist(), table[LINKED].to_pylist()))
    {'a': 'a', 'b': 'a', 'c': 'a', 'x': 'x', 'y': 'x'}
    """
    ends = np.concatenate([one.to_numpy(), other.to_numpy()])
    nodes, places = np.unique(ends, return_inverse=True)
    ones, others = places[: len(one)], places[len(one) :]
    label = np.arange(len(nodes))
    while True:
        before = label.copy()
        least = np.minimum(label[ones], label[others])
        np.minimum.at(label, ones, least)
        np.minimum.at(label, others, least)
        label = label[label]
        if np.array_equal(before, label):
            return pa.table({KEY: pa.array(nodes, pa.string()), LINKED: pa.array(nodes[label], pa.string())})


@dataclass(frozen=True, slots=True)
class Items:
    """Builds the items of a fold from events and rows of a table; `versions` is set for a history."""

    schema: Schema
    versions: Versions | None = None

    def of_batch(self, events: DataFrame, plan: MergePlan) -> DataFrame:
        """Return the items of the events of a batch."""
        content = f"xxhash64({hashed(plan)}, {names.UNSET})"
        return self._of_events(with_absent(events, plan), id=ID, unset=_UNSET_OR_EMPTY, content=content)

    def of_remembered(self, events: DataFrame, identifier: str = "bigint(NULL)") -> DataFrame:
        """Return the items of remembered events."""
        unset = unset_columns(events)
        return self._of_events(events, id=identifier, unset=unset)

    def _of_events(self, events: DataFrame, **more_fields: str) -> DataFrame:
        at = f"named_struct('rank', 1, 'place', {EVENT_PLACE})"
        fields = {"operation": names.OPERATION, "old": OLD_KEY, "transaction": names.TRANSACTION}
        fields |= {"waits": f"size({_UNSET_OR_EMPTY}) > 0"}
        fields |= {"instant": names.INSTANT} if self.versions is not None else {}
        return self._items(events, at=at, place=EVENT_PLACE, **fields, **more_fields)

    def of_rows(self, rows: DataFrame) -> DataFrame:
        """Return the items of stored rows; for a history, one row for each key, with the versions to start from."""
        if self.versions is not None:
            return self._of_keys(rows, self.versions)
        place = place_of([stored_column(name) for name in PLACE_COLUMNS])
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
        """Return the items of remembered deletes, given by key and place."""
        no_cells = f"CAST(NULL AS {cells_type(self.schema)})"
        at = "named_struct('rank', 0, 'place', place)"
        return self._items(deletes, at=at, place="place", gone="true", cells=no_cells)

    def with_truncates(self, items: str, truncates: Mapping[Position, int | None], place: str) -> str:
        """Return SQL for an array of items with these truncates added; `place` is the SQL type of a position.

        In a history each truncate has the instant from which it counts.
        """
        if not truncates:
            return items
        truncate_items = []
        for position, instant in truncates.items():
            at = place_literal(position, place)
            fields = {"at": f"named_struct('rank', 1, 'place', {at})", "place": at, "operation": "'truncate'"}
            if instant is not None:
                fields["instant"] = f"{instant}L"
            truncate_items.append(self._item((), key="''", **fields))
        return f"concat({items}, array({', '.join(truncate_items)}))"

    def _items(self, frame: DataFrame, **fields: str) -> DataFrame:
        """Return an item for each row of a frame. `fields` are SQL by field, in place of the defaults."""
        return frame.selectExpr(CHAIN, f"{self._item(frame.columns, **fields)} AS item")

    def _item(self, columns: Collection[str], **fields: str) -> str:
        """Return SQL for an item of a row with these columns."""
        cells = [
            f"'c{i}', CAST({quoted(c.name) if c.name in columns else 'NULL'} AS {ddl(c.type)})"
            for i, c in enumerate(self.schema)
        ]
        all_fields = {
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
            **fields,
        }
        order = ITEM if self.versions is None else (*ITEM, *OF_HISTORY)
        listed = ", ".join(f"'{name}', {all_fields[name]}" for name in order)
        return f"named_struct({listed})"


def place_of(columns: Sequence[str]) -> str:
    """Return SQL for a position within an epoch, given by three columns."""
    listed = [f"'{field}', {name}" for field, name in zip("sor", columns, strict=True)]
    return f"named_struct({', '.join(listed)})"


def place_literal(position: Position, place: str) -> str:
    """Return a position within its epoch as an SQL literal; `place` is its type."""
    return f"CAST(({position.sequence}BD, {position.object}L, {position.row}L) AS {place})"


EVENT_PLACE: Final = place_of(PLACE_COLUMNS)
"""SQL: the place of an event."""

_UNSET_OR_EMPTY: Final = f"coalesce({names.UNSET}, CAST(array() AS array<string>))"


def keys_of(events: DataFrame) -> DataFrame:
    """Return the distinct key texts of events, with the old keys of key changes."""
    return (
        events.select(KEY)
        .unionByName(events.where(f"{OLD_KEY} IS NOT NULL").selectExpr(f"{OLD_KEY} AS {KEY}"))
        .distinct()
    )
