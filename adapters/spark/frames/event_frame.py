"""The frame of a batch: one row an event or a reject, in columns that sources and tables agree on.

Beside the table's own columns it has

- `_lakeward_operation`: insert, update, delete, truncate or read; NULL where it is none;
- `_lakeward_sequence`, `_lakeward_object`, `_lakeward_row`: the position, its epoch being the plan's;
- `_lakeward_arrival`: a number that orders the batch by arrival, below 2^60;
- `_lakeward_time`: source time in microseconds since 1970, NULL where unknown;
- `_lakeward_reason`: why the row cannot be applied (NULL where it can), or `skipped`;
- `_lakeward_detail`, `_lakeward_text`: of a reject, in words, and as it was written.

A source that may send rows in part has two or three more (`BatchFacts.may_need`):

- `_lakeward_unset`: the names of the columns that were not sent (their cells are NULL);
- `_lakeward_old`: a struct of the key that the row had, where its key changed, else NULL;
- `_lakeward_transaction`: what names the transaction, NULL where nothing does.

Of a table whose rows match by their images it has

- `_lakeward_image`: of an update or a delete a struct of the row as it was before, NULL where it was not
  sent whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import bound_of
from lakeward.core.checks.log_restart import LogRestart
from lakeward.core.dimension import Dimension
from lakeward.core.events import LOAD_SEQUENCE, READ_SEQUENCE, Operation, Position
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.merge.change_log import HOLDING, UNPLACED, Reason
from lakeward.core.merge.facts import BatchFacts, Capability, ObjectFacts
from lakeward.core.plan import tolerance_of
from lakeward.core.schema import Schema

SKIPPED: Final = "skipped"

EVENT_COLUMNS: Final = (
    names.OPERATION,
    names.SEQUENCE,
    names.OBJECT,
    names.ROW,
    names.ARRIVAL,
    names.TIME,
    names.REASON,
    names.DETAIL,
    names.TEXT,
)

AHEAD: Final = "_lakeward_ahead"
"""Flags a row whose source time is too far in the future to be believed."""

NO_PLACE: Final = "_lakeward_no_place"
"""Flags a message that should tell its place in the log of its source, and does not."""

INITIAL: Final = "_lakeward_initial"
"""Flags a row of an initial snapshot, where messages tell of which snapshot their row is."""

IS_EVENT: Final = f"{names.REASON} IS NULL"
"""Whether a row of the frame can be applied, as SQL."""

LOAD: Final = f"({LOAD_SEQUENCE + 1}L - 1)"
"""The sequence of rows of a full load, as SQL, which has no literal for the least bigint."""

IS_LOAD: Final = f"({names.SEQUENCE} = {LOAD})"
"""Whether a row of the frame is one of a full load, as SQL."""

LEAVES_VALUES: Final = f"{names.OPERATION} IN ('insert', 'update', 'read')"
"""Whether a row of the frame has values to leave, as SQL."""

IS_REJECT: Final = f"{names.REASON} != '{SKIPPED}'"
"""Whether a row of the frame belongs into quarantine, as SQL."""

IS_HOLDING: Final = f"{names.REASON} IN ({', '.join(repr(r.value) for r in sorted(HOLDING, key=str))})"
"""Whether a row of the frame holds its key, as SQL."""


_UNPLACED: Final = frozenset({SKIPPED, *(reason.value for reason in UNPLACED)})


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one object that have operation, reason and flags in common: how many, and their bounds.

    `time` and `earliest` are the greatest and the least source time, `log` names the source's log and
    `database` its database, where rows do.
    `key_bounds` has a pair for each key column whose type makes that cheap, else None. Of
    truncates it has each sequence and row.
    """

    object: int
    operation: str | None
    reason: str | None
    flags: frozenset[str]
    rows: int
    least: tuple[int, int]
    greatest: tuple[int, int]
    time: int | None
    earliest: int | None
    log: str | None
    key_bounds: tuple[tuple[Any, Any] | None, ...]
    needs: frozenset[Capability] = frozenset()
    truncates: tuple[tuple[int, int], ...] = ()
    database: str | None = None

    @property
    def has_place(self) -> bool:
        """Whether the place of its rows in the order is known; that of a blank line is not."""
        return self.reason not in _UNPLACED or self.least[0] != LOAD_SEQUENCE


