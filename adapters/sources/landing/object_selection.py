"""The common part of all sources of files: selection of the next files, and making of a batch."""

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

CheckObjects: TypeAlias = Callable[[TableName, Sequence[SourceObject], ObjectHistory], Sequence[SourceObject]]
"""Checks the listed files, and sets the order of each if its name does not give it."""


def select_files(
    folder: Folder,
    dimension: Dimension,
    history: ObjectHistory,
    limits: Limits,
    numbered: CheckObjects,
    snapshots: Naming = UNNAMED,
) -> ObjectSelection:
    """Select the next files of a table, in order; raises AlarmRaised where something may be lost.

    `snapshots` returns the snapshot and the time of a file, where snapshots have names of their own.
    """
    table = dimension.source
    place = folder.places.of(table)
    names = place.names
    start = None if history.start is None else names.listed_from(history.start)
    history = replace(history, start=start)
    listing = folder.list(table, start)
    if listing is None and not history.applied:
        folder.refuse_missing()
    listed, others = listing or ((), ())
    if folder.archive is None and lacks_applied_objects(listed, history):
        history = replace(history, start=None)
        listed, others = folder.list(table) or ((), ())
    listed = numbered(table, listed, history)
    tags = {item.name: folder.etag(table, item.name) for item in find_touched(listed, history)}
    listed = [replace(item, etag=tags.get(item.name, item.etag)) for item in listed] if tags else listed
    naming = replace(
        snapshots,
        is_load=lambda name: place.known(table, name).is_load,
        number=names.number,
        written=lambda item: names.written(item.order),
        partition_end=names.partition_end,
    )
    archived = folder.first_archived(table) if history.has_no_batch else None
    keeps = folder.archive is None
    selection = select_objects(str(dimension.name), listed, history, limits, naming, keeps=keeps, archived=archived)
    return replace(selection, unrelated_files=tuple(others))


def select_unchanged(folder: Folder, table: TableName, selection: ObjectSelection) -> ObjectSelection:
    """Return the selection without the first file that changed while it was read, and without all after it.

    Orders and known hashes of content are kept.
    """
    # Names of files in several folders begin with the folder, so they cannot limit the listing of one folder.
    is_one_folder = len(folder.places.of(table).parts(table)) == 1
    first = min((item.name for item in selection.objects), default=None) if is_one_folder else None
    listed, _ = folder.list(table, first) or ((), ())
    selected = {item.name: item for item in selection.objects}
    now = {}
    for item in listed:
        before = selected.get(item.name, item)
        now[item.name] = replace(item, order=before.order, etag=item.etag or before.etag)
    return until_changed(selection, now)


def to_batch(
    frame: Frame,
    dimension: Dimension,
    groups: Sequence[Group],
    *,
    epoch: int,
    objects: Sequence[SourceObject],
    loads: Collection[str] = (),
    back: Mapping[int, int],
    steps: Mapping[int, LogSteps] | None = None,
    may_need: frozenset[Capability],
    close: Callable[[], None],
) -> Batch[Frame]:
    """Return the batch of a surveyed frame; `loads` are the names of full-load files among its objects.

    `back` has the first row of each object at which the sequence decreases. `steps` has the rows of each object
    that step back in the source's log (None: sequences are not positions in a log).
    """
    batch_facts = facts(groups, dimension, dimension.schema, objects, epoch, may_need=may_need)
    own_groups, refusals = by_object(groups), find_refusals(frame, groups)
    listed = tuple(
        replace(
            item,
            is_load=item.object.name in loads,
            backwards=back.get(item.object.order),
            spans=() if steps is None else spans(own_groups.get(item.object.order, ())),
            steps=None if steps is None else steps.get(item.object.order),
            refusal=refusals.get(item.object.order),
        )
        for item in batch_facts.objects
    )
    batch_facts = replace(batch_facts, objects=listed)
    if len(loads) < len(objects):
        batch_facts = replace(batch_facts, loaded=epoch)  # changes come after the last file of the full load
    return Batch(frame.drop(TORN, MALFORMED), batch_facts, close)
