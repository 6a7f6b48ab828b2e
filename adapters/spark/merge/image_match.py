"""Match changes and rows by their full images, for tables without a key: `core.merge.image_match.match` for frames.

Each image that the batch removes gets a number. A join gives this number to the equal rows of the table; all other
rows are left alone. A fold over the events of each chain of images, in order, counts the rows of each image and so
shows which changes find a row. The oldest rows of an image are removed first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.merge.fold.fold_items import CHAIN, EVENT_PLACE, KEY, LINKED, OLD_KEY, chains_of
from lakeward.adapters.spark.merge.resolution import FILE, ID, POS, SMALL
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import NO_IDS, canonical, let, note, struct
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Column, Schema, Type

IS_REMOVAL: Final = f"{names.OPERATION} IN ('update', 'delete')"
"""SQL: whether an event removes a row."""

_VALUES, _NUMBER, _REMOVALS, _RANK = (f"{names.PREFIX}{name}" for name in ("values", "number", "removals", "rank"))
"""Columns: the values of a row or image; the number of an image; how many changes remove it; the rank of a row
among equal rows, from 1.
"""

_REMOVED, _ADDED = "_lakeward_removed", "_lakeward_added"
"""Columns of an event: the number of the image that it removes, and of the image that it adds, if a change removes
that.
"""

_BEFORE: Final = "_lakeward_values_before"

_STOCK: Final = "map<bigint,bigint>"


def is_whole(frame: DataFrame) -> str:
    """Return SQL for whether a change was sent whole.

    This is the row before the change, and for an update also the row after it.
    """
    if names.IMAGE not in frame.columns:
        return "false"
    is_sent = f"coalesce(size({names.UNSET}), 0) <= 0" if names.UNSET in frame.columns else "true"
    return f"({names.IMAGE} IS NOT NULL AND {is_sent})"


def fitted_images(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return a frame whose images, if it has any, have the columns and types of a schema."""
    return fitted(frame, Schema((Column(names.IMAGE, Type("struct", parts=schema.columns)),)))


def values_in(plan: MergePlan, of: str = "") -> str:
    """Return SQL for the values of a row in the columns of the batch. The result is equal for equal rows.

    `of` is the prefix of the struct that holds the row, or empty.
    """
    fields = {}
    for index, column in enumerate(c for c in plan.dimension.schema if c.name not in plan.evolution.absent):
        type_ = (plan.evolution.schema.find(column.name) or column).type
        fields[f"c{index}"] = canonical(f"CAST({of}{quoted(column.name)} AS {ddl(type_)})", type_)
    return struct(fields)