IS_TRUNCATE: Final = f"({IS_EVENT} AND {names.OPERATION} = '{Operation.TRUNCATE.value}')"
"""Whether a row of the frame is a truncate, as SQL."""

IN_PART: Final = {Capability.UNSET: names.UNSET, Capability.KEY_CHANGE: names.OLD}
"""The columns whose values call for a capability, where a row has one."""


KeyRange: TypeAlias = tuple[tuple[Any, Any] | None, ...]
"""The least and the greatest value of each key column, or None where finding them would take a sort."""


def range_of(keys: DataFrame, dimension: Dimension) -> KeyRange:
    """Return the range of some keys, which are no more than a batch has."""
    bounds = _key_bounds(dimension)
    found = [F.expr(f"{of}({sql}) AS {of}_{n}") for n, sql in enumerate(bounds) if sql for of in ("min", "max")]
    row: Mapping[str, Any] = keys.agg(*found).collect()[0].asDict() if found else {}
    ends = [(row[f"min_{n}"], row[f"max_{n}"]) if sql else None for n, sql in enumerate(bounds)]
    return tuple(None if pair is None or pair[0] is None else pair for pair in ends)


def count_operations(frame: DataFrame) -> Mapping[Operation, int]:
    """Return how many events of each operation a frame has."""
    counted = frame.where(IS_EVENT).groupBy(names.OPERATION).count().collect()
    return {Operation(row[0]): row["count"] for row in counted}


LOG: Final = "_lakeward_log"
"""What names the log of the source that the place of a row is in, where rows have it; NULL where nothing does."""

DATABASE: Final = "_lakeward_database"
"""The connector that a row of the table names, and its database beside a schema, in small letters; NULL without."""

NAMED: Final = (LOG, DATABASE)
"""The columns of names, each of which parts the groups of a survey where rows have it."""


def survey(frame: DataFrame, dimension: Dimension, *flags: str) -> Sequence[Group]:
    """Return groups that have everything in them that `facts` makes of a frame, in one pass.

    `flags` are columns that say yes or no of a row.
    """
    in_part = {need: name for need, name in IN_PART.items() if name in frame.columns}
    bounds = _key_bounds(dimension)
    alike = (names.OBJECT, names.OPERATION, names.REASON, *flags, *(n for n in NAMED if n in frame.columns))
    rows = frame.groupBy(*alike).agg(*map(F.expr, _aggregates(in_part.values(), bounds))).collect()
    truncates = _truncates(frame) if any(map(is_truncate, rows)) else {}
    bounded = [bound is not None for bound in bounds]
    return groups_of([row.asDict() for row in rows], flags, in_part, bounded, truncates)


def is_truncate(row: Any) -> bool:
    """Return whether a row of a survey is of truncates."""
    return row[names.OPERATION] == Operation.TRUNCATE.value and row[names.REASON] is None


def groups_of(
    rows: Iterable[Mapping[str, Any]],
    flags: Sequence[str],
    in_part: Mapping[Capability, str],
    bounded: Sequence[bool],
    truncates: Mapping[int, tuple[tuple[int, int], ...]],
) -> Sequence[Group]:
    """Return the groups of a survey, given as rows with the columns that `survey` finds.

    `in_part` names the column that shows a need, `bounded` says which columns of the key have bounds.
    """
    return [
        Group(
            object=row[names.OBJECT],
            operation=row[names.OPERATION],
            reason=row[names.REASON],
            flags=frozenset(flag for flag in flags if row[flag]),
            rows=row["rows"],
            least=(int(row[f"least{names.SEQUENCE}"]), row[f"least{names.ROW}"]),
            greatest=(int(row[f"most{names.SEQUENCE}"]), row[f"most{names.ROW}"]),
            time=row["time"],
            earliest=row["earliest"],
            log=row.get(LOG),
            key_bounds=tuple(
                (row[f"key_least_{index}"], row[f"key_most_{index}"]) if is_bounded else None
                for index, is_bounded in enumerate(bounded)
            ),
            needs=frozenset(need for need, name in in_part.items() if row[name]),
            truncates=truncates[row[names.OBJECT]] if is_truncate(row) else (),
            database=row.get(DATABASE),
        )
        for row in rows
    ]


def _key_bounds(dimension: Dimension) -> Sequence[str | None]:
    """Return what the bounds of each key column are taken of, as SQL; None where its type makes that dear."""
    columns = [(name, dimension.schema.find(name)) for name in dimension.key]
    return [None if key is None else bound_of(quoted(name), key.type) for name, key in columns]


