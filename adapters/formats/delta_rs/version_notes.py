"""The versions of a companion that are kept for a table that is taken back, as it notes them itself.

Each has a checkpoint, so that it needs no more of the log than that.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import deltalake
import pyarrow as pa
from deltalake import QueryBuilder

from lakeward.adapters.formats.shared.change_log.entries import KIND, RECORD
from lakeward.adapters.formats.shared.storage.folder import Folder, Found
from lakeward.adapters.spark.sql import names

NOTE: Final = "kept"
"""The kind of an entry that says at which version the companion was before it was trimmed with its batch."""

_DAY: Final = 86_400


def noted(table: deltalake.DeltaTable) -> Mapping[int, int]:
    """Return the versions that a table beside another has notes of, by the batch that it was trimmed with."""
    if KIND not in [field.name for field in table.schema().fields]:
        return {}
    query = f"SELECT {names.BATCH}, {RECORD} FROM beside WHERE {KIND} = '{NOTE}'"
    found = pa.table(QueryBuilder().register("beside", table).execute(query).read_all())
    return {row[names.BATCH]: int(row[RECORD]) for row in found.to_pylist()}


def checkpoints(log: Folder) -> Iterator[int]:
    """Return the versions of which a log has a checkpoint."""
    return (number for file in log.files() if (number := _version(file)) is not None and ".checkpoint" in file.name)


def clean_up(log: Folder, needed: Collection[int]) -> None:
    """Remove what a log has from before its last checkpoint, but versions that are needed.

    What is not a day old stays: a reader that has listed the log finds what it has listed.
    """
    files, last, until = log.files(), max(checkpoints(log), default=0), time.time() - _DAY
    for file in files:
        number = _version(file)
        if number is not None and number < last and number not in needed and file.seconds < until:
            log.remove(file.name)


def _version(file: Found) -> int | None:
    """Return the number of the version that a file of a log is of, or None where it is of none."""
    number = file.name.split(".", 1)[0]
    return int(number) if number.isdigit() else None