@dataclass(frozen=True)
class Images:
    """The events of a batch, each sent whole, and the table rows that they may remove."""

    plan: MergePlan
    events: DataFrame
    rows: DataFrame | None

    def close(self) -> None:
        """Free the cached table rows."""
        self.stored_rows.unpersist()

    @cached_property
    def _images(self) -> DataFrame:
        """The images that the batch removes, each with its number."""
        removals = self.events.where(IS_REMOVAL).selectExpr(
            f"{values_in(self.plan, names.IMAGE + '.')} AS {_VALUES}", ID
        )
        images = removals.groupBy(_VALUES).agg(
            F.expr(f"min({ID}) AS {_NUMBER}"), F.expr(f"count(*) AS {_REMOVALS}")
        )
        return F.broadcast(images) if self.plan.facts.read <= SMALL else images

    @cached_property
    def stored_rows(self) -> DataFrame:
        """The stored rows of these images, oldest first; of each image at most as many as the batch removes."""
        if self.rows is None:
            types = {**dict.fromkeys((_NUMBER, _RANK, POS), "bigint"), FILE: "string"}
            return inline(self.events.sparkSession, types, [])
        order = f"PARTITION BY {_NUMBER} ORDER BY {', '.join(names.POSITION)}"
        rows = self.rows.selectExpr(f"{values_in(self.plan)} AS {_VALUES}", *names.POSITION, FILE, POS)
        ranked = rows.join(self._images, _VALUES).drop(_VALUES)
        ranked = ranked.selectExpr("*", f"row_number() OVER ({order}) AS {_RANK}")
        return ranked.where(f"{_RANK} <= {_REMOVALS}").persist()

    @cached_property
    def _matching_events(self) -> DataFrame:
        """Events that remove a row, or add one that the batch also removes, with place and image numbers."""
        selection, added = (self._images.select(_VALUES, F.col(_NUMBER).alias(name)) for name in (_REMOVED, _ADDED))
        leaves = f"CASE WHEN {names.OPERATION} != 'delete' THEN {values_in(self.plan)} END AS {_VALUES}"
        removals = f"CASE WHEN {IS_REMOVAL} THEN {values_in(self.plan, names.IMAGE + '.')} END AS {_BEFORE}"
        both = self.events.selectExpr(ID, f"{EVENT_PLACE} AS place", leaves, removals)
        both = both.join(added, _VALUES, "left").drop(_VALUES).withColumnRenamed(_BEFORE, _VALUES)
        both = both.join(selection, _VALUES, "left").drop(_VALUES)
        return both.where(f"{_REMOVED} IS NOT NULL OR {_ADDED} IS NOT NULL").localCheckpoint()

    @cached_property
    def failed(self) -> DataFrame:
        """The IDs of the changes that match no row."""
        ends = (f"string({_REMOVED}) AS {OLD_KEY}", f"string({_ADDED}) AS {KEY}")
        moves = self._matching_events.where(f"{_REMOVED} != {_ADDED}").selectExpr(*ends).distinct()
        links = chains_of(moves.sparkSession, moves, "images of rows that become another")
        image = f"string(coalesce({_REMOVED}, {_ADDED})) AS {KEY}"
        item = f"struct(place, {ID} AS id, {_REMOVED} AS removed, {_ADDED} AS added) AS item"
        items = _chained(self._matching_events.selectExpr(image, item), links).groupBy(CHAIN)
        stock = (
            self.stored_rows.groupBy(_NUMBER).count().selectExpr(f"string({_NUMBER}) AS {KEY}", _NUMBER, "count")
        )
        stocks = _chained(stock, links).groupBy(CHAIN)
        stocks_of = stocks.agg(F.expr(f"map_from_entries(collect_list(struct({_NUMBER}, count))) AS stock"))
        folded = items.agg(F.expr("collect_list(item) AS items")).join(stocks_of, CHAIN, "left")
        return folded.selectExpr(f"explode({_FOLD}.failed) AS {ID}").localCheckpoint()

    @cached_property
    def _added_rows(self) -> DataFrame:
        """The added rows that the batch may also remove: how many rows precede each, and how many are removed."""
        good = self._matching_events.join(F.broadcast(self.failed), ID, "left_anti")
        removals = good.groupBy(_REMOVED).count().selectExpr(f"{_REMOVED} AS {_NUMBER}", "count AS gone")
        stored_counts = self.stored_rows.groupBy(_NUMBER).count().selectExpr(_NUMBER, "count AS stored")
        adds = good.where(f"{_ADDED} IS NOT NULL").selectExpr(
            ID, f"{_ADDED} AS {_NUMBER}", f"row_number() OVER (PARTITION BY {_ADDED} ORDER BY place) AS {_RANK}"
        )
        return adds.join(removals, _NUMBER).join(stored_counts, _NUMBER, "left")

    @cached_property
    def superseded(self) -> DataFrame:
        """The IDs of the events whose rows are removed again in the same batch."""
        return self._added_rows.where(f"{_RANK} + coalesce(stored, 0) <= gone").select(ID).localCheckpoint()

    @cached_property
    def removed(self) -> DataFrame:
        """The stored rows that the batch removes."""
        good = self._matching_events.where(f"{_REMOVED} IS NOT NULL").join(
            F.broadcast(self.failed), ID, "left_anti"
        )
        removals = good.groupBy(_REMOVED).count().selectExpr(f"{_REMOVED} AS {_NUMBER}", "count AS gone")
        return self.stored_rows.join(F.broadcast(removals), _NUMBER).where(f"{_RANK} <= gone")

    @property
    def written(self) -> DataFrame:
        """The events that write a row."""
        events = self.events.where(f"{names.OPERATION} != 'delete'")
        for ids in (self.failed, self.superseded):
            events = events.join(F.broadcast(ids), ID, "left_anti")
        return events


def _chained(frame: DataFrame, links: DataFrame | None) -> DataFrame:
    """Give each image its chain. Images that updates turn into one another are in one chain."""
    if links is None:
        return frame.withColumnRenamed(KEY, CHAIN)
    linked = frame.join(F.broadcast(links), KEY, "left")
    others = [name for name in frame.columns if name != KEY]
    return linked.selectExpr(*others, f"coalesce({LINKED}, {KEY}) AS {CHAIN}")


def _counted(stock: str, number: str, by: str) -> str:
    """Return SQL for a stock with the count of one image changed. An image whose count is 0 is dropped."""
    count = f"coalesce(try_element_at({stock}, {number}), 0L) {by}"
    others = f"map_filter({stock}, (k, v) -> k != {number})"
    return f"CASE WHEN {count} = 0 THEN {others} ELSE map_concat({others}, map({number}, {count})) END"


_LACKS: Final = "e.removed IS NOT NULL AND coalesce(try_element_at(s.stock, e.removed), 0L) = 0"
_REST: Final = f"CASE WHEN e.removed IS NULL THEN s.stock ELSE {_counted('s.stock', 'e.removed', '- 1L')} END"
_AFTER: Final = let(
    {"rest": _REST}, f"CASE WHEN e.added IS NULL THEN rest ELSE {_counted('rest', 'e.added', '+ 1L')} END"
)
_STEP: Final = struct(
    {
        "stock": f"CASE WHEN {_LACKS} THEN s.stock ELSE {_AFTER} END",
        "failed": note("s.failed", _LACKS),
    }
)
_NO_STOCK: Final = f"map_filter(CAST(map(0L, 0L) AS {_STOCK}), (k, v) -> false)"
_BEGIN: Final = struct({"stock": f"coalesce(stock, {_NO_STOCK})", "failed": NO_IDS})
_FOLD: Final = f"aggregate(array_sort(items), {_BEGIN}, (s, e) -> {_STEP})"
"""SQL: the fold of a chain. It tracks how many rows of each image exist, and notes the events that match no row."""
