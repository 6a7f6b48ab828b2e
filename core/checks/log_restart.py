"""Detect a source log that starts over: a failover, a restore, a new slot, another server.

A log position orders the changes of a table. After a restart the log counts from elsewhere: a change that is newer
by time and by arrival has a lower position, and would be dropped as stale. Such a batch stops its table before a
commit (semantics 2.5). An operator who acknowledges the alarm begins a new epoch of the log at that row: from there
on an offset is added to each position, so that it is above all positions of the old log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Self

from lakeward.core.checks.log_steps import LogReached, LogSpan, LogStep, LogSteps
from lakeward.core.events import LOAD_SEQUENCE, READ_SEQUENCE, Position

LOG_ALARM: Final = "SEQUENCE-002"
"""The code of the alarm for a log that starts over."""

_LOWER: Final = "is newer by its time than all before it, and its place in the log is lower"
_READ: Final = (
    "is of an initial snapshot that is newer by its time than all before it, and its place in the log is lower"
)
_FIRST_READ: Final = "is of a snapshot that is newer by its time than all before it, and its place is lower"
_STALE: Final = f"{_LOWER}, and changes are stale"
_REGRESSION: Final = (
    "is the first of changes that are newer than what came of their rows before, and lower in the log"
)
_OPEN: Final = (
    "lies below the initial snapshot before it, which cannot have seen it (its transaction was open then, or began "
    "later, and where that committed is not told)"
)
_NO_PLACE: Final = "tells no place in the log, and what came before it does"
_NEW_PARTITION: Final = "is the first of a partition since the log started over in others, and its place is lower"


class ObjectSpans(NamedTuple):
    """The spans of one object, and the rows that step back in the log."""

    name: str
    order: int
    spans: Sequence[LogSpan]
    steps: LogSteps = LogSteps()


class LogRestart(NamedTuple):
    """A row at which the log starts over, and the offset that raises its positions above those of the old log.

    It is for that row and all behind it. Where the object is of a partition of a topic, it is for rows before the
    order `end`: each partition switches to the new log at a row of its own.
    """

    order: int
    row: int
    offset: int
    end: int | None = None

    @classmethod
    def of(cls, about: str) -> Self:
        """Return the restart that an operator acknowledged: `name order row offset`, with `<end` in a partition.

        >>> LogRestart.of("a b.json 7 1 900001")
        LogRestart(order=7, row=1, offset=900001, end=None)
        """
        *numbers, offset = about.rsplit(" ", 3)[1:]
        offset, _, end = offset.partition("<")
        order, row = map(int, numbers)
        return cls(order, row, int(offset), int(end) if end else None)

    def is_at_or_before(self, position: Position) -> bool:
        """Return True if the restart applies to the row at a position."""
        has_begun = (self.order, self.row) <= (position.object, position.row)
        return has_begun and (self.end is None or position.object < self.end)

    @classmethod
    def all_of(cls, acked: Iterable[str]) -> tuple[Self, ...]:
        """Return all acknowledged restarts in the order of their rows."""
        return tuple(sorted(map(cls.of, acked)))


class FoundRestart(NamedTuple):
    """A restart that no operator has acknowledged, with its object and, in words, what shows it.

    With `was_open` the log did not start over: the change is of a transaction that an initial snapshot did not see.
    """

    object: str
    restart: LogRestart
    why: str
    was_open: bool = False

    @property
    def about(self) -> str:
        """What an operator acknowledges, in the form that `LogRestart.of` reads."""
        _, _, offset, end = self.restart
        lifts = offset if end is None else f"{offset}<{end}"
        return f"{self.object} {self.restart.order} {self.restart.row} {lifts}"


def lift_place(position: Position, restarts: Sequence[LogRestart]) -> Position:
    """Return a position raised by the offset of the newest restart at or before its row.

    Rows of a full load have no log position and stay as they are.

    >>> lift_place(Position(1, 5, 8, 3), [LogRestart(8, 1, 100)]).sequence
    105
    """
    offsets = [restart.offset for restart in restarts if restart.is_at_or_before(position)]
    if not offsets or position.sequence == LOAD_SEQUENCE:
        return position
    sequence = -1 if position.sequence == READ_SEQUENCE else position.sequence  # below the changes of the new log
    return position._replace(sequence=sequence + offsets[-1])


def find_restarts(
    objects: Iterable[ObjectSpans], reached: LogReached, acked: Collection[LogRestart]
) -> Sequence[FoundRestart]:
    """Return the first row at which the log starts over, one for each partition of a topic in which it does.

    Rows are compared with what the table has `reached`. Positions are raised already, so a row in `acked` does not
    step back any more, but its log may still have another name. Rows of a snapshot right before the first change of
    the new log, newer and lower than all others, are of the new log as well; so are such rows of other partitions,
    once a restart is found in one.
    """
    reads: dict[int | None, _FirstRow] = {}
    restarts: dict[int | None, _FirstRow] = {}
    table = reached
    for item in objects:
        end = reached.ends.get(item.order)
        if end in restarts:
            continue
        rows = _rows_of_new_partition(item, table, acked) if reached.is_new(item.order) else ()
        first = min((*rows, *_rows_of_restart(item, reached.of(item.order), acked)), default=None)
        for span in sorted(item.spans, key=lambda span: span.row):
            if first is None or span.row < first[0]:
                _note_first_reads(reads, item, span, reached)
            reached = reached.after(item.order, span)
        if first is not None:
            restarts[end] = reads.get(end) or _FirstRow(item, *first)
        if None in restarts:
            break
    first_rows = {**reads, **restarts}.values() if restarts else ()
    return sorted((_restart_at(row, reached, acked) for row in first_rows), key=lambda restart: restart.restart)


class _FirstRow(NamedTuple):
    """The first row of a new log, and, in words, what shows it."""

    item: ObjectSpans
    row: int
    why: str


def _rows_of_restart(
    item: ObjectSpans, before: LogReached, acked: Collection[LogRestart]
) -> Iterator[tuple[int, str]]:
    """Yield the rows of an object at which the log may start over, and what shows it.

    `before` is how far its partition, or the table, is before it.
    """
    acknowledged_places = {(restart.order, restart.row) for restart in acked}
    if item.steps.sure is not None:
        yield item.steps.sure.row, _why(item.steps.sure, before)
    for span in sorted(item.spans, key=lambda span: span.row):
        why = _other_log(span, before)
        if why is not None and (item.order, span.row) not in acknowledged_places:
            yield span.row, why
        before = before.with_span(span)


def _rows_of_new_partition(
    item: ObjectSpans, table: LogReached, acked: Collection[LogRestart]
) -> Iterator[tuple[int, str]]:
    """Yield the first row of a partition that begins with a new log, and what shows it.

    Its keys may have been in other partitions, so it is compared with the `table` before the batch. Where other
    partitions switched to a new log, lower positions may be of that one, whatever their times.
    """
    ends = {restart.end for restart in acked}
    first, highest = min((span.row for span in item.spans), default=0), table.highest or 0
    if table.ends[item.order] in ends:
        return
    for span in item.spans:
        why = _other_log(span, table)
        if why is not None:
            yield first, why
        if span.of_reads or span.least >= highest:
            continue
        is_newer = table.is_newer(span.earliest) and (not span.log.overlap or span.least < (table.lowest or 0))
        if is_newer or not span.has_places or table.is_other_server(span.log):
            yield first, _why(LogStep(span.row, span.log, span.has_places), table)
        elif ends - {None}:
            yield first, _NEW_PARTITION


def find_suspects(objects: Iterable[ObjectSpans], reached: LogReached) -> frozenset[int]:
    """Return the orders of objects whose changes may be of a new log, though no time or position alone shows it.

    They have changes below earlier ones of the table or partition, in a log in which transactions overlap.
    """
    suspects: set[int] = set()
    for item in objects:
        is_new = reached.is_new(item.order)  # its keys may have been in other partitions
        highest = (reached if is_new else reached.of(item.order)).highest
        for span in sorted(item.spans, key=lambda span: span.row):
            is_lower = item.steps.likely is not None or (highest is not None and span.least < highest)
            if span.log.overlap and not span.of_reads and is_lower:
                suspects.add(item.order)
            reached = reached.after(item.order, span)
    return frozenset(suspects)


def find_likely_restart(
    objects: Sequence[ObjectSpans],
    reached: LogReached,
    acked: Collection[LogRestart],
    *,
    regressions: Mapping[int, int],
    has_stale: bool,
) -> FoundRestart | None:
    """Return the first row at which the log may start over, or None.

    In one log the changes of a row come in order: a newer change of a row never has a lower position. `regressions`
    has the first row that breaks this, by the order of its object. Rows of snapshots that are newer and lower than
    all others may be the first that a new slot sends, if the batch `has_stale` changes.
    """
    for item in objects:
        before, row = reached.of(item.order), regressions.get(item.order)
        if row is not None and item.steps.likely is not None:
            row = min(row, item.steps.likely.row)
        for span in sorted(item.spans, key=lambda span: span.row):
            if row is None and has_stale and _may_begin_a_log(span, before):
                return _restart_at(_FirstRow(item, span.row, _STALE), reached, acked)
            if row is None or span.row < row:
                reached = reached.after(item.order, span)
        if row is not None:
            return _restart_at(_FirstRow(item, row, _REGRESSION), reached, acked)
    return None


def _note_first_reads(
    reads: dict[int | None, _FirstRow], item: ObjectSpans, span: LogSpan, reached: LogReached
) -> None:
    """Note where rows of a snapshot begin that may be of a new log, until a change of their partition comes."""
    end = reached.ends.get(item.order)
    if not span.of_reads:
        reads.pop(end, None)
    elif end not in reads and _may_begin_a_log(span, reached.of(item.order)):
        reads[end] = _FirstRow(item, span.row, _READ if span.is_initial else _FIRST_READ)


def _may_begin_a_log(span: LogSpan, reached: LogReached) -> bool:
    """Return True if rows of a snapshot are newer and lower than all rows before them."""
    is_lowest = reached.lowest is not None and 0 < span.greatest < reached.lowest
    return span.of_reads and is_lowest and reached.is_newer(span.earliest)


def _restart_at(first: _FirstRow, reached: LogReached, acked: Collection[LogRestart]) -> FoundRestart:
    """Return the restart that a row shows."""
    order = first.item.order
    end = reached.ends.get(order)
    restart = LogRestart(order, first.row, _offset(end, reached, acked), end)
    return FoundRestart(first.item.name, restart, first.why, was_open=first.why == _OPEN)


def _offset(end: int | None, reached: LogReached, acked: Collection[LogRestart]) -> int:
    """Return the offset that raises the positions of the new log above those of the old one.

    Partitions switch to a new log one after the other, and all get the same offset: it leaves room for as much of
    the old log as there was, which may still come in partitions that lag.
    """
    snapshot = 0 if reached.snapshot is None else reached.snapshot.place
    above_old_log = max(reached.highest or 0, snapshot) + 2  # a snapshot row without a place gets one below it
    if end is None:
        return above_old_log
    newest_offset = max((restart.offset for restart in acked), default=0)
    partition_offset = max((restart.offset for restart in acked if restart.end in {None, end}), default=0)
    partition = reached.partitions.get(end, reached)
    return (
        newest_offset
        if partition_offset < newest_offset and (partition.highest or 0) < newest_offset
        else 2 * above_old_log
    )


def _why(step: LogStep, before: LogReached) -> str:
    """Return in words what shows that a row is of another log than those before its object."""
    if step.is_read:
        return _READ
    if step.was_open:
        return _OPEN
    if not step.has_place:
        return _NO_PLACE
    if before.is_other_server(step.log):
        servers = ", ".join(before.servers)
        return f"is of the server {step.log.server}, not {servers}, and its place in the log is lower"
    return _LOWER


def _other_log(span: LogSpan, reached: LogReached) -> str | None:
    """Return in words that changes are of a log with another name, or None."""
    bases = sorted({log.base for log in reached.logs if log.base})
    if not span.log.base or not bases or span.log.base in bases:
        return None
    return f"is of the log {span.log.base!r}, and what came before it of {', '.join(map(repr, bases))}"
