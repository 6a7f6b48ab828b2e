"""Versions of a change log from before each trim, as tags of its Iceberg table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ManageSnapshots

from lakeward.adapters.formats.iceberg.java import committing
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.progress import commits_of
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import TableName

_BEFORE: Final = "lakeward-before-"
"""The prefix of tags. The number after it is the batch that the change log was trimmed with."""


@dataclass(frozen=True, slots=True)
class IcebergChangeLogVersions:
    """The tags of the change log of one table."""

    catalog: IcebergCatalog
    name: TableName

    def batches(self) -> Collection[int]:
        """Return the batches with which it was trimmed, and before which it is tagged."""
        table = self._load()
        return () if table is None else _tags_of(table)

    def complete_batches(self) -> Collection[int]:
        """Return all of them: a tag keeps the files of its snapshot."""
        return self.batches()

    def keep(self, batch: int) -> None:
        """Tag the current snapshot, and remove tags that no commit of the table needs any more."""
        main, table = self.catalog.load(self.name), self._load()
        snapshot = None if table is None else table.current_snapshot()
        if main is None or table is None or snapshot is None:
            return
        oldest = min((progress.batch for _, progress in commits_of(main)), default=batch)
        with committing(str(self.name)), table.manage_snapshots() as manage:
            if oldest < batch:
                manage.create_tag(snapshot.snapshot_id, f"{_BEFORE}{batch}")
            for number, tag in _tags_of(table).items():
                if number <= oldest:
                    manage.remove_tag(tag)

    def restore(self, batch: int, trimmed: int | None) -> None:
        """Make the tagged snapshot the current one, without entries above a batch."""
        table = self._load()
        if table is None:
            return
        tags, later_entries = _tags_of(table), f"{names.BATCH} > {batch}"
        snapshot_id = None if trimmed is None else table.refs()[tags[trimmed]].snapshot_id
        with committing(str(self.name)), table.transaction() as transaction:
            manage = ManageSnapshots(transaction)
            if snapshot_id is not None:
                manage.set_current_snapshot(snapshot_id)
            if table.scan(later_entries, selected_fields=(names.BATCH,), snapshot_id=snapshot_id).count():
                transaction.delete(later_entries)
            for number, tag in tags.items():
                if number > batch:
                    manage.remove_tag(tag)
            manage.commit()

    def _load(self) -> Table | None:
        return self.catalog.load(self.name, CHANGES)


def _tags_of(change_log: Table) -> Mapping[int, str]:
    """Return the tags by the batch that the change log was trimmed with."""
    return {int(tag.removeprefix(_BEFORE)): tag for tag in change_log.refs() if tag.startswith(_BEFORE)}
