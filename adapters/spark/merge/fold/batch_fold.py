"""Batches whose events must meet what is remembered, event by event: cells not sent, key changes, histories.

Keys that key changes join, in this batch or in memory, make a *chain*. For each chain that
the batch touches the state before, what is remembered since, and what arrives are put
together and folded in order (`lakeward.adapters.spark.merge.fold.expression`). This is
`lakeward.core.merge.settling.folding` for its slow keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.execution.parallelism import parted, spread
from lakeward.adapters.spark.frames.event_frame import IS_LOAD
from lakeward.adapters.spark.history.single_row_keys import judged_alone, part_lone
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
    links_met,
    links_of,
    place_literal,
    place_of,
)
from lakeward.adapters.spark.merge.fold.fold_verdicts import (
    FIRST,
    NEWEST,
    SINCE,
    judged,
    newest_deletes,
    newest_of,
    standing_of,
)
from lakeward.adapters.spark.merge.resolution import ID, SMALL, standing
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import let, place_type
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.events import Position
from lakeward.core.history.reloads import EndInstants
from lakeward.core.plan import MergePlan

_IS_LOADED, _NEWEST_PLACE, _HAS_BASE = "_lakeward_is_loaded", "_lakeward_newest_place", "_lakeward_has_base"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A full load of a history: the texts of the keys that it has, and when all others end."""

    keys: DataFrame
    ends: EndInstants


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What a table knows of before a batch, as frames.

    `remembered` are events as a batch has them, `bases` rows with their positions and the
    `_lakeward_batch` that noted them, `rows` gives the rows that stand of some keys. Where all
    events are whole, or the table is `ordered`, what stands is the state (`by_rows`), and of
    deletes what is remembered. `truncates` are those that a batch meets; in a history all that are remembered, with
    from when each counts, and `ending` are the keys whose rows one, or a full `load`, may end though no event names
    them. Up to the batch that `turned` a table from `ordered` it remembered what left no row, and nothing else.
    """

    remembered: DataFrame | None
    bases: DataFrame | None
    rows: Callable[[DataFrame], DataFrame]
    by_rows: bool
    truncates: Mapping[Position, int | None] = field(default_factory=dict)
    ending: DataFrame | None = None
    load: Load | None = None
    turned: int = 0


def fold(plan: MergePlan, events: DataFrame, before: Before) -> Chains:
    """Fold the events of a batch, with their IDs, over what a table knows of before.

    What is used more than once is worked out and kept: plans that hold each other many times
    over take Spark longer than the rows do.
    """
    history = VersionRows.of(plan.whole, plan.folded, plan.epoch, plan.batch)
    ending = None if before.ending is None else Key(plan.whole).of_keys(before.ending).localCheckpoint()
    with spread(events.sparkSession, plan.facts.read + (0 if ending is None else ending.count())):
        met = _meet(plan, events, before, ending, history)
        folded = _folded(plan, met, before, history).localCheckpoint()
    first_touched = met.first_touched.limit(0) if before.by_rows else met.first_touched
    settled = None if met.lone is None else met.lone.where(IS_LOAD).select(ID)
    return Chains(
        plan=plan,
        folded=folded,
        stood=met.stood,
        first_touched=first_touched,
        history=history,
        settled=settled,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Met:
    """The events that arrived, and what is known of the keys of their chains.

    Of `lone` events nothing is, and no other has their key. `first_touched` are the rows that `stood` of keys of
    which no more is remembered, `based` the bases of the others, `newest` what is known of the events that are
    (`newest_of`). `moves` says whether a key change joins any.
    """

    arrived: DataFrame
    lone: DataFrame | None
    keys: DataFrame
    known: DataFrame | None
    newest: DataFrame | None
    stood: DataFrame
    first_touched: DataFrame
    based: DataFrame | None
    moves: bool


def _meet(
    plan: MergePlan, events: DataFrame, before: Before, ending: DataFrame | None, history: VersionRows | None
) -> _Met:
    """Put the events of a batch and what is known of the keys of their chains side by side.

    A truncate touches all that is remembered. Of the keys that are `ending` no event need tell.
    """
    key = Key(plan.whole)
    is_small = plan.facts.read <= SMALL and ending is None and not plan.truncates.arrived
    send = F.broadcast if is_small else as_it_is
    arrived = key.named(events.drop(names.TEXT, names.DETAIL, names.REASON))
    known = None if before.remembered is None else key.named(before.remembered)
    links = _links(arrived, known, meets_all=ending is not None or bool(plan.truncates.arrived))
    chain = key.chained(links)
    arrived = parted(chain(arrived), CHAIN, plan.facts.read).localCheckpoint()
    ending = None if ending is None else chain(ending)
    if known is not None:
        known = chain(known)
        touched = _touched(plan, arrived, known, ending, by_rows=before.by_rows)
        known = known.join(send(touched), CHAIN, "left_semi").localCheckpoint()
    keys = chain(key.distinct([arrived] if known is None else [arrived, known]))
    keys = keys if ending is None else keys.unionByName(ending).dropDuplicates([KEY])
    keys = keys.localCheckpoint()
    sent = send(keys)
    stood = before.rows(sent.selectExpr(*map(quoted, plan.dimension.key)))
    stood = stood.join(sent, list(plan.dimension.key))
    stood = (stood if history is None else _going_on(stood, history, before.load)).localCheckpoint()
    newest = None if known is None else newest_of(known)
    first_touched, based = _known_before(before, stood, newest, sent, key, history)
    lone = None
    if history is not None and not is_small and not plan.truncates.all:
        lone, arrived = part_lone(arrived, [frame for frame in (stood, known, based) if frame is not None])
        keys = keys.join(lone.select(CHAIN), CHAIN, "left_anti")
    return _Met(
        arrived=arrived,
        lone=lone,
        keys=keys,
        known=known,
        newest=newest,
        stood=stood,
        first_touched=first_touched,
        based=based,
        moves=links is not None,
    )


def _links(arrived: DataFrame, known: DataFrame | None, *, meets_all: bool) -> DataFrame | None:
    """Return which keys key changes make one chain: of all that is `known`, or of what the events meet of it."""
    session = arrived.sparkSession
    if known is None:
        return links_of(session, [arrived])
    return links_of(session, [arrived, known]) if meets_all else links_met(session, arrived, known)


def _touched(
    plan: MergePlan, arrived: DataFrame, known: DataFrame, ending: DataFrame | None, *, by_rows: bool
) -> DataFrame:
    """Return the chains of which what is `known` counts; where rows tell the state, those of the events alone."""
    touched = arrived.select(CHAIN).distinct()
    if by_rows:
        return touched
    touched = touched.union(_above_truncates(known, plan))
    touched = touched if ending is None else touched.union(ending.select(CHAIN))
    return touched.distinct().localCheckpoint()


def _folded(plan: MergePlan, met: _Met, before: Before, history: VersionRows | None) -> DataFrame:
    """Return what becomes of each chain."""
    items = Items(plan.folded, None if history is None else history.versions)
    parts = [items.of_batch(met.arrived, plan), items.of_rows(met.first_touched)]
    if met.based is not None:
        parts.append(items.of_rows(met.based))
    if met.known is not None:
        deletes = before.by_rows
        parts.append(
            items.of_deletes(newest_deletes(met.known, met.stood)) if deletes else items.of_remembered(met.known)
        )
    gathered = reduce(DataFrame.unionByName, parts).groupBy(CHAIN).agg(F.expr("collect_list(item) AS items"))
    place = place_type(plan.dimension.sequences)
    every = items.with_truncates("items", before.truncates, place)
    begun = [met.first_touched] if met.based is None else [met.first_touched, met.based]
    stands = standing_of(met.keys, met.stood, met.newest, place, history, begun)
    gathered = gathered.join(stands, CHAIN).withColumn("items", F.expr(every))
    writer = Fold(
        plan.folded,
        plan.dimension.sequences,
        versions=items.versions,
        moves=met.moves,
        soft=plan.dimension.is_soft,
    )
    newest = plan.truncates.newest
    is_truncated = "false" if newest is None else f"e.place < {place_literal(newest, place)}"
    folded = judged(writer, gathered, is_truncated, history)
    if met.lone is None or history is None:
        return folded
    return folded.union(judged_alone(items.of_batch(met.lone, plan), history, folded))


def _known_before(
    before: Before,
    stood: DataFrame,
    newest: DataFrame | None,
    sent: DataFrame,
    key: Key,
    history: VersionRows | None,
) -> tuple[DataFrame, DataFrame | None]:
    """Return the rows that stand of keys of which no more is remembered, and the bases of the others.

    Where what stands is the state, that is so of all keys.
    """
    if before.by_rows:
        return stood, None
    based = None
    if before.bases is not None:
        asked = sent.selectExpr(*map(quoted, key.dimension.key))
        bases = before.bases.join(asked, list(key.dimension.key), "left_semi")
        based = last_noted(bases, key, history).join(sent, KEY).localCheckpoint()
    if newest is None or based is None:
        return stood, based
    place = place_type(key.dimension.sequences)
    told = stood.join(newest.select(KEY, NEWEST, FIRST, SINCE), KEY, "left")
    told = told.join(based.selectExpr(KEY, f"true AS {_HAS_BASE}"), KEY, "left")
    untold = told.where(_is_untold([place_literal(p, place) for p in before.truncates], history, before.turned))
    return untold.drop(NEWEST, FIRST, SINCE, _HAS_BASE), based.join(untold.select(KEY), KEY, "left_anti")


def _is_untold(truncates: Sequence[str], history: VersionRows | None, turned: int) -> str:
    """Return whether events and base that are remembered of a key do not tell how its row came to stand, as SQL.

    Nothing is, but what left no row while the table was `ordered`; or what stands is newer than all of it, or the
    first version of a history is older and no base tells that: the table remembered less once, as it had whole rows
    alone, or was `ordered` before records of batches said so. What stands is the state.
    """
    place = place_of([standing(name) for name in PLACE_COLUMNS])
    is_newer = f"{place} > {NEWEST}"
    if truncates:  # one ends a version, and is no event of its key
        is_newer += f" AND {place} NOT IN ({', '.join(truncates)})"
    ways = [f"coalesce({SINCE} <= {turned}, true) AND {_HAS_BASE} IS NULL", is_newer]
    if history is not None:
        begins = f"try_element_at({STORED}, 1).begins"
        ways.append(f"{_HAS_BASE} IS NULL AND coalesce({begins} < {FIRST}, true)")
    return " OR ".join(f"({way})" for way in ways)


def _going_on(stood: DataFrame, history: VersionRows, load: Load | None) -> DataFrame:
    """Say of keys where their newest version stands, and from which versions on they are folded.

    The rows of keys that a full load lacks end before its rows: `lakeward.core.history.reloads`.
    """
    versions, writer = f"transform({STORED}, s -> s.version)", history.versions
    if load is not None:
        stood = stood.join(load.keys.selectExpr(KEY, f"true AS {_IS_LOADED}"), KEY, "left")
        ended = writer.closed(versions, _ending(load.ends), writer.loaded)
        is_live = f"try_element_at({STORED}, -1).version.ends IS NULL"
        versions = f"CASE WHEN {_IS_LOADED} IS NULL AND {is_live} THEN {ended} ELSE {versions} END"
    place = writer.place_in_epoch(f"try_element_at({STORED}, -1).version.place")
    stood = stood.withColumn(VERSIONS, F.expr(let({"every": versions}, tail("every"))))
    stood = stood.withColumn(_NEWEST_PLACE, F.expr(place))
    places = {standing(name): f"{_NEWEST_PLACE}.{part}" for name, part in zip(PLACE_COLUMNS, "sor", strict=True)}
    return stood.withColumns({name: F.expr(sql) for name, sql in places.items()}).drop(_NEWEST_PLACE, _IS_LOADED)


def _ending(ends: EndInstants) -> str:
    """Return the instant at which a load ends a key that it lacks, as SQL (`EndInstants.after`)."""
    behind = ">" if ends.is_strict else ">="
    cases = [f"WHEN {at}L {behind} newest.reached THEN {at}L" for at in ends.instants]
    return f"CASE {' '.join(cases)} END" if cases else "bigint(NULL)"


def as_it_is(frame: DataFrame) -> DataFrame:
    """Return a frame as it is."""
    return frame


def _above_truncates(known: DataFrame, plan: MergePlan) -> DataFrame:
    """Return the chains with remembered events above a truncate that arrives: what they completed is gone."""
    if not plan.truncates.arrived:
        return known.select(CHAIN).limit(0)
    least = place_literal(plan.truncates.arrived[0], place_type(plan.dimension.sequences))
    return known.where(f"{EVENT_PLACE} > {least}").select(CHAIN)


def last_noted(bases: DataFrame, key: Key, history: VersionRows | None) -> DataFrame:
    """Return of each key its newest base: a table that was `ordered` meanwhile has one from before that, too."""
    if history is not None:
        place = {part: standing(name) for part, name in zip("sor", PLACE_COLUMNS, strict=True)}
        bases = history.by_key(bases.selectExpr("*", f"{key.text()} AS {KEY}"), (KEY, names.BATCH), place)
        bases = bases.selectExpr(KEY, names.BATCH, f"transform({STORED}, s -> s.version) AS {VERSIONS}")
    else:
        bases = key.named_rows(bases)
    return newest_noted(bases)


def newest_noted(named: DataFrame) -> DataFrame:
    """Return of each key, which is named, what was noted of it last."""
    rest = ", ".join(quoted(name) for name in named.columns if name != KEY)
    last = named.groupBy(KEY).agg(F.expr(f"max_by(struct({rest}), {names.BATCH}) AS base"))
    return last.selectExpr(KEY, "base.*")
