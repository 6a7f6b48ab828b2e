"""Select the source objects that the next batch takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakeward.core.checks.log_restart import LogRestart
from lakeward.core.checks.log_steps import LogReached
from lakeward.core.dimension import Older
from lakeward.core.ledger import full_loads, listing_checks
from lakeward.core.ledger.full_loads import UNNAMED, AwaitedLoad, Load, Naming
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectHistory:
    """What is known of a table's objects before they are listed.

    `seen` are those of all batches, `last` is the name of the last that was applied, and
    `waiting` are others that an earlier run saw. At or below the order `floor` nothing may
    appear any more (None: anything may). Where `start` names an object, only what does not
    precede it in order needs to be listed; once it is, `start` is the text before which no name
    was. `acked` is what operators let pass, by code.

    Changes at or below the order `cut`, and objects of the versions `left`, are of epochs before
    that of the table. Where a full `load` must come first, it was `awaited` by an earlier run;
    it is `now`, in microseconds since 1970. A table `begins` before its first batch.
    """

    seen: Mapping[str, SourceObject] = field(default_factory=dict)
    floor: int | None = None
    last: str | None = None
    waiting: Mapping[str, SourceObject] = field(default_factory=dict)
    vanished: frozenset[str] = frozenset()
    checked: Mapping[str, int] = field(default_factory=dict)
    start: str | None = None
    acked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    cut: int | None = None
    left: frozenset[str] = frozenset()
    load: Load | None = None
    awaited: AwaitedLoad | None = None
    now: int = 0
    begins: bool = False

    def passed(self, code: str) -> frozenset[str]:
        """Return what an operator let pass of an alarm."""
        return self.acked.get(code, frozenset())

    def has_applied(self, item: SourceObject) -> bool:
        """Whether an object was applied as it is, in whichever epoch."""
        before = self.seen.get(item.name)
        return item.version in self.left or (before is not None and before.version == item.version)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch may take: at least one object, whatever its size."""

    files: int = 1000
    bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """The objects of the next batch, in order, and what waits behind them.

    `others` are the names of files beside them that are none of the source's; `late` are
    those of the batch that lie before one that was applied already; `left` are the objects
    behind the batch. `aside` are objects that an operator or the settings left out for good, `vanished` and
    `returned` applied ones that are newly gone or there again, `leftovers` applied ones that
    should be in the archive. `checked` are applied objects that were touched and have the
    content that was applied, with the time. `is_whole` says that all objects were listed.
    With `load` they are a full load, whole, which begins that epoch, or a snapshot of it that is older than what
    the table shows; else, where one is `awaited`, there are none. A snapshot whose name tells its time `is_first`
    where no other was applied. `overtaken` are objects that earlier runs saw, of an epoch before it: they are never
    applied. `columns` are those of the table as it stands, None where
    there is none yet, or they are not those of its source: objects that do not tell theirs have these. At the
    `restarts` the log of the source starts over, and places of changes are lifted; `reached` is how far the table
    has come in that log. Of an object of a partition of a topic `partition_end` is the order behind all of that
    partition, by its name. `order_by` and `key_form` are what the source says. `header` has the columns as the last
    header before the batch had them, where that is another order than was declared. With a `load_writer` the rows
    of nothing but a full load may be written as they are read, as `core.pipeline.direct_load` says.
    """

    objects: tuple[SourceObject, ...] = ()
    files_left: int = 0
    bytes_left: int = 0
    others: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    left: tuple[SourceObject, ...] = ()
    aside: tuple[SourceObject, ...] = ()
    vanished: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    leftovers: tuple[SourceObject, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)
    is_whole: bool = True
    load: int | None = None
    awaited: AwaitedLoad | None = None
    overtaken: tuple[str, ...] = ()
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
        """The size of the batch."""
        return sum(item.size for item in self.objects)

    def with_more(self, files: int) -> ObjectSelection:
        """Return the batch with so many of the objects behind it."""
        more = self.left[:files]
        return replace(
            self,
            objects=(*self.objects, *more),
            left=self.left[len(more) :],
            files_left=self.files_left - len(more),
            bytes_left=self.bytes_left - sum(item.size for item in more),
        )


