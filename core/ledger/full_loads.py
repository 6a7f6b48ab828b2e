"""Full loads that take the place of all rows of a table: which objects are of one, and when it is whole.

An operator says that one will come (`reload`), or a scheduled task writes one again and
again (`Snapshots`). Either begins an epoch. Its objects are applied together, in one
commit, once nothing of it can be missing; a half load is never taken for a whole one.
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
"""Tells from the name of a file of a full load its series and its number there, which begin with 1."""


@dataclass(frozen=True, slots=True)
class Naming:
    """What names tell: of a full load or of changes, the number in a load, when changes were written.

    That is in microseconds since 1970, and None where the name does not tell. Where each snapshot of a
    table has names of its own, `snapshot` tells of which one an object is; else all are of one.
    Objects of one partition of a topic come one after the other; of two, neither comes first: `partition_end` is
    the order behind all objects of that partition, by the name of one.
    Where a snapshot `is_dated`, its name says of which time it is.
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
    """Word of an operator: a full load that begins `epoch` takes the place of all rows; who, why and when.

    Changes at or below the order `cut` are of the epochs before. The newest word of an epoch
    counts; one that `is_withdrawn` takes back those before it.
    """

    epoch: int
    cut: int | None
    by: str
    reason: str | None
    at: int
    is_withdrawn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCompletion:
    """Word of an operator: these versions of objects are the full load of an epoch, and all of it."""

    epoch: int
    about: tuple[str, ...]
    by: str
    at: int


