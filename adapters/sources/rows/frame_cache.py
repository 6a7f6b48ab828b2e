"""Frames that are kept while tables read them: of two tables of the same files, the second need not read again.

Spark keeps the rows of a frame by its plan, whichever session made it. So a frame has in its plan of which
versions of files it is: rows of a file are never taken for those of the file as it was written anew since. And
frames of the same files are let go together: the first that went would take the rows of the other with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from threading import Lock

from pyspark.sql import DataFrame

from lakeward.adapters.spark.execution.parallelism import level_of
from lakeward.adapters.spark.execution.query_plans import told_apart
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ledger.objects import SourceObject


@dataclass(slots=True, eq=False)
class _Reading:
    """The same files as tables read them: which tables did so far, all frames of them, and those not done with."""

    files: str
    tables: set[TableName] = field(default_factory=set)
    frames: list[DataFrame] = field(default_factory=list)
    in_hand: set[int] = field(default_factory=set)


@dataclass(slots=True)
class KeptFrames:
    """The frames of a source. Tables are worked on in threads of their own.

    Of each table of the source at most one reading waits for others, the last one.
    """

    _readings: dict[TableName, list[_Reading]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def keep(
        self, frame: Frame, dimension: Dimension, objects: Sequence[SourceObject]
    ) -> tuple[Frame, Callable[[], None]]:
        """Return a frame of these files as it is kept, and what says that its table is done with it.

        A small batch is in this process anyway.
        """
        if isinstance(frame, LocalFrame):
            return frame, lambda: None
        files = _versions(objects)
        kept = told_apart(frame, files)
        with self._lock:
            readings = self._readings.setdefault(dimension.source, [])
            for other in [one for one in readings if one.files != files and not one.in_hand]:
                self._forget(dimension.source, other)
            reading = next((one for one in readings if one.files == files), None)
            if reading is None:
                readings.append(reading := _Reading(files))
            reading.tables.add(dimension.name)
            reading.in_hand.add(number := len(reading.frames))
            reading.frames.append(kept.persist(level_of(sum(item.size for item in objects))))
        return kept, partial(self._done, dimension, reading, number)

    def _done(self, dimension: Dimension, reading: _Reading, number: int) -> None:
        with self._lock:
            if number not in reading.in_hand:
                return
            reading.in_hand.remove(number)
            is_last = self._readings[dimension.source][-1] is reading
            if not reading.in_hand and (len(reading.tables) >= dimension.readers or not is_last):
                self._forget(dimension.source, reading)

    def _forget(self, table: TableName, reading: _Reading) -> None:
        self._readings[table].remove(reading)
        for frame in reading.frames:
            frame.unpersist()


def _versions(objects: Sequence[SourceObject]) -> str:
    """Return what these files, as they are now and in this order, are known by."""
    listed = "\n".join(f"{item.version} {item.etag}" for item in objects)
    return sha256(listed.encode()).hexdigest()[:32]