NOTHING_SEEN: Final = ObjectHistory()


def select_objects(
    table: str,
    listed: Iterable[SourceObject],
    past: ObjectHistory = NOTHING_SEEN,
    limits: Limits | None = None,
    naming: Naming = UNNAMED,
    *,
    keeps: bool = True,
    archived: str | None = None,
) -> ObjectSelection:
    """Choose the next objects: unseen ones, in order, within the limits; or a full load that is awaited, whole.

    `keeps` says that applied objects stay where they are; else they go into an archive. `archived` is one that
    the archive has already, where the table begins.
    Raises AlarmRaised, before anything is applied, for what may mean loss: LEDGER-001 to 006.
    """
    ordered = sorted(listed, key=lambda item: (item.order, item.name))
    if past.load is not None:
        return _select_load(table, past.load, ordered, past, naming, keeps=keeps)
    overtaken = [item for item in past.waiting.values() if full_loads.is_older(item, past, naming)]
    waiting = {name: item for name, item in past.waiting.items() if item not in overtaken}
    past = replace(past, waiting=waiting)
    ordered = [item for item in ordered if not full_loads.is_older(item, past, naming)]
    names = {item.name for item in ordered}
    listing_checks.refuse_equal_orders(table, ordered)
    if keeps and past.start is None:
        listing_checks.refuse_emptied(table, names, past)
    listing_checks.refuse_rewritten(table, ordered, past)
    listing_checks.refuse_gone(table, names, past)
    let_pass = past.passed("LEDGER-001")
    unseen = [item for item in ordered if item.name not in past.seen and item.name not in let_pass]
    listing_checks.refuse_missed(table, unseen, archived, past, naming)
    listing_checks.refuse_late(table, unseen, past, naming)
    listing_checks.refuse_other_places(table, [item for item in ordered if item.name not in let_pass], past)
    listing_checks.refuse_gap(table, unseen, past, naming.number)
    chosen, left = _within(limits or Limits(), unseen)
    is_whole = past.start is None
    return ObjectSelection(
        tuple(chosen),
        len(left),
        sum(item.size for item in left),
        late=_late(chosen, past, naming),
        left=tuple(left),
        aside=tuple(item for item in ordered if item.name in let_pass and item.name not in past.seen),
        vanished=tuple(past.seen.keys() - names - past.vanished) if keeps and is_whole else (),
        returned=tuple(name for name in past.vanished if name in names and name in past.seen),
        leftovers=() if keeps else tuple(item for item in ordered if item.name in past.seen),
        checked=_checked(ordered, past),
        is_whole=is_whole,
        overtaken=tuple(item.name for item in overtaken),
        partition_end=naming.partition_end,
    )


def _late(chosen: Sequence[SourceObject], past: ObjectHistory, naming: Naming) -> tuple[str, ...]:
    """Return the objects that lie before one that was applied already, of their partition of a topic."""
    highest: dict[int | None, int] = {}
    for item in past.seen.values() if chosen else ():
        end = naming.partition_end(item.name)
        highest[end] = max(item.order, highest.get(end, item.order))
    return tuple(i.name for i in chosen if i.order < highest.get(naming.partition_end(i.name), i.order))


