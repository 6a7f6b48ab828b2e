"""The snapshots that an Iceberg table comes from, and a rollback to one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakeward.adapters.formats.iceberg.java import Jvm, committing
from lakeward.adapters.formats.iceberg.metadata.progress import (
    SCHEMA_PROPERTY,
    TAG,
    ancestors,
    commits_of,
    is_ours,
    progress_of,
    properties_of,
)
from lakeward.adapters.formats.shared.operations.commit_failures import table_changed
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError
from lakeward.core.ports import Version
from lakeward.core.progress import Progress


@dataclass(frozen=True, slots=True)
class IcebergLineage:
    """The snapshots that the state of a table comes from; `java` loads the table in Iceberg's Java API."""

    name: TableName
    table: Table
    java: Callable[[], tuple[Jvm, Any]]

    @property
    def batch(self) -> int:
        """The batch that the table is at."""
        return next((progress.batch for _, progress in commits_of(self.table)), 0)

    def versions(self) -> Sequence[Version]:
        """Return our commits, newest first."""
        return [_version(snapshot, progress) for snapshot, progress in commits_of(self.table)]

    def commits(self) -> Sequence[Version]:
        """Return our commits, newest first; snapshot ids are unique across tables."""
        return self.versions()

    def commit_showing(self, batch: int) -> str | None:
        """Return the snapshot of a batch, or None if it has expired."""
        return next((version.name for version in self.versions() if version.progress.batch == batch), None)

    def find(self, name: str) -> Version | None:
        """Return a snapshot with the progress of our last commit up to it, or None."""
        snapshot = next((item for item in self._snapshots() if str(item.snapshot_id) == name), None)
        own = None if snapshot is None else self._own(snapshot)
        return None if own is None else Version(name=name, progress=progress_of(own), committed=_micros(own))

    def is_at(self, name: str) -> bool:
        """Return whether a snapshot is the current one."""
        current = self.table.current_snapshot()
        return current is not None and str(current.snapshot_id) == name

    def check(self, name: str) -> None:
        """Raise TableError if the table is partitioned or sorted by a column that the snapshot does not have."""
        target = self._snapshot(name)
        if target.schema_id is None or not self._changes_columns(target):
            return
        earlier_schema, schema = self.table.schemas()[target.schema_id], self.table.schema()
        needed = {part.source_id for part in self.table.spec().fields}
        needed |= {item.source_id for item in self.table.sort_order().fields}
        lacking = [schema.find_column_name(number) for number in needed - set(earlier_schema.field_ids)]
        if lacking:
            raise TableError(
                f"{self.name} cannot be rolled back to {name}",
                found=f"it is partitioned or sorted by {', '.join(map(str, lacking))}, which it had not then",
                todo="Nothing was changed. Take that out of the table's partitions or order first (in Spark: "
                "`ALTER TABLE … DROP PARTITION FIELD …`).",
            )

    def go_back(self, version: Version) -> None:
        """Make a snapshot the current one: branch, our tag, and the columns if batches had changed them."""
        target, current = self._snapshot(version.name), self.table.current_snapshot()
        last_own = self._own(target)
        with committing(str(self.name)):
            jvm, table = self.java()
            operations = table.operations()
            base = operations.current()
            if last_own is None or current is None or base.currentSnapshot().snapshotId() != current.snapshot_id:
                raise table_changed(str(self.name))
            metadata = jvm.iceberg.TableMetadata.buildFrom(base).setBranchSnapshot(target.snapshot_id, "main")
            metadata.setRef(TAG, jvm.iceberg.SnapshotRef.tagBuilder(last_own.snapshot_id).build())
            if self._changes_columns(target) and target.schema_id is not None:
                metadata.setCurrentSchema(target.schema_id)
            operations.commit(base, metadata.build())

    def _snapshot(self, name: str) -> Snapshot:
        return next(snapshot for snapshot in self._snapshots() if str(snapshot.snapshot_id) == name)

    def _snapshots(self) -> Iterator[Snapshot]:
        """Return the ancestors of the state, and our older snapshots if one in between has expired."""
        return chain(ancestors(self.table), (snapshot for snapshot, _ in commits_of(self.table)))

    def _own(self, snapshot: Snapshot) -> Snapshot | None:
        """Return our last commit up to a snapshot."""
        return next((commit for commit in ancestors(self.table, snapshot) if is_ours(commit)), None)

    def _changes_columns(self, target: Snapshot) -> bool:
        """Return whether a batch after a snapshot changed the columns. Changes of others stay."""
        later = takewhile(lambda snapshot: snapshot != target, ancestors(self.table))
        return any(SCHEMA_PROPERTY in properties_of(snapshot) for snapshot in later)


def _version(snapshot: Snapshot, progress: Progress) -> Version:
    return Version(name=str(snapshot.snapshot_id), progress=progress, committed=_micros(snapshot))


def _micros(snapshot: Snapshot) -> int:
    return snapshot.timestamp_ms * 1000