def _aggregates(in_part: Iterable[str], bounds: Sequence[str | None]) -> Sequence[str]:
    """Return what `survey` finds of the rows of a group, as SQL with the names of its columns."""
    found = ["count(*) AS rows", f"max({names.TIME}) AS time", f"min({names.TIME}) AS earliest"]
    for place in (names.SEQUENCE, names.ROW):
        found += [f"min({place}) AS least{place}", f"max({place}) AS most{place}"]
    found += [f"count({name}) AS {name}" for name in in_part]
    for index, bound in enumerate(bounds):
        if bound is not None:
            found += [f"min({bound}) AS key_least_{index}", f"max({bound}) AS key_most_{index}"]
    return found


def _truncates(frame: DataFrame) -> Mapping[int, tuple[tuple[int, int], ...]]:
    """Return sequence and row of the truncates of each object."""
    found: dict[int, tuple[tuple[int, int], ...]] = defaultdict(tuple)
    for row in frame.where(IS_TRUNCATE).select(names.OBJECT, names.SEQUENCE, names.ROW).collect():
        found[row[names.OBJECT]] += ((int(row[names.SEQUENCE]), row[names.ROW]),)
    return found


READ: Final = f"({READ_SEQUENCE}L)"
"""The sequence of a snapshot row that tells no place in the log of its source, as SQL."""


def has_order(sequence: str = names.SEQUENCE) -> str:
    """Return whether a sequence says which event came first, as SQL: those of `core.events.UNORDERED` do not."""
    return f"{sequence} NOT IN (0, {LOAD}, {READ})"


def lift_places(frame: DataFrame, restarts: Sequence[LogRestart]) -> DataFrame:
    """Add the offset of the newest restart of the source's log at or before a row to its place.

    It is `core.checks.log_restart.lift_place` as SQL.
    """
    if not restarts:
        return frame
    type_ = dict(frame.dtypes)[names.SEQUENCE]
    cases = " ".join(
        f"WHEN ({names.OBJECT}, {names.ROW}) >= ({r.order}L, {r.row}L)"
        f"{'' if r.end is None else f' AND {names.OBJECT} < {r.end}L'} THEN {r.offset}BD"
        for r in reversed(restarts)
    )
    offset = f"CASE {cases} END"
    start = f"CASE WHEN {names.SEQUENCE} = {READ} THEN -1BD ELSE {names.SEQUENCE} END"
    is_kept = f"{IS_LOAD} OR ({offset}) IS NULL"
    place = f"CASE WHEN {is_kept} THEN {names.SEQUENCE} ELSE {start} + {offset} END"
    return frame.withColumn(names.SEQUENCE, F.expr(f"CAST({place} AS {type_})"))


def with_ahead(frame: DataFrame, limit: int) -> DataFrame:
    """Flag the rows whose source time is later than `limit`, in microseconds since 1970."""
    return frame.withColumn(AHEAD, F.col(names.TIME) > F.lit(limit))


def steps_back(frame: DataFrame, found: Sequence[Group], dimension: Dimension) -> Mapping[int, int]:
    """Return the first row of each object whose sequence lies behind one before it, by more than it may.

    Objects in which all lies close enough are not looked at row by row.
    """
    tolerance, in_doubt = tolerance_of(dimension), may_step_back(found, dimension)
    if not in_doubt:
        return {}
    before = f"max({names.SEQUENCE}) OVER (PARTITION BY {names.OBJECT} ORDER BY {names.ROW} {ROWS_BEFORE})"
    rows = (
        frame.where(f"{names.OBJECT} IN ({', '.join(map(str, in_doubt))}) AND NOT {IS_LOAD}")
        .selectExpr(names.OBJECT, names.ROW, f"{before} - {names.SEQUENCE} > {tolerance} AS is_back")
        .where("is_back")
        .groupBy(names.OBJECT)
        .agg(F.min(names.ROW))
        .collect()
    )
    return {row[0]: row[1] for row in rows}


def may_step_back(found: Sequence[Group], dimension: Dimension) -> Sequence[int]:
    """Return the objects whose places lie further apart than a sequence may run backwards."""
    tolerance = tolerance_of(dimension)
    return [] if tolerance is None else [o for o, g in by_object(found).items() if _span(g) > tolerance]


ROWS_BEFORE: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
"""The rows of a window that stand before a row, as SQL."""


