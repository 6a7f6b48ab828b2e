"""The versions of a companion that are kept for a table that is taken back, as it notes them itself.

Each has a checkpoint, so that it needs no more of the log than that.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import deltalake
import pyarrow as pa
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from lakeward.adapters.delta_rs.places import folder_of
from lakeward.adapters.spark import names
from lakeward.adapters.tables.companion import KIND, RECORD

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


def whole(table: deltalake.DeltaTable) -> Mapping[int, int]:
    """Return those of the versions that are noted which the log still has, with every file."""
    path = str(folder_of(table))
    return {batch: version for batch, version in noted(table).items() if _is_whole(path, version)}


def _is_whole(path: str, version: int) -> bool:
    try:
        files = pa.table(deltalake.DeltaTable(path, version=version).get_add_actions())["path"]
    except DeltaError:
        return False
    return all((Path(path) / unquote(name)).exists() for name in files.to_pylist())


def checkpoints(log: Path) -> Iterator[int]:
    """Return the versions of which a log has a checkpoint."""
    for file in log.glob("*.checkpoint*"):
        number = file.name.split(".", 1)[0]
        if number.isdigit():
            yield int(number)


def clean_up(log: Path, needed: Collection[int]) -> None:
    """Remove what a log has from before its last checkpoint, but versions that are needed.

    What is not a day old stays: a reader that has listed the log finds what it has listed.
    """
    last, until = max(checkpoints(log), default=0), time.time() - _DAY
    for file in log.iterdir():
        number = file.name.split(".", 1)[0]
        if number.isdigit() and int(number) < last and int(number) not in needed and file.stat().st_mtime < until:
            file.unlink(missing_ok=True)
