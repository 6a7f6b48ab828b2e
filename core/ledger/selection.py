"""Select the source objects that the next batch takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakeward.core.checks.log_restart import LogRestart
from lakeward.core.checks.log_steps import LogReached
from lakeward.core.dimension import Older
from lakeward.core.ledger import full_loads, listing_checks
from lakeward.core.ledger.full_loads import UNNAMED, AwaitedLoad, Load, LoadListing, Naming
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectHistory:
    """What is known of the objects of a table before they are listed.

    `applied` are the objects of all batches of the epoch, by name, `last_applied` is the name of the one applied
    last, and `waiting` are objects that an earlier run saw and did not apply. No object may appear at or below the
    order `object_watermark` any more; None sets no bound. Where `start` names an object, only objects from it on,
    in order, need to be listed; once they are, no name before the text `start` is in the listing. `acknowledged` is
    what operators acknowledged, by code of alarm.

    Changes at or below the order `cut`, and objects of the versions `earlier_versions`, are of earlier epochs.
    Where a full `load` must come first, `awaited` is how an earlier run found it; `now` is the time of this
    listing, in microseconds since 1970. `has_no_batch` is True before the first batch of a table.
    """

    applied: Mapping[str, SourceObject] = field(default_factory=dict)
    object_watermark: int | None = None
    last_applied: str | None = None
    waiting: Mapping[str, SourceObject] = field(default_factory=dict)
    vanished: frozenset[str] = frozenset()
    checked: Mapping[str, int] = field(default_factory=dict)
    start: str | None = None
    acknowledged: Mapping[str, frozenset[str]] = field(default_factory=dict)
    cut: int | None = None
    earlier_versions: frozenset[str] = frozenset()
    load: Load | None = None
    awaited: AwaitedLoad | None = None
    now: int = 0
    has_no_batch: bool = False

    def acknowledged_names(self, code: str) -> frozenset[str]:
        """Return what an operator acknowledged of an alarm."""
        return self.acknowledged.get(code, frozenset())

    def has_applied(self, item: SourceObject) -> bool:
        """Return True if this version of an object was applied, in any epoch."""
        before = self.applied.get(item.name)
        return item.version in self.earlier_versions or (before is not None and before.version == item.version)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many objects and bytes one batch may take. It takes at least one object, whatever its size."""

    files: int = 1000
    bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """The objects of the next batch, in order, and what waits behind them.

    `remaining` are the objects behind the batch. `late` names those of the batch that lie before one that was
    applied already. `unrelated_files` names files in the same place that are not of the source. `excluded` are
    objects that an operator or the settings exclude for good, `vanished` and `returned` applied ones that are newly
    gone or back, `leftovers` applied ones that should be in the archive. `checked` are applied objects with a new
    time of modification, in microseconds since 1970, and unchanged content. `is_whole` says that all objects were
    listed.

    With `load_epoch` the objects are a complete full load, which begins that epoch, or a snapshot of it that is
    older than what the table shows. Where a load is `awaited` and there is no `load_epoch`, there are no objects.
    `is_first` marks a snapshot whose name has its time, where no other was applied. `superseded` names objects that
    earlier runs saw and that are of an earlier epoch: they are never applied.

    `columns` are those of the stored table, None where there is no table yet or the columns are not those of its
    source; objects without a schema of their own have these columns. At each of the `restarts` the log of the
    source starts over, and positions of changes are raised. `reached` is how far the table has come in that log.
    `partition_end` returns, for an object of a partition of a topic, the order behind all objects of that
    partition. `order_by` and `key_form` are what the source says of its settings. `header` has the columns of the
    last header before the batch, where their order is not the declared one. With a `load_writer` the rows of a
    batch that is only a full load may be written while they are read (`core.pipeline.direct_load`).
    """

    objects: tuple[SourceObject, ...] = ()
    files_left: int = 0
    bytes_left: int = 0
    unrelated_files: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    remaining: tuple[SourceObject, ...] = ()
    excluded: tuple[SourceObject, ...] = ()
    vanished: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    leftovers: tuple[SourceObject, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)
    is_whole: bool = True
    load_epoch: int | None = None
    awaited: AwaitedLoad | None = None
    superseded: tuple[str, ...] = ()
    columns: Schema | None = None
    is_first: bool = False
    restarts: tuple[LogRestart, ...] = ()
    reached: LogReached = field(default_factory=LogReached)
    order_by: str | None = None
    key_form: str | None = None
    header: tuple[str, ...] | None = None
    partition_end: Callable[[str], int | None] = field(default=lambda _: None, compare=False)
    load_writer: Callable[[Schema, Any], Any] | None = field(default=None, compare=False)

    @property
    def bytes(self) -> int:
        """The size of the batch in bytes."""
        return sum(item.size for item in self.objects)

    def following(self, limits: Limits) -> Sequence[SourceObject]:
        """Return the objects of the batch after this one, if nothing else is listed until then."""
        return _within(limits, self.remaining)[0]

    def with_more(self, files: int) -> ObjectSelection:
        """Return the selection with up to `files` more objects from those behind the batch."""
        more = self.remaining[:files]
        return replace(
            self,
            objects=(*self.objects, *more),
            remaining=self.remaining[len(more) :],
            files_left=self.files_left - len(more),
            bytes_left=self.bytes_left - sum(item.size for item in more),
        )


