"""Places in the log of a source, compared one by one: which change steps back in the log.

Changes are compared in the order of their arrival, with the highest place and the latest time before them. The
comparison begins with what the table has: a new log may soon climb past the place where the old one ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

LEAST_GAP: Final = 1_000_000
"""By how many microseconds a change must be newer than all before it: commit times of one log may cross by less."""

OPEN_FOR: Final = 3600 * 1_000_000
"""How many microseconds before the first row of a snapshot a change may be committed that the snapshot has not."""

OVERLAP: Final = "~"
"""What begins the name of a log in which transactions overlap."""


FOLLOWS: Final = "^"
"""What begins the name of a log in which places begin with the last commit before a change."""


class LogName(NamedTuple):
    """What a message says of the log that its place is in: base name of a binlog, id of its server ('': unknown).

    Where transactions `overlap` in it, place and time are not both those of the commit: what is later by its time
    may have a lower place. Where a place `follows` a commit, it begins with the last one before the change
    (PostgreSQL), which may lie below a snapshot that was taken before the change.
    """

    base: str = ""
    server: str = ""
    overlap: bool = False
    follows: bool = False

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Read `base server`, the form in which sources tell it, with a `~` or a `^` before it.

        >>> LogName.of("mysql-bin. 42").server, LogName.of("~ ").overlap, LogName.of("^ ").follows, LogName.of(None)
        ('42', True, True, LogName(base='', server='', overlap=False, follows=False))
        """
        told = text or ""
        base, _, server = told.removeprefix(OVERLAP).removeprefix(FOLLOWS).rpartition(" ")
        return cls(base, server, told.startswith(OVERLAP), told.startswith(FOLLOWS))

    def __str__(self) -> str:
        return f"{OVERLAP if self.overlap else FOLLOWS if self.follows else ''}{self.base} {self.server}"

    @property
    def is_told(self) -> bool:
        """Whether it names anything."""
        return bool(self.base or self.server)


