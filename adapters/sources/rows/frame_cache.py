"""Cached frames of the files that several tables read: the second table does not read them again.

Spark caches the rows of a frame by its query plan, in all sessions. The plan of a cached frame therefore contains
the versions of its files: if a file was rewritten, its old rows are not used. Frames of the same files are released
together, because Spark would drop their shared rows with the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from threading import Lock

from pyspark.sql import DataFrame

from lakeward.adapters.spark.execution.parallelism import level_of
from lakeward.adapters.spark.execution.query_plans import with_identity
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ledger.objects import SourceObject


@dataclass(slots=True, eq=False)
class _CachedFiles:
    """The cached frames of one list of files: the tables that read them, and the numbers of frames in use."""

    files: str
    """The digest of `_versions`."""
    tables: set[TableName] = field(default_factory=set)
    frames: list[DataFrame] = field(default_factory=list)
    in_use: set[int] = field(default_factory=set)


@dataclass(slots=True)
class FrameCache:
    """The cached frames of a source; tables may use it from several threads.

    For each table of the source at most one list of files is cached while no table uses it: the last one.
    """

    _readings: dict[TableName, list[_CachedFiles]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def cache(
        self, frame: Frame, dimension: Dimension, objects: Sequence[SourceObject]
    ) -> tuple[Frame, Callable[[], None]]:
        """Return the cached frame of these files, and the function by which its table releases it.

        A small batch is returned as it is: its rows are in this process anyway.
        """
        if isinstance(frame, LocalFrame):
            return frame, lambda: None
        files = _versions(objects)
        cached = with_identity(frame, files)
        with self._lock:
            readings = self._readings.setdefault(dimension.source, [])
            for other in [one for one in readings if one.files != files and not one.in_use]:
                self._forget(dimension.source, other)
            reading = next((one for one in readings if one.files == files), None)
            if reading is None:
                readings.append(reading := _CachedFiles(files))
            reading.tables.add(dimension.name)
            reading.in_use.add(number := len(reading.frames))
            reading.frames.append(cached.persist(level_of(sum(item.size for item in objects))))
        return cached, partial(self._done, dimension, reading, number)

    def _done(self, dimension: Dimension, reading: _CachedFiles, number: int) -> None:
        with self._lock:
            if number not in reading.in_use:
                return
            reading.in_use.remove(number)
            is_last = self._readings[dimension.source][-1] is reading
            if not reading.in_use and (len(reading.tables) >= dimension.readers or not is_last):
                self._forget(dimension.source, reading)

    def _forget(self, table: TableName, reading: _CachedFiles) -> None:
        self._readings[table].remove(reading)
        for frame in reading.frames:
            frame.unpersist()


def _versions(objects: Sequence[SourceObject]) -> str:
    """Return a digest of the present versions of these files in this order."""
    listed = "\n".join(f"{item.version} {item.etag}" for item in objects)
    return sha256(listed.encode()).hexdigest()[:32]
