"""Finding what the last commit of ours says, whoever committed since; no Spark is needed.

A commit of ours carries the progress twice: as `userMetadata`, which the history shows as long as
the log has the commit, and as `domainMetadata`, which every checkpoint keeps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakeward.adapters.delta_rs.columns import columns_of
from lakeward.adapters.delta_rs.places import Places
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

RESTORE: Final = "RESTORE"
"""What Delta calls a commit that makes an earlier version the current one: that of others, and ours."""


def standing_of(places: Places, name: TableName) -> Standing:
    """Return a table as its last commit of ours left it."""
    table = places.load(name)
    if table is None:
        return Standing(Progress(), None)
    columns = columns_of(table.schema(), str(name))
    batch = table.transaction_version(APP)
    if batch is None:
        return Standing(Progress(), columns)
    is_restored = False
    for commit in history(log_of(places, name), table.version()):
        progress = progress_in(commit)
        if progress is not None:
            if progress.batch != batch:
                raise _restored(name, f"what it was at batch {progress.batch}", batch)
            return Standing(progress, columns, micros_of(commit))
        is_restored |= commit.get("operation") == RESTORE
    if is_restored:
        raise _restored(name, "a time, or to before lakeward's first commit", batch)
    return Standing(_kept(places, name, batch), columns)


def _restored(name: TableName, to: str, batch: int) -> TableError:
    return TableError(
        f"{name} was restored by another writer to {to}",
        found=f"it has seen batch {batch}: a RESTORE takes rows back, and nothing of what stands beside them",
        todo=f"`lakeward rollback {name}` takes back what stands beside it, too, where the log says what was "
        "restored. Or restore it to the version before the RESTORE, by its number, or drop it to load it anew.",
    )


def commits_of(places: Places, name: TableName) -> Mapping[int, Made]:
    """Return when each batch that the log still has was committed, and as which version."""
    table = places.load(name)
    found = {}
    for commit in [] if table is None else history(log_of(places, name), table.version()):
        progress, at = progress_in(commit), micros_of(commit)
        if progress is not None and at is not None:
            found[progress.batch] = Made(at, str(commit["version"]))
    return found


def log_of(places: Places, name: TableName) -> Path:
    """Return the folder of a table's log."""
    return Path(places.of(name)) / "_delta_log"


def micros_of(commit: Mapping[str, Any]) -> int | None:
    """Return when a commit was made, in microseconds since 1970, where it says so."""
    return commit["timestamp"] * 1000 if "timestamp" in commit else None


def history(log: Path, upto: int) -> Iterator[Mapping[str, Any]]:
    """Walk over what the commits that a version comes of say of themselves, newest first, with their `version`.

    Behind a RESTORE these are those up to its version; where it names a time instead, nobody knows them. The
    log is read as it is: `DeltaTable.history()` numbers the commits that it finds from the last one down.
    """
    files = {int(file.stem): file for file in log.glob("*.json") if file.stem.isdigit()}
    for version in sorted(files, reverse=True):
        if version > upto:
            continue
        commit = {**_info(files[version]), "version": version}
        yield commit
        if commit.get("operation") == RESTORE:
            upto = restored_by(commit)


def restored_by(commit: Mapping[str, Any]) -> int:
    """Return the version that a RESTORE made the current one, or -1 where it names none."""
    to = commit.get("operationParameters", {}).get("version")
    return -1 if to is None else int(to)


def _info(file: Path) -> Mapping[str, Any]:
    """Return what a commit says of itself; its other actions are not parsed."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith('{"commitInfo"'):
                found: Mapping[str, Any] = json.loads(line)["commitInfo"]
                return found
    return {}


def progress_in(commit: Mapping[str, Any]) -> Progress | None:
    """Return the progress that a commit of ours carries, or None where it is another writer's."""
    said = said_in(commit)
    return Progress.from_json(said[PROGRESS]) if PROGRESS in said else None


def said_in(commit: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a commit of ours says, by name; nothing where it is another writer's."""
    try:
        said = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _kept(places: Places, name: TableName, batch: int) -> Progress:
    """Return the progress that the newest checkpoint kept, when the log has forgotten our commit."""
    log = log_of(places, name)
    for checkpoint in checkpoints(log):
        for domain in domains_of(checkpoint):
            if domain["domain"] == APP and not domain.get("removed"):
                progress = Progress.from_json(domain["configuration"])
                if progress.batch == batch:
                    return progress
    raise TableError(
        f"{name} is at batch {batch}, and its log does not say how far that is",
        found=f"neither the commits nor the checkpoints in {log} have the progress of lakeward",
        todo="Put the log back, or drop the table to load it anew.",
    )


def checkpoints(log: Path, upto: int | None = None) -> Sequence[Path]:
    """Return the checkpoints of a log, up to a version, the newest first."""
    found = [*log.glob("*.checkpoint*.parquet"), *log.glob("*.checkpoint.*.json")]
    return sorted((one for one in found if upto is None or int(one.name.split(".")[0]) <= upto), reverse=True)


def domains_of(file: Path) -> Iterator[Mapping[str, Any]]:
    """Return the domains of metadata that a commit or a checkpoint has, whether it is columns or lines."""
    if file.suffix == ".json":
        for line in file.read_text("utf-8").splitlines():
            if "domainMetadata" in (action := json.loads(line)):
                yield action["domainMetadata"]
        return
    rows = ds.dataset(file)
    if "domainMetadata" in rows.schema.names:
        found = rows.scanner(["domainMetadata"]).to_table()["domainMetadata"]
        yield from found.filter(pc.is_valid(found)).to_pylist()
