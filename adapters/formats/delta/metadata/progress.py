"""Finding what the last commit of ours says, whoever committed since; no Spark is needed.

A commit of ours carries the progress twice: as `userMetadata`, which the history shows as long as
the log has the commit, and as `domainMetadata`, which every checkpoint keeps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.adapters.formats.delta_rs.columns import columns_of
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError
from lakeward.core.operations.key_state import Made
from lakeward.core.ports import TableState
from lakeward.core.progress import Progress

APP: Final = "lakeward"
"""The application whose transactions, one a batch, a table counts; and the domain of its metadata."""

PROGRESS: Final = "lakeward.progress"
SCHEMA: Final = "lakeward.schema"
"""What the `userMetadata` of a commit of ours has: the progress, and in words how columns changed."""

LOG: Final = "_delta_log"
"""The folder of a table's log."""

RESTORE: Final = "RESTORE"
"""What Delta calls a commit that makes an earlier version the current one: that of others, and ours."""


_CHECKPOINT: Final = re.compile(r"\d+\.checkpoint(\..+)?\.(parquet|json)")


def standing_of(places: Places, name: TableName) -> TableState:
    """Return a table as its last commit of ours left it."""
    table = places.load(name)
    if table is None:
        return TableState(Progress(), None)
    columns = columns_of(table.schema(), str(name))
    batch = table.transaction_version(APP)
    if batch is None:
        return TableState(Progress(), columns)
    restored = None
    for commit in history(log_of(places, name), table.version()):
        progress = progress_in(commit)
        if progress is not None:
            if progress.batch != batch:
                raise _restored(name, f"what it was at batch {progress.batch}", batch, restored)
            return TableState(progress, columns, micros_of(commit))
        if commit.get("operation") == RESTORE:
            restored = commit
    return TableState(_kept(places, name, batch, restored), columns)


def _restored(name: TableName, to: str, batch: int, by: Mapping[str, Any] | None) -> TableError:
    before = "the version before that" if by is None else f"version {by['version'] - 1}, which was before that"
    return TableError(
        f"{name} was restored by another writer to {to}",
        found=f"it has seen batch {batch}: a RESTORE takes rows back, and nothing of what stands beside them",
        todo=f"RESTORE it to {before}, by its number. Or `lakeward rollback {name}` takes back what stands beside "
        "it, too, to a commit that it lists: there is none where the log has forgotten those of lakeward. Or drop "
        "the table to load it anew.",
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


def log_of(places: Places, name: TableName) -> Folder:
    """Return the folder of a table's log."""
    return places.at(name).within(LOG)


def micros_of(commit: Mapping[str, Any]) -> int | None:
    """Return when a commit was made, in microseconds since 1970, where it says so."""
    return commit["timestamp"] * 1000 if "timestamp" in commit else None


def history(log: Folder, upto: int) -> Iterator[Mapping[str, Any]]:
    """Walk over what the commits that a version comes of say of themselves, newest first, with their `version`.

    Behind a RESTORE these are those up to its version; where it names a time instead, nobody knows them. The
    log is read as it is: `DeltaTable.history()` numbers the commits that it finds from the last one down.
    """
    for version in sorted(commits_in(log), reverse=True):
        if version > upto:
            continue
        commit = {**_info(log, version), "version": version}
        yield commit
        if commit.get("operation") == RESTORE:
            upto = restored_by(commit)


def commits_in(log: Folder) -> Collection[int]:
    """Return the versions of which a log has the commit."""
    named = (file.name.split(".") for file in log.files())
    return [int(name[0]) for name in named if name[1:] == ["json"] and name[0].isdigit()]


def file_of(version: int) -> str:
    """Return the name of the file in which a log has a commit."""
    return f"{version:020}.json"


def restored_by(commit: Mapping[str, Any]) -> int:
    """Return the version that a RESTORE made the current one, or -1 where it names none."""
    to = commit.get("operationParameters", {}).get("version")
    return -1 if to is None else int(to)


def _info(log: Folder, version: int) -> Mapping[str, Any]:
    """Return what a commit says of itself; its other actions are not parsed."""
    with log.open(file_of(version)) as lines:
        for line in lines:
            if line.startswith(b'{"commitInfo"'):
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


def _kept(places: Places, name: TableName, batch: int, restored: Mapping[str, Any] | None) -> Progress:
    """Return the progress that the newest checkpoint kept, when the log has forgotten our commit.

    Behind a RESTORE it is that of a checkpoint up to what was `restored`, where that is of the last batch.
    """
    log, upto = log_of(places, name), None if restored is None else restored_by(restored)
    domains = (domain for checkpoint in checkpoints(log, upto) for domain in domains_of(log, checkpoint))
    ours = (domain for domain in domains if domain["domain"] == APP and not domain.get("removed"))
    progress = next((Progress.from_json(domain["configuration"]) for domain in ours), None)
    if progress is not None and progress.batch == batch:
        return progress
    if restored is not None:
        raise _restored(name, _then(log, restored_by(restored), progress), batch, restored)
    raise TableError(
        f"{name} is at batch {batch}, and its log does not say how far that is",
        found=f"neither the commits nor the checkpoints in {log} have the progress of lakeward",
        todo="Put the log back, or drop the table to load it anew.",
    )


def _then(log: Folder, version: int, progress: Progress | None) -> str:
    """Say what was restored: -1 is a time, whose version nobody knows."""
    if progress is not None:
        return f"what it was at batch {progress.batch}"
    if version < 0:
        return "a time"
    if 0 in commits_in(log):
        return "before lakeward's first commit"
    return f"version {version}, and its log does not say any more which batch that is"


def checkpoints(log: Folder, upto: int | None = None) -> Sequence[str]:
    """Return the files with checkpoints of a log, up to a version, the newest first."""
    found = [file.name for file in log.files() if _CHECKPOINT.fullmatch(file.name)]
    return sorted((one for one in found if upto is None or int(one.split(".")[0]) <= upto), reverse=True)


def domains_of(log: Folder, file: str) -> Iterator[Mapping[str, Any]]:
    """Return the domains of metadata that a commit or a checkpoint has, whether it is columns or lines."""
    with log.open(file) as opened:
        if file.endswith(".json"):
            for line in opened:
                if "domainMetadata" in (action := json.loads(line)):
                    yield action["domainMetadata"]
            return
        rows = pq.ParquetFile(opened)
        if "domainMetadata" in rows.schema_arrow.names:
            found = rows.read(["domainMetadata"])["domainMetadata"]
            yield from found.filter(pc.is_valid(found)).to_pylist()
