"""Full loads that replace all rows of a table: which objects belong to one, and when it is complete.

An operator asks for one (`reload`), or a scheduled task writes one again and again (`Snapshots`). Each begins an
epoch. Its objects are applied together, in one commit, once none of them can be missing: an incomplete load never
counts as complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from lakeward.core.dimension import Older, Snapshots
from lakeward.core.progress import Progress
from lakeward.core.text.numbers import format_count

if TYPE_CHECKING:
    from lakeward.core.ledger.objects import SourceObject
    from lakeward.core.ledger.selection import ObjectHistory

Numbering: TypeAlias = Callable[[str], tuple[str, int] | None]
"""Returns the series and the number of a file of a full load, from 1, by its name; None for other names."""


@dataclass(frozen=True, slots=True)
class Naming:
    """What the names of objects say.

    `is_load` is True for objects of a full load, and `number` is the number of an object in its load.
    `written` is when changes were written, in microseconds since 1970, None where the name does not say. Where each
    snapshot of a table has names of its own, `snapshot` names the snapshot of an object; else it is None, and all
    objects are of one. Objects of one partition of a topic follow each other, those of two partitions have no
    order: `partition_end` is the order behind all objects of the partition of an object. `is_dated` is True where
    the name of a snapshot says its time.
    """

    is_load: Callable[[str], bool] = lambda _: False
    number: Numbering = lambda _: None
    written: Callable[[SourceObject], int | None] = lambda _: None
    snapshot: Callable[[str], str | None] = lambda _: None
    partition_end: Callable[[str], int | None] = lambda _: None
    is_dated: Callable[[str], bool] = lambda _: False


UNNAMED: Final = Naming()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadRequest:
    """A request of an operator: the next full load begins `epoch` and replaces all rows.

    Changes at or below the order `cut` are of earlier epochs. `by`, `reason` and `at` (microseconds since 1970) say
    who asked, why and when. The newest request of an epoch counts; one that `is_withdrawn` cancels those before it.
    """

    epoch: int
    cut: int | None
    by: str
    reason: str | None
    at: int
    is_withdrawn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCompletion:
    """A statement of an operator: these versions of objects are the complete full load of an epoch."""

    epoch: int
    about: tuple[str, ...]
    by: str
    at: int


_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStatus:
    """What the replication task says of its last full load of a table: begin, end and rows.

    Times are in microseconds since 1970. A load that has not ended, or has failed, has no end.
    """

    began: int
    ended: int | None = None
    rows: int | None = None

    def covers(self, objects: Iterable[SourceObject]) -> bool:
        """Return True if the load has ended and wrote all of these objects; some stores have whole seconds."""
        ended = self.ended
        return ended is not None and all(self.began - _SECOND < item.modified < ended + _SECOND for item in objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A full load that a table waits for, before its objects are listed.

    `since` is when an operator asked for it, None for a snapshot. `cut` is that of the `ReloadRequest`,
    `completed_versions` the versions of a `LoadCompletion`. `settles` is how long a snapshot must stay unchanged,
    in microseconds. `status` is what the replication task says, where it can be asked. `older` is the policy for a
    snapshot that is older than what the table shows.
    """

    epoch: int
    since: int | None = None
    cut: int | None = None
    completed_versions: frozenset[str] | None = None
    settles: int | None = None
    status: LoadStatus | None = None
    older: Older = Older.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedLoad:
    """A full load that a table waits for, as a listing found it.

    `objects` is the number of its objects that are there, `bytes` their size, and `behind` the number of objects of
    changes that wait behind it. `content` is a digest of the listing, and has been the same since `unchanged`, in
    microseconds since 1970. `lacking` names objects of the load before that were not written anew. `until` says in
    words what the table waits for.
    """

    epoch: int
    since: int | None = None
    objects: int = 0
    bytes: int = 0
    behind: int = 0
    content: str = ""
    unchanged: int = 0
    lacking: tuple[str, ...] = ()
    until: str = ""

    @property
    def is_pending(self) -> bool:
        """True if something waits: the load was asked for, or has begun. Between two snapshots nothing waits."""
        return bool(self.since is not None or self.objects or self.behind)

    @property
    def is_held_up(self) -> bool:
        """True if a person should know: the load was asked for, or does not become complete by itself."""
        return self.since is not None or bool(self.objects and self.lacking)

    @property
    def once_applied(self) -> AwaitedLoad | None:
        """The load as stored once it is applied: the time since when the listing is unchanged, for later loads.

        None after a load that an operator asked for.
        """
        if self.since is not None:
            return None
        return AwaitedLoad(epoch=self.epoch, content=self.content, unchanged=self.unchanged)

    def describe(self) -> str:
        """Return in one line which files of the load are there, and what it waits for."""
        content = f"{format_count(self.objects, 'file')} of it so far, {self.bytes:,} bytes"
        size = content if self.objects else "nothing of it yet"
        changes = format_count(self.behind, "file of changes waits", "files of changes wait")
        behind = f"; {changes} behind it" if self.behind else ""
        return f"waits for a full load: {size}; {self.until}{behind}"