NOTHING_SEEN: Final = ObjectHistory()


def select_objects(
    table: str,
    listed: Iterable[SourceObject],
    history: ObjectHistory = NOTHING_SEEN,
    limits: Limits | None = None,
    naming: Naming = UNNAMED,
    *,
    keeps: bool = True,
    archived: str | None = None,
) -> ObjectSelection:
    """Select the next objects: those not seen, in order, within the limits; or a complete full load.

    `keeps` says that applied objects stay where they are; else they are moved into an archive. `archived` names an
    object that the archive already has when the table begins. Raises AlarmRaised (LEDGER-001 to LEDGER-006) where
    the listing shows a possible loss, and SourceError where the order of objects is not known.
    """
    ordered = sorted(listed, key=lambda item: (item.order, item.name))
    if history.load is not None:
        return _select_load(table, history.load, ordered, history, naming, keeps=keeps)
    superseded = _superseded_objects(history, naming)
    history = replace(history, waiting=_without(history.waiting, superseded))
    ordered = [item for item in ordered if not full_loads.is_of_earlier_epoch(item, history, naming)]
    names = {item.name for item in ordered}
    excluded = history.acknowledged_names("LEDGER-001")
    unseen = [item for item in ordered if item.name not in history.applied and item.name not in excluded]
    _check_listing(table, ordered, unseen, history, naming, archived=archived, keeps=keeps)
    is_whole = history.start is None
    return replace(
        _select_changes(unseen, history, naming, limits or Limits()),
        excluded=tuple(item for item in ordered if item.name in excluded and item.name not in history.applied),
        vanished=tuple(history.applied.keys() - names - history.vanished) if keeps and is_whole else (),
        returned=tuple(name for name in history.vanished if name in names and name in history.applied),
        leftovers=() if keeps else tuple(item for item in ordered if item.name in history.applied),
        checked=_check_times(ordered, history),
        is_whole=is_whole,
        superseded=tuple(item.name for item in superseded),
    )


def _select_changes(
    unseen: Sequence[SourceObject], history: ObjectHistory, naming: Naming, limits: Limits
) -> ObjectSelection:
    """Select the first objects of changes that were not seen, within the limits."""
    chosen, remaining = _within(limits, unseen)
    return ObjectSelection(
        tuple(chosen),
        len(remaining),
        sum(item.size for item in remaining),
        late=_late(chosen, history, naming),
        remaining=tuple(remaining),
        partition_end=naming.partition_end,
    )


def _superseded_objects(history: ObjectHistory, naming: Naming) -> Sequence[SourceObject]:
    """Return the objects that earlier runs saw and that are of an earlier epoch: they are never applied."""
    return [item for item in history.waiting.values() if full_loads.is_of_earlier_epoch(item, history, naming)]


def _without(
    waiting: Mapping[str, SourceObject], superseded: Sequence[SourceObject]
) -> Mapping[str, SourceObject]:
    return {name: item for name, item in waiting.items() if item not in superseded}


def _check_listing(
    table: str,
    ordered: Sequence[SourceObject],
    unseen: Sequence[SourceObject],
    history: ObjectHistory,
    naming: Naming,
    *,
    archived: str | None,
    keeps: bool,
) -> None:
    """Raise AlarmRaised or SourceError where an ordered listing of changes shows a possible loss.

    `unseen` are the listed objects that were not applied and are not excluded.
    """
    names = {item.name for item in ordered}
    excluded = history.acknowledged_names("LEDGER-001")
    listing_checks.refuse_equal_orders(table, ordered)
    if keeps and history.start is None:
        listing_checks.refuse_emptied(table, names, history)
    listing_checks.refuse_rewritten(table, ordered, history)
    listing_checks.refuse_gone(table, names, history)
    listing_checks.refuse_missed(table, unseen, archived, history, naming)
    listing_checks.refuse_late(table, unseen, history, naming)
    listing_checks.refuse_other_places(table, [item for item in ordered if item.name not in excluded], history)
    listing_checks.refuse_gap(table, unseen, history, naming.number)


def _late(chosen: Sequence[SourceObject], history: ObjectHistory, naming: Naming) -> tuple[str, ...]:
    """Return the names of selected objects that lie before an applied one.

    In a topic they are compared with the objects of the same partition.
    """
    highest: dict[int | None, int] = {}
    for item in history.applied.values() if chosen else ():
        end = naming.partition_end(item.name)
        highest[end] = max(item.order, highest.get(end, item.order))
    return tuple(
        item.name for item in chosen if item.order < highest.get(naming.partition_end(item.name), item.order)
    )


