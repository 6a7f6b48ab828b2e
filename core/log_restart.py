"""Detection of a source log that starts over: a failover, a restore, a new slot, another server.

A place in a log orders the changes of a table. After a restart the log counts from elsewhere: a change that is
newer by time and by arrival has a lower place, and would be dropped as stale. Such a batch stops its table before
a commit (semantics 2.5). An operator who lets the alarm pass begins a new epoch of the log at that row: from there
on an offset is added to each place, so that it counts above all places of the old log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Self

from lakeward.core.events import LOAD_SEQUENCE, READ_SEQUENCE, ChangeEvent, Operation, Position

LOG_ALARM: Final = "SEQUENCE-002"
"""The alarm of a log that starts over."""

LEAST_GAP: Final = 1_000_000
"""By how many microseconds a change must be newer than all before it: commit times of one log may cross by less."""


OVERLAP: Final = "~"
"""What begins the name of a log in which transactions overlap."""


_LOWER: Final = "is newer by its time than all before it, and its place in the log is lower"


class LogName(NamedTuple):
    """What a message says of the log that its place is in: base name of a binlog, id of its server ('': unknown).

    Where transactions `overlap` in it, place and time are not both those of the commit: what is later by its time
    may have a lower place.
    """

    base: str = ""
    server: str = ""
    overlap: bool = False

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Read `base server`, the form in which sources tell it, with a `~` before it where transactions overlap.

        >>> LogName.of("mysql-bin. 42"), LogName.of("~ ").overlap, LogName.of(None).base
        (LogName(base='mysql-bin.', server='42', overlap=False), True, '')
        """
        told = text or ""
        base, _, server = told.removeprefix(OVERLAP).rpartition(" ")
        return cls(base, server, told.startswith(OVERLAP))

    def __str__(self) -> str:
        return f"{OVERLAP if self.overlap else ''}{self.base} {self.server}"

    @property
    def is_told(self) -> bool:
        """Whether it names anything."""
        return bool(self.base or self.server)


class LogSpan(NamedTuple):
    """The changes that one object has of one log, or, with `of_reads`, its rows of snapshots.

    Only the name of the log counts for rows of snapshots: their places may lie anywhere in it.

    `row` is that of the first, `least` and `greatest` are their places (0: the message tells none), `earliest` and
    `latest` their times in microseconds since 1970 (None: unknown).
    """

    log: LogName
    row: int
    least: int
    greatest: int
    earliest: int | None
    latest: int | None
    of_reads: bool = False


class ObjectSpans(NamedTuple):
    """The spans of one object, and the first row that steps back in the log and is newer than those before it."""

    name: str
    order: int
    spans: Sequence[LogSpan]
    step: int | None = None


class LogReached(NamedTuple):
    """How far a table has come: least and greatest place, greatest time, and the logs that it has seen."""

    lowest: int | None = None
    highest: int | None = None
    time: int | None = None
    logs: frozenset[LogName] = frozenset()

    def after(self, span: LogSpan) -> LogReached:
        """Return how far a table is once it has these changes."""
        logs = self.logs | {span.log} if span.log.is_told else self.logs
        if span.of_reads:
            return self._replace(logs=logs)
        times = [time for time in (span.latest, self.time) if time is not None]
        return LogReached(
            span.least if self.lowest is None else min(span.least, self.lowest),
            max(span.greatest, self.highest or 0),
            max(times, default=None),
            logs,
        )


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


def spans_of(changes: Iterable[tuple[LogName, ChangeEvent]]) -> tuple[LogSpan, ...]:
    """Return the spans of the changes of one object: what sources that read with an engine find in SQL."""
    groups: dict[tuple[LogName, bool], list[ChangeEvent]] = {}
    for log, event in changes:
        groups.setdefault((log, event.operation is Operation.READ), []).append(event)
    return tuple(_span(log, events, of_reads=of_reads) for (log, of_reads), events in groups.items())


def _span(log: LogName, events: Sequence[ChangeEvent], *, of_reads: bool) -> LogSpan:
    places = [event.position for event in events]
    times = [event.time for event in events if event.time is not None]
    return LogSpan(
        log,
        row=min(place.row for place in places),
        least=min(place.sequence for place in places),
        greatest=max(place.sequence for place in places),
        earliest=min(times, default=None),
        latest=max(times, default=None),
        of_reads=of_reads,
    )