class LogSpan(NamedTuple):
    """The changes that one object has of one log, or, with `of_reads`, its rows of snapshots.

    Only the name of the log counts for rows of snapshots: their places may lie anywhere in it. Those of an
    initial snapshot (`is_initial`) have the place at which it began: none that is lower than earlier changes.

    `row` is that of the first, `least` and `greatest` are their places, `earliest` and `latest` their times in
    microseconds since 1970 (None: unknown). Changes that tell no place are a span of their own, without
    `has_places`: their place is 0, or the offset of the restart that they come after.
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
    """A row that steps back in the log of its source: of which log it is, and whether it tells a place.

    `is_read` says that it is a row of an initial snapshot, `was_open` that it is a change of a transaction that
    such a snapshot did not see: it was open then, or began later.
    """

    row: int
    log: LogName = LogName()
    has_place: bool = True
    is_read: bool = False
    was_open: bool = False


class LogSteps(NamedTuple):
    """What comparing the changes of one object row by row finds.

    `sure` is the first row that can only be of a new log. `likely` is the first in a log with overlapping
    transactions that is newer than all before it and lower than some.
    """

    sure: LogStep | None = None
    likely: LogStep | None = None


class SnapshotPlace(NamedTuple):
    """The place of an initial snapshot, and the time of its first row, in microseconds since 1970."""

    place: int
    time: int


class LogReached(NamedTuple):
    """How far a table has come: least and greatest place, greatest time, and the logs that it has seen.

    `read_time` is the greatest time of rows of snapshots in the batch, `snapshot` where the highest initial one
    lies, whatever the partition that it came in. Until it `has_begun`, by a change or an earlier batch, all rows of
    snapshots are of an initial one, whether they say so or not. Partitions of a topic come one apart from another:
    `partitions` are how far each has come, by the order behind its objects, and `ends` has that order for the
    objects of the batch that are of partitions, by theirs.
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
        """Its places, its time and its logs, as JSON has them; it is what `of_parts` reads."""
        return [self.lowest, self.highest, self.time, *sorted(map(str, self.logs))]

    @classmethod
    def of_parts(cls, parts: Sequence[Any]) -> Self:
        """Read places, time and logs of a partition."""
        lowest, highest, time, *logs = parts
        return cls(lowest, highest, time, frozenset(map(LogName.of, logs)))

    def of(self, order: int) -> LogReached:
        """Return how far the partition of an object has come; the table, where it is of none."""
        if order not in self.ends:
            return self
        known = self.partitions.get(self.ends[order], LogReached())
        return known._replace(snapshot=self.snapshot, has_begun=self.has_begun)

    def is_new(self, order: int) -> bool:
        """Whether an object is of a partition of which nothing is known yet."""
        return order in self.ends and self.ends[order] not in self.partitions

    def after(self, order: int, span: LogSpan) -> LogReached:
        """Return how far a table is once it has these changes of an object."""
        whole = self.with_span(span)
        if order not in self.ends:
            return whole
        end = self.ends[order]
        return whole._replace(partitions={**self.partitions, end: self.of(order).with_span(span)})

    def with_span(self, span: LogSpan) -> LogReached:
        """Return this with the bounds and the log of these changes, whatever the partition that they are of."""
        logs = self.logs | {span.log} if span.log.is_told else self.logs
        if span.of_reads:
            snapshot = self.snapshot
            if span.is_initial:
                snapshot = _higher(snapshot, span, span.greatest)
            elif not self.has_begun:
                snapshot = _higher(snapshot, span, span.least)  # rows behind the first change may be of a later one
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
        """Whether a log is of a server that is not among those seen, where both are told."""
        return bool(log.server and self.servers) and log.server not in self.servers

    @property
    def servers(self) -> Sequence[str]:
        """The ids of the servers whose logs were seen."""
        return sorted({log.server for log in self.logs if log.server})

    def is_newer(self, time: int | None) -> bool:
        """Whether a time is later than all that were seen, by more than times of one log may cross."""
        return time is not None and self.time is not None and time - self.time >= LEAST_GAP

    def is_below_snapshot(self, change: LogChange) -> bool:
        """Whether a change lies below an initial snapshot that came before it, which cannot have seen it.

        Its transaction committed behind the snapshot. It tells the place at which it wrote, or the last commit
        before that, and not where it committed: then places do not say which of the two is newer.
        """
        if self.snapshot is None or change.time is None:
            return False
        since = self.snapshot.time + (-OPEN_FOR if change.log.overlap else LEAST_GAP)
        return change.place < self.snapshot.place and change.time >= since

    def is_of_new_log(self, read: LogChange) -> bool:
        """Whether a row of an initial snapshot can only be of a log that starts over.

        It is newer than all changes and snapshot rows before it, and its place lies between those of changes. Below
        all of them lies the initial snapshot of the same log, of which one partition may come behind changes of
        another.
        """
        if not (read.is_initial and read.has_place) or self.lowest is None or self.highest is None:
            return False
        newest = self._replace(time=_greatest(self.time, self.read_time))
        return self.lowest < read.place < self.highest and self.is_newer(read.time) and newest.is_newer(read.time)


class LogChange(NamedTuple):
    """One change as it is compared with others: `time` is None where it is not told, or not believed.

    `place` is lifted already; `has_place` says whether its message tells one. A truncate locks its table, so no
    change of that lies about it in the log, though transactions overlap.
    """

    row: int
    place: int
    time: int | None
    log: LogName = LogName()
    is_read: bool = False
    has_place: bool = True
    is_initial: bool = False
    is_truncate: bool = False


def _higher(known: SnapshotPlace | None, span: LogSpan, place: int) -> SnapshotPlace | None:
    """Return the higher of initial snapshots, with the time of its first row; a span's is at a place."""
    if not span.has_places or span.earliest is None:
        return known
    found = SnapshotPlace(place, span.earliest)
    if known is None or known.place < found.place:
        return found
    return known if found.place < known.place else min(known, found)


def _greatest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def spans_of(changes: Iterable[LogChange]) -> tuple[LogSpan, ...]:
    """Return the spans of the changes of one object, by their first rows: what an engine finds in SQL."""
    groups: dict[tuple[LogName, bool, bool, bool], list[LogChange]] = {}
    for change in changes:
        kind = (change.log, change.is_read, change.has_place, change.is_initial)
        groups.setdefault(kind, []).append(change)
    return tuple(sorted((_span(alike) for alike in groups.values()), key=lambda span: span.row))


def _span(changes: Sequence[LogChange]) -> LogSpan:
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

    `before` is how far the table, or the object's partition, is before the object, `table` that before the batch. A
    row steps back for sure if it is newer than all before it and below the highest place before it; where
    transactions overlap, below the lowest that the table had, unless it is a truncate: of those that a table begins
    with, the longest may be the first that began. One that is below the highest place and is of a server not seen
    before the object, or tells no place, does so whatever its time. So does one below an initial snapshot that came
    before it and cannot have seen it.
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
