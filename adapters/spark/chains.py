"""Batches whose events must meet what is remembered, event by event: cells not sent, key changes.

Keys that key changes join, in this batch or in memory, make a *chain*. For each chain that
the batch touches the state before, what is remembered since, and what arrives are put
together and folded in order (`lakeward.adapters.spark.fold`). This is
`lakeward.core.settle` for its slow keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark import names
from lakeward.adapters.spark.events import has_order
from lakeward.adapters.spark.fold import BY_PLACE, Fold, place_type, used
from lakeward.adapters.spark.items import (
    CHAIN,
    EVENT_PLACE,
    KEY,
    OLD_KEY,
    PLACE_COLUMNS,
    Items,
    Key,
    keys_of,
    links_of,
    place_literal,
    place_of,
)
from lakeward.adapters.spark.names import column, quoted
from lakeward.adapters.spark.resolve import ID, SMALL, standing
from lakeward.core.counts import Counts
from lakeward.core.dimension import Dimension
from lakeward.core.events import Mark, Position
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Schema

RELEASED_ID: Final = 1 << 62
"""From there on the IDs are those of events that waited."""

_ROWS, _VERDICTS = "_lakeward_rows", "_lakeward_verdicts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What a table knows of before a batch, as frames.

    `remembered` are events as a batch has them, `bases` rows with their positions and the
    `_lakeward_batch` that noted them, `rows` gives the rows that stand of some keys. Where all
    events are whole, or the table is `ordered`, what stands is the state (`by_rows`), and of
    deletes what is remembered.
    """

    remembered: DataFrame | None
    bases: DataFrame | None
    rows: Callable[[DataFrame], DataFrame]
    by_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """The chains of a batch after it: `folded` has one row a chain, `stood` are their rows before.

    `first_touched` are those of `stood` of which nothing was remembered.
    """

    plan: MergePlan
    folded: DataFrame
    stood: DataFrame
    first_touched: DataFrame

    def close(self) -> None:
        """Free what is cached."""
        self.folded.unpersist()

    def rows(self) -> DataFrame:
        """Return the rows that the chains leave, in the columns of a batch."""
        return _rows_of(_ROWS, self.folded, self.plan.folded, str)

    def verdicts(self) -> DataFrame:
        """Return one row an event of the batch: its ID, what became of it, and what was noted of it."""
        return self.folded.selectExpr(f"inline({_VERDICTS})")

    def undecided(self) -> DataFrame | None:
        """Return for each chain the ID of the first event of which no rule says what row it means."""
        wrong = f"filter({_VERDICTS}, v -> v.undecided)"
        found = self.folded.where(f"size({wrong}) > 0").selectExpr(f"get({wrong}, 0).id AS {ID}")
        return None if found.isEmpty() else found

    def counts(self) -> tuple[Counts, int]:
        """Return the counts of the events that pass, and how many found no row to complete."""
        verdicts = ("stale", "duplicates", "superseded", "applied", "incomplete")
        notes = {"insert_on_existing": "existing", "update_on_missing": "missing", "unset_as_null": "nulled"}
        took_part = "verdict IN ('applied', 'superseded')"
        sums = [F.expr(f"count_if(verdict = '{name}') AS {name}") for name in verdicts]
        sums += [F.expr(f"count_if({note} AND {took_part}) AS {name}") for name, note in notes.items()]
        judged = self.verdicts().where(f"id < {RELEASED_ID}")
        found: dict[str, int] = judged.agg(*sums).collect()[0].asDict()
        met, differ = (
            "bool_or(meets)" if self.plan.dimension.unique_sequences else "false",
            "min(content) != max(content)",
        )
        tied = (
            judged.where(f"{took_part} AND {has_order('sequence')}")
            .groupBy("sequence", "key", "old")
            .agg(F.expr(f"CASE WHEN {met} THEN count(*) WHEN {differ} THEN count(*) - 1 ELSE 0 END AS ties"))
            .agg(F.expr("coalesce(sum(ties), 0) AS ties"))
            .collect()[0]
        )
        incomplete = found.pop("incomplete")
        return Counts(**found, ties=tied["ties"]), incomplete


