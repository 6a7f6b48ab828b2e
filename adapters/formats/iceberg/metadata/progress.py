"""The progress in the last commit of ours, also if others have committed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.columns import columns_of
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError
from lakeward.core.ports import TableState
from lakeward.core.progress import Progress

PROPERTY: Final = "lakeward.progress"
"""The snapshot property with the progress."""

SCHEMA_PROPERTY: Final = "lakeward.schema"
"""The snapshot property that describes how the commit changed the columns."""

TAG: Final = "lakeward"
"""The tag that keeps our last snapshot from expiry."""


def read_table_state(catalog: IcebergCatalog, name: TableName) -> TableState:
    """Return the table state as of the last commit of ours, read without Spark."""
    table = catalog.load(name)
    if table is None:
        return TableState(Progress(), None)
    columns = columns_of(table.schema(), str(name))
    snapshot = last_of_ours(table)
    if snapshot is None:
        return TableState(Progress(), columns)
    return TableState(progress_of(snapshot), columns, snapshot.timestamp_ms * 1000)


def last_of_ours(table: Table) -> Snapshot | None:
    """Return the newest commit of ours that the current state descends from, or None.

    Commits of other writers are skipped. If their ancestors have expired, the tag names ours. Raises TableError if
    the tagged snapshot is not an ancestor of the current state.
    """
    oldest = None
    for snapshot in ancestors(table):
        if is_ours(snapshot):
            return snapshot
        oldest = snapshot
    tagged = table.snapshot_by_name(TAG)
    if tagged is None or oldest is None:
        return None
    if (tagged.sequence_number or 0) > (oldest.sequence_number or 0):
        raise TableError(
            f"{'.'.join(table.name())} was rolled back to before lakeward's first commit",
            found=f"the tag {TAG!r} names a snapshot that the table no longer descends from",
            todo="Roll the table forward again, or drop it to load it anew.",
        )
    return tagged


def commits_of(table: Table) -> Iterator[tuple[Snapshot, Progress]]:
    """Yield our commits that the current state descends from, with their progress, newest first."""
    last = last_of_ours(table)
    for snapshot in [] if last is None else ancestors(table, last):
        if is_ours(snapshot):
            yield snapshot, progress_of(snapshot)


def is_ours(snapshot: Snapshot) -> bool:
    """Return whether a commit carries progress."""
    return PROPERTY in properties_of(snapshot)


def progress_of(snapshot: Snapshot) -> Progress:
    """Return the progress of a commit of ours."""
    return Progress.from_json(properties_of(snapshot)[PROPERTY])


def ancestors(table: Table, first: Snapshot | None = None) -> Iterator[Snapshot]:
    """Yield a snapshot, by default the current one, and its ancestors, newest first."""
    snapshot = first or table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def properties_of(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the properties of a snapshot."""
    return {} if snapshot.summary is None else snapshot.summary.additional_properties