def awaited_load(
    snapshots: Snapshots | None,
    progress: Progress,
    reloads: Sequence[ReloadRequest],
    completions: Sequence[LoadCompletion],
) -> Load | None:
    """Return the full load that must be applied to a table before anything else, or None."""
    epoch = progress.epoch + 1 if progress.batch else progress.epoch
    completed = [completion.about for completion in completions if completion.epoch == epoch]
    versions = frozenset(completed[-1]) if completed else None
    if snapshots is not None:
        return Load(epoch=epoch, completed_versions=versions, settles=snapshots.settles, older=snapshots.older)
    request = find_reload(reloads, progress.epoch + 1)
    if request is None:
        return None
    return Load(epoch=request.epoch, since=request.at, cut=request.cut, completed_versions=versions)


def find_reload(reloads: Iterable[ReloadRequest], epoch: int) -> ReloadRequest | None:
    """Return the newest request for an epoch, or None where there is none or it is withdrawn."""
    requests = [request for request in reloads if request.epoch == epoch]
    return requests[-1] if requests and not requests[-1].is_withdrawn else None


def is_of_earlier_epoch(item: SourceObject, history: ObjectHistory, naming: Naming) -> bool:
    """Return True if an object is of an epoch before that of the next batch."""
    cut = history.cut if history.load is None or history.load.cut is None else history.load.cut
    if cut is None or naming.is_load(item.name):
        return item.version in history.earlier_versions
    return item.order <= cut


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadListing:
    """What a listing has of a load: its objects, the changes behind it, and whether it is complete.

    `later` are objects of the snapshots behind it, where each snapshot has names of its own; `skipped` are those of
    snapshots that are older than what the table shows, where the policy skips these.
    """

    objects: tuple[SourceObject, ...]
    behind: tuple[SourceObject, ...]
    later: tuple[SourceObject, ...]
    awaited: AwaitedLoad
    is_whole: bool
    skipped: tuple[SourceObject, ...] = ()


def older_objects(
    objects: Iterable[SourceObject], history: ObjectHistory, naming: Naming
) -> tuple[SourceObject, ...]:
    """Return the unapplied ones of the objects that are of snapshots older than the newest applied one."""
    objects = tuple(objects)
    snapshots = _older_snapshots(objects, history, naming)
    return tuple(i for i in objects if naming.snapshot(i.name) in snapshots and not history.has_applied(i))


def _older_snapshots(objects: Iterable[SourceObject], history: ObjectHistory, naming: Naming) -> frozenset[str]:
    """Return the names of the snapshots that lie before the newest applied one, without that one.

    A snapshot lies where its first object does. Names need not say an order: a snapshot of which an object was
    applied in an earlier epoch is older, too, even if it was written anew or touched since.
    """
    newest = _newest_snapshot_name(history, naming)
    if newest is None:
        return frozenset()
    objects = tuple(objects)
    places = places_of_snapshots((*history.applied.values(), *objects), naming)
    earlier_names = frozenset(_names_of_earlier_epochs(history))
    earlier_epochs = {naming.snapshot(item.name) for item in objects if item.name in earlier_names}
    return frozenset(name for name, place in places.items() if name in earlier_epochs or place < places[newest]) - {
        newest
    }


