"""Detection of a source log that starts over: a failover, a restore, a new slot, another server.

A place in a log orders the changes of a table. After a restart the log counts from elsewhere: a change that is
newer by time and by arrival has a lower place, and would be dropped as stale. Such a batch stops its table before
a commit (semantics 2.5). An operator who lets the alarm pass begins a new epoch of the log at that row: from there
on an offset is added to each place, so that it counts above all places of the old log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Self

from lakeward.core.events import LOAD_SEQUENCE, READ_SEQUENCE, Position
from lakeward.core.log_steps import LogReached, LogSpan, LogStep, LogSteps

LOG_ALARM: Final = "SEQUENCE-002"
"""The alarm of a log that starts over."""

_LOWER: Final = "is newer by its time than all before it, and its place in the log is lower"
_READ: Final = (
    "is of an initial snapshot that is newer by its time than all before it, and its place in the log is lower"
)
_STALE: Final = f"{_LOWER}, and changes are stale"
_NO_PLACE: Final = "tells no place in the log, and what came before it does"


class ObjectSpans(NamedTuple):
    """The spans of one object, and the rows that step back in the log."""

    name: str
    order: int
    spans: Sequence[LogSpan]
    steps: LogSteps = LogSteps()


class LogRestart(NamedTuple):
    """A row at which the log starts over, and the offset that lifts its places above those of the old log."""

    order: int
    row: int
    offset: int

    @classmethod
    def of(cls, about: str) -> Self:
        """Read what an operator let pass: `name order row offset`.

        >>> LogRestart.of("a b.json 7 1 900001")
        LogRestart(order=7, row=1, offset=900001)
        """
        return cls(*map(int, about.rsplit(" ", 3)[1:]))

    @classmethod
    def all_of(cls, acked: Iterable[str]) -> tuple[Self, ...]:
        """Return all that operators let pass, in the order of their places."""
        return tuple(sorted(map(cls.of, acked)))


class FoundRestart(NamedTuple):
    """A restart that no operator has decided about, with the object and what shows it, in words."""

    object: str
    restart: LogRestart
    why: str

    @property
    def about(self) -> str:
        """What an operator lets pass, as `LogRestart.of` reads it."""
        return f"{self.object} {self.restart.order} {self.restart.row} {self.restart.offset}"


def lift_place(position: Position, restarts: Sequence[LogRestart]) -> Position:
    """Return a position with the offset of the newest restart at or before its row; a full load has no place.

    >>> lift_place(Position(1, 5, 8, 3), [LogRestart(8, 1, 100)]).sequence
    105
    """
    offsets = [r.offset for r in restarts if (r.order, r.row) <= (position.object, position.row)]
    if not offsets or position.sequence == LOAD_SEQUENCE:
        return position
    sequence = -1 if position.sequence == READ_SEQUENCE else position.sequence  # below the changes of the new log
    return position._replace(sequence=sequence + offsets[-1])


def find_restart(
    objects: Iterable[ObjectSpans], reached: LogReached, acked: Collection[LogRestart]
) -> FoundRestart | None:
    """Return the first row at which the log starts over against what the table has `reached`, or None.

    Places are lifted already: a row in `acked` steps back no more. Its log has another name still. Rows of a
    snapshot that come right before the first change of the new log, newer and lower than all, are of it as well.
    """
    decided = {(restart.order, restart.row) for restart in acked}
    reads: tuple[ObjectSpans, int] | None = None
    for item in objects:
        found = [] if item.steps.sure is None else [(item.steps.sure.row, _why(item.steps.sure, reached))]
        for span in sorted(item.spans, key=lambda span: span.row):
            why = _other_log(span, reached)
            if why is not None and (item.order, span.row) not in decided:
                found.append((span.row, why))
            if not found or span.row < min(found)[0]:
                reads = _first_reads(reads, item, span, reached)
            reached = reached.after(span)
        if found and reads is not None:
            return _found(*reads, _READ, reached)
        if found:
            return _found(item, *min(found), reached)
    return None


def find_likely_restart(
    objects: Sequence[ObjectSpans], reached: LogReached, *, repeated: int, events: int
) -> FoundRestart | None:
    """Return the first row at which the log may start over, of a batch that has stale changes, or None.

    Of one log the changes of a row come in order, so none that is newer than all that the table has is stale or a
    duplicate. `repeated` is how many of the batch are, `events` how many it has. Where more are repeated than there
    are older ones, a change that is newer is stale: its log has started over if transactions overlap in it, and
    otherwise it is found by `find_restart`. Rows of snapshots that are newer than all, and lower than all, may be
    the first that a new slot sends.
    """
    is_stale = repeated > events - sum(item.steps.newer for item in objects)
    for item in objects:
        before = reached
        if is_stale and item.steps.likely is not None:
            return _found(item, item.steps.likely.row, _STALE, reached)
        for span in sorted(item.spans, key=lambda span: span.row):
            if _may_begin_a_log(span, before):
                return _found(item, span.row, _STALE, reached)
            reached = reached.after(span)
    return None


def _first_reads(
    known: tuple[ObjectSpans, int] | None, item: ObjectSpans, span: LogSpan, reached: LogReached
) -> tuple[ObjectSpans, int] | None:
    """Return where rows of a snapshot begin that may be of a new log, and that no change has come behind."""
    if not span.of_reads:
        return None
    return (item, span.row) if known is None and _may_begin_a_log(span, reached) else known


def _may_begin_a_log(span: LogSpan, reached: LogReached) -> bool:
    """Whether rows of a snapshot are newer than all that came before them, and lower."""
    is_lowest = reached.lowest is not None and 0 < span.greatest < reached.lowest
    return span.of_reads and is_lowest and reached.is_newer(span.earliest)


def _found(item: ObjectSpans, row: int, why: str, reached: LogReached) -> FoundRestart:
    offset = (reached.highest or 0) + 2  # a snapshot row without a place is lifted to one below it
    return FoundRestart(item.name, LogRestart(item.order, row, offset), why)


def _why(step: LogStep, before: LogReached) -> str:
    """Say what shows that a row is of another log than those before its object."""
    if step.is_read:
        return _READ
    if not step.has_place:
        return _NO_PLACE
    if before.is_other_server(step.log):
        servers = ", ".join(before.servers)
        return f"is of the server {step.log.server}, not {servers}, and its place in the log is lower"
    return _LOWER


def _other_log(span: LogSpan, reached: LogReached) -> str | None:
    """Say that changes are of a log by another name."""
    bases = sorted({log.base for log in reached.logs if log.base})
    if not span.log.base or not bases or span.log.base in bases:
        return None
    return f"is of the log {span.log.base!r}, and what came before it of {', '.join(map(repr, bases))}"