def first_newer_step(changes: Iterable[tuple[LogName, ChangeEvent]]) -> int | None:
    """Return the first row of an object that steps back in the log and is newer than all rows before it.

    Where transactions overlap it must lie below all rows before it.
    """
    lowest: int | None = None
    highest: int | None = None
    latest: int | None = None
    for log, event in sorted(changes, key=lambda change: change[1].position.row):
        place, time = event.position.sequence, event.time
        bound = lowest if log.overlap else highest
        is_lower = bound is not None and place < bound
        if is_lower and time is not None and latest is not None and time - latest >= LEAST_GAP:
            return event.position.row
        lowest = place if lowest is None else min(place, lowest)
        highest = place if highest is None else max(place, highest)
        latest = time if latest is None else max(time or latest, latest)
    return None


def find_restart(
    objects: Iterable[ObjectSpans], reached: LogReached, acked: Collection[LogRestart]
) -> FoundRestart | None:
    """Return the first row at which the log starts over against what the table has `reached`, or None.

    Places are lifted already; a restart at a row that is in `acked` is none any more.
    """
    decided = {(restart.order, restart.row) for restart in acked}
    for item in objects:
        before = reached
        for span in sorted(item.spans, key=lambda span: span.row):
            why = _other_log(span, reached) or (None if span.of_reads else _lower(span, before))
            if why is not None and (item.order, span.row) not in decided:
                return _found(item, span.row, reached, why)
            reached = reached.after(span)
        if item.step is not None and (item.order, item.step) not in decided and _is_below(item, before):
            return _found(item, item.step, reached, _LOWER)
    return None


def _is_below(item: ObjectSpans, before: LogReached) -> bool:
    """Whether an object that steps back does so below all that its table had; that alone counts in other logs."""
    overlapping = [span for span in item.spans if span.log.overlap and not span.of_reads]
    lowest = before.lowest
    return not overlapping or lowest is None or min(span.least for span in overlapping) < lowest


def find_doubt(objects: Iterable[ObjectSpans], reached: LogReached) -> FoundRestart | None:
    """Return the first object that may be of a log that starts over: it is one where rows of its batch are stale.

    Of a log with overlapping transactions its changes are newer than all, and lower than some: a transaction that
    took long looks like that, too, but of one log the changes of a row come in order. Of any log its rows of
    snapshots are newer than all, and lower than all: a new slot may begin with a snapshot.
    """
    for item in objects:
        before = reached
        for span in sorted(item.spans, key=lambda span: span.row):
            is_lower = before.highest is not None and span.greatest < before.highest
            is_lowest = before.lowest is not None and span.greatest < before.lowest
            is_in_doubt = is_lowest and span.greatest > 0 if span.of_reads else is_lower and span.log.overlap
            if is_in_doubt and _is_newer(span, before):
                why = f"{_LOWER}, and changes are stale"
                return _found(item, span.row, reached, why)
            reached = reached.after(span)
    return None


def _found(item: ObjectSpans, row: int, reached: LogReached, why: str) -> FoundRestart:
    offset = (reached.highest or 0) + 2  # a snapshot row without a place is lifted to one below it
    return FoundRestart(item.name, LogRestart(item.order, row, offset), why)


def _other_log(span: LogSpan, reached: LogReached) -> str | None:
    """Say that changes are of a log by another name."""
    bases = sorted({log.base for log in reached.logs if log.base})
    if not span.log.base or not bases or span.log.base in bases:
        return None
    return f"is of the log {span.log.base!r}, and what came before it of {', '.join(map(repr, bases))}"


def _lower(span: LogSpan, before: LogReached) -> str | None:
    """Say that changes lie below all that their table had before their object, and why that is no delay."""
    if before.highest is None or before.lowest is None or span.greatest >= before.highest:
        return None
    if span.greatest == 0:
        return "tells no place in the log, and what came before it does"
    servers = sorted({log.server for log in before.logs if log.server})
    if span.log.server and servers and span.log.server not in servers:
        return f"is of the server {span.log.server}, not {', '.join(servers)}, and its place in the log is lower"
    if not _is_newer(span, before) or (span.log.overlap and span.greatest >= before.lowest):
        return None
    return _LOWER


def _is_newer(span: LogSpan, before: LogReached) -> bool:
    return span.earliest is not None and before.time is not None and span.earliest - before.time >= LEAST_GAP
