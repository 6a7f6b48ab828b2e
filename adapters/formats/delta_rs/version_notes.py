"""Notes in a change log about its versions that are kept for a rollback.

Each version has a checkpoint, so that it needs no earlier log entries.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import deltalake
import pyarrow as pa
from deltalake import QueryBuilder

from lakeward.adapters.formats.shared.change_log.entries import KIND, RECORD
from lakeward.adapters.formats.shared.storage.folder import Folder, ListedFile
from lakeward.adapters.spark.sql import names

NOTE: Final = "kept"
"""The kind of an entry with the version that the change log had before it was trimmed with its batch."""

_DAY: Final = 86_400


def noted_versions(table: deltalake.DeltaTable) -> Mapping[int, int]:
    """Return the noted versions of a change log, by the batch that it was trimmed with."""
    if KIND not in [field.name for field in table.schema().fields]:
        return {}
    query = f"SELECT {names.BATCH}, {RECORD} FROM beside WHERE {KIND} = '{NOTE}'"
    notes = pa.table(QueryBuilder().register("beside", table).execute(query).read_all())
    return {row[names.BATCH]: int(row[RECORD]) for row in notes.to_pylist()}


def checkpoints(log: Folder) -> Iterator[int]:
    """Yield the versions for which a log has a checkpoint."""
    return (number for file in log.files() if (number := _version(file)) is not None and ".checkpoint" in file.name)


def clean_up(log: Folder, needed: Collection[int]) -> None:
    """Remove log files from before the last checkpoint, except those of `needed` versions.

    Files younger than a day stay, for readers that have listed the log.
    """
    files, last, until = log.files(), max(checkpoints(log), default=0), time.time() - _DAY
    for file in files:
        number = _version(file)
        if number is not None and number < last and number not in needed and file.seconds < until:
            log.remove(file.name)


def _version(file: ListedFile) -> int | None:
    """Return the version that a log file belongs to, or None."""
    number = file.name.split(".", 1)[0]
    return int(number) if number.isdigit() else None
