"""Finding what the last commit of ours says, whoever committed since; no Spark is needed.

A commit of ours carries the progress twice: as `userMetadata`, which the history shows as long as
the log has the commit, and as `domainMetadata`, which every checkpoint keeps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from lakeward.adapters.delta.columns import columns_of
from lakeward.adapters.delta.places import Places
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError
from lakeward.core.known import Made
from lakeward.core.ports import Standing
from lakeward.core.progress import Progress

APP: Final = "lakeward"
"""The application whose transactions, one a batch, a table counts; and the domain of its metadata."""

PROGRESS: Final = "lakeward.progress"
SCHEMA: Final = "lakeward.schema"
"""What the `userMetadata` of a commit of ours has: the progress, and in words how columns changed."""

_RESTORE: Final = "RESTORE"

_LOOKS: Final = (1, 20, None)
"""How many commits of the log are read to find ours: it is nearly always the last."""


def standing_of(places: Places, name: TableName) -> Standing:
    """Return a table as its last commit of ours left it."""
    table = places.load(name)
    if table is None:
        return Standing(Progress(), None)
    columns = columns_of(table.schema(), str(name))
    batch = table.transaction_version(APP)
    if batch is None:
        return Standing(Progress(), columns)
    for limit in _LOOKS:
        is_restored = False
        for commit in _history(table, limit):
            progress = _progress_in(commit)
            if progress is not None and progress.batch <= batch:  # a later one came since the table was loaded
                if progress.batch != batch:
                    raise _restored(name, f"what it was at batch {progress.batch}", batch)
                return Standing(progress, columns, commit["timestamp"] * 1000)
            is_restored |= commit.get("operation") == _RESTORE
    if is_restored:
        raise _restored(name, "a time, or to before lakeward's first commit", batch)
    return Standing(_kept(places, name, batch), columns)


def _restored(name: TableName, to: str, batch: int) -> TableError:
    return TableError(
        f"{name} was restored by another writer to {to}",
        found=f"it has seen batch {batch}: a RESTORE takes rows back, and nothing of what stands beside them",
        todo="Restore it to the version before the RESTORE, by its number, or drop it to load it anew.",
    )


def commits_of(places: Places, name: TableName) -> Mapping[int, Made]:
    """Return when each batch that the log still has was committed, and as which version."""
    table = places.load(name)
    found = {}
    for commit in [] if table is None else _history(table, None):
        progress = _progress_in(commit)
        if progress is not None:
            found[progress.batch] = Made(commit["timestamp"] * 1000, str(commit["version"]))
    return found


def _history(table: DeltaTable, limit: int | None) -> Iterator[Mapping[str, Any]]:
    """Walk over the commits of the log that the table comes of, newest first.

    Behind a RESTORE these are those up to its version; where it names a time instead, nobody knows them.
    """
    upto = table.version()
    for commit in table.history(limit):
        if commit["version"] > upto:
            continue
        yield commit
        if commit.get("operation") == _RESTORE:
            version = commit.get("operationParameters", {}).get("version")
            upto = -1 if version is None else int(version)


def _progress_in(commit: Mapping[str, Any]) -> Progress | None:
    """Return what a commit says of us, or None where it is another writer's."""
    try:
        said = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return None
    return Progress.from_json(said[PROGRESS]) if isinstance(said, dict) and PROGRESS in said else None


def _kept(places: Places, name: TableName, batch: int) -> Progress:
    """Return the progress that the newest checkpoint kept, when the log has forgotten our commit."""
    log = Path(places.of(name)) / "_delta_log"
    for checkpoint in sorted(log.glob("*.checkpoint*.parquet"), reverse=True):
        rows = ds.dataset(checkpoint).scanner(["domainMetadata"]).to_table()
        domains = rows["domainMetadata"].filter(pc.is_valid(rows["domainMetadata"])).to_pylist()
        for domain in domains:
            if domain["domain"] == APP and not domain["removed"]:
                progress = Progress.from_json(domain["configuration"])
                if progress.batch == batch:
                    return progress
    raise TableError(
        f"{name} is at batch {batch}, and its log does not say how far that is",
        found=f"neither the commits nor the checkpoints in {log} have the progress of lakeward",
        todo="Put the log back, or drop the table to load it anew.",
    )