def fold(plan: MergePlan, events: DataFrame, before: Before) -> Chains:
    """Fold the events of a batch, with their IDs, over what a table knows of before.

    What is used more than once is worked out and kept: plans that hold each other many times
    over take Spark longer than the rows do.
    """
    spark = events.sparkSession
    key = Key(_whole(plan))
    is_small = plan.facts.read <= SMALL and not plan.truncates.arrived  # a truncate touches all that is remembered
    send = F.broadcast if is_small else _as_it_is
    arrived = key.named(events)
    known = None if before.remembered is None else key.named(before.remembered)
    chain = key.chained(links_of(spark, [arrived] if known is None else [arrived, known]))
    arrived = chain(arrived).localCheckpoint()
    touched = arrived.select(CHAIN).distinct()
    if known is not None:
        if not before.by_rows:
            touched = touched.union(_above_truncates(chain(known), plan)).distinct().localCheckpoint()
        known = chain(known).join(send(touched), CHAIN, "left_semi").localCheckpoint()
    keys = chain(key.distinct([arrived] if known is None else [arrived, known])).localCheckpoint()
    sent = send(keys)
    stood = before.rows(sent.selectExpr(*map(quoted, plan.dimension.key)))
    stood = stood.join(sent, list(plan.dimension.key)).localCheckpoint()
    items = Items(plan.folded)
    parts = [items.of_batch(arrived, plan)]
    if before.by_rows:
        parts += [items.of_rows(stood), *([] if known is None else [items.of_deletes(_newest(known, stood))])]
        first_touched = stood.limit(0)
    else:
        first_touched = stood if known is None else stood.join(keys_of(known), KEY, "left_anti")
        bases = None if before.bases is None else _lowest(key.named_rows(before.bases).join(sent, KEY))
        if bases is not None:
            first_touched = first_touched.join(bases.select(KEY), KEY, "left_anti")
            parts.append(items.of_rows(bases))
        parts += [
            items.of_rows(first_touched),
            *([] if known is None else [items.of_remembered(known)]),
        ]
    gathered = reduce(DataFrame.unionByName, parts).groupBy(CHAIN).agg(F.expr("collect_list(item) AS items"))
    place = place_type(plan.dimension.sequences)
    every = items.with_truncates("items", plan.truncates.all, place)
    gathered = gathered.join(_standing(keys, stood, known, place), CHAIN).withColumn("items", F.expr(every))
    writer = Fold(plan.folded, plan.dimension.sequences, fills=not plan.in_part)
    newest = plan.truncates.newest
    folded = _judged(writer, gathered, "false" if newest is None else f"e.place < {place_literal(newest, place)}")
    folded = folded.persist()
    return Chains(plan=plan, folded=folded, stood=stood, first_touched=first_touched)


def _as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def _above_truncates(known: DataFrame, plan: MergePlan) -> DataFrame:
    """Return the chains with remembered events above a truncate that arrives: what they completed is gone."""
    if not plan.truncates.arrived:
        return known.select(CHAIN).limit(0)
    least = place_literal(plan.truncates.arrived[0], place_type(plan.dimension.sequences))
    return known.where(f"{EVENT_PLACE} > {least}").select(CHAIN)


def _rows_of(rows: str, folded: DataFrame, schema: Schema, named: Callable[[str], str]) -> DataFrame:
    """Return the rows that stand after a fold, and their places in columns of those names."""
    place = dict(zip(PLACE_COLUMNS, "sor", strict=True))
    return (
        folded.selectExpr(f"explode(map_values({rows})) AS row")
        .where("NOT row.gone")
        .selectExpr(
            *[f"row.cells.c{index} AS {quoted(c.name)}" for index, c in enumerate(schema)],
            *[f"row.place.{part} AS {named(name)}" for name, part in place.items()],
        )
    )


