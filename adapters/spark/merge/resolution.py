"""Working out what a batch does to the rows of a table: DataFrame to DataFrame, no I/O.

One pass over the keys: each event meets the row that stands, then the events of a key
are folded into one verdict, by hash and without a sort. Only keys that were deleted and
more within one batch are looked at in order, to count what was inserted twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.event_frame import IS_EVENT, IS_HOLDING, IS_LOAD, IS_REJECT, has_order
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import canonical
from lakeward.adapters.spark.sql.inline_rows import as_json
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.dimension import DELETED, Dimension, Ordered
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Type

SMALL: Final = 250_000
"""Up to that many events, what stands of their keys is sent to them rather than sorted with them."""

ID: Final = "_lakeward_id"
"""Names an event within its batch: its arrival and its kind in one number."""

IS_NEWS: Final = "_lakeward_is_news"
IS_LIVE: Final = "_lakeward_is_live"
"""Of a key: whether an event is newer than what stands, and whether what stands is a row."""

FILE: Final = "_lakeward_standing_file"
POS: Final = "_lakeward_standing_pos"
"""Where a row lies: its data file as the format names it, and its place there, from 0; NULL where nobody asks."""

STANDS: Final = f"NOT coalesce({DELETED}, false)"
"""Whether a row of a table whose deletes are soft has not gone, as SQL."""

INSERTS, WHOLES, DELETES = "_lakeward_inserts", "_lakeward_wholes", "_lakeward_deletes"
_EVENTS, _NEWER, _SAME, _TIES = (f"{names.PREFIX}{count}" for count in ("events", "newer", "same", "ties"))
"""Of a key: how many events it has, how many of them are newer than what stands, and how many of these insert, put
whole rows, of a full load ones as well, and delete; how many are what stands, and how many are tied."""

_IS_NEWER, _CONTENT, _LEAST, _MOST = (f"{names.PREFIX}{name}" for name in ("is_newer", "content", "least", "most"))
"""Of an event: whether it is newer than what stands, and its content; of several, the least and the greatest."""

WRITTEN, REMOVED, MIXED = "written", "removed", "mixed"
"""How many rows a batch writes and removes, and how many keys have events after a delete."""

_FIRST: Final = "_lakeward_first"
"""Of a key: its first event that is newer than what stands."""

_IS_WRONG, _WHY, _SAID = "_lakeward_is_wrong", "_lakeward_why", "_lakeward_said"
_BARRIER: Final = "_lakeward_barrier"

NO_KEY: Final = "the table has no key to find the row by"
INCOMPLETE: Final = "it sends a part of a row, and there is no row of that key"
_NOT_KEPT: Final = "string(NULL)"
AT_THE_MARK: Final = "at or below the mark: by `lateness`, nothing may come there any more"

_KINDS: Final = {"read": 0, "insert": 1, "update": 2, "delete": 3}
_IS_READ, _IS_INSERT, _IS_UPDATE, _IS_DELETE = (f"& 3 = {code}" for code in _KINDS.values())
_PLACE: Final = (names.SEQUENCE, names.OBJECT, names.ROW)

_AS_WRITTEN: Final = (Reason.HISTORY, Reason.TIE, Reason.UNDATED, Reason.NO_KEY)
"""Reasons of events that are shown in quarantine as they were written, where that is known."""


def standing(name: str) -> str:
    """Return what a column of the standing row is called beside an event's.

    >>> standing("_lakeward_row")
    '_lakeward_standing_row'
    """
    return f"_lakeward_standing_{name.removeprefix(names.PREFIX)}"


_STANDING: Final = tuple(standing(name) for name in names.POSITION)


def no_place(dimension: Dimension, locators: Sequence[str] = ()) -> list[str]:
    """Return the place of a row that does not stand, as SQL; `locators` say where it lies."""
    types = {standing(names.SEQUENCE): names.sequence_type(dimension.sequences)}
    return [f"CAST(NULL AS {types.get(name, 'bigint')}) AS {name}" for name in (*_STANDING, *locators)]


def _key(plan: MergePlan) -> list[str]:
    return [quoted(name) for name in plan.dimension.key]


def events_of(frame: DataFrame) -> DataFrame:
    """Return the rows that can be applied, each with its ID."""
    kinds = " ".join(f"WHEN '{name}' THEN {code}" for name, code in _KINDS.items())
    identifier = f"shiftleft({names.ARRIVAL}, 2) + CASE {names.OPERATION} {kinds} END"
    return frame.where(IS_EVENT).selectExpr("*", f"{identifier} AS {ID}")


class Known(NamedTuple):
    """How many events of a batch are of objects that were delivered before, and rejects, by reason."""

    events: int = 0
    rejects: Mapping[Reason, int] = MappingProxyType({})

    @property
    def rows(self) -> int:
        """How many rows that is."""
        return self.events + sum(self.rejects.values())


def without_copies(frame: DataFrame, plan: MergePlan) -> tuple[DataFrame, Known]:
    """Leave out the rows of objects that were delivered before.

    Of an `ordered` table with a key only the rejects: its events are told by what stands, and what is remembered.
    """
    if not plan.copies:
        return frame, Known()
    is_copy = f"{names.OBJECT} IN ({', '.join(map(str, sorted(plan.copies)))})"
    if isinstance(plan.dimension.lateness, Ordered) and plan.dimension.key:
        is_copy = f"({is_copy} AND coalesce({IS_REJECT}, false))"
    alike = frame.where(is_copy).groupBy(names.REASON).count().collect()
    rows = {row[names.REASON]: row["count"] for row in alike}
    rejects = {reason: rows[reason.value] for reason in Reason if reason.value in rows}
    return frame.where(f"NOT {is_copy}"), Known(rows.get(None, 0), rejects)


def late_as_rejects(frame: DataFrame, plan: MergePlan) -> tuple[DataFrame, Mapping[Reason | None, int]]:
    """Reject what lies at or below the mark; return how many rows that are, by the reason they had.

    A row that would hold its key holds nothing there: later events of the key may be applied.
    """
    if plan.mark is None or not plan.has_late:
        return frame, {}
    words = f"its place in the order lies {AT_THE_MARK}"
    is_below = f"{names.SEQUENCE} <= {sequence_literal(plan, plan.mark.sequence)}"
    has_place = f"NOT ({names.REASON} = '{Reason.SEQUENCE.value}' AND {IS_LOAD})"
    is_late, holds = f"({IS_EVENT} AND {is_below})", f"coalesce({IS_HOLDING} AND {has_place} AND {is_below}, false)"
    alike = frame.where(f"{is_late} OR {holds}").groupBy(names.REASON).count().collect()
    told = {
        names.REASON: text(Reason.TOO_LATE.value),
        names.DETAIL: f"concat_ws('; ', {names.DETAIL}, {text(words)})",
    }
    frame = frame.withColumns({n: F.expr(f"CASE WHEN {holds} THEN {sql} ELSE {n} END") for n, sql in told.items()})
    late = rejected(frame, plan.dimension, is_late, Reason.TOO_LATE, words)
    return late, {None if row[0] is None else Reason(row[0]): row["count"] for row in alike}


def sequence_literal(plan: MergePlan, sequence: int) -> str:
    """Return a sequence of the table as SQL."""
    return f"CAST('{sequence}' AS {names.sequence_type(plan.dimension.sequences)})"


def as_incomplete(events: DataFrame, dimension: Dimension) -> DataFrame:
    """Return remembered events as rejects: they send a part of a row that never came."""
    rejects = events.selectExpr(
        "*", *[f"string(NULL) AS {name}" for name in (names.REASON, names.DETAIL, names.TEXT)]
    )
    return rejected(rejects, dimension, "true", Reason.INCOMPLETE_ROW, INCOMPLETE)


def as_rejects(
    frame: DataFrame, plan: MergePlan, ids: DataFrame, reason: Reason, words: str, written: str = _NOT_KEPT
) -> DataFrame:
    """Turn the events of these IDs into rejects, with the text that each was `written` as, where that is known."""
    wrong = F.broadcast(ids.selectExpr(f"shiftright({ID}, 2) AS {names.ARRIVAL}", f"true AS {_IS_WRONG}"))
    marked = frame.join(wrong, names.ARRIVAL, "left")
    marked = _rejected(marked, plan.dimension, _IS_WRONG, f"'{reason.value}'", text(words), written)
    return marked.drop(_IS_WRONG)


def as_told(frame: DataFrame, plan: MergePlan, refused: DataFrame) -> DataFrame:
    """Turn events into rejects: `refused` has their IDs, and in `reason` and `words` what is wrong with each."""
    told = refused.selectExpr(f"shiftright({ID}, 2) AS {names.ARRIVAL}", f"reason AS {_WHY}", f"words AS {_SAID}")
    marked = frame.join(F.broadcast(told), names.ARRIVAL, "left")
    mendable = ", ".join(f"'{reason.value}'" for reason in _AS_WRITTEN)
    written = f"CASE WHEN {_WHY} IN ({mendable}) THEN {names.TEXT} END"
    marked = _rejected(marked, plan.dimension, f"{_WHY} IS NOT NULL", _WHY, _SAID, written)
    return marked.drop(_WHY, _SAID)


def rejected(frame: DataFrame, dimension: Dimension, is_wrong: str, reason: Reason, words: str) -> DataFrame:
    """Turn the rows that are wrong, as SQL, into rejects for a reason, in words."""
    return _rejected(frame, dimension, is_wrong, f"'{reason.value}'", text(words))


def told_rejects(frame: DataFrame, dimension: Dimension, reason: Reason, words: str) -> DataFrame:
    """Turn rows into rejects for a reason; the words, as SQL, are NULL of those that are none."""
    return _rejected(frame, dimension, f"{words} IS NOT NULL", f"'{reason.value}'", words, names.TEXT)


def _rejected(
    frame: DataFrame, dimension: Dimension, is_wrong: str, reason: str, words: str, written: str = _NOT_KEPT
) -> DataFrame:
    """Turn rows into rejects with the text that each was `written` as, in SQL, where that is known.

    Else it is the row as JSON, with the image of what it was before where rows are found by that.
    """
    time = f"timestamp_micros({names.TIME}) AS {names.TIME}"
    image = [names.IMAGE] if names.IMAGE in frame.columns else []
    row = as_json([names.OPERATION, time, *map(quoted, dimension.schema.names), *image])
    return frame.withColumns(
        {
            names.REASON: F.expr(f"CASE WHEN {is_wrong} THEN {reason} ELSE {names.REASON} END"),
            names.DETAIL: F.expr(f"CASE WHEN {is_wrong} THEN {words} ELSE {names.DETAIL} END"),
            names.TEXT: F.expr(f"CASE WHEN {is_wrong} THEN coalesce({written}, {row}) ELSE {names.TEXT} END"),
        }
    )


def as_no_key(frame: DataFrame, dimension: Dimension, is_wrong: str, words: str) -> DataFrame:
    """Turn the events that are wrong, as SQL, into rejects of a table that has no key to find a row by."""
    no_key = f"'{Reason.NO_KEY.value}'"
    return _rejected(frame, dimension, f"({IS_EVENT} AND {is_wrong})", no_key, text(words), names.TEXT)


def holding_rejects(frame: DataFrame, plan: MergePlan) -> DataFrame:
    """Return key and position of the rejects that hold their key; a key change holds two."""
    return keys_of_both(frame.where(IS_HOLDING), plan.dimension.key)


def keys_of_both(frame: DataFrame, key: Sequence[str], beside: Sequence[str] = ()) -> DataFrame:
    """Return the key of each row, its position and columns `beside`; of a key change also the key that it left."""
    told = (*_PLACE, *beside)
    found = frame.selectExpr(*map(quoted, key), *told)
    if names.OLD not in frame.columns:
        return found
    old = [f"{names.OLD}.{name} AS {name}" for name in map(quoted, key)]
    return found.unionByName(frame.where(f"{names.OLD} IS NOT NULL").selectExpr(*old, *told))


def part_at_barriers(events: DataFrame, barriers: DataFrame, plan: MergePlan) -> tuple[DataFrame, DataFrame]:
    """Part the events into those that pass and those that wait behind a hold of their key."""
    place = f"struct({', '.join(_PLACE)})"
    lowest = barriers.groupBy(*_key(plan)).agg(F.expr(f"min({place}) AS {_BARRIER}"))
    marked = events.join(F.broadcast(lowest), list(plan.dimension.key), "left")
    waits = f"{_BARRIER} IS NOT NULL AND {place} > {_BARRIER}"
    return marked.where(f"NOT ({waits})").drop(_BARRIER), marked.where(waits).drop(_BARRIER)


def verdicts(events: DataFrame, found: DataFrame | None, plan: MergePlan, locators: Sequence[str]) -> DataFrame:
    """Return one row a key: which of its events stands in the end, and how many had which fate.

    `found` holds what stands of the batch's keys: the position (named by `standing`),
    IS_LIVE, and where the row lies (`locators`).
    """
    stood = (*_STANDING, IS_LIVE, *locators)
    meets = plan.recalls and found is not None  # else each event is newer than what stands, which is met last
    key = [*_key(plan), *(stood if meets else ())]
    is_same = " AND ".join(f"{name} <=> {standing(name)}" for name in _PLACE) if meets else "false"
    by_sequence = (
        _meet(events, found if meets else None, plan)
        .groupBy(*key, names.SEQUENCE)
        .agg(
            F.expr(f"count(*) AS {_EVENTS}"),
            F.expr(f"max({ID}) AS {ID}"),
            F.expr(f"min(CASE WHEN {_IS_NEWER} THEN {ID} END) AS {_FIRST}"),
            F.expr(f"count_if({_IS_NEWER}) AS {_NEWER}"),
            F.expr(f"count_if({is_same}) AS {_SAME}"),
            F.expr(f"count_if({_IS_NEWER} AND {ID} {_IS_INSERT}) AS {INSERTS}"),
            F.expr(f"count_if({_IS_NEWER} AND ({ID} {_IS_INSERT} OR {ID} {_IS_READ})) AS {WHOLES}"),
            F.expr(f"count_if({_IS_NEWER} AND {ID} {_IS_DELETE}) AS {DELETES}"),
            F.expr(f"min(CASE WHEN {_IS_NEWER} THEN {_CONTENT} END) AS {_LEAST}"),
            F.expr(f"max(CASE WHEN {_IS_NEWER} THEN {_CONTENT} END) AS {_MOST}"),
        )
    )
    tied = f"CASE WHEN {_LEAST} != {_MOST} AND {has_order()} THEN {_NEWER} - 1 ELSE 0 END"
    if plan.dimension.unique_sequences and meets:
        stands = f"{_STANDING[0]} = {plan.epoch} AND {_STANDING[1]} = {names.SEQUENCE}"
        tied = f"CASE WHEN {stands} AND {has_order()} THEN {_NEWER} ELSE {tied} END"
    sums = [F.expr(f"sum({name}) AS {name}") for name in (_EVENTS, _NEWER, _SAME, INSERTS, WHOLES, DELETES)]
    by_key = by_sequence.groupBy(*key).agg(
        F.expr(f"max_by({ID}, {names.SEQUENCE}) AS {ID}"),
        F.expr(f"min_by({_FIRST}, CASE WHEN {_FIRST} IS NOT NULL THEN {names.SEQUENCE} END) AS {_FIRST}"),
        F.expr(f"sum({tied}) AS {_TIES}"),
        *sums,
    )
    if found is None:
        by_key = by_key.selectExpr("*", *no_place(plan.dimension, locators), f"boolean(NULL) AS {IS_LIVE}")
    elif not meets:
        by_key = by_key.join(found, list(plan.dimension.key), "left")
    counted = [f"bigint({sql}) AS {_counted(name)}" for name, sql in _counts().items()]
    return by_key.selectExpr(*_key(plan), *stood, ID, WHOLES, DELETES, f"{_NEWER} > 0 AS {IS_NEWS}", *counted)


def _counts() -> Mapping[str, str]:
    """Return by name what the events of one key add to each count, as SQL.

    Events after which the key was deleted are left to `_count_in_order`, unless the delete is the last of them.
    """
    is_news, live = f"{_NEWER} > 0", f"coalesce({IS_LIVE}, false)"
    is_mixed = f"{is_news} AND {DELETES} > int({ID} {_IS_DELETE})"
    one_way = f"{is_news} AND NOT ({is_mixed})"
    existing = f"{INSERTS} - int({_FIRST} {_IS_INSERT} AND NOT {live})"
    return {
        "stale": f"{_EVENTS} - {_NEWER} - {_SAME}",
        "duplicates": _SAME,
        "superseded": f"greatest({_NEWER} - 1, 0)",
        "applied": is_news,
        "ties": _TIES,
        "insert_on_existing": f"CASE WHEN {one_way} THEN {existing} ELSE 0 END",
        "update_on_missing": f"{one_way} AND NOT {live} AND {_FIRST} {_IS_UPDATE}",
        WRITTEN: f"{is_news} AND NOT {ID} {_IS_DELETE}",
        REMOVED: f"{is_news} AND {live}",
        MIXED: is_mixed,
    }


def _counted(name: str) -> str:
    """Return what `verdicts` calls the column of a count."""
    return f"_lakeward_count_{name}"


def _meet(events: DataFrame, found: DataFrame | None, plan: MergePlan) -> DataFrame:
    """Put beside each event what stands of its key, and say whether the event is newer; each is that meets none."""
    narrow = events.selectExpr(*_key(plan), *_PLACE, ID, f"xxhash64({hashed(plan)}) AS {_CONTENT}")
    if found is None:
        return narrow.selectExpr("*", f"true AS {_IS_NEWER}")
    sent = F.broadcast(found) if plan.facts.read <= SMALL else found
    joined = narrow.join(sent, list(plan.dimension.key), "left")
    return joined.selectExpr("*", f"{_is_newer(plan)} AS {_IS_NEWER}")


def hashed(plan: MergePlan, left_out: Collection[str] = ()) -> str:
    """Return what makes the content of an event, to be hashed; a hash passes NULLs over."""
    told = [column for column in plan.dimension.schema if column.name not in left_out]
    columns = [_hashable(quoted(column.name), column.type) for column in told]
    nulls = [f"{quoted(column.name)} IS NULL" for column in told]
    return ", ".join([names.OPERATION, *columns, *nulls])


def _hashable(value: str, type_: Type) -> str:
    """Return a value, or the text of one that has parts: it tells the NULLs in it, and maps have no hash."""
    return as_json([canonical(value, type_)]) if type_.is_nested else value


def _is_newer(plan: MergePlan) -> str:
    """Whether an event is newer than what stands of its key, if anything does."""
    came = f"named_struct('e', {plan.epoch}, 's', {_PLACE[0]}, 'o', {_PLACE[1]}, 'r', {_PLACE[2]})"
    stood = ", ".join(f"'{part}', {name}" for part, name in zip("esor", _STANDING, strict=True))
    return f"({_STANDING[0]} IS NULL OR {came} > named_struct({stood}))"


def sums_of(judged: DataFrame) -> Mapping[str, int]:
    """Return each count of a frame of verdicts, summed up."""
    row = judged.agg(*[F.expr(f"sum({_counted(name)}) AS {name}") for name in _counts()]).collect()[0]
    return {name: value or 0 for name, value in row.asDict().items()}


def sums_in(judged: pa.Table) -> Mapping[str, int]:
    """Return each count of verdicts in Arrow columns, summed up."""
    return {name: pc.sum(judged[_counted(name)]).as_py() or 0 for name in _counts()}


def counts(
    sums: Mapping[str, int], judged: DataFrame, events: DataFrame, plan: MergePlan
) -> tuple[Counts, int, int]:
    """Return the counts of the events that pass, and how many rows will be written and removed.

    Each count is taken on its own; whether they add up is for the pipeline to see.
    """
    found = dict(sums)
    written, removed, mixed = (found.pop(name) for name in (WRITTEN, REMOVED, MIXED))
    if mixed:
        more = _count_in_order(judged.where(f"{_counted(MIXED)} > 0"), events, plan)
        found = {name: value + more.get(name, 0) for name, value in found.items()}
    return Counts(**found), written, removed


def _count_in_order(mixed: DataFrame, events: DataFrame, plan: MergePlan) -> dict[str, int]:
    """Count, for keys that were deleted and more, what was inserted though there and updated though not."""
    of_keys = mixed.selectExpr(*_key(plan), *_STANDING, IS_LIVE)
    order = f"PARTITION BY {', '.join(_key(plan))} ORDER BY {names.SEQUENCE}, {ID}"
    before = f"lag({ID}) OVER ({order})"
    was_there = f"CASE WHEN {before} IS NULL THEN coalesce({IS_LIVE}, false) ELSE NOT {before} {_IS_DELETE} END"
    row = (
        events.join(F.broadcast(of_keys), list(plan.dimension.key))
        .where(_is_newer(plan))
        .selectExpr(ID, f"{was_there} AS was_there")
        .agg(
            F.expr(f"count_if({ID} {_IS_INSERT} AND was_there) AS insert_on_existing"),
            F.expr(f"count_if({ID} {_IS_UPDATE} AND NOT was_there) AS update_on_missing"),
        )
        .collect()[0]
    )
    found: dict[str, int] = row.asDict()
    return found


def winners(events: DataFrame, judged: DataFrame, *, deletes: bool) -> DataFrame:
    """Return the events that stand in the end: those that leave a row, or those that leave none."""
    wanted = f"{IS_NEWS} AND {'' if deletes else 'NOT '}{ID} {_IS_DELETE}"
    return events.join(judged.where(wanted).select(ID), ID, "left_semi")


def reject_without_key(frame: DataFrame, dimension: Dimension) -> DataFrame:
    """Turn updates, deletes and truncates into rejects: a table without a key has facts that stay."""
    refused = f"{names.OPERATION} IN ('update', 'delete', 'truncate')"
    return as_no_key(frame, dimension, refused, NO_KEY)
