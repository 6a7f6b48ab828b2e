"""Compare positions in the log of a source one by one, to find changes that step back in the log.

Changes are compared in the order of their arrival with the highest position and the latest time before them. The
comparison begins with what the table has: a new log may soon pass the position where the old one ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

LEAST_GAP: Final = 1_000_000
"""By how many microseconds a change must be newer than all before it: commit times of one log may cross by less."""

OPEN_FOR: Final = 3600 * 1_000_000
"""How many microseconds before the first row of a snapshot a change may be committed that the snapshot lacks."""

OVERLAP: Final = "~"
"""The prefix of the name of a log in which transactions overlap."""


FOLLOWS: Final = "^"
"""The prefix of the name of a log in which a position begins with the last commit before the change."""


class LogName(NamedTuple):
    """The log that a position is in, as a message says: base name of a binlog and id of its server; "" is unknown.

    Where transactions `overlap`, position and time are not both those of the commit: a later change may have a
    lower position. Where a position `follows` a commit, it begins with the last commit before the change
    (PostgreSQL), which may lie below a snapshot that was taken before the change.
    """

    base: str = ""
    server: str = ""
    overlap: bool = False
    follows: bool = False

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Return the value of `base server`, the form that sources write, with a `~` or a `^` before it.

        >>> LogName.of("mysql-bin. 42").server, LogName.of("~ ").overlap, LogName.of("^ ").follows, LogName.of(None)
        ('42', True, True, LogName(base='', server='', overlap=False, follows=False))
        """
        name = text or ""
        base, _, server = name.removeprefix(OVERLAP).removeprefix(FOLLOWS).rpartition(" ")
        return cls(base, server, name.startswith(OVERLAP), name.startswith(FOLLOWS))

    def __str__(self) -> str:
        return f"{OVERLAP if self.overlap else FOLLOWS if self.follows else ''}{self.base} {self.server}"

    @property
    def is_known(self) -> bool:
        """True if base or server is known."""
        return bool(self.base or self.server)


class LogSpan(NamedTuple):
    """The changes that one object has of one log, or, with `of_reads`, its rows of snapshots.

    `row` is the number of the first row, `least` and `greatest` are the bounds of their positions, `earliest` and
    `latest` of their times, in microseconds since 1970, None if unknown. Changes without a position are a span of
    their own, with `has_places` False: their position is 0, or the offset of the restart before them.

    Of rows of snapshots only the name of the log counts: their positions may lie anywhere in it. Rows of an initial
    snapshot (`is_initial`) have the position at which it began, and no earlier change lies above that.
    """

    log: LogName
    row: int
    least: int
    greatest: int
    earliest: int | None
    latest: int | None
    of_reads: bool = False
    has_places: bool = True
    is_initial: bool = False


class LogStep(NamedTuple):
    """A row that steps back in the log of its source, with its log.

    `has_place` says whether it has a position. `is_read` says that it is a row of an initial snapshot, `was_open`
    that it is a change of a transaction that such a snapshot did not see: it was open at that time, or began later.
    """

    row: int
    log: LogName = LogName()
    has_place: bool = True
    is_read: bool = False
    was_open: bool = False


class LogSteps(NamedTuple):
    """The result of comparing the changes of one object row by row.

    `sure` is the first row that can only be of a new log. `likely` is the first row, in a log with overlapping
    transactions, that is newer than all before it and lower than some.
    """

    sure: LogStep | None = None
    likely: LogStep | None = None


class SnapshotPlace(NamedTuple):
    """The position of an initial snapshot, and the time of its first row, in microseconds since 1970."""

    place: int
    time: int


