"""What resolving a batch found, for the steps that carry it out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.rows.table_rows import Loaded
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.core.events import Position


@dataclass(slots=True)
class Outcome:
    """What resolving found, for the steps that carry it out.

    `entries` are there of a small batch of a table with a key: all that the companion is to remember of it; so are
    `places` where they say of all that is `removed` where it lies. `drops_below` is the
    place of a truncate: of what is `removed` it is all that lies below it. With `drops_all` a full load takes the
    place of every row of the table. What is `staged` is the format's own change, which has the files of a load.
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
    table: Loaded | None = None
    cached: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Free what is cached."""
        for frame in self.cached:
            frame.unpersist()
