"""The event frame of a batch: one row for each event or reject, in columns that sources and tables agree on.

In addition to the columns of the table it has

- `_lakeward_operation`: insert, update, delete, truncate or read; NULL if unknown;
- `_lakeward_sequence`, `_lakeward_object`, `_lakeward_row`: the position; its epoch is that of the plan;
- `_lakeward_arrival`: a number that orders the batch by arrival, below 2^60;
- `_lakeward_time`: source time in microseconds since 1970, NULL if unknown;
- `_lakeward_reason`: why the row cannot be applied (NULL if it can), or `skipped`;
- `_lakeward_detail`, `_lakeward_text`: of a reject, the explanation, and the source text.

A source that may send partial rows adds two or three columns (`BatchFacts.may_need`):

- `_lakeward_unset`: the names of the columns that were not sent (their cells are NULL);
- `_lakeward_old`: a struct of the old key if the key changed, else NULL;
- `_lakeward_transaction`: the name of the transaction, NULL if it has none.

A table whose rows match by their images adds

- `_lakeward_image`: for an update or a delete a struct of the row before it, NULL if that was not
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
"""Flag column: the source time is too far in the future to be believed."""

NO_PLACE: Final = "_lakeward_no_place"
"""Flag column: the message has no place in the log of its source, but should have one."""

INITIAL: Final = "_lakeward_initial"
"""Flag column: the row belongs to an initial snapshot, if messages say which snapshot they are of."""

IS_EVENT: Final = f"{names.REASON} IS NULL"
"""SQL: whether a row of the frame can be applied."""

LOAD: Final = f"({LOAD_SEQUENCE + 1}L - 1)"
"""SQL: the sequence of full-load rows. SQL has no literal for the least bigint."""

IS_LOAD: Final = f"({names.SEQUENCE} = {LOAD})"
"""SQL: whether a row of the frame is from a full load."""

LEAVES_VALUES: Final = f"{names.OPERATION} IN ('insert', 'update', 'read')"
"""SQL: whether a row of the frame has values to write."""

IS_REJECT: Final = f"{names.REASON} != '{SKIPPED}'"
"""SQL: whether a row of the frame belongs into quarantine."""

IS_HOLDING: Final = f"{names.REASON} IN ({', '.join(repr(r.value) for r in sorted(HOLDING, key=str))})"
"""SQL: whether a row of the frame holds its key."""


_UNPLACED: Final = frozenset({SKIPPED, *(reason.value for reason in UNPLACED)})


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one object that share operation, reason and flags: their number and bounds.

    `least` and `greatest` are sequence and row. `time` and `earliest` are the greatest and the least source time in
    microseconds since 1970. `log` names the log of the source and `database` its database, if rows have them.
    `key_bounds` has a pair for each key column whose bounds are cheap to compute, else None. `truncates` has
    sequence and row of each truncate.
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
        """Whether the rows have a known place in the order; a blank line has none."""
        return self.reason not in _UNPLACED or self.least[0] != LOAD_SEQUENCE


IS_TRUNCATE: Final = f"({IS_EVENT} AND {names.OPERATION} = '{Operation.TRUNCATE.value}')"
"""SQL: whether a row of the frame is a truncate."""

NEED_COLUMNS: Final = {Capability.UNSET: names.UNSET, Capability.KEY_CHANGE: names.OLD}
"""By capability, the column whose non-NULL values need it."""


KeyRange: TypeAlias = tuple[tuple[Any, Any] | None, ...]
"""The least and the greatest value of each key column, or None where computing them would take a sort."""


def range_of(keys: DataFrame, dimension: Dimension) -> KeyRange:
    """Return the range of some keys. They are not more than one batch has."""
    bounds = _key_bounds(dimension)
    aggregates = [
        F.expr(f"{of}({sql}) AS {of}_{n}") for n, sql in enumerate(bounds) if sql for of in ("min", "max")
    ]
    row: Mapping[str, Any] = keys.agg(*aggregates).collect()[0].asDict() if aggregates else {}
    ranges = [(row[f"min_{n}"], row[f"max_{n}"]) if sql else None for n, sql in enumerate(bounds)]
    return tuple(None if pair is None or pair[0] is None else pair for pair in ranges)


def count_operations(frame: DataFrame) -> Mapping[Operation, int]:
    """Return the number of events of each operation in a frame."""
    rows = frame.where(IS_EVENT).groupBy(names.OPERATION).count().collect()
    return {Operation(row[0]): row["count"] for row in rows}


LOG: Final = "_lakeward_log"
"""Column: the name of the source log that the place of a row is in; NULL if unknown."""

DATABASE: Final = "_lakeward_database"
"""Column: the connector of a row, and its database in addition to a schema, in lower case; NULL if unknown."""

NAME_COLUMNS: Final = (LOG, DATABASE)
"""Columns of names. Rows with different names are in different groups of a survey."""


def survey(frame: DataFrame, dimension: Dimension, *flags: str) -> Sequence[Group]:
    """Return the groups from which `facts` is computed, in one pass over the frame.

    `flags` are boolean columns; rows with different flags are in different groups.
    """
    need_columns = {need: name for need, name in NEED_COLUMNS.items() if name in frame.columns}
    bounds = _key_bounds(dimension)
    group_columns = (
        names.OBJECT,
        names.OPERATION,
        names.REASON,
        *flags,
        *(n for n in NAME_COLUMNS if n in frame.columns),
    )
    rows = frame.groupBy(*group_columns).agg(*map(F.expr, _aggregates(need_columns.values(), bounds))).collect()
    truncates = _truncates(frame) if any(map(is_truncate, rows)) else {}
    bounded = [bound is not None for bound in bounds]
    return groups_of([row.asDict() for row in rows], flags, need_columns, bounded, truncates)


def is_truncate(row: Any) -> bool:
    """Return whether a row of a survey counts truncates."""
    return row[names.OPERATION] == Operation.TRUNCATE.value and row[names.REASON] is None


def groups_of(
    rows: Iterable[Mapping[str, Any]],
    flags: Sequence[str],
    need_columns: Mapping[Capability, str],
    bounded: Sequence[bool],
    truncates: Mapping[int, tuple[tuple[int, int], ...]],
) -> Sequence[Group]:
    """Return the groups of a survey from rows with the columns that `survey` computes.

    `need_columns` names the column that shows a need. `bounded` says which key columns have bounds.
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
            needs=frozenset(need for need, name in need_columns.items() if row[name]),
            truncates=truncates[row[names.OBJECT]] if is_truncate(row) else (),
            database=row.get(DATABASE),
        )
        for row in rows
    ]