def newest_snapshot(history: ObjectHistory, naming: Naming) -> SourceObject | None:
    """Return the last object of the snapshot that the table shows, where each has names of its own; else None."""
    newest = _newest_snapshot_name(history, naming)
    applied = [
        item for item in history.applied.values() if newest is not None and naming.snapshot(item.name) == newest
    ]
    return max(applied, key=lambda item: item.order, default=None)


def _newest_snapshot_name(history: ObjectHistory, naming: Naming) -> str | None:
    """Return the name of the newest applied snapshot, or None."""
    places = places_of_snapshots(history.applied.values(), naming)
    return max(places, key=places.__getitem__, default=None)


def places_of_snapshots(objects: Iterable[SourceObject], naming: Naming) -> dict[str, int]:
    """Return the place of each snapshot that has names of its own: the lowest order of its objects."""
    places: dict[str, int] = {}
    for item in objects:
        name = naming.snapshot(item.name)
        if name is not None:
            places[name] = min(item.order, places.get(name, item.order))
    return places


def find_load(
    table: str,
    load: Load,
    ordered: Sequence[SourceObject],
    history: ObjectHistory,
    naming: Naming,
    *,
    keeps: bool = True,
) -> LoadListing:
    """Find the objects of a load in an ordered listing; `keeps` says that applied objects stay where they are."""
    applied = {item.version for item in history.applied.values()}
    others = [item for item in ordered if not is_of_earlier_epoch(item, history, naming)]
    loads, skipped = _objects_to_apply(load, ordered, history, naming)
    objects, later = _split_first_snapshot(loads, naming)
    behind = tuple(
        item
        for item in others
        if not naming.is_load(item.name) and (load.cut is not None or item.version not in applied)
    )
    content, lacking = content_digest(ordered), _missing_objects(load, objects, history, naming, keeps=keeps)
    before = history.awaited
    awaited = AwaitedLoad(
        epoch=load.epoch,
        since=load.since,
        objects=len(objects),
        bytes=sum(item.size for item in objects),
        behind=len(behind),
        content=content,
        unchanged=before.unchanged if before is not None and before.content == content else history.now,
        lacking=lacking,
        until=_waiting_reason(table, load, objects, lacking, naming),
    )
    is_said = frozenset(item.version for item in objects) == load.completed_versions
    has_next = bool(later) and min(i.modified for i in later) >= max(i.modified for i in objects)
    is_told = is_said or (has_next and not lacking)
    is_whole = bool(objects) and (is_told or _is_complete(load, awaited, objects, behind, history, naming))
    return LoadListing(
        objects=objects, behind=behind, later=later, awaited=awaited, is_whole=is_whole, skipped=skipped
    )


def _objects_to_apply(
    load: Load, ordered: Sequence[SourceObject], history: ObjectHistory, naming: Naming
) -> tuple[Sequence[SourceObject], tuple[SourceObject, ...]]:
    """Return the objects of full loads that were not applied in this version, and those that are skipped.

    A snapshot with names of its own is applied as a whole or not at all: once one of its objects was not applied,
    all are returned, even unchanged ones.
    """
    acknowledged = history.acknowledged_names("LEDGER-001") if load.settles is not None else frozenset()
    new = [
        i for i in ordered if naming.is_load(i.name) and not history.has_applied(i) and i.name not in acknowledged
    ]
    names, snapshots = {item.name for item in new}, {naming.snapshot(item.name) for item in new} - {None}
    load_objects = [
        i for i in ordered if i.name in names or (naming.is_load(i.name) and naming.snapshot(i.name) in snapshots)
    ]
    if load.older is not Older.SKIP:
        return load_objects, ()
    older = _older_snapshots(load_objects, history, naming)
    skipped = tuple(item for item in new if naming.snapshot(item.name) in older)
    return [item for item in load_objects if naming.snapshot(item.name) not in older], skipped


