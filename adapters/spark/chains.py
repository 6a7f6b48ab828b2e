"""Batches whose events must meet what is remembered, event by event: cells not sent, key changes.

Keys that key changes join, in this batch or in memory, make a *chain*. For each chain that
the batch touches the state before, what is remembered since, and what arrives are put
together and folded in order (`lakeward.adapters.spark.fold`). This is
`lakeward.core.settle` for its slow keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark import names
from lakeward.adapters.spark.events import has_order
from lakeward.adapters.spark.fold import BY_PLACE, Fold
from lakeward.adapters.spark.histories import STORED, VERSIONS, Shown, tail
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
from lakeward.adapters.spark.names import column, quoted, text
from lakeward.adapters.spark.resolve import ID, SMALL, standing
from lakeward.adapters.spark.sql import let, place_type, struct
from lakeward.adapters.spark.types import ddl_of
from lakeward.core.counts import Counts
from lakeward.core.dimension import Dimension
from lakeward.core.events import Position
from lakeward.core.memory import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Schema

_SHIFTED: Final = "a row stands on the key that it enters, and the feed does not tell the transactions"

RELEASED_ID: Final = 1 << 62
"""From there on the IDs are those of events that waited."""

_ROWS, _VERDICTS, _CHANGES = "_lakeward_rows", "_lakeward_verdicts", "_lakeward_changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A full load of a history: the texts of the keys that it has, and the instant at which all others end."""

    keys: DataFrame
    instant: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What a table knows of before a batch, as frames.

    `remembered` are events as a batch has them, `bases` rows with their positions and the
    `_lakeward_batch` that noted them, `rows` gives the rows that stand of some keys. Where all
    events are whole, or the table is `ordered`, what stands is the state (`by_rows`), and of
    deletes what is remembered. In a history `instants` say from when truncates count, `ending` are
    the keys whose rows a truncate or a full `load` may end though no event names them.
    """

    remembered: DataFrame | None
    bases: DataFrame | None
    rows: Callable[[DataFrame], DataFrame]
    by_rows: bool
    instants: Mapping[Position, int | None] = field(default_factory=dict)
    ending: DataFrame | None = None
    load: Load | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """The chains of a batch after it: `folded` has one row a chain, `stood` are their rows before.

    `first_touched` are those of `stood` of which nothing was remembered. A `history` has a row a version.
    """

    plan: MergePlan
    folded: DataFrame
    stood: DataFrame
    first_touched: DataFrame
    history: Shown | None = None

    def rows(self) -> DataFrame:
        """Return the rows that the chains leave, in the columns of a batch; of a history, those that are new."""
        if self.history is None:
            return rows_of(_ROWS, self.folded, self.plan.folded, str)
        return self.history.rows(self._changes().selectExpr("explode(c.fresh) AS fresh"))

    def removed(self) -> DataFrame:
        """Return the rows that others take the place of, and where they lie; of a history, those that go."""
        if self.history is None:
            return self.stood
        return self.history.gone(self._changes().selectExpr("explode(c.gone) AS gone"))

    def _changes(self) -> DataFrame:
        """Return what becomes of each key of a history, but of those that break a rule and that no event names."""
        return self.folded.selectExpr(f"explode({_CHANGES}) AS c").where("c.wrong IS NULL")

    def opened(self) -> int:
        """Return how many more versions of a history are current than before."""
        if self.history is None:
            return 0
        found = self._changes().agg(F.expr("coalesce(sum(c.opened), 0) AS opened")).collect()
        return int(found[0]["opened"])

    def bases(self) -> DataFrame:
        """Return the rows before the batch of the keys of which nothing was remembered; none that break a rule."""
        if self.history is None:
            return self.first_touched
        right = self._changes().selectExpr(f"c.key AS {KEY}")
        return self.history.bases(self.first_touched.join(right, KEY, "left_semi"))

    def verdicts(self) -> DataFrame:
        """Return one row an event of the batch: its ID, what became of it, and what was noted of it."""
        return self.folded.selectExpr(f"inline({_VERDICTS})")

    def refused(self) -> DataFrame | None:
        """Return the IDs of events that cannot be applied, with the `reason` of each, and in `words` what is wrong.

        It is the first of each chain of which no rule says what row it means; where there is none, the first of
        each key of a history whose versions would break a rule.
        """
        wrong = f"filter({_VERDICTS}, v -> v.undecided)"
        told = (f"'{Reason.KEY_SHIFT.value}' AS reason", f"{text(_SHIFTED)} AS words")
        found = self.folded.where(f"size({wrong}) > 0").selectExpr(f"get({wrong}, 0).id AS {ID}", *told)
        if not found.isEmpty():
            return found
        breaking = self._breaking()
        return None if breaking is None or breaking.isEmpty() else breaking

    def _breaking(self) -> DataFrame | None:
        if self.history is None:
            return None
        mine = f"filter({_VERDICTS}, v -> v.key = c.key OR v.old <=> c.key)"
        changes = self.folded.selectExpr(_VERDICTS, f"explode({_CHANGES}) AS c").where("c.wrong IS NOT NULL")
        first = changes.where(f"size({mine}) > 0").selectExpr(f"get({mine}, 0).id AS {ID}", "c.wrong AS words")
        return first.groupBy(ID).agg(F.expr(f"'{Reason.HISTORY.value}' AS reason"), F.expr("min(words) AS words"))

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
    key, history = Key(_whole(plan)), Shown.of(_whole(plan), plan.folded, plan.epoch)
    is_small = plan.facts.read <= SMALL and before.ending is None  # a truncate touches all that is remembered
    is_small &= not plan.truncates.arrived
    send = F.broadcast if is_small else _as_it_is
    arrived = key.named(events.drop(names.TEXT, names.DETAIL, names.REASON))
    known = None if before.remembered is None else key.named(before.remembered)
    chain = key.chained(links_of(spark, [arrived] if known is None else [arrived, known]))
    arrived = chain(arrived).localCheckpoint()
    ending = None if before.ending is None else chain(key.of_keys(before.ending)).localCheckpoint()
    touched = arrived.select(CHAIN).distinct()
    if known is not None:
        if not before.by_rows:
            touched = touched.union(_above_truncates(chain(known), plan))
            touched = touched if ending is None else touched.union(ending.select(CHAIN))
            touched = touched.distinct().localCheckpoint()
        known = chain(known).join(send(touched), CHAIN, "left_semi").localCheckpoint()
    keys = chain(key.distinct([arrived] if known is None else [arrived, known]))
    keys = keys if ending is None else keys.unionByName(ending).dropDuplicates([KEY])
    keys = keys.localCheckpoint()
    sent = send(keys)
    stood = before.rows(sent.selectExpr(*map(quoted, plan.dimension.key)))
    stood = stood.join(sent, list(plan.dimension.key))
    stood = (stood if history is None else _going_on(stood, history, before.load)).localCheckpoint()
    first_touched, based = _known_before(before, stood, known, sent, key, history)
    items = Items(plan.folded, None if history is None else history.versions)
    parts = [
        items.of_batch(arrived, plan),
        *map(items.of_rows, [first_touched] if based is None else [first_touched, based]),
    ]
    if known is not None:
        parts.append(items.of_deletes(_newest(known, stood)) if before.by_rows else items.of_remembered(known))
    gathered = reduce(DataFrame.unionByName, parts).groupBy(CHAIN).agg(F.expr("collect_list(item) AS items"))
    place = place_type(plan.dimension.sequences)
    every = items.with_truncates("items", plan.truncates.all, place, before.instants)
    stands = _standing(keys, stood, known, place, history, based)
    gathered = gathered.join(stands, CHAIN).withColumn("items", F.expr(every))
    writer = Fold(plan.folded, plan.dimension.sequences, fills=not plan.in_part, versions=items.versions)
    newest = plan.truncates.newest
    is_truncated = "false" if newest is None else f"e.place < {place_literal(newest, place)}"
    folded = _judged(writer, gathered, is_truncated, history).localCheckpoint()
    first_touched = first_touched.limit(0) if before.by_rows else first_touched
    return Chains(plan=plan, folded=folded, stood=stood, first_touched=first_touched, history=history)


def _known_before(
    before: Before, stood: DataFrame, known: DataFrame | None, sent: DataFrame, key: Key, history: Shown | None
) -> tuple[DataFrame, DataFrame | None]:
    """Return the rows that stand of keys of which nothing is remembered, and the bases of the others.

    Where what stands is the state, that is so of all keys.
    """
    if before.by_rows:
        return stood, None
    first_touched = stood if known is None else stood.join(keys_of(known), KEY, "left_anti")
    if before.bases is None:
        return first_touched, None
    based = lowest(before.bases, key, history).join(sent, KEY)
    return first_touched.join(based.select(KEY), KEY, "left_anti"), based


def _going_on(stood: DataFrame, history: Shown, load: Load | None) -> DataFrame:
    """Say of keys where their newest version stands, and from which versions on they are folded.

    The rows of keys that a full load lacks end before its rows: `lakeward.core.history.reloads`.
    """
    versions, writer = f"transform({STORED}, s -> s.version)", history.versions
    if load is not None:
        stood = stood.join(load.keys.selectExpr(KEY, "true AS is_loaded"), KEY, "left")
        ended = writer.closed(
            versions, "bigint(NULL)" if load.instant is None else f"{load.instant}L", writer.loaded
        )
        is_live = f"try_element_at({STORED}, -1).version.ends IS NULL"
        versions = f"CASE WHEN is_loaded IS NULL AND {is_live} THEN {ended} ELSE {versions} END"
    place = writer.place_in_epoch(f"try_element_at({STORED}, -1).version.place")
    stood = stood.withColumn(VERSIONS, F.expr(let({"every": versions}, tail("every"))))
    stood = stood.withColumn("newest_place", F.expr(place))
    places = {standing(name): f"newest_place.{part}" for name, part in zip(PLACE_COLUMNS, "sor", strict=True)}
    return stood.withColumns({name: F.expr(sql) for name, sql in places.items()}).drop("newest_place", "is_loaded")


def _as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def _above_truncates(known: DataFrame, plan: MergePlan) -> DataFrame:
    """Return the chains with remembered events above a truncate that arrives: what they completed is gone."""
    if not plan.truncates.arrived:
        return known.select(CHAIN).limit(0)
    least = place_literal(plan.truncates.arrived[0], place_type(plan.dimension.sequences))
    return known.where(f"{EVENT_PLACE} > {least}").select(CHAIN)


def rows_of(rows: str, folded: DataFrame, schema: Schema, named: Callable[[str], str]) -> DataFrame:
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


def lowest(bases: DataFrame, key: Key, history: Shown | None) -> DataFrame:
    """Return of each key the base that was noted first."""
    if history is not None:
        place = {part: standing(name) for part, name in zip("sor", PLACE_COLUMNS, strict=True)}
        bases = history.by_key(bases.selectExpr("*", f"{key.text()} AS {KEY}"), (KEY, names.BATCH), place)
        bases = bases.selectExpr(KEY, names.BATCH, f"transform({STORED}, s -> s.version) AS {VERSIONS}")
    else:
        bases = key.named_rows(bases)
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


def _standing(
    keys: DataFrame,
    stood: DataFrame,
    known: DataFrame | None,
    place_type: str,
    history: Shown | None,
    based: DataFrame | None,
) -> DataFrame:
    """Return for each chain, by key, where what stood of it stands, and the newest event that is remembered.

    Of a history it has the versions that are stored as well, and those that it is folded from.
    """
    place = place_of([standing(name) for name in PLACE_COLUMNS])
    also = () if history is None else (STORED, VERSIONS)
    found = keys.join(stood.selectExpr(KEY, f"{place} AS row_place", *also), KEY, "left")
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
    stands = {"key": KEY, "place": "coalesce(row_place, gone_place)", "newest": "newest"}
    if history is not None:
        none, type_ = history.versions.none, ddl_of(stood.schema[STORED].dataType)
        stands["stored"] = f"coalesce({STORED}, CAST(array() AS {type_}))"
        stands["base"] = f"coalesce({VERSIONS}, {none})"
        if based is not None:
            found = found.join(based.selectExpr(KEY, f"{VERSIONS} AS base"), KEY, "left")
            was_known = "newest IS NOT NULL OR base IS NOT NULL"
            stands["base"] = f"CASE WHEN {was_known} THEN coalesce(base, {none}) ELSE {stands['base']} END"
    listed = found.selectExpr(CHAIN, f"{struct(stands)} AS stands")
    return listed.groupBy(CHAIN).agg(F.expr("collect_list(stands) AS stands"))


IS_INCOMPLETE: Final = (
    "(array_contains(state.incomplete, e.id) "
    "AND NOT coalesce(try_element_at(state.rows, e.key).place > e.place, false) "
    "AND NOT exists(items, t -> coalesce(t.operation = 'truncate' AND t.place > e.place, false)))"
)
"""Whether an event `e` found no row to complete, and nothing newer of its key made up for that."""


def _judged(writer: Fold, gathered: DataFrame, is_truncated: str, history: Shown | None) -> DataFrame:
    """Fold the items of each chain, and judge each event of the batch.

    `is_truncated` says of an event that a truncate was there before it that is newer.
    """
    is_mine = "(t.key = e.key OR t.key <=> e.old)"
    overtaken = f"({is_truncated} OR exists(stands, t -> {is_mine} AND greatest(t.place, t.newest) > e.place))"
    verdict = (
        f"CASE WHEN {IS_INCOMPLETE} THEN 'incomplete' "
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
    changes = []
    if history is not None:
        versions = f"coalesce(try_element_at(state.rows, t.key).versions, {history.versions.none})"
        changed = history.changed("t.key", "t.stored", "t.base", versions)
        changes.append(f"transform(stands, t -> {changed}) AS {_CHANGES}")
    return (
        gathered.selectExpr("*", f"{writer.over('items')} AS state")
        .selectExpr("*", f"{writer.used} AS used")
        .selectExpr(CHAIN, f"state.rows AS {_ROWS}", f"{judged} AS {_VERDICTS}", *changes)
    )


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
