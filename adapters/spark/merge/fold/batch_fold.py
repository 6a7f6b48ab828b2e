"""Fold batches whose events need an order: cells that were not sent, key changes and histories.

Keys that are joined by key changes, in this batch or in the change log, form a *chain*. For each chain that the
batch touches, the base state, the remembered events and the arrived events are collected and folded in order
(`lakeward.adapters.spark.merge.fold.expression`). This does for frames what `lakeward.core.merge.settling.folding`
does for keys that need an order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.execution.parallelism import parted, spread
from lakeward.adapters.spark.frames.event_frame import IS_LOAD
from lakeward.adapters.spark.history.single_row_keys import judge_single_events, split_single_events
from lakeward.adapters.spark.history.version_rows import STORED, VERSIONS, VersionRows, tail
from lakeward.adapters.spark.merge.fold.chain_results import Chains
from lakeward.adapters.spark.merge.fold.expression import Fold
from lakeward.adapters.spark.merge.fold.fold_items import (
    CHAIN,
    EVENT_PLACE,
    KEY,
    PLACE_COLUMNS,
    Items,
    Key,
    links_of,
    place_literal,
    place_of,
    reached_links,
)
from lakeward.adapters.spark.merge.fold.fold_verdicts import (
    FIRST,
    NEWEST,
    SINCE,
    chain_states,
    judge_events,
    newest_deletes,
    newest_of,
)
from lakeward.adapters.spark.merge.resolution import ID, SMALL, stored_column
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import let, place_type
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.events import Position
from lakeward.core.history.reloads import EndInstants
from lakeward.core.plan import MergePlan

_IS_LOADED, _NEWEST_PLACE, _HAS_BASE = "_lakeward_is_loaded", "_lakeward_newest_place", "_lakeward_has_base"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A full load of a history: the texts of the keys that it has, and when the rows of all other keys end."""

    keys: DataFrame
    ends: EndInstants


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBefore:
    """The state of a table before a batch, as frames.

    `remembered` are events in the columns of a batch. `bases` are rows with their positions and the
    `_lakeward_batch` that noted them. `rows` returns the stored rows of given keys.

    With `by_rows` the stored rows and the remembered deletes are the whole state. This holds where all events are
    whole, or the table is `ordered`.

    `truncates` are the truncates that the batch meets; of a history all that are remembered, each with the instant
    from which it counts. `ending` are keys whose rows a truncate or a full `load` may end although no event names
    them.

    `ordered_until` is the number of the batch with which the table ceased to be `ordered`. Up to this batch the
    change log has only events that left no row.
    """

    remembered: DataFrame | None
    bases: DataFrame | None
    rows: Callable[[DataFrame], DataFrame]
    by_rows: bool
    truncates: Mapping[Position, int | None] = field(default_factory=dict)
    ending: DataFrame | None = None
    load: Load | None = None
    ordered_until: int = 0


