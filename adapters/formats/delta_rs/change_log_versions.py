"""What a companion knew before it was trimmed: versions of it, noted in itself.

A note is an entry of the companion, stamped as any other: it goes with what is stamped above a batch. The files
and the log of a version that is noted stay; each has a checkpoint, so that it needs no more of the log than that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from lakeward.adapters.formats.delta_rs.arrow_rewrite import rewritten
from lakeward.adapters.formats.delta_rs.commit_failures import committing
from lakeward.adapters.formats.delta_rs.side_table import DeltaBeside, arrow_of
from lakeward.adapters.formats.delta_rs.version_notes import NOTE, noted
from lakeward.adapters.formats.shared.change_log.entries import KIND, RECORD
from lakeward.adapters.spark.sql import names

_KEEP_LOG: Final = {"delta.enableExpiredLogCleanup": "false"}
"""Delta would clean up what a version that is noted needs, once it is a day old."""


@dataclass(frozen=True, slots=True)
class DeltaEarlier:
    """The versions of the companion of one table that are noted.

    `oldest` returns the batch of the table's first commit that it may be taken back to, None where it has none.
    """

    change_log: DeltaBeside
    oldest: Callable[[], int | None]

    def batches(self) -> Collection[int]:
        """Return the batches with which it was trimmed, and before which its version is noted."""
        table = self.change_log.load()
        return () if table is None else noted(table)

    def whole(self) -> Collection[int]:
        """Return those of them whose version the log still has, with every file."""
        table = self.change_log.load()
        if table is None:
            return ()
        is_there = self.change_log.folder.presence()
        return [batch for batch, version in noted(table).items() if self._is_whole(version, is_there)]

    def _is_whole(self, version: int, is_there: Callable[[str], bool]) -> bool:
        try:
            files = pa.table(self.change_log.opened(version).get_add_actions())["path"]
        except DeltaError:
            return False
        return all(is_there(self.change_log.folder.place(unquote(name))) for name in files.to_pylist())

    def keep(self, batch: int) -> None:
        """Note the version that it is at; notes that no commit of the table needs any more go."""
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

    def bring_back(self, batch: int, trimmed: int | None) -> None:
        """Put the rows of a version that is noted in the place of all, without what is stamped above a batch.

        Raises CommitConflict where another process writes meanwhile.
        """
        table = self.change_log.load()
        if table is None or trimmed is None:
            self.change_log.forget_above(batch)
            return
        with committing(str(self.change_log.table)):
            then = self.change_log.opened(noted(table)[trimmed])
            query = f"SELECT * FROM beside WHERE {names.BATCH} <= {batch}"
            reader = pa.RecordBatchReader.from_stream(QueryBuilder().register("beside", then).execute(query))
            schema = arrow_of(then)
            self.change_log.overwrite(table, schema, (rewritten(rows, schema, {}, {}) for rows in reader))
