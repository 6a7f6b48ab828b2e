"""`core.merge.image_match.match` as frames: which rows a batch removes, and which changes match no row.

Images that the batch takes away have numbers, and rows that are equal to them get these by a join; all else of
a table is passed over. Whether a change finds a row is known from how many stand: a fold over the events of
each chain of images, in order. The first rows of an image are those that go.
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

IS_TAKE: Final = f"{names.OPERATION} IN ('update', 'delete')"
"""Whether an event takes a row away, as SQL."""

_VALUES, _NUMBER, _TAKES, _RANK = (f"{names.PREFIX}{name}" for name in ("values", "number", "takes", "rank"))
"""The values of a row or an image; of an image its number, how many changes take it away, and the place of a row
among those that are equal to it."""

_TAKEN, _ADDED = "_lakeward_taken", "_lakeward_added"
"""Of an event: the numbers of the image that it takes away, and of the row that it adds, where one takes that."""

_BEFORE: Final = "_lakeward_values_before"

_STOCK: Final = "map<bigint,bigint>"


def is_whole(frame: DataFrame) -> str:
    """Return whether a change was sent whole, as SQL: the row before it, and the row after an update."""
    if names.IMAGE not in frame.columns:
        return "false"
    is_sent = f"coalesce(size({names.UNSET}), 0) <= 0" if names.UNSET in frame.columns else "true"
    return f"({names.IMAGE} IS NOT NULL AND {is_sent})"


def fitted_images(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return a frame whose images, if it has some, have the columns and the types of a schema."""
    return fitted(frame, Schema((Column(names.IMAGE, Type("struct", parts=schema.columns)),)))


def values_in(plan: MergePlan, of: str = "") -> str:
    """Return what a row has in the columns of an image, those of the batch, as SQL that equal rows share.

    `of` is the prefix of a struct that has the row.
    """
    fields = {}
    for index, column in enumerate(c for c in plan.dimension.schema if c.name not in plan.evolution.absent):
        type_ = (plan.evolution.schema.find(column.name) or column).type
        fields[f"c{index}"] = canonical(f"CAST({of}{quoted(column.name)} AS {ddl(type_)})", type_)
    return struct(fields)