def _key_bounds(dimension: Dimension) -> Sequence[str | None]:
    """Return SQL for the bounded value of each key column; None if its type makes bounds expensive."""
    columns = [(name, dimension.schema.find(name)) for name in dimension.key]
    return [None if key is None else bound_of(quoted(name), key.type) for name, key in columns]


def _aggregates(need_columns: Iterable[str], bounds: Sequence[str | None]) -> Sequence[str]:
    """Return the aggregates of `survey`, as SQL with column names."""
    aggregates = ["count(*) AS rows", f"max({names.TIME}) AS time", f"min({names.TIME}) AS earliest"]
    for place in (names.SEQUENCE, names.ROW):
        aggregates += [f"min({place}) AS least{place}", f"max({place}) AS most{place}"]
    aggregates += [f"count({name}) AS {name}" for name in need_columns]
    for index, bound in enumerate(bounds):
        if bound is not None:
            aggregates += [f"min({bound}) AS key_least_{index}", f"max({bound}) AS key_most_{index}"]
    return aggregates


def _truncates(frame: DataFrame) -> Mapping[int, tuple[tuple[int, int], ...]]:
    """Return sequence and row of the truncates of each object."""
    truncates: dict[int, tuple[tuple[int, int], ...]] = defaultdict(tuple)
    for row in frame.where(IS_TRUNCATE).select(names.OBJECT, names.SEQUENCE, names.ROW).collect():
        truncates[row[names.OBJECT]] += ((int(row[names.SEQUENCE]), row[names.ROW]),)
    return truncates


READ: Final = f"({READ_SEQUENCE}L)"
"""SQL: the sequence of a snapshot row without a place in the log of its source."""


def has_order(sequence: str = names.SEQUENCE) -> str:
    """Return SQL for whether a sequence orders its event. The sequences of `core.events.UNORDERED` do not."""
    return f"{sequence} NOT IN (0, {LOAD}, {READ})"