def _select_load(
    table: str, load: Load, ordered: Sequence[SourceObject], past: ObjectHistory, naming: Naming, *, keeps: bool
) -> ObjectSelection:
    """Choose all objects of a full load once it is whole, and nothing before that."""
    found = full_loads.find_load(table, load, ordered, past, naming, keeps=keeps)
    is_dated = all(naming.is_dated(item.name) for item in found.objects)
    is_spliced = load.older is Older.SPLICE and is_dated and bool(full_loads.older(found.objects, past, naming))
    if load.settles is not None:
        listing_checks.refuse_changes(table, found.behind)
        if not is_spliced:
            listing_checks.refuse_older_snapshot(table, found.objects, past, naming)
        listing_checks.refuse_equal_snapshots(table, (*past.seen.values(), *found.objects, *found.later), naming)
        if keeps and not ordered and past.seen and past.now - found.awaited.unchanged >= load.settles:
            listing_checks.refuse_emptied(table, (), past)
    overtaken = [item for item in past.waiting.values() if full_loads.is_older(item, past, naming)]
    unapplied = {item.name: item for item in past.waiting.values() if item not in overtaken}
    selection = ObjectSelection(
        left=(*found.objects, *found.behind, *found.later),
        aside=found.skipped,
        awaited=found.awaited,
        overtaken=tuple(i.name for i in overtaken),
    )
    if not found.is_whole:
        return selection
    listing_checks.refuse_equal_orders(table, found.objects)
    behind = (*found.behind, *found.later)
    now_there = {item.name for item in (*found.objects, *behind)}
    listing_checks.refuse_gone(table, now_there, replace(past, waiting=unapplied, seen={}, start=None))
    listing_checks.refuse_gap(table, found.objects, replace(past, seen={}), naming.number)
    return replace(
        selection,
        objects=found.objects,
        files_left=len(behind),
        bytes_left=sum(item.size for item in behind),
        left=behind,
        load=load.epoch - is_spliced,
        is_first=is_dated and full_loads.is_first(found.objects, past, naming),
    )


def _within(limits: Limits, unseen: Sequence[SourceObject]) -> tuple[list[SourceObject], Sequence[SourceObject]]:
    chosen: list[SourceObject] = []
    size = 0
    for item in unseen[: limits.files]:
        size += item.size
        if chosen and size > limits.bytes:
            break
        chosen.append(item)
    return chosen, unseen[len(chosen) :]


def touched(listed: Iterable[SourceObject], past: ObjectHistory) -> Sequence[SourceObject]:
    """Return the applied objects whose content must be looked at to know whether they were rewritten.

    They have the size that they had, another time, and no tag that would tell.
    """
    found = []
    for item in listed:
        before = past.seen.get(item.name)
        if before is None or before.modified == item.modified or before.size != item.size:
            continue
        is_known = past.checked.get(item.name) == item.modified or item.version in past.passed("LEDGER-002")
        if not is_known and before.etag is not None and item.etag is None:
            found.append(item)
    return found


def _checked(listed: Iterable[SourceObject], past: ObjectHistory) -> Mapping[str, int]:
    return {
        item.name: item.modified
        for item in listed
        if item.etag is not None
        and (before := past.seen.get(item.name)) is not None
        and before.modified != item.modified
        and past.checked.get(item.name) != item.modified
    }


def is_suspicious(listed: Iterable[SourceObject], past: ObjectHistory) -> bool:
    """Whether a listing from the mark on lacks even the objects that were applied: then all must be listed."""
    return past.start is not None and not any(item.name in past.seen for item in listed)


def until_changed(selection: ObjectSelection, now: Mapping[str, SourceObject]) -> ObjectSelection:
    """Return the objects before the first that changed while it was read; the rest waits, all of a full load."""
    kept: list[SourceObject] = []
    for item in selection.objects:
        if now.get(item.name) != item:
            break
        kept.append(item)
    if selection.load is not None and len(kept) < len(selection.objects):
        kept = []
    left = selection.objects[len(kept) :]
    files, size = selection.files_left + len(left), selection.bytes_left + sum(item.size for item in left)
    late = tuple(item.name for item in kept if item.name in selection.late)
    return ObjectSelection(
        tuple(kept),
        files,
        size,
        selection.others,
        late,
        left=(*left, *selection.left),
        load=selection.load,
        columns=selection.columns,
        is_first=selection.is_first,
        restarts=selection.restarts,
        partition_end=selection.partition_end,
    )