@dataclass(frozen=True)
class Images:
    """The events of a batch, all of them whole, and the rows of the table that they may take away."""

    plan: MergePlan
    events: DataFrame
    rows: DataFrame | None

    def close(self) -> None:
        """Free what is kept of the table."""
        self.standing.unpersist()

    @cached_property
    def _images(self) -> DataFrame:
        """The images that are taken away, each with its number."""
        takes = self.events.where(IS_TAKE).selectExpr(f"{values_in(self.plan, names.IMAGE + '.')} AS {_VALUES}", ID)
        found = takes.groupBy(_VALUES).agg(F.expr(f"min({ID}) AS {_NUMBER}"), F.expr(f"count(*) AS {_TAKES}"))
        return F.broadcast(found) if self.plan.facts.read <= SMALL else found

    @cached_property
    def standing(self) -> DataFrame:
        """The rows that stand of these images, the oldest first: no more of each than are taken away."""
        if self.rows is None:
            types = {**dict.fromkeys((_NUMBER, _RANK, POS), "bigint"), FILE: "string"}
            return inline(self.events.sparkSession, types, [])
        order = f"PARTITION BY {_NUMBER} ORDER BY {', '.join(names.POSITION)}"
        rows = self.rows.selectExpr(f"{values_in(self.plan)} AS {_VALUES}", *names.POSITION, FILE, POS)
        ranked = rows.join(self._images, _VALUES).drop(_VALUES)
        ranked = ranked.selectExpr("*", f"row_number() OVER ({order}) AS {_RANK}")
        return ranked.where(f"{_RANK} <= {_TAKES}").persist()

    @cached_property
    def _met(self) -> DataFrame:
        """The events that take a row away, or add one that is taken: their places, and the numbers of both."""
        selection, added = (self._images.select(_VALUES, F.col(_NUMBER).alias(name)) for name in (_TAKEN, _ADDED))
        leaves = f"CASE WHEN {names.OPERATION} != 'delete' THEN {values_in(self.plan)} END AS {_VALUES}"
        takes = f"CASE WHEN {IS_TAKE} THEN {values_in(self.plan, names.IMAGE + '.')} END AS {_BEFORE}"
        both = self.events.selectExpr(ID, f"{EVENT_PLACE} AS place", leaves, takes)
        both = both.join(added, _VALUES, "left").drop(_VALUES).withColumnRenamed(_BEFORE, _VALUES)
        both = both.join(selection, _VALUES, "left").drop(_VALUES)
        return both.where(f"{_TAKEN} IS NOT NULL OR {_ADDED} IS NOT NULL").localCheckpoint()

    @cached_property
    def failed(self) -> DataFrame:
        """The IDs of the changes that find no row."""
        ends = (f"string({_TAKEN}) AS {OLD_KEY}", f"string({_ADDED}) AS {KEY}")
        moves = self._met.where(f"{_TAKEN} != {_ADDED}").selectExpr(*ends).distinct()
        links = chains_of(moves.sparkSession, moves, "images of rows that become another")
        image = f"string(coalesce({_TAKEN}, {_ADDED})) AS {KEY}"
        item = f"struct(place, {ID} AS id, {_TAKEN} AS taken, {_ADDED} AS added) AS item"
        items = _chained(self._met.selectExpr(image, item), links).groupBy(CHAIN)
        stock = self.standing.groupBy(_NUMBER).count().selectExpr(f"string({_NUMBER}) AS {KEY}", _NUMBER, "count")
        stocks = _chained(stock, links).groupBy(CHAIN)
        stocks_of = stocks.agg(F.expr(f"map_from_entries(collect_list(struct({_NUMBER}, count))) AS stock"))
        folded = items.agg(F.expr("collect_list(item) AS items")).join(stocks_of, CHAIN, "left")
        return folded.selectExpr(f"explode({_FOLD}.failed) AS {ID}").localCheckpoint()

    @cached_property
    def _ranked(self) -> DataFrame:
        """The rows that are added and may be taken in the batch: how many stand before each, and how many go."""
        good = self._met.join(F.broadcast(self.failed), ID, "left_anti")
        gone = good.groupBy(_TAKEN).count().selectExpr(f"{_TAKEN} AS {_NUMBER}", "count AS gone")
        stand = self.standing.groupBy(_NUMBER).count().selectExpr(_NUMBER, "count AS stood")
        adds = good.where(f"{_ADDED} IS NOT NULL").selectExpr(
            ID, f"{_ADDED} AS {_NUMBER}", f"row_number() OVER (PARTITION BY {_ADDED} ORDER BY place) AS {_RANK}"
        )
        return adds.join(gone, _NUMBER).join(stand, _NUMBER, "left")

    @cached_property
    def superseded(self) -> DataFrame:
        """The IDs of the events whose rows are taken away within the batch."""
        return self._ranked.where(f"{_RANK} + coalesce(stood, 0) <= gone").select(ID).localCheckpoint()

    @cached_property
    def removed(self) -> DataFrame:
        """The rows of the table that go."""
        good = self._met.where(f"{_TAKEN} IS NOT NULL").join(F.broadcast(self.failed), ID, "left_anti")
        gone = good.groupBy(_TAKEN).count().selectExpr(f"{_TAKEN} AS {_NUMBER}", "count AS gone")
        return self.standing.join(F.broadcast(gone), _NUMBER).where(f"{_RANK} <= gone")

    @property
    def written(self) -> DataFrame:
        """The events that leave a row."""
        left = self.events.where(f"{names.OPERATION} != 'delete'")
        for gone in (self.failed, self.superseded):
            left = left.join(F.broadcast(gone), ID, "left_anti")
        return left


def _chained(frame: DataFrame, links: DataFrame | None) -> DataFrame:
    """Give each image its chain: those that changes make of one another are one."""
    if links is None:
        return frame.withColumnRenamed(KEY, CHAIN)
    linked = frame.join(F.broadcast(links), KEY, "left")
    others = [name for name in frame.columns if name != KEY]
    return linked.selectExpr(*others, f"coalesce({LINKED}, {KEY}) AS {CHAIN}")


def _counted(stock: str, number: str, by: str) -> str:
    """Return a stock with one row more or less of an image, as SQL; what is none is not kept."""
    count = f"coalesce(try_element_at({stock}, {number}), 0L) {by}"
    others = f"map_filter({stock}, (k, v) -> k != {number})"
    return f"CASE WHEN {count} = 0 THEN {others} ELSE map_concat({others}, map({number}, {count})) END"


_LACKS: Final = "e.taken IS NOT NULL AND coalesce(try_element_at(s.stock, e.taken), 0L) = 0"
_LEFT: Final = f"CASE WHEN e.taken IS NULL THEN s.stock ELSE {_counted('s.stock', 'e.taken', '- 1L')} END"
_AFTER: Final = let(
    {"rest": _LEFT}, f"CASE WHEN e.added IS NULL THEN rest ELSE {_counted('rest', 'e.added', '+ 1L')} END"
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
"""The fold of a chain: how many rows of each image stand after each event, and which found none."""