def _span(groups: Sequence[Group]) -> int:
    changes = [group for group in groups if group.least[0] != LOAD_SEQUENCE]
    if not changes:
        return 0
    return max(group.greatest[0] for group in changes) - min(group.least[0] for group in changes)


def by_object(found: Sequence[Group]) -> Mapping[int, Sequence[Group]]:
    """Return the groups of each object, by its order."""
    groups: dict[int, list[Group]] = defaultdict(list)
    for group in found:
        groups[group.object].append(group)
    return groups


def facts(
    found: Sequence[Group],
    dimension: Dimension,
    schema: Schema,
    objects: Sequence[SourceObject],
    epoch: int,
    *,
    may_need: frozenset[Capability] = frozenset(),
) -> BatchFacts:
    """Return what the core needs to know, from a `survey`; no time counts of rows flagged AHEAD or skipped."""
    groups = by_object(found)
    per_object = tuple(_object_facts(item, groups.get(item.order, []), epoch) for item in objects)
    bounds = [_bounds(alike, epoch) for alike in by_object(_placed(found)).values()]
    events = [group for group in found if group.reason is None]
    operations = _totals((group.operation, group.rows) for group in events)
    reasons = _totals((group.reason, group.rows) for group in found)
    return BatchFacts(
        schema=schema,
        objects=per_object,
        operations={kind: operations[kind.value] for kind in Operation if kind.value in operations},
        rejects={reason: reasons[reason.value] for reason in Reason if reason.value in reasons},
        skipped=reasons.get(SKIPPED, 0),
        least=min((least for least, _ in bounds), default=None),
        greatest=max((greatest for _, greatest in bounds), default=None),
        time=greatest_time(group for group in found if AHEAD not in group.flags and group.reason != SKIPPED),
        key_range=tuple(_key_range(events, index) for index in range(len(dimension.key))),
        needs=_needs(events),
        may_need=may_need,
        truncates=tuple(
            Position(epoch, sequence, group.object, row) for group in events for sequence, row in group.truncates
        ),
        databases=_totals((group.database, group.rows) for group in found),
    )


def _needs(events: Sequence[Group]) -> frozenset[Capability]:
    truncates = any(group.operation == Operation.TRUNCATE.value for group in events)
    found = {Capability.TRUNCATE} if truncates else set()
    return frozenset(found.union(*[group.needs for group in events]))


def _totals(counted: Iterable[tuple[str | None, int]]) -> Mapping[str, int]:
    totals: Counter[str] = Counter()
    for name, rows in counted:
        if name is not None:
            totals[name] += rows
    return totals


def _object_facts(item: SourceObject, groups: Sequence[Group], epoch: int) -> ObjectFacts:
    if not groups:
        return ObjectFacts(item, 0)
    unreadable = sum(group.rows for group in groups if group.reason == Reason.UNREADABLE.value)
    ahead = greatest_time(group for group in groups if AHEAD in group.flags and group.reason != SKIPPED)
    believed = [group for group in groups if AHEAD not in group.flags and group.reason != SKIPPED]
    return ObjectFacts(
        item,
        sum(group.rows for group in groups),
        *_bounds(_placed(groups), epoch),
        unreadable,
        ahead,
        earliest=min((group.earliest for group in believed if group.earliest is not None), default=None),
        latest=greatest_time(believed),
    )


def _placed(groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups that bound the others: those whose place is known, if there are any."""
    return [group for group in groups if group.has_place] or groups


def greatest_time(groups: Iterable[Group]) -> int | None:
    """Return the greatest source time of some groups, in microseconds since 1970 (None: none is known)."""
    return max((group.time for group in groups if group.time is not None), default=None)


def _bounds(groups: Sequence[Group], epoch: int) -> tuple[Position, Position]:
    """Return a position below all of an object, and one above: part by part, so perhaps of no event."""
    order = groups[0].object
    least = Position(epoch, min(g.least[0] for g in groups), order, min(g.least[1] for g in groups))
    most = Position(epoch, max(g.greatest[0] for g in groups), order, max(g.greatest[1] for g in groups))
    return least, most


def _key_range(events: Sequence[Group], index: int) -> tuple[object, object] | None:
    found = (group.key_bounds[index] for group in events)
    bounds = [bound for bound in found if bound is not None and bound[0] is not None]  # a truncate has no key
    return (min(least for least, _ in bounds), max(most for _, most in bounds)) if bounds else None
