"""Versions of a change log from before each trim, noted in the change log itself.

A note is an entry like any other, so it goes with the entries above a batch. Files and log of a noted version stay;
each has a checkpoint, so that it needs no earlier log entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from lakeward.adapters.formats.delta_rs.arrow_rewrite import convert_batch
from lakeward.adapters.formats.delta_rs.commit_failures import committing
from lakeward.adapters.formats.delta_rs.side_table import DeltaSideTable, arrow_of
from lakeward.adapters.formats.delta_rs.version_notes import NOTE, noted_versions
from lakeward.adapters.formats.shared.change_log.entries import KIND, RECORD
from lakeward.adapters.spark.sql import names

_KEEP_LOG: Final = {"delta.enableExpiredLogCleanup": "false"}
"""Without this, Delta would remove log entries of noted versions after a day."""


@dataclass(frozen=True, slots=True)
class DeltaChangeLogVersions:
    """The noted versions of the change log of one table.

    `oldest` returns the batch of the table's first commit that it can be rolled back to, or None.
    """

    change_log: DeltaSideTable
    oldest: Callable[[], int | None]

    def batches(self) -> Collection[int]:
        """Return the batches with which it was trimmed, and before which its version is noted."""
        table = self.change_log.load()
        return () if table is None else noted_versions(table)

    def complete_batches(self) -> Collection[int]:
        """Return the batches whose version the log still has, with every file."""
        table = self.change_log.load()
        if table is None:
            return ()
        is_there = self.change_log.folder.existence_check()
        return [batch for batch, version in noted_versions(table).items() if self._is_whole(version, is_there)]

    def _is_whole(self, version: int, is_there: Callable[[str], bool]) -> bool:
        try:
            files = pa.table(self.change_log.open_version(version).get_add_actions())["path"]
        except DeltaError:
            return False
        return all(is_there(self.change_log.folder.place(unquote(name))) for name in files.to_pylist())

    def keep(self, batch: int) -> None:
        """Note the current version, and drop notes that no commit of the table needs any more."""
        table = self.change_log.load()
        if table is None:
            return
        oldest = self.oldest()
        if oldest is not None and oldest < batch:
            with committing(str(self.change_log.table)):
                if not _KEEP_LOG.items() <= table.metadata().configuration.items():
                    table.alter.set_table_properties(dict(_KEEP_LOG))
                table.create_checkpoint()
            note = pa.table({KIND: [NOTE], names.BATCH: [batch], RECORD: [str(table.version())]})
            self.change_log.add({}, [], note, count=0)
        self.change_log.forget(f"{KIND} = '{NOTE}' and {names.BATCH} <= {batch if oldest is None else oldest}")

    def restore(self, batch: int, trimmed: int | None) -> None:
        """Replace all rows by those of a noted version, without entries above a batch.

        Raises CommitConflict if another process writes meanwhile.
        """
        table = self.change_log.load()
        if table is None or trimmed is None:
            self.change_log.forget_above(batch)
            return
        with committing(str(self.change_log.table)):
            old_version = self.change_log.open_version(noted_versions(table)[trimmed])
            query = f"SELECT * FROM beside WHERE {names.BATCH} <= {batch}"
            reader = pa.RecordBatchReader.from_stream(QueryBuilder().register("beside", old_version).execute(query))
            schema = arrow_of(old_version)
            self.change_log.overwrite(table, schema, (convert_batch(rows, schema, {}, {}) for rows in reader))