_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStatus:
    """What the task that loads a table says of its last full load: when it began and ended, and its rows.

    Times are in microseconds since 1970; one that has not ended, or failed, has no end.
    """

    began: int
    ended: int | None = None
    rows: int | None = None

    def is_of(self, objects: Iterable[SourceObject]) -> bool:
        """Whether it has ended, and wrote all of these objects; stores have times of whole seconds."""
        ended = self.ended
        return ended is not None and all(self.began - _SECOND < item.modified < ended + _SECOND for item in objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A full load that a table waits for, before it is looked for.

    `since` says when an operator asked for it, and `cut` as `ReloadRequest` does; `whole` are the
    versions of `LoadCompletion`. `settles` is how long nothing of a snapshot may change, in microseconds.
    `told` is what its task says, where that can be asked. `older` says what becomes of a snapshot that is
    older than what the table shows.
    """

    epoch: int
    since: int | None = None
    cut: int | None = None
    whole: frozenset[str] | None = None
    settles: int | None = None
    told: LoadStatus | None = None
    older: Older = Older.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedLoad:
    """A full load that a table waits for, as it was listed: so many objects and bytes of it.

    So many objects of changes wait `behind` it. `content` stands for all that was listed, and
    has been the same since `unchanged`. `lacking` are objects of the load before that were not
    written anew. It waits for what `until` says, in words.
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
    def is_told(self) -> bool:
        """Whether something waits: it was asked for, or has begun; between two snapshots nothing does."""
        return bool(self.since is not None or self.objects or self.behind)

    @property
    def is_held_up(self) -> bool:
        """Whether a person should know: it was asked for, or does not become whole by itself."""
        return self.since is not None or bool(self.objects and self.lacking)

    @property
    def applied(self) -> AwaitedLoad | None:
        """What is left of it once it was applied: since when what was listed is the same, for what lies behind it.

        None behind one that an operator asked for.
        """
        if self.since is not None:
            return None
        return AwaitedLoad(epoch=self.epoch, content=self.content, unchanged=self.unchanged)

    def words(self) -> str:
        """Return what there is of it and what it waits for, in one line."""
        there = f"{format_count(self.objects, 'file')} of it so far, {self.bytes:,} bytes"
        size = there if self.objects else "nothing of it yet"
        waits = format_count(self.behind, "file of changes waits", "files of changes wait")
        behind = f"; {waits} behind it" if self.behind else ""
        return f"waits for a full load: {size}; {self.until}{behind}"


def awaited_load(
    snapshots: Snapshots | None,
    progress: Progress,
    reloads: Sequence[ReloadRequest],
    wholes: Sequence[LoadCompletion],
) -> Load | None:
    """Return the full load that must come before anything else of a table is applied, or None."""
    epoch = progress.epoch + 1 if progress.batch else progress.epoch
    said = [word.about for word in wholes if word.epoch == epoch]
    whole = frozenset(said[-1]) if said else None
    if snapshots is not None:
        return Load(epoch=epoch, whole=whole, settles=snapshots.settles, older=snapshots.older)
    asked = reload_of(reloads, progress.epoch + 1)
    if asked is None:
        return None
    return Load(epoch=asked.epoch, since=asked.at, cut=asked.cut, whole=whole)


def reload_of(reloads: Iterable[ReloadRequest], epoch: int) -> ReloadRequest | None:
    """Return the word that holds for an epoch, or None."""
    found = [word for word in reloads if word.epoch == epoch]
    return found[-1] if found and not found[-1].is_withdrawn else None


def is_older(item: SourceObject, past: ObjectHistory, naming: Naming) -> bool:
    """Whether an object is of an epoch before the one that the next batch belongs to."""
    cut = past.cut if past.load is None or past.load.cut is None else past.load.cut
    if cut is None or naming.is_load(item.name):
        return item.version in past.left
    return item.order <= cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a listing has of a load: its objects, the changes behind it, how it stands, and whether it is whole.

    `later` are objects of the snapshots behind it, where each has names of its own; `skipped` are those of
    snapshots that are older than what the table shows, where these are.
    """

    objects: tuple[SourceObject, ...]
    behind: tuple[SourceObject, ...]
    later: tuple[SourceObject, ...]
    awaited: AwaitedLoad
    is_whole: bool
    skipped: tuple[SourceObject, ...] = ()


def older(objects: Iterable[SourceObject], past: ObjectHistory, naming: Naming) -> tuple[SourceObject, ...]:
    """Return the objects of snapshots that lie before the newest that was applied, without those that were, too."""
    objects = tuple(objects)
    snapshots = _before_the_newest(objects, past, naming)
    return tuple(i for i in objects if naming.snapshot(i.name) in snapshots and not past.has_applied(i))


def _before_the_newest(objects: Iterable[SourceObject], past: ObjectHistory, naming: Naming) -> frozenset[str]:
    """Return which snapshots lie before the newest that was applied; it does not lie before itself.

    One lies where its first object does. Names need not tell an order: one of which an object was applied in an
    epoch before lies before the newest, too, though it was written anew or touched since.
    """
    newest = _newest(past, naming)
    if newest is None:
        return frozenset()
    objects = tuple(objects)
    places = places_of_snapshots((*past.seen.values(), *objects), naming)
    of_before = frozenset(_left(past))
    left = {naming.snapshot(item.name) for item in objects if item.name in of_before}
    return frozenset(name for name, place in places.items() if name in left or place < places[newest]) - {newest}


def newest_snapshot(past: ObjectHistory, naming: Naming) -> SourceObject | None:
    """Return the last object of the snapshot that the table shows, where each has names of its own."""
    newest = _newest(past, naming)
    applied = [item for item in past.seen.values() if newest is not None and naming.snapshot(item.name) == newest]
    return max(applied, key=lambda item: item.order, default=None)


def _newest(past: ObjectHistory, naming: Naming) -> str | None:
    places = places_of_snapshots(past.seen.values(), naming)
    return max(places, key=places.__getitem__, default=None)


def places_of_snapshots(objects: Iterable[SourceObject], naming: Naming) -> dict[str, int]:
    """Return where snapshots with names of their own lie: there where the first object of each does."""
    found: dict[str, int] = {}
    for item in objects:
        name = naming.snapshot(item.name)
        if name is not None:
            found[name] = min(item.order, found.get(name, item.order))
    return found


def find_load(
    table: str,
    load: Load,
    ordered: Sequence[SourceObject],
    past: ObjectHistory,
    naming: Naming,
    *,
    keeps: bool = True,
) -> Found:
    """Look for a load in a listing, in order; `keeps` says that applied objects stay where they are."""
    applied = {item.version for item in past.seen.values()}
    others = [item for item in ordered if not is_older(item, past, naming)]
    loads, skipped = _unapplied(load, ordered, past, naming)
    objects, later = _first_snapshot(loads, naming)
    behind = tuple(
        item
        for item in others
        if not naming.is_load(item.name) and (load.cut is not None or item.version not in applied)
    )
    content, lacking = content_of(ordered), _lacking(load, objects, past, naming, keeps=keeps)
    before = past.awaited
    awaited = AwaitedLoad(
        epoch=load.epoch,
        since=load.since,
        objects=len(objects),
        bytes=sum(item.size for item in objects),
        behind=len(behind),
        content=content,
        unchanged=before.unchanged if before is not None and before.content == content else past.now,
        lacking=lacking,
        until=_until(table, load, objects, lacking, naming),
    )
    is_said = frozenset(item.version for item in objects) == load.whole
    has_next = bool(later) and min(i.modified for i in later) >= max(i.modified for i in objects)
    is_told = is_said or (has_next and not lacking)
    is_whole = bool(objects) and (is_told or _has_ended(load, awaited, objects, behind, past, naming))
    return Found(objects=objects, behind=behind, later=later, awaited=awaited, is_whole=is_whole, skipped=skipped)


def _unapplied(
    load: Load, ordered: Sequence[SourceObject], past: ObjectHistory, naming: Naming
) -> tuple[Sequence[SourceObject], tuple[SourceObject, ...]]:
    """Return the objects of full loads that were not applied as they are, and those that are skipped.

    Of a snapshot with names of its own these are all that are there, once one of them was not applied: it is taken
    whole, together with what of it did not change, or not at all.
    """
    let_pass = past.passed("LEDGER-001") if load.settles is not None else frozenset()
    new = [i for i in ordered if naming.is_load(i.name) and not past.has_applied(i) and i.name not in let_pass]
    names, snapshots = {item.name for item in new}, {naming.snapshot(item.name) for item in new} - {None}
    found = [
        i for i in ordered if i.name in names or (naming.is_load(i.name) and naming.snapshot(i.name) in snapshots)
    ]
    if load.older is not Older.SKIP:
        return found, ()
    before = _before_the_newest(found, past, naming)
    left_out = tuple(item for item in new if naming.snapshot(item.name) in before)
    return [item for item in found if naming.snapshot(item.name) not in before], left_out


def _lacking(
    load: Load, objects: Sequence[SourceObject], past: ObjectHistory, naming: Naming, *, keeps: bool
) -> tuple[str, ...]:
    """Return the objects without which a snapshot may be a half one: those of the load before, or of itself before.

    Of one with names of its own they are those that are gone. Where none of what was applied is there any more, and
    nobody puts it into an archive, it was written anew under other names.
    """
    if load.settles is None:
        return ()
    names = {item.name for item in objects}
    snapshot = naming.snapshot(objects[0].name) if objects else None
    if snapshot is None:
        again = (name for name in past.seen if naming.is_load(name) and naming.snapshot(name) is None)
        return tuple(sorted(name for name in again if name not in names))
    had = {name for name in past.seen if naming.snapshot(name) == snapshot}
    had = had or {name for name in _left(past) if naming.snapshot(name) == snapshot}
    return () if keeps and not had & names else tuple(sorted(had - names))


def is_first(objects: Iterable[SourceObject], past: ObjectHistory, naming: Naming) -> bool:
    """Whether no other snapshot was applied than that of these objects, in whichever epoch."""
    applied = {naming.snapshot(name) for name in (*past.seen, *_left(past))}
    return applied <= {naming.snapshot(item.name) for item in objects}


def _left(past: ObjectHistory) -> Iterator[str]:
    """Return the names of objects that were applied in epochs before."""
    return (version.rsplit(" ", 2)[0] for version in past.left)


def _first_snapshot(
    found: Sequence[SourceObject], naming: Naming
) -> tuple[tuple[SourceObject, ...], tuple[SourceObject, ...]]:
    """Return the objects of the first snapshot, and those of the others."""
    first = naming.snapshot(found[0].name) if found else None
    own = tuple(item for item in found if naming.snapshot(item.name) == first)
    return own, tuple(item for item in found if naming.snapshot(item.name) != first)


def _has_ended(
    load: Load,
    awaited: AwaitedLoad,
    objects: Sequence[SourceObject],
    behind: Iterable[SourceObject],
    past: ObjectHistory,
    naming: Naming,
) -> bool:
    """Whether nothing of a load can be missing: its task says so, changes lie behind all of it, or it has settled.

    A snapshot has settled where two looks, far enough apart, found the same, and every object
    of the load before is written anew. Where it need not settle (`settles` is 0), one look is enough.
    """
    if load.told is not None and load.told.is_of(objects):
        return True
    if load.settles == 0:
        return not awaited.lacking
    if load.settles is not None:
        is_same = past.awaited is not None and past.awaited.content == awaited.content
        return is_same and not awaited.lacking and past.now - awaited.unchanged >= load.settles
    last = max(item.modified for item in objects)
    times = [(item.modified, naming.written(item)) for item in behind]
    return any(modified >= last and written is not None and written > last for modified, written in times)


def _until(table: str, load: Load, objects: Sequence[SourceObject], lacking: Sequence[str], naming: Naming) -> str:
    words = _by_itself(table, load, objects, lacking, naming)
    if load.told is None or (objects and load.told.is_of(objects)):
        return words
    why = "has not ended" if load.told.ended is None else "was another one: not all of this was written in its time"
    return f"{words} (by the statistics of its task, the last load {why})"


def _by_itself(
    table: str, load: Load, objects: Sequence[SourceObject], lacking: Sequence[str], naming: Naming
) -> str:
    said = f"`lakeward load-complete {table}`"
    if load.whole is not None:
        return f"it is not what was there when it was said to be complete: {said} again, once it is"
    if load.settles is None:
        return f"it is complete with the first changes that are written behind it, or with {said}"
    if objects and naming.snapshot(objects[0].name) is not None:
        if lacking:
            return (
                f"{lacking[0]} of it was applied, and is gone: put it back, or if it is whole as it is now: {said}"
            )
        return (
            f"it is complete once the next one is there, nothing of it changes any more for a while, or with {said}"
        )
    if objects and lacking:
        return f"{lacking[0]} of the load before was not written anew; if there are fewer files now: {said}"
    return f"it is complete once nothing of it changes any more for a while, or with {said}"


def content_of(listed: Iterable[SourceObject]) -> str:
    """Return what stands for all versions of objects, in one word."""
    versions = "\n".join(item.version for item in listed)
    return hashlib.blake2b(versions.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