def _missing_objects(
    load: Load, objects: Sequence[SourceObject], history: ObjectHistory, naming: Naming, *, keeps: bool
) -> tuple[str, ...]:
    """Return the names of objects without which a snapshot may be incomplete.

    They are the objects of the load before that were not written anew; for a snapshot with names of its own, its
    applied objects that are gone. Where all of these are gone, and no archive takes them, the snapshot was written
    anew under other names.
    """
    if load.settles is None:
        return ()
    names = {item.name for item in objects}
    snapshot = naming.snapshot(objects[0].name) if objects else None
    if snapshot is None:
        earlier = (name for name in history.applied if naming.is_load(name) and naming.snapshot(name) is None)
        return tuple(sorted(name for name in earlier if name not in names))
    applied = {name for name in history.applied if naming.snapshot(name) == snapshot}
    applied = applied or {name for name in _names_of_earlier_epochs(history) if naming.snapshot(name) == snapshot}
    return () if keeps and not applied & names else tuple(sorted(applied - names))


def is_first_snapshot(objects: Iterable[SourceObject], history: ObjectHistory, naming: Naming) -> bool:
    """Return True if no other snapshot than that of these objects was applied, in any epoch."""
    applied = {naming.snapshot(name) for name in (*history.applied, *_names_of_earlier_epochs(history))}
    return applied <= {naming.snapshot(item.name) for item in objects}


def _names_of_earlier_epochs(history: ObjectHistory) -> Iterator[str]:
    """Return the names of objects that were applied in earlier epochs."""
    return (version.rsplit(" ", 2)[0] for version in history.earlier_versions)


def _split_first_snapshot(
    objects: Sequence[SourceObject], naming: Naming
) -> tuple[tuple[SourceObject, ...], tuple[SourceObject, ...]]:
    """Return the objects of the first snapshot, and those of the others."""
    first = naming.snapshot(objects[0].name) if objects else None
    of_first = tuple(item for item in objects if naming.snapshot(item.name) == first)
    return of_first, tuple(item for item in objects if naming.snapshot(item.name) != first)


def _is_complete(
    load: Load,
    awaited: AwaitedLoad,
    objects: Sequence[SourceObject],
    behind: Iterable[SourceObject],
    history: ObjectHistory,
    naming: Naming,
) -> bool:
    """Return True if no object of a load can be missing.

    That is certain if its task says so, if changes lie behind all its objects, or if a snapshot has settled: two
    listings, `settles` apart, are the same, and every object of the load before is written anew. Where `settles` is
    0, one listing is enough.
    """
    if load.status is not None and load.status.covers(objects):
        return True
    if load.settles == 0:
        return not awaited.lacking
    if load.settles is not None:
        is_same = history.awaited is not None and history.awaited.content == awaited.content
        return is_same and not awaited.lacking and history.now - awaited.unchanged >= load.settles
    last = max(item.modified for item in objects)
    times = [(item.modified, naming.written(item)) for item in behind]
    return any(modified >= last and written is not None and written > last for modified, written in times)


def _waiting_reason(
    table: str, load: Load, objects: Sequence[SourceObject], lacking: Sequence[str], naming: Naming
) -> str:
    """Return in words what a load waits for, with what the replication task says."""
    condition = _completion_condition(table, load, objects, lacking, naming)
    if load.status is None or (objects and load.status.covers(objects)):
        return condition
    why = (
        "has not ended" if load.status.ended is None else "was another one: not all of this was written in its time"
    )
    return f"{condition} (by the statistics of its task, the last load {why})"


def _completion_condition(
    table: str, load: Load, objects: Sequence[SourceObject], lacking: Sequence[str], naming: Naming
) -> str:
    """Return in words when a load is complete, without what the replication task says."""
    command = f"`lakeward load-complete {table}`"
    if load.completed_versions is not None:
        return f"it is not what was there when it was said to be complete: {command} again, once it is"
    if load.settles is None:
        return f"it is complete with the first changes that are written behind it, or with {command}"
    if objects and naming.snapshot(objects[0].name) is not None:
        if lacking:
            return (
                f"{lacking[0]} of it was applied, and is gone: put it back, or if it is whole as it is now: "
                f"{command}"
            )
        return (
            "it is complete once the next one is there, nothing of it changes any more for a while, or with "
            f"{command}"
        )
    if objects and lacking:
        return f"{lacking[0]} of the load before was not written anew; if there are fewer files now: {command}"
    return f"it is complete once nothing of it changes any more for a while, or with {command}"


def content_digest(listed: Iterable[SourceObject]) -> str:
    """Return a digest of all versions of the listed objects."""
    versions = "\n".join(item.version for item in listed)
    return hashlib.blake2b(versions.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