class LogReached(NamedTuple):
    """How far a table has come in the log: lowest and highest position, greatest time, and the logs seen.

    Times are in microseconds since 1970. `read_time` is the greatest time of rows of snapshots in the batch,
    `snapshot` the highest initial snapshot in any partition. Until it `has_begun`, by a change or an earlier batch,
    all rows of snapshots count as rows of an initial one. Partitions of a topic advance independently: `partitions`
    has how far each has come, by the order behind its objects, and `ends` has that order for each object of the
    batch that is of a partition, by the order of the object.
    """

    lowest: int | None = None
    highest: int | None = None
    time: int | None = None
    logs: frozenset[LogName] = frozenset()
    read_time: int | None = None
    snapshot: SnapshotPlace | None = None
    has_begun: bool = False
    ends: Mapping[int, int] = {}
    partitions: Mapping[int, LogReached] = {}

    @property
    def parts(self) -> Sequence[Any]:
        """Positions, time and logs in their JSON form, which `of_parts` reads."""
        return [self.lowest, self.highest, self.time, *sorted(map(str, self.logs))]

    @classmethod
    def of_parts(cls, parts: Sequence[Any]) -> Self:
        """Return the value of the JSON form of a partition."""
        lowest, highest, time, *logs = parts
        return cls(lowest, highest, time, frozenset(map(LogName.of, logs)))

    def of(self, order: int) -> LogReached:
        """Return how far the partition of an object has come, or the table where the object is of no partition."""
        if order not in self.ends:
            return self
        partition = self.partitions.get(self.ends[order], LogReached())
        return partition._replace(snapshot=self.snapshot, has_begun=self.has_begun)

    def is_new(self, order: int) -> bool:
        """Return True if an object is of a partition of which nothing is known yet."""
        return order in self.ends and self.ends[order] not in self.partitions

    def after(self, order: int, span: LogSpan) -> LogReached:
        """Return how far the table is after these changes of an object."""
        table = self.with_span(span)
        if order not in self.ends:
            return table
        end = self.ends[order]
        return table._replace(partitions={**self.partitions, end: self.of(order).with_span(span)})

    def with_span(self, span: LogSpan) -> LogReached:
        """Return this with the bounds and the log of these changes added, without regard to partitions."""
        logs = self.logs | {span.log} if span.log.is_known else self.logs
        if span.of_reads:
            snapshot = self.snapshot
            if span.is_initial:
                snapshot = _higher(snapshot, span, span.greatest)
            elif not self.has_begun:
                snapshot = _higher(snapshot, span, span.least)  # later rows may be of a later snapshot
            return self._replace(logs=logs, read_time=_greatest(span.latest, self.read_time), snapshot=snapshot)
        least = span.least if span.has_places else 0
        lowest = [place for place in (least, self.lowest) if place]
        highest = [place for place in (span.greatest, self.highest) if place]
        return self._replace(
            lowest=min(lowest, default=None),
            highest=max(highest, default=None),
            time=_greatest(span.latest, self.time),
            logs=logs,
            has_begun=True,
        )

    def is_other_server(self, log: LogName) -> bool:
        """Return True if the server of a log is known and is not among the known servers seen."""
        return bool(log.server and self.servers) and log.server not in self.servers

    @property
    def servers(self) -> Sequence[str]:
        """The ids of the servers whose logs were seen, sorted."""
        return sorted({log.server for log in self.logs if log.server})

    def is_newer(self, time: int | None) -> bool:
        """Return True if a time is later than all seen, by more than times of one log may cross."""
        return time is not None and self.time is not None and time - self.time >= LEAST_GAP

    def is_below_snapshot(self, change: LogChange) -> bool:
        """Return True if a change lies below an initial snapshot before it that cannot have seen it.

        Its transaction committed after the snapshot. The change has the position at which it was written, or that
        of the last commit before, and not that of its own commit: so positions do not say which of the two is
        newer.
        """
        if self.snapshot is None or change.time is None:
            return False
        since = self.snapshot.time + (-OPEN_FOR if change.log.overlap else LEAST_GAP)
        return change.place < self.snapshot.place and change.time >= since

    def is_of_new_log(self, read: LogChange) -> bool:
        """Return True if a row of an initial snapshot can only be of a log that starts over.

        It is newer than all changes and snapshot rows before it, and its position lies between those of changes.
        The initial snapshot of the same log lies below all changes; its rows may still come in one partition after
        changes of another.
        """
        if not (read.is_initial and read.has_place) or self.lowest is None or self.highest is None:
            return False
        newest = self._replace(time=_greatest(self.time, self.read_time))
        return self.lowest < read.place < self.highest and self.is_newer(read.time) and newest.is_newer(read.time)