def fold(plan: MergePlan, events: DataFrame, before: TableBefore) -> Chains:
    """Fold the events of a batch, which have IDs, over the state of the table before it.

    Frames that are used more than once are checkpointed: Spark takes longer to plan deeply nested queries than to
    run them.
    """
    history = VersionRows.of(plan.with_all_columns, plan.folded, plan.epoch, plan.batch)
    ending = (
        None if before.ending is None else Key(plan.with_all_columns).key_texts(before.ending).localCheckpoint()
    )
    with spread(events.sparkSession, plan.facts.read + (0 if ending is None else ending.count())):
        inputs = _collect_input(plan, events, before, ending, history)
        folded = _fold_chains(plan, inputs, before, history).localCheckpoint()
    first_touched = inputs.first_touched.limit(0) if before.by_rows else inputs.first_touched
    settled = None if inputs.single is None else inputs.single.where(IS_LOAD).select(ID)
    return Chains(
        plan=plan,
        folded=folded,
        stored=inputs.stored,
        first_touched=first_touched,
        history=history,
        settled=settled,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoldInput:
    """The arrived events, and the state of the keys of their chains.

    `single` are events whose key has no state and no other event. `first_touched` are those rows of `stored` of
    whose keys nothing else is remembered. `base_rows` are the base rows of the other keys. `newest` summarizes the
    remembered events of each key (`newest_of`). `moves` says whether any key change is among the events.
    """

    arrived: DataFrame
    single: DataFrame | None
    keys: DataFrame
    remembered: DataFrame | None
    newest: DataFrame | None
    stored: DataFrame
    first_touched: DataFrame
    base_rows: DataFrame | None
    moves: bool


def _collect_input(
    plan: MergePlan, events: DataFrame, before: TableBefore, ending: DataFrame | None, history: VersionRows | None
) -> _FoldInput:
    """Collect the events of a batch and the state of the keys of their chains.

    A truncate touches everything that is remembered. Keys that are `ending` take part without an event of their
    own.
    """
    key = Key(plan.with_all_columns)
    is_small = plan.facts.read <= SMALL and ending is None and not plan.truncates.arrived
    broadcast_if_small = F.broadcast if is_small else unchanged
    arrived = key.with_key_texts(events.drop(names.TEXT, names.DETAIL, names.REASON))
    remembered = None if before.remembered is None else key.with_key_texts(before.remembered)
    links = _links(arrived, remembered, meets_all=ending is not None or bool(plan.truncates.arrived))
    chain = key.chained(links)
    arrived = parted(chain(arrived), CHAIN, plan.facts.read).localCheckpoint()
    ending = None if ending is None else chain(ending)
    if remembered is not None:
        remembered = chain(remembered)
        chains = broadcast_if_small(_touched_chains(plan, arrived, remembered, ending, by_rows=before.by_rows))
        remembered = remembered.join(chains, CHAIN, "left_semi").localCheckpoint()
    keys = _keys_of(chain(key.distinct([arrived] if remembered is None else [arrived, remembered])), ending)
    joinable_keys = broadcast_if_small(keys)
    stored = _stored_rows(plan, before, joinable_keys, history)
    newest = None if remembered is None else newest_of(remembered)
    first_touched, base_rows = _split_state(before, stored, newest, joinable_keys, key, history)
    single = None
    if history is not None and not is_small and not plan.truncates.all:
        others = [frame for frame in (stored, remembered, base_rows) if frame is not None]
        single, arrived = split_single_events(arrived, others)
        keys = keys.join(single.select(CHAIN), CHAIN, "left_anti")
    return _FoldInput(
        arrived=arrived,
        single=single,
        keys=keys,
        remembered=remembered,
        newest=newest,
        stored=stored,
        first_touched=first_touched,
        base_rows=base_rows,
        moves=links is not None,
    )


def _keys_of(keys: DataFrame, ending: DataFrame | None) -> DataFrame:
    """Return the keys of events together with those that are `ending`, each once."""
    every = keys if ending is None else keys.unionByName(ending).dropDuplicates([KEY])
    return every.localCheckpoint()


def _stored_rows(plan: MergePlan, before: TableBefore, keys: DataFrame, history: VersionRows | None) -> DataFrame:
    """Return the stored rows of keys, in a history with the instant from which they are folded."""
    rows = before.rows(keys.selectExpr(*map(quoted, plan.dimension.key)))
    rows = rows.join(keys, list(plan.dimension.key))
    return (rows if history is None else _with_fold_start(rows, history, before.load)).localCheckpoint()


def _links(arrived: DataFrame, remembered: DataFrame | None, *, meets_all: bool) -> DataFrame | None:
    """Return the links between keys that key changes make.

    With `meets_all` they are those of all `remembered` events, else those that the arrived events reach.
    """
    session = arrived.sparkSession
    if remembered is None:
        return links_of(session, [arrived])
    return links_of(session, [arrived, remembered]) if meets_all else reached_links(session, arrived, remembered)


def _touched_chains(
    plan: MergePlan, arrived: DataFrame, remembered: DataFrame, ending: DataFrame | None, *, by_rows: bool
) -> DataFrame:
    """Return the chains whose `remembered` events take part.

    With `by_rows` these are only the chains of arrived events.
    """
    touched_chains = arrived.select(CHAIN).distinct()
    if by_rows:
        return touched_chains
    touched_chains = touched_chains.union(_above_truncates(remembered, plan))
    touched_chains = touched_chains if ending is None else touched_chains.union(ending.select(CHAIN))
    return touched_chains.distinct().localCheckpoint()


def _fold_chains(
    plan: MergePlan, inputs: _FoldInput, before: TableBefore, history: VersionRows | None
) -> DataFrame:
    """Return the state of each chain after the batch."""
    items = Items(plan.folded, None if history is None else history.versions)
    parts = [items.of_batch(inputs.arrived, plan), items.of_rows(inputs.first_touched)]
    if inputs.base_rows is not None:
        parts.append(items.of_rows(inputs.base_rows))
    if inputs.remembered is not None:
        parts.append(
            items.of_deletes(newest_deletes(inputs.remembered, inputs.stored))
            if before.by_rows
            else items.of_remembered(inputs.remembered)
        )
    gathered = reduce(DataFrame.unionByName, parts).groupBy(CHAIN).agg(F.expr("collect_list(item) AS items"))
    place = place_type(plan.dimension.sequences)
    with_truncates = items.with_truncates("items", before.truncates, place)
    fold_starts = [inputs.first_touched] if inputs.base_rows is None else [inputs.first_touched, inputs.base_rows]
    states = chain_states(inputs.keys, inputs.stored, inputs.newest, place, history, fold_starts)
    gathered = gathered.join(states, CHAIN).withColumn("items", F.expr(with_truncates))
    writer = Fold(
        plan.folded,
        plan.dimension.sequences,
        versions=items.versions,
        moves=inputs.moves,
        soft=plan.dimension.is_soft,
    )
    newest = plan.truncates.newest
    is_truncated = "false" if newest is None else f"e.place < {place_literal(newest, place)}"
    folded = judge_events(writer, gathered, is_truncated, history)
    if inputs.single is None or history is None:
        return folded
    return folded.union(judge_single_events(items.of_batch(inputs.single, plan), history, folded))


def _split_state(
    before: TableBefore,
    stored: DataFrame,
    newest: DataFrame | None,
    joinable_keys: DataFrame,
    key: Key,
    history: VersionRows | None,
) -> tuple[DataFrame, DataFrame | None]:
    """Return the stored rows of keys of which nothing else is remembered, and the base rows of the other keys.

    With `by_rows` all stored rows are returned, and no base rows.
    """
    if before.by_rows:
        return stored, None
    base_rows = None
    if before.bases is not None:
        keys = joinable_keys.selectExpr(*map(quoted, key.dimension.key))
        bases = before.bases.join(keys, list(key.dimension.key), "left_semi")
        base_rows = newest_bases(bases, key, history).join(joinable_keys, KEY).localCheckpoint()
    if newest is None or base_rows is None:
        return stored, base_rows
    place = place_type(key.dimension.sequences)
    with_newest = stored.join(newest.select(KEY, NEWEST, FIRST, SINCE), KEY, "left")
    with_newest = with_newest.join(base_rows.selectExpr(KEY, f"true AS {_HAS_BASE}"), KEY, "left")
    from_rows = with_newest.where(
        _is_row_the_state([place_literal(p, place) for p in before.truncates], history, before.ordered_until)
    )
    return from_rows.drop(NEWEST, FIRST, SINCE, _HAS_BASE), base_rows.join(from_rows.select(KEY), KEY, "left_anti")


def _is_row_the_state(truncates: Sequence[str], history: VersionRows | None, ordered_until: int) -> str:
    """Return SQL for whether the change log cannot reproduce the stored row of a key.

    Then the row itself is the state.

    That is so in three cases. Nothing is remembered of the key, or only events from the time when the table was
    `ordered`. The stored row is newer than everything remembered. The first version of a history is older than
    that, and no base row has it: the table remembered less earlier, because it had only whole rows, or was
    `ordered` before batch records noted that.
    """
    place = place_of([stored_column(name) for name in PLACE_COLUMNS])
    is_newer = f"{place} > {NEWEST}"
    if truncates:  # a truncate ends a version, but is not an event of the key
        is_newer += f" AND {place} NOT IN ({', '.join(truncates)})"
    conditions = [f"coalesce({SINCE} <= {ordered_until}, true) AND {_HAS_BASE} IS NULL", is_newer]
    if history is not None:
        begins = f"try_element_at({STORED}, 1).begins"
        conditions.append(f"{_HAS_BASE} IS NULL AND coalesce({begins} < {FIRST}, true)")
    return " OR ".join(f"({condition})" for condition in conditions)


def _with_fold_start(stored: DataFrame, history: VersionRows, load: Load | None) -> DataFrame:
    """Add to each key the place of its newest version, and the versions from which its fold starts.

    The rows of keys that a full load lacks end before the rows of the load: `lakeward.core.history.reloads`.
    """
    versions, writer = f"transform({STORED}, s -> s.version)", history.versions
    if load is not None:
        stored = stored.join(load.keys.selectExpr(KEY, f"true AS {_IS_LOADED}"), KEY, "left")
        closed = writer.closed(versions, _end_instant(load.ends), writer.loaded)
        is_live = f"try_element_at({STORED}, -1).version.ends IS NULL"
        versions = f"CASE WHEN {_IS_LOADED} IS NULL AND {is_live} THEN {closed} ELSE {versions} END"
    place = writer.place_in_epoch(f"try_element_at({STORED}, -1).version.place")
    stored = stored.withColumn(VERSIONS, F.expr(let({"every": versions}, tail("every"))))
    stored = stored.withColumn(_NEWEST_PLACE, F.expr(place))
    places = {
        stored_column(name): f"{_NEWEST_PLACE}.{part}" for name, part in zip(PLACE_COLUMNS, "sor", strict=True)
    }
    return stored.withColumns({name: F.expr(sql) for name, sql in places.items()}).drop(_NEWEST_PLACE, _IS_LOADED)


def _end_instant(ends: EndInstants) -> str:
    """Return SQL for when a load ends the newest version of a key that it lacks: `EndInstants.after`."""
    is_after = ">" if ends.is_strict else ">="
    cases = [f"WHEN {at}L {is_after} newest.reached THEN {at}L" for at in ends.instants]
    return f"CASE {' '.join(cases)} END" if cases else "bigint(NULL)"


def unchanged(frame: DataFrame) -> DataFrame:
    """Return a frame unchanged."""
    return frame


def _above_truncates(remembered: DataFrame, plan: MergePlan) -> DataFrame:
    """Return the chains with remembered events above an arriving truncate.

    The truncate removes the rows that these events completed.
    """
    if not plan.truncates.arrived:
        return remembered.select(CHAIN).limit(0)
    least = place_literal(plan.truncates.arrived[0], place_type(plan.dimension.sequences))
    return remembered.where(f"{EVENT_PLACE} > {least}").select(CHAIN)


def newest_bases(bases: DataFrame, key: Key, history: VersionRows | None) -> DataFrame:
    """Return the newest base row of each key.

    A table that was `ordered` for some time may have an older one as well.
    """
    if history is not None:
        place = {part: stored_column(name) for part, name in zip("sor", PLACE_COLUMNS, strict=True)}
        bases = history.by_key(bases.selectExpr("*", f"{key.text()} AS {KEY}"), (KEY, names.BATCH), place)
        bases = bases.selectExpr(KEY, names.BATCH, f"transform({STORED}, s -> s.version) AS {VERSIONS}")
    else:
        bases = key.with_key_text_only(bases)
    return newest_by_key(bases)


def newest_by_key(named: DataFrame) -> DataFrame:
    """Return for each key text the row that was noted last."""
    rest = ", ".join(quoted(name) for name in named.columns if name != KEY)
    last = named.groupBy(KEY).agg(F.expr(f"max_by(struct({rest}), {names.BATCH}) AS base"))
    return last.selectExpr(KEY, "base.*")
