"""Find changes of a batch that step back in the log of their source, with Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.event_frame import (
    AHEAD,
    INITIAL,
    IS_EVENT,
    LOAD,
    LOG,
    NO_PLACE,
    READ,
    ROWS_BEFORE,
    SKIPPED,
    Group,
    by_object,
    greatest_time,
    has_order,
)
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.adapters.spark.sql.names import text
from lakeward.core.checks.log_steps import (
    FOLLOWS,
    LEAST_GAP,
    OPEN_FOR,
    OVERLAP,
    LogName,
    LogReached,
    LogSpan,
    LogStep,
    LogSteps,
    SnapshotPlace,
)
from lakeward.core.events import LOAD_SEQUENCE, NO_SEQUENCE, UNORDERED, Operation


def spans(groups: Sequence[Group]) -> tuple[LogSpan, ...]:
    """Return the changes of one object by log, and its snapshot rows, ordered by their first rows.

    Changes without a place are separate from those with one. A row with neither operation nor place may be a
    change. Rows that cannot be applied count as changes if all rows like them have a place: a log may begin with
    one.
    """
    groups_of_logs: dict[tuple[LogName, bool, bool, bool], list[Group]] = defaultdict(list)
    for group in groups:
        if _is_of_log(group):
            has_places = NO_PLACE not in group.flags and group.greatest[0] not in UNORDERED
            is_read = group.operation == Operation.READ.value and group.greatest[0] != NO_SEQUENCE
            is_initial = INITIAL in group.flags
            groups_of_logs[LogName.of(group.log), is_read, has_places, is_initial].append(group)
    return tuple(
        sorted(
            (_log_span(*kind, groups_of_log) for kind, groups_of_log in groups_of_logs.items()),
            key=lambda span: span.row,
        )
    )


def _is_of_log(group: Group) -> bool:
    if group.reason is not None:
        return group.reason != SKIPPED and group.least[0] not in UNORDERED
    return group.operation is not None and group.least[0] != LOAD_SEQUENCE


def _log_span(log: LogName, of_reads: bool, has_places: bool, is_initial: bool, groups: Sequence[Group]) -> LogSpan:
    believable = [group for group in groups if AHEAD not in group.flags]
    return LogSpan(
        log,
        row=min(group.least[1] for group in groups),
        least=min(group.least[0] for group in groups),
        greatest=max(group.greatest[0] for group in groups),
        earliest=min((group.earliest for group in believable if group.earliest is not None), default=None),
        latest=greatest_time(believable),
        of_reads=of_reads,
        has_places=has_places,
        is_initial=is_initial,
    )


def log_steps(frame: DataFrame, groups: Sequence[Group], reached: LogReached) -> Mapping[int, LogSteps]:
    """Compare the changes of each object row by row with the source log, from where the table has `reached`.

    This is `core.checks.log_steps.find_steps` as SQL. Objects in which nothing can step back are not read.
    """
    before = before_steps(groups, reached)
    if not before:
        return {}
    flags = (AHEAD, NO_PLACE, INITIAL)
    columns = {name: f"coalesce({name}, false)" if name in frame.columns else "false" for name in flags}
    log = LOG if LOG in frame.columns else "CAST(NULL AS string)"
    is_change = f"CASE WHEN {IS_EVENT} THEN {names.OPERATION} IS NOT NULL ELSE {has_order()} END"
    is_truncate = f"{names.OPERATION} <=> '{Operation.TRUNCATE.value}'"
    changes = frame.where(f"{is_change} AND {names.SEQUENCE} NOT IN ({LOAD}, {READ})").selectExpr(
        f"{names.OBJECT} AS object",
        f"{names.ROW} AS row",
        f"{names.SEQUENCE} AS place",
        f"CASE WHEN NOT {columns[AHEAD]} THEN {names.TIME} END AS time",
        f"{log} AS log",
        f"coalesce(startswith({log}, '{OVERLAP}'), false) AND NOT {is_truncate} AS overlaps",
        f"coalesce(startswith({log}, '{FOLLOWS}'), false) AS follows",
        f"NOT {columns[NO_PLACE]} AND {has_order()} AS has_place",
        f"{names.OPERATION} <=> '{Operation.READ.value}' AND {names.SEQUENCE} != {NO_SEQUENCE} AS is_read",
        f"{columns[INITIAL]} AS is_initial",
    )
    types = {"object": "bigint", **dict.fromkeys(("lowest", "highest", "lowest_of_table"), "decimal(38,0)")}
    types |= {"latest": "bigint", "latest_read": "bigint", "snapshot": "decimal(38,0)", "snapshot_time": "bigint"}
    types["has_begun"] = "boolean"
    starts = [
        (o, r.lowest, r.highest, reached.of(o).lowest, r.time, r.read_time, *_parts(r.snapshot), r.has_begun)
        for o, r in before.items()
    ]
    compared = changes.join(F.broadcast(inline(frame.sparkSession, types, starts)), "object")
    rows = _with_steps(compared, _of_other_servers(groups, before)).collect()
    return {row["object"]: LogSteps(_step(row["sure"]), _step(row["likely"])) for row in rows}


def _parts(place: SnapshotPlace | None) -> tuple[int | None, int | None]:
    return (None, None) if place is None else place


def _with_steps(compared: DataFrame, is_other: str) -> DataFrame:
    """Return the steps of each object; `is_other` is SQL for whether a row is from a server not seen before."""
    over = f"OVER (PARTITION BY object ORDER BY row {ROWS_BEFORE})"
    lowest = f"least(lowest, min(CASE WHEN has_place AND NOT is_read THEN place END) {over})"
    latest = f"max(CASE WHEN NOT is_read THEN time END) {over}"
    newest = f"greatest(latest, latest_read, max(time) {over})"
    # The highest place comes first, and of that the earliest time.
    begins = f"is_read AND NOT has_begun AND coalesce(min(is_read) {over}, true)"
    is_first = f"(is_initial OR ({begins})) AND has_place AND time IS NOT NULL"
    snapshot_step = "CASE WHEN snapshot IS NOT NULL THEN struct(-snapshot AS below, snapshot_time AS time) END"
    snapshot = f"least({snapshot_step}, min(CASE WHEN is_first THEN struct(-place AS below, time) END) {over})"
    running = compared.selectExpr("*", f"{is_first} AS is_first").selectExpr(
        *("object", "row", "place", "time", "log", "has_place", "is_read"),
        "overlaps AND has_place AND NOT is_read AS overlaps",
        "follows AND has_place AS follows",
        f"NOT has_place OR {is_other} AS is_other",
        f"coalesce(place < greatest(highest, max(CASE WHEN NOT is_read THEN place END) {over}), false) AS is_lower",
        "coalesce(place < lowest_of_table, false) AS is_lowest",
        f"coalesce(time - greatest(latest, {latest}) >= {LEAST_GAP}, false) AS is_newer",
        f"{snapshot} AS snapshot",
        f"is_initial AND has_place AND place > {lowest} AND time - {newest} >= {LEAST_GAP} AS is_new_snapshot",
    )
    is_behind = f"(overlaps AND time >= snapshot.time - {OPEN_FOR}) OR "
    is_behind += f"(follows AND time >= snapshot.time + {LEAST_GAP})"
    was_open = f"coalesce(place < -snapshot.below AND ({is_behind}), false)"
    is_sure = f"{was_open} OR (is_lower AND (is_other OR (is_newer AND (is_lowest OR NOT overlaps))))"
    is_sure = f"CASE WHEN is_read THEN is_lower AND is_newer AND is_new_snapshot ELSE {is_sure} END"
    step, likely = (f"struct(row, log, has_place, is_read, {of} AS was_open)" for of in (was_open, "false"))
    return (
        running.groupBy("object")
        .agg(
            F.expr(f"min(CASE WHEN {is_sure} THEN {step} END) AS sure"),
            F.expr(f"min(CASE WHEN overlaps AND is_lower AND is_newer THEN {likely} END) AS likely"),
        )
        .where("sure IS NOT NULL OR likely IS NOT NULL")
    )


def _step(row: Row | None) -> LogStep | None:
    if row is None:
        return None
    return LogStep(row["row"], LogName.of(row["log"]), row["has_place"], row["is_read"], row["was_open"])


def before_steps(groups_of_objects: Sequence[Group], reached: LogReached) -> Mapping[int, LogReached]:
    """Return how far a table, or the partition, is before each object in which a change may step back."""
    before: dict[int, LogReached] = {}
    for item, groups in sorted(by_object(groups_of_objects).items()):
        of_item, compared = spans(groups), reached.of(item)
        after = reduce(LogReached.with_span, of_item, compared)
        if any(_may_step(span, after) for span in of_item):
            before[item] = compared
        for span in of_item:
            reached = reached.after(item, span)
    return before


def _may_step(span: LogSpan, after: LogReached) -> bool:
    """Return whether a change, or a row of an initial snapshot, lies below another.

    `after` is how far the table, or the partition, is after its object.
    """
    is_lower = after.highest is not None and span.least < after.highest
    is_below_snapshot = after.snapshot is not None and span.least < after.snapshot.place
    return (is_lower or is_below_snapshot) and (span.is_initial or not span.of_reads)


def _of_other_servers(groups: Sequence[Group], before: Mapping[int, LogReached]) -> str:
    """Return SQL for whether a change is from a server that was not seen before its object."""
    logs = {(group.object, group.log) for group in groups if group.log is not None and group.object in before}
    others = [(item, log) for item, log in logs if before[item].is_other_server(LogName.of(log))]
    listed = " OR ".join(f"(object = {item}L AND log = {text(log)})" for item, log in sorted(others))
    return f"coalesce({listed}, false)" if listed else "false"
