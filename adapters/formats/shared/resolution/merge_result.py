"""The table format's part of a merge result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.rows.table_rows import TableSnapshot
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.core.events import Position


@dataclass(slots=True)
class MergeDetail:
    """What a batch changes in a table and in its side tables, for the table format to write.

    - `upserts`: rows to write.
    - `removed`: rows to remove, with their places; None where no row goes.
    - `changes`, `deletes`, `bases`, `waiting`, `released`: entries for the change log, by their kind.
    - `rejects`: rows for the quarantine.
    - `entries`: all change log entries of a small batch of a table with a key, in Arrow, in place of these frames.
    - `places`: file and row number of every row in `removed`, in Arrow, where this process knows all of them.
    - `drops_below`: the position of a truncate. `removed` then holds all rows below it.
    - `drops_all`: the written rows replace every row of the table, as in a reload.
    - `staged`: the format's own change, which already has the files of a direct load.
    - `table`: the snapshot of the table that the batch was resolved against.
    - `cached`: frames that `close` unpersists.
    """

    upserts: Frame
    removed: Frame | None = None
    changes: DataFrame | None = None
    deletes: DataFrame | None = None
    bases: DataFrame | None = None
    waiting: DataFrame | None = None
    released: DataFrame | None = None
    rejects: DataFrame | None = None
    entries: pa.Table | None = None
    places: pa.Table | None = None
    drops_below: Position | None = None
    drops_all: bool = False
    staged: Any = None
    table: TableSnapshot | None = None
    cached: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Unpersist the cached frames."""
        for frame in self.cached:
            frame.unpersist()