def _select_load(
    table: str, load: Load, ordered: Sequence[SourceObject], history: ObjectHistory, naming: Naming, *, keeps: bool
) -> ObjectSelection:
    """Select all objects of a full load once it is complete, and none before that."""
    listing = full_loads.find_load(table, load, ordered, history, naming, keeps=keeps)
    is_dated = all(naming.is_dated(item.name) for item in listing.objects)
    is_older = bool(full_loads.older_objects(listing.objects, history, naming))
    is_spliced = load.older is Older.SPLICE and is_dated and is_older
    if load.settles is not None:
        _check_snapshots(table, listing, history, naming, is_spliced=is_spliced)
        is_settled = history.now - listing.awaited.unchanged >= load.settles
        if keeps and not ordered and history.applied and is_settled:
            listing_checks.refuse_emptied(table, (), history)
    superseded = _superseded_objects(history, naming)
    behind = (*listing.behind, *listing.later)
    selection = ObjectSelection(
        remaining=(*listing.objects, *behind),
        excluded=listing.skipped,
        awaited=listing.awaited,
        superseded=tuple(item.name for item in superseded),
    )
    if not listing.is_whole:
        return selection
    _check_complete_load(table, listing, superseded, history, naming)
    return replace(
        selection,
        objects=listing.objects,
        files_left=len(behind),
        bytes_left=sum(item.size for item in behind),
        remaining=behind,
        load_epoch=load.epoch - is_spliced,
        is_first=is_dated and full_loads.is_first_snapshot(listing.objects, history, naming),
    )


def _check_snapshots(
    table: str, listing: LoadListing, history: ObjectHistory, naming: Naming, *, is_spliced: bool
) -> None:
    """Raise SourceError or AlarmRaised for changes among snapshots, and for old or unordered snapshots."""
    listing_checks.refuse_changes(table, listing.behind)
    if not is_spliced:
        listing_checks.refuse_older_snapshot(table, listing.objects, history, naming)
    objects = (*history.applied.values(), *listing.objects, *listing.later)
    listing_checks.refuse_equal_snapshots(table, objects, naming)


def _check_complete_load(
    table: str,
    listing: LoadListing,
    superseded: Sequence[SourceObject],
    history: ObjectHistory,
    naming: Naming,
) -> None:
    """Raise AlarmRaised or SourceError where objects of a complete load, or changes behind it, are missing."""
    listing_checks.refuse_equal_orders(table, listing.objects)
    names = {item.name for item in (*listing.objects, *listing.behind, *listing.later)}
    history = replace(history, waiting=_without(history.waiting, superseded), applied={})
    listing_checks.refuse_gone(table, names, replace(history, start=None))
    listing_checks.refuse_gap(table, listing.objects, history, naming.number)


def _within(limits: Limits, unseen: Sequence[SourceObject]) -> tuple[list[SourceObject], Sequence[SourceObject]]:
    """Return the objects that fit into the limits, and those behind them."""
    chosen: list[SourceObject] = []
    size = 0
    for item in unseen[: limits.files]:
        size += item.size
        if chosen and size > limits.bytes:
            break
        chosen.append(item)
    return chosen, unseen[len(chosen) :]


def find_touched(listed: Iterable[SourceObject], history: ObjectHistory) -> Sequence[SourceObject]:
    """Return the applied objects whose content must be read to know whether they were rewritten.

    They have the same size, another time of modification, and no etag to compare.
    """
    touched = []
    for item in listed:
        before = history.applied.get(item.name)
        if before is None or before.modified == item.modified or before.size != item.size:
            continue
        is_known = history.checked.get(item.name) == item.modified or item.version in history.acknowledged_names(
            "LEDGER-002"
        )
        if not is_known and before.etag is not None and item.etag is None:
            touched.append(item)
    return touched


def _check_times(listed: Iterable[SourceObject], history: ObjectHistory) -> Mapping[str, int]:
    """Return the times of modification, by name, of applied objects whose content was compared again."""
    return {
        item.name: item.modified
        for item in listed
        if item.etag is not None
        and (before := history.applied.get(item.name)) is not None
        and before.modified != item.modified
        and history.checked.get(item.name) != item.modified
    }


def lacks_applied_objects(listed: Iterable[SourceObject], history: ObjectHistory) -> bool:
    """Return True if a listing that began at an object has none of the applied objects: then all must be listed."""
    return history.start is not None and not any(item.name in history.applied for item in listed)


def until_changed(selection: ObjectSelection, now: Mapping[str, SourceObject]) -> ObjectSelection:
    """Return the objects before the first that changed while it was read.

    The others wait. If an object of a full load changed, all of its objects wait. `now` has the objects as they are
    after the read, by name.
    """
    unchanged: list[SourceObject] = []
    for item in selection.objects:
        if now.get(item.name) != item:
            break
        unchanged.append(item)
    if selection.load_epoch is not None and len(unchanged) < len(selection.objects):
        unchanged = []
    waiting = selection.objects[len(unchanged) :]
    files, size = selection.files_left + len(waiting), selection.bytes_left + sum(item.size for item in waiting)
    late = tuple(item.name for item in unchanged if item.name in selection.late)
    return ObjectSelection(
        tuple(unchanged),
        files,
        size,
        selection.unrelated_files,
        late,
        remaining=(*waiting, *selection.remaining),
        load_epoch=selection.load_epoch,
        columns=selection.columns,
        is_first=selection.is_first,
        restarts=selection.restarts,
        partition_end=selection.partition_end,
    )