def lift_places(frame: DataFrame, restarts: Sequence[LogRestart]) -> DataFrame:
    """Add to the place of each row the offset of the newest restart of the source log at or before it.

    This is `core.checks.log_restart.lift_place` as SQL.
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


def steps_back(frame: DataFrame, groups: Sequence[Group], dimension: Dimension) -> Mapping[int, int]:
    """Return for each object the first row whose sequence lies further behind an earlier row than allowed.

    Objects whose sequences all lie within the tolerance are not read row by row.
    """
    tolerance, objects = tolerance_of(dimension), may_step_back(groups, dimension)
    if not objects:
        return {}
    before = f"max({names.SEQUENCE}) OVER (PARTITION BY {names.OBJECT} ORDER BY {names.ROW} {ROWS_BEFORE})"
    rows = (
        frame.where(f"{names.OBJECT} IN ({', '.join(map(str, objects))}) AND NOT {IS_LOAD}")
        .selectExpr(names.OBJECT, names.ROW, f"{before} - {names.SEQUENCE} > {tolerance} AS is_back")
        .where("is_back")
        .groupBy(names.OBJECT)
        .agg(F.min(names.ROW))
        .collect()
    )
    return {row[0]: row[1] for row in rows}


def may_step_back(groups: Sequence[Group], dimension: Dimension) -> Sequence[int]:
    """Return the objects whose sequences span more than the tolerance."""
    tolerance = tolerance_of(dimension)
    return [] if tolerance is None else [o for o, g in by_object(groups).items() if _span(g) > tolerance]


ROWS_BEFORE: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
"""SQL: the window frame of all rows before the current row."""


def _span(groups: Sequence[Group]) -> int:
    changes = [group for group in groups if group.least[0] != LOAD_SEQUENCE]
    if not changes:
        return 0
    return max(group.greatest[0] for group in changes) - min(group.least[0] for group in changes)


def by_object(groups: Sequence[Group]) -> Mapping[int, Sequence[Group]]:
    """Return the groups of each object, by its order."""
    groups_of_objects: dict[int, list[Group]] = defaultdict(list)
    for group in groups:
        groups_of_objects[group.object].append(group)
    return groups_of_objects


def facts(
    groups: Sequence[Group],
    dimension: Dimension,
    schema: Schema,
    objects: Sequence[SourceObject],
    epoch: int,
    *,
    may_need: frozenset[Capability] = frozenset(),
) -> BatchFacts:
    """Return the batch facts that the core needs, computed from a `survey`.

    Source times of rows that are skipped, or flagged `AHEAD`, are ignored.
    """
    groups_of_objects = by_object(groups)
    object_facts = tuple(_object_facts(item, groups_of_objects.get(item.order, []), epoch) for item in objects)
    bounds = [_bounds(object_groups, epoch) for object_groups in by_object(_with_place(groups)).values()]
    events = [group for group in groups if group.reason is None]
    operations = _totals((group.operation, group.rows) for group in events)
    reasons = _totals((group.reason, group.rows) for group in groups)
    return BatchFacts(
        schema=schema,
        objects=object_facts,
        operations={kind: operations[kind.value] for kind in Operation if kind.value in operations},
        rejects={reason: reasons[reason.value] for reason in Reason if reason.value in reasons},
        skipped=reasons.get(SKIPPED, 0),
        least=min((least for least, _ in bounds), default=None),
        greatest=max((greatest for _, greatest in bounds), default=None),
        time=greatest_time(group for group in groups if AHEAD not in group.flags and group.reason != SKIPPED),
        key_range=tuple(_key_range(events, index) for index in range(len(dimension.key))),
        needs=_needs(events),
        may_need=may_need,
        truncates=tuple(
            Position(epoch, sequence, group.object, row) for group in events for sequence, row in group.truncates
        ),
        databases=_totals((group.database, group.rows) for group in groups),
    )


def _needs(events: Sequence[Group]) -> frozenset[Capability]:
    truncates = any(group.operation == Operation.TRUNCATE.value for group in events)
    needs = {Capability.TRUNCATE} if truncates else set()
    return frozenset(needs.union(*[group.needs for group in events]))


def _totals(counts: Iterable[tuple[str | None, int]]) -> Mapping[str, int]:
    totals: Counter[str] = Counter()
    for name, rows in counts:
        if name is not None:
            totals[name] += rows
    return totals


def _object_facts(item: SourceObject, groups: Sequence[Group], epoch: int) -> ObjectFacts:
    if not groups:
        return ObjectFacts(item, 0)
    unreadable = sum(group.rows for group in groups if group.reason == Reason.UNREADABLE.value)
    ahead = greatest_time(group for group in groups if AHEAD in group.flags and group.reason != SKIPPED)
    believable = [group for group in groups if AHEAD not in group.flags and group.reason != SKIPPED]
    return ObjectFacts(
        item,
        sum(group.rows for group in groups),
        *_bounds(_with_place(groups), epoch),
        unreadable,
        ahead,
        earliest=min((group.earliest for group in believable if group.earliest is not None), default=None),
        latest=greatest_time(believable),
    )


def _with_place(groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups with a known place, or all groups if there are none."""
    return [group for group in groups if group.has_place] or groups


def greatest_time(groups: Iterable[Group]) -> int | None:
    """Return the greatest source time of some groups, in microseconds since 1970; None if none is known."""
    return max((group.time for group in groups if group.time is not None), default=None)


def _bounds(groups: Sequence[Group], epoch: int) -> tuple[Position, Position]:
    """Return a lower and an upper bound of the positions of an object.

    Each part is bounded on its own, so a bound may be the position of no event.
    """
    order = groups[0].object
    least = Position(epoch, min(g.least[0] for g in groups), order, min(g.least[1] for g in groups))
    greatest = Position(epoch, max(g.greatest[0] for g in groups), order, max(g.greatest[1] for g in groups))
    return least, greatest


def _key_range(events: Sequence[Group], index: int) -> tuple[object, object] | None:
    key_bounds = (group.key_bounds[index] for group in events)
    bounds = [bound for bound in key_bounds if bound is not None and bound[0] is not None]  # a truncate has no key
    return (min(least for least, _ in bounds), max(most for _, most in bounds)) if bounds else None