def _whole(plan: MergePlan) -> Dimension:
    """Return the dimension with the columns that the table has after the batch."""
    return replace(plan.dimension, schema=plan.evolution.schema)


def _lowest(bases: DataFrame) -> DataFrame:
    """Return of each key the base that was noted first."""
    rest = ", ".join(quoted(name) for name in bases.columns if name != KEY)
    return (
        bases.groupBy(KEY).agg(F.expr(f"min_by(struct({rest}), {names.BATCH}) AS base")).selectExpr(KEY, "base.*")
    )


def _newest(events: DataFrame, stood: DataFrame) -> DataFrame:
    """Return the newest remembered delete of each key of which no row stands."""
    newest = F.expr(f"max({EVENT_PLACE}) AS place")
    return _departures(events).groupBy(KEY, CHAIN).agg(newest).join(stood.select(KEY), KEY, "left_anti")


def _departures(events: DataFrame) -> DataFrame:
    """Return the events that leave no row of a key: deletes, and key changes by the key that they left."""
    deletes = events.where(f"{names.OPERATION} = 'delete'")
    moves = events.where(f"{OLD_KEY} IS NOT NULL")
    return deletes.unionByName(moves.withColumn(KEY, column(OLD_KEY)))


def _standing(keys: DataFrame, stood: DataFrame, known: DataFrame | None, place_type: str) -> DataFrame:
    """Return for each chain, by key, where what stood of it stands, and the newest event that is remembered."""
    place = place_of([standing(name) for name in PLACE_COLUMNS])
    found = keys.join(stood.selectExpr(KEY, f"{place} AS row_place"), KEY, "left")
    nothing = f"CAST(NULL AS {place_type})"
    if known is None:
        found = found.selectExpr("*", f"{nothing} AS gone_place", f"{nothing} AS newest")
    else:
        entered = known.selectExpr(KEY, f"{EVENT_PLACE} AS place", "false AS is_gone")
        left = _departures(known).selectExpr(KEY, f"{EVENT_PLACE} AS place", "true AS is_gone")
        newest = (
            entered.unionByName(left)
            .groupBy(KEY)
            .agg(F.expr("max(place) AS newest"), F.expr("max(CASE WHEN is_gone THEN place END) AS gone_place"))
        )
        found = found.join(newest, KEY, "left")
    stands = f"named_struct('key', {KEY}, 'place', coalesce(row_place, gone_place), 'newest', newest)"
    return (
        found.selectExpr(CHAIN, f"{stands} AS stands").groupBy(CHAIN).agg(F.expr("collect_list(stands) AS stands"))
    )


_IS_INCOMPLETE: Final = (
    "(array_contains(state.incomplete, e.id) "
    "AND NOT coalesce(try_element_at(state.rows, e.key).place > e.place, false) "
    "AND NOT exists(items, t -> coalesce(t.operation = 'truncate' AND t.place > e.place, false)))"
)
"""Whether an event `e` found no row to complete, and nothing newer of its key made up for that."""


