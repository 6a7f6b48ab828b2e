"""What stands beside an Iceberg table, and what its companion knew before it was trimmed.

A table that is taken back needs that again. Before each trimming a tag keeps the companion as it is, for as long
as the table has a commit of ours from before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lakeward.adapters.iceberg.beside import IcebergBeside
from lakeward.adapters.iceberg.catalog import IcebergCatalog
from lakeward.adapters.iceberg.java import committing
from lakeward.adapters.iceberg.progress import commits_of
from lakeward.adapters.tables.beside import CHANGES
from lakeward.adapters.tables.companion import CompanionTable, next_trim
from lakeward.adapters.tables.keeping import Keeping
from lakeward.core.dimension import Dimension
from lakeward.core.errors import TableError
from lakeward.core.ports import Recalled
from lakeward.core.progress import Progress

_BEFORE: Final = "lakeward-before-"
"""Tags of the companion: what it was before it was trimmed with the batch of that number."""


class IcebergKeeping(Keeping):
    """The companion and the quarantine of one table; what is trimmed there is kept for a rollback."""

    def __init__(self, catalog: IcebergCatalog, dimension: Dimension, spark: Callable[[], SparkSession]) -> None:
        self.catalog = catalog
        self.make = partial(IcebergBeside, catalog, dimension.name, spark)
        super().__init__(dimension, self.make, spark)

    def forget(self) -> None:
        """Forget what was read of the companion: it is another now."""
        self.companion = CompanionTable(self.dimension, self.make)

    def recall(self, progress: Progress) -> Recalled:
        """Return what is remembered; a batch that the companion was trimmed with was no crash's."""
        recalled = super().recall(progress)
        table = self.catalog.load(self.dimension.name, CHANGES) if self.companion.has_leftovers else None
        if table is not None and progress.batch + 1 in tags_of(table):
            raise TableError(
                f"{self.dimension.name} was rolled back to batch {progress.batch}",
                found=f"its companion was trimmed with batch {progress.batch + 1}",
                todo=f"`lakeward rollback {self.dimension.name}` takes back what it remembers, too. Or roll it "
                "forward again, or drop the table and its companion to load it anew.",
            )
        return recalled

    def trim(self, progress: Progress) -> None:
        """Forget what can no longer matter to the table as it stands, and keep it for one that is taken back."""
        if next_trim(progress.batch - 1) == progress.batch:
            self._keep(progress.batch)
        super().trim(progress)

    def _keep(self, batch: int) -> None:
        """Tag the companion as it is; tags that no commit of the table needs any more go."""
        main, table = self.catalog.load(self.dimension.name), self.catalog.load(self.dimension.name, CHANGES)
        snapshot = None if table is None else table.current_snapshot()
        if main is None or table is None or snapshot is None:
            return
        oldest = min((progress.batch for _, progress in commits_of(main)), default=batch)
        with committing(str(self.dimension.name)), table.manage_snapshots() as manage:
            if oldest < batch:
                manage.create_tag(snapshot.snapshot_id, f"{_BEFORE}{batch}")
            for number, tag in tags_of(table).items():
                if number <= oldest:
                    manage.remove_tag(tag)


def tags_of(companion: Table) -> Mapping[int, str]:
    """Return the tags of what a companion was before it was trimmed, by the batch that it was trimmed with."""
    return {int(tag.removeprefix(_BEFORE)): tag for tag in companion.refs() if tag.startswith(_BEFORE)}
