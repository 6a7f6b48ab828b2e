"""What every source of files does around its reading: choosing the next files, and making a batch of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.spark.checks.log_steps import spans
from lakeward.adapters.spark.checks.refused_files import find_refusals
from lakeward.adapters.spark.frames.event_frame import Group, by_object, facts
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.adapters.spark.frames.source_rows import MALFORMED, TORN
from lakeward.core.checks.log_steps import LogSteps
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ledger.full_loads import UNNAMED, Naming
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import (
    Limits,
    ObjectHistory,
    ObjectSelection,
    find_touched,
    lacks_applied_objects,
    select_objects,
    until_changed,
)
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Batch

Numbered: TypeAlias = Callable[[TableName, Sequence[SourceObject], ObjectHistory], Sequence[SourceObject]]
"""Checks the files that are listed, and gives each its place where its name does not."""


def choose(
    folder: Folder,
    dimension: Dimension,
    past: ObjectHistory,
    limits: Limits,
    numbered: Numbered,
    snapshots: Naming = UNNAMED,
) -> ObjectSelection:
    """Choose the next files of a table, in their order; raises AlarmRaised where something may be lost.

    `snapshots` tells of which snapshot of the table a file is, and of which time, where each has names of its own.
    """
    table = dimension.source
    place = folder.places.of(table)
    names = place.names
    start = None if past.start is None else names.listed_from(past.start)
    past = replace(past, start=start)
    found = folder.list(table, start)
    if found is None and not past.seen:
        folder.refuse_missing()
    listed, others = found or ((), ())
    if folder.archive is None and lacks_applied_objects(listed, past):
        past = replace(past, start=None)
        listed, others = folder.list(table) or ((), ())
    listed = numbered(table, listed, past)
    tags = {item.name: folder.etag(table, item.name) for item in find_touched(listed, past)}
    listed = [replace(item, etag=tags.get(item.name, item.etag)) for item in listed] if tags else listed
    naming = replace(
        snapshots,
        is_load=lambda name: place.known(table, name).is_load,
        number=names.number,
        written=lambda item: names.written(item.order),
        partition_end=names.partition_end,
    )
    archived = folder.first_archived(table) if past.begins else None
    keeps = folder.archive is None
    selection = select_objects(str(dimension.name), listed, past, limits, naming, keeps=keeps, archived=archived)
    return replace(selection, others=tuple(others))


def still_alike(folder: Folder, table: TableName, selection: ObjectSelection) -> ObjectSelection:
    """Return the files before the first that changed while they were read.

    Their places, and the contents that had to be looked at, are those that are known.
    """
    # Names of files that lie apart begin with folders, which no listing of one of them knows.
    is_one_folder = len(folder.places.of(table).parts(table)) == 1
    first = min((item.name for item in selection.objects), default=None) if is_one_folder else None
    listed, _ = folder.list(table, first) or ((), ())
    known = {item.name: item for item in selection.objects}
    now = {}
    for item in listed:
        before = known.get(item.name, item)
        now[item.name] = replace(item, order=before.order, etag=item.etag or before.etag)
    return until_changed(selection, now)


def to_batch(
    frame: Frame,
    dimension: Dimension,
    found: Sequence[Group],
    *,
    epoch: int,
    objects: Sequence[SourceObject],
    loads: Collection[str] = (),
    back: Mapping[int, int],
    steps: Mapping[int, LogSteps] | None = None,
    may_need: frozenset[Capability],
    close: Callable[[], None],
) -> Batch[Frame]:
    """Return a batch of a frame that was surveyed; `loads` are the files of a full load among its objects.

    `back` has the first row of each object whose sequence runs backwards. `steps` has the rows
    of each that step back in the source's log (None: sequences are no places in a log).
    """
    known = facts(found, dimension, dimension.schema, objects, epoch, may_need=may_need)
    groups, refusals = by_object(found), find_refusals(frame, found)
    listed = tuple(
        replace(
            item,
            is_load=item.object.name in loads,
            backwards=back.get(item.object.order),
            spans=() if steps is None else spans(groups.get(item.object.order, ())),
            steps=None if steps is None else steps.get(item.object.order),
            refusal=refusals.get(item.object.order),
        )
        for item in known.objects
    )
    known = replace(known, objects=listed)
    if len(loads) < len(objects):
        known = replace(known, loaded=epoch)  # changes come behind the last file of the full load
    return Batch(frame.drop(TORN, MALFORMED), known, close)