def _judged(writer: Fold, gathered: DataFrame, is_truncated: str) -> DataFrame:
    """Fold the items of each chain, and judge each event of the batch.

    `is_truncated` says of an event that a truncate was there before it that is newer.
    """
    is_mine = "(t.key = e.key OR t.key <=> e.old)"
    overtaken = f"({is_truncated} OR exists(stands, t -> {is_mine} AND greatest(t.place, t.newest) > e.place))"
    verdict = (
        f"CASE WHEN {_IS_INCOMPLETE} THEN 'incomplete' "
        f"WHEN exists(stands, t -> {is_mine} AND t.place = e.place) THEN 'duplicates' "
        f"WHEN array_contains(used, e.id) THEN 'applied' WHEN {overtaken} THEN 'stale' ELSE 'superseded' END"
    )
    notes = "".join(
        f", '{note}', array_contains(state.{note}, e.id)" for note in ("undecided", "existing", "missing", "nulled")
    )
    judged = (
        f"transform(array_sort(filter(items, e -> e.id IS NOT NULL), {BY_PLACE}), e -> named_struct("
        "'id', e.id, 'operation', e.operation, 'sequence', e.place.s, 'key', e.key, 'old', e.old, "
        f"'content', e.content, "
        f"'meets', exists(stands, t -> {is_mine} AND t.place.s = e.place.s), "
        f"'verdict', {verdict}{notes}))"
    )
    return (
        gathered.selectExpr("*", f"{writer.over('items')} AS state")
        .selectExpr("*", f"{used('state.rows')} AS used")
        .selectExpr(CHAIN, f"state.rows AS {_ROWS}", f"{judged} AS {_VERDICTS}")
    )


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What is left to remember: events as they were given, and bases in the columns of rows that stand.

    Those of `incomplete` found no row to complete, and the mark has passed them.
    """

    events: DataFrame
    bases: DataFrame
    incomplete: DataFrame


def trim_chains(
    dimension: Dimension,
    mark: Mark,
    remembered: DataFrame,
    bases: DataFrame,
    pinned: DataFrame,
    truncates: Sequence[Position] = (),
) -> Trimmed:
    """Fold what the mark has passed into the bases, as `lakeward.core.memory.trim`.

    The chains of `pinned` keys stay as they are; of the `truncates` those count that it has passed.
    """
    passed = [t for t in sorted(truncates) if t.mark <= mark]
    key = Key(dimension)
    columns = remembered.columns
    named = key.named(remembered).selectExpr("*", f"monotonically_increasing_id() AS {ID}")
    named = named.localCheckpoint()
    chain = key.chained(links_of(named.sparkSession, [named]))
    events = chain(named).localCheckpoint()
    stay = chain(pinned.selectExpr(f"{key.text()} AS {KEY}")).select(CHAIN).distinct()
    past = _past(events, mark, dimension).join(stay, CHAIN, "left_anti").localCheckpoint()
    later = events.join(past.select(ID), ID, "left_anti")
    folded_chains = past.select(CHAIN).distinct()
    bases = chain(_lowest(bases.selectExpr("*", f"{key.text()} AS {KEY}")))
    state = _states(dimension, past, bases.join(folded_chains, CHAIN, "left_semi"), passed).localCheckpoint()
    rows = _rows_of("state.rows", state, dimension.schema, standing)
    rows = rows.selectExpr("*", f"{key.text()} AS {KEY}").join(keys_of(later), KEY, "left_semi")
    kept = bases.join(folded_chains, CHAIN, "left_anti")
    if passed:
        stands = place_of([standing(name) for name in PLACE_COLUMNS])
        kept = kept.where(f"{stands} > {place_literal(passed[-1], place_type(dimension.sequences))}")
    touched = state.where("size(state.incomplete) > 0").select(CHAIN)
    events, bases = (frame.join(touched, CHAIN, "left_semi") for frame in (events, bases))
    on = _states(dimension, events, bases, truncates)
    incomplete = on.selectExpr(f"explode(transform(filter(items, e -> {_IS_INCOMPLETE}), e -> e.id)) AS {ID}")
    return Trimmed(
        events=later.selectExpr(*map(quoted, columns)),
        bases=rows.drop(KEY).unionByName(kept.select(*[quoted(name) for name in rows.columns if name != KEY])),
        incomplete=past.join(incomplete, ID, "left_semi"),
    )


def _states(dimension: Dimension, events: DataFrame, bases: DataFrame, truncates: Sequence[Position]) -> DataFrame:
    """Return for each chain its items, and the state that they leave."""
    items, writer = Items(dimension.schema), Fold(dimension.schema, dimension.sequences)
    parts = items.of_remembered(events, identifier=ID).unionByName(items.of_rows(bases))
    gathered = parts.groupBy(CHAIN).agg(F.expr("collect_list(item) AS items"))
    every = items.with_truncates("items", truncates, place_type(dimension.sequences))
    return gathered.selectExpr(CHAIN, f"{every} AS items").selectExpr("*", f"{writer.over('items')} AS state")


def _past(events: DataFrame, mark: Mark, dimension: Dimension) -> DataFrame:
    """Return the events that the mark has passed, up to the first of a transaction that it parts."""
    limit = f"CAST('{mark.sequence}' AS {names.sequence_type(dimension.sequences)})"
    passed = events.where(f"{names.SEQUENCE} <= {limit}")
    if not dimension.sequences.are_wide:
        return passed  # all events of a transaction have one commit time
    ends = F.expr(f"min({names.SEQUENCE}) AS first"), F.expr(f"max({names.SEQUENCE}) AS last")
    spans = events.where(f"{names.TRANSACTION} IS NOT NULL").groupBy(CHAIN, names.TRANSACTION).agg(*ends)
    parted = spans.where(f"first <= {limit} AND last > {limit}").groupBy(CHAIN).agg(F.expr("min(first) AS first"))
    found = passed.join(parted, CHAIN, "left").where(f"first IS NULL OR {names.SEQUENCE} < first")
    return found.select(*map(quoted, events.columns))


def part_chains(plan: MergePlan, events: DataFrame, barriers: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Part events into those that pass and those that wait behind a barrier of one of their keys.

    `barriers` have a key and a position each. A key change that waits is one itself, for
    both its keys, unless a truncate lies above it.
    """
    key = Key(_whole(plan))
    named = key.named(events).selectExpr("*", f"{EVENT_PLACE} AS place").localCheckpoint()
    moves = named.where(f"{OLD_KEY} IS NOT NULL{_above(plan)}").selectExpr(KEY, OLD_KEY, "place")
    held = _lowest_places(barriers.selectExpr(f"{key.text()} AS {KEY}", f"{EVENT_PLACE} AS place"))
    known = -1
    while (waiting := _behind(moves, held)).count() > known:
        waiting = waiting.localCheckpoint()
        known = waiting.count()
        both = waiting.select(KEY, "place").unionByName(waiting.selectExpr(f"{OLD_KEY} AS {KEY}", "place"))
        held = _lowest_places(held.unionByName(both))
    waits = _behind(named, held).localCheckpoint()
    # Both are the same columns to Spark 3.5, which gives up on them where a frame above this one is joined again.
    places = {name: f"waits{name}" for name in PLACE_COLUMNS}
    there = waits.selectExpr(*[f"{name} AS {other}" for name, other in places.items()])
    is_there = [F.col(name) == F.col(other) for name, other in places.items()]
    passes = named.join(there, is_there, "left_anti")
    return passes.drop(*_ADDED), waits.drop(*_ADDED)


def _above(plan: MergePlan) -> str:
    """Say of a place that no truncate lies above it, as a further condition."""
    if not plan.truncates.all:
        return ""
    return f" AND place > {place_literal(plan.truncates.all[-1], place_type(plan.dimension.sequences))}"


def _lowest_places(held: DataFrame) -> DataFrame:
    return held.groupBy(KEY).agg(F.expr("min(place) AS place")).localCheckpoint()


def _behind(events: DataFrame, held: DataFrame) -> DataFrame:
    """Return the events of which a key is held from a place before theirs."""
    by_key = F.broadcast(held.selectExpr(KEY, "place AS barrier"))
    by_old = F.broadcast(held.selectExpr(f"{KEY} AS {OLD_KEY}", "place AS old_barrier"))
    found = events.join(by_key, KEY, "left").join(by_old, OLD_KEY, "left")
    return found.where("place > barrier OR place > old_barrier").drop("barrier", "old_barrier")


_ADDED: Final = (KEY, OLD_KEY, "place")
