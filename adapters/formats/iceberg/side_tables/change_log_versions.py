"""What the companion of an Iceberg table knew before it was trimmed: tags of it."""

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
"""Tags of the companion: what it was before it was trimmed with the batch of that number."""


@dataclass(frozen=True, slots=True)
class IcebergEarlier:
    """The tags of the companion of one table."""

    catalog: IcebergCatalog
    name: TableName

    def batches(self) -> Collection[int]:
        """Return the batches with which it was trimmed, and before which it is tagged."""
        table = self._load()
        return () if table is None else _tags_of(table)

    def whole(self) -> Collection[int]:
        """Return all of them: a tag keeps the files of its snapshot, from others, too."""
        return self.batches()

    def keep(self, batch: int) -> None:
        """Tag it as it is; tags that no commit of the table needs any more go."""
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

    def bring_back(self, batch: int, trimmed: int | None) -> None:
        """Make the snapshot of a tag the current one, without what is stamped above a batch."""
        table = self._load()
        if table is None:
            return
        tags, above = _tags_of(table), f"{names.BATCH} > {batch}"
        then = None if trimmed is None else table.refs()[tags[trimmed]].snapshot_id
        with committing(str(self.name)), table.transaction() as transaction:
            manage = ManageSnapshots(transaction)
            if then is not None:
                manage.set_current_snapshot(then)
            if table.scan(above, selected_fields=(names.BATCH,), snapshot_id=then).count():
                transaction.delete(above)
            for number, tag in tags.items():
                if number > batch:
                    manage.remove_tag(tag)
            manage.commit()

    def _load(self) -> Table | None:
        return self.catalog.load(self.name, CHANGES)


def _tags_of(change_log: Table) -> Mapping[int, str]:
    """Return the tags of what a companion was before it was trimmed, by the batch that it was trimmed with."""
    return {int(tag.removeprefix(_BEFORE)): tag for tag in change_log.refs() if tag.startswith(_BEFORE)}