class LogChange(NamedTuple):
    """One change as it is compared with others.

    `time` is in microseconds since 1970, None where it is unknown or not plausible. `place` is raised already by
    the offset of a restart; `has_place` says whether the message has a position. A truncate locks its table, so no
    change of that table overlaps it in the log, even where transactions overlap.
    """

    row: int
    place: int
    time: int | None
    log: LogName = LogName()
    is_read: bool = False
    has_place: bool = True
    is_initial: bool = False
    is_truncate: bool = False


def _higher(other: SnapshotPlace | None, span: LogSpan, place: int) -> SnapshotPlace | None:
    """Return the higher initial snapshot, with the time of its first row; the snapshot of `span` is at `place`."""
    if not span.has_places or span.earliest is None:
        return other
    snapshot = SnapshotPlace(place, span.earliest)
    if other is None or other.place < snapshot.place:
        return snapshot
    return other if snapshot.place < other.place else min(other, snapshot)


def _greatest(*times: int | None) -> int | None:
    """Return the greatest of the known times, or None."""
    return max((time for time in times if time is not None), default=None)


def spans_of(changes: Iterable[LogChange]) -> tuple[LogSpan, ...]:
    """Return the spans of the changes of one object, by their first rows; engines compute the same in SQL."""
    groups: dict[tuple[LogName, bool, bool, bool], list[LogChange]] = {}
    for change in changes:
        kind = (change.log, change.is_read, change.has_place, change.is_initial)
        groups.setdefault(kind, []).append(change)
    return tuple(sorted((_span(alike) for alike in groups.values()), key=lambda span: span.row))


def _span(changes: Sequence[LogChange]) -> LogSpan:
    """Return the span of changes of one log and kind."""
    times = [change.time for change in changes if change.time is not None]
    return LogSpan(
        changes[0].log,
        row=min(change.row for change in changes),
        least=min(change.place for change in changes),
        greatest=max(change.place for change in changes),
        earliest=min(times, default=None),
        latest=max(times, default=None),
        of_reads=changes[0].is_read,
        has_places=changes[0].has_place,
        is_initial=changes[0].is_initial,
    )


def find_steps(changes: Iterable[LogChange], before: LogReached, table: LogReached) -> LogSteps:
    """Compare the rows of an object one by one; of snapshots only rows of an initial one may step back.

    `before` is how far the table, or the partition of the object, is before the object, `table` that before the
    batch.

    A row surely steps back in these cases. It is newer than all before it and below the highest position before it.
    Where transactions overlap it must be below the lowest position that the table had, unless it is a truncate: of
    the first transactions of a table the longest may be the one that began first. Or it is below the highest
    position and is of a server not seen before the object, or has no position, whatever its time. Or it is below an
    initial snapshot before it that cannot have seen it.
    """
    reached, sure, likely = before, None, None
    for change in sorted(changes):
        if change.is_read:
            if sure is None and reached.is_of_new_log(change):
                sure = LogStep(change.row, change.log, is_read=True)
            reached = reached.with_span(_span([change]))
            continue
        is_newer, log = reached.is_newer(change.time), change.log
        overlaps = log.overlap and change.has_place and not change.is_truncate
        is_other = not change.has_place or before.is_other_server(log)
        is_lower = reached.highest is not None and change.place < reached.highest
        is_lowest = table.lowest is not None and change.place < table.lowest
        step = LogStep(change.row, log, change.has_place)
        if (overlaps or (log.follows and change.has_place)) and reached.is_below_snapshot(change):
            sure = sure or step._replace(was_open=True)
        if is_lower and (is_other or (is_newer and (is_lowest or not overlaps))):
            sure = sure or step
        if overlaps and is_lower and is_newer:
            likely = likely or step
        reached = reached.with_span(_span([change]))
    return LogSteps(sure, likely)
