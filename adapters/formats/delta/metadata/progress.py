"""The progress in the last commit of ours, also if others have committed since, without Spark.

A commit of ours carries the progress twice: as `userMetadata`, which the history shows as long as the log has the
commit, and as `domainMetadata`, which every checkpoint keeps.
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
from lakeward.core.operations.key_state import BatchCommit
from lakeward.core.ports import TableState
from lakeward.core.progress import Progress

APP: Final = "lakeward"
"""The application id of our transactions, one for each batch, and the domain of our metadata."""

PROGRESS: Final = "lakeward.progress"
SCHEMA: Final = "lakeward.schema"
"""What the `userMetadata` of a commit of ours has: the progress, and in words how columns changed."""

LOG: Final = "_delta_log"
"""The folder of a table's log."""

RESTORE: Final = "RESTORE"
"""Delta's name for a commit that makes an earlier version the current one, by others or by us."""


_CHECKPOINT: Final = re.compile(r"\d+\.checkpoint(\..+)?\.(parquet|json)")


def read_table_state(places: Places, name: TableName) -> TableState:
    """Return the table state as of the last commit of ours.

    Raises TableError if another writer has restored an earlier version, or if the log has lost the progress.
    """
    table = places.load(name)
    if table is None:
        return TableState(Progress(), None)
    columns = columns_of(table.schema(), str(name))
    batch = table.transaction_version(APP)
    if batch is None:
        return TableState(Progress(), columns)
    restore_commit = None
    for commit in history(log_of(places, name), table.version()):
        progress = progress_in(commit)
        if progress is not None:
            if progress.batch != batch:
                raise _restore_error(name, f"what it was at batch {progress.batch}", batch, restore_commit)
            return TableState(progress, columns, micros_of(commit))
        if commit.get("operation") == RESTORE:
            restore_commit = commit
    return TableState(_checkpointed_progress(places, name, batch, restore_commit), columns)


def _restore_error(name: TableName, to: str, batch: int, by: Mapping[str, Any] | None) -> TableError:
    before = "the version before that" if by is None else f"version {by['version'] - 1}, which was before that"
    return TableError(
        f"{name} was restored by another writer to {to}",
        found=f"it has seen batch {batch}: a RESTORE restores rows, and not the side tables",
        todo=f"RESTORE it to {before}, by its number. Or `lakeward rollback {name}` rolls the side "
        "tables back as well, to a commit that it lists: there is none if the log has lost those of lakeward. Or "
        "drop the table to load it anew.",
    )


def commits_of(places: Places, name: TableName) -> Mapping[int, BatchCommit]:
    """Return time and version of the commit of each batch that the log still has."""
    table = places.load(name)
    commits = {}
    for commit in [] if table is None else history(log_of(places, name), table.version()):
        progress, at = progress_in(commit), micros_of(commit)
        if progress is not None and at is not None:
            commits[progress.batch] = BatchCommit(at, str(commit["version"]))
    return commits


def log_of(places: Places, name: TableName) -> Folder:
    """Return the folder of a table's log."""
    return places.at(name).within(LOG)


def micros_of(commit: Mapping[str, Any]) -> int | None:
    """Return when a commit was made, in microseconds since 1970, or None if it does not say so."""
    return commit["timestamp"] * 1000 if "timestamp" in commit else None


def history(log: Folder, upto: int) -> Iterator[Mapping[str, Any]]:
    """Yield the commit infos that a version descends from, newest first, each with its `version`.

    Before a RESTORE these are the commits up to its version; if it names a time instead, they are not known. The
    log is read directly: `DeltaTable.history()` numbers the commits that it finds from the last one down.
    """
    for version in sorted(commits_in(log), reverse=True):
        if version > upto:
            continue
        commit = {**_info(log, version), "version": version}
        yield commit
        if commit.get("operation") == RESTORE:
            upto = restored_by(commit)


def commits_in(log: Folder) -> Collection[int]:
    """Return the versions whose commits are in a log."""
    named = (file.name.split(".") for file in log.files())
    return [int(name[0]) for name in named if name[1:] == ["json"] and name[0].isdigit()]


def file_of(version: int) -> str:
    """Return the file name of a commit in a log."""
    return f"{version:020}.json"


def restored_by(commit: Mapping[str, Any]) -> int:
    """Return the version that a RESTORE made the current one, or -1 if it names none."""
    to = commit.get("operationParameters", {}).get("version")
    return -1 if to is None else int(to)


def _info(log: Folder, version: int) -> Mapping[str, Any]:
    """Return the commit info of a version; other actions are not parsed."""
    with log.open(file_of(version)) as lines:
        for line in lines:
            if line.startswith(b'{"commitInfo"'):
                info: Mapping[str, Any] = json.loads(line)["commitInfo"]
                return info
    return {}


def progress_in(commit: Mapping[str, Any]) -> Progress | None:
    """Return the progress in a commit of ours, or None for another writer's."""
    properties = user_metadata_in(commit)
    return Progress.from_json(properties[PROGRESS]) if PROGRESS in properties else None


def user_metadata_in(commit: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the user metadata of a commit of ours; nothing for another writer's."""
    try:
        properties = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return properties if isinstance(properties, dict) else {}


def _checkpointed_progress(
    places: Places, name: TableName, batch: int, restore_commit: Mapping[str, Any] | None
) -> Progress:
    """Return the progress in the newest checkpoint, if the log has lost our commit.

    After a RESTORE it is that of a checkpoint up to the `restored` version, if that is of the last batch.
    """
    log, upto = log_of(places, name), None if restore_commit is None else restored_by(restore_commit)
    domains = (domain for checkpoint in checkpoints(log, upto) for domain in domains_of(log, checkpoint))
    own_domains = (domain for domain in domains if domain["domain"] == APP and not domain.get("removed"))
    progress = next((Progress.from_json(domain["configuration"]) for domain in own_domains), None)
    if progress is not None and progress.batch == batch:
        return progress
    if restore_commit is not None:
        raise _restore_error(
            name, _describe_restored(log, restored_by(restore_commit), progress), batch, restore_commit
        )
    raise TableError(
        f"{name} is at batch {batch}, and its log does not say how far that is",
        found=f"neither the commits nor the checkpoints in {log} have the progress of lakeward",
        todo="Put the log back, or drop the table to load it anew.",
    )


def _describe_restored(log: Folder, version: int, progress: Progress | None) -> str:
    """Describe what was restored. Version -1 stands for a time, whose version is not known."""
    if progress is not None:
        return f"what it was at batch {progress.batch}"
    if version < 0:
        return "a time"
    if 0 in commits_in(log):
        return "before lakeward's first commit"
    return f"version {version}, and its log does not say any more which batch that is"


def checkpoints(log: Folder, upto: int | None = None) -> Sequence[str]:
    """Return the checkpoint files of a log, up to a version, newest first."""
    names = [file.name for file in log.files() if _CHECKPOINT.fullmatch(file.name)]
    return sorted((name for name in names if upto is None or int(name.split(".")[0]) <= upto), reverse=True)


def domains_of(log: Folder, file: str) -> Iterator[Mapping[str, Any]]:
    """Yield the metadata domains in a commit or a checkpoint, which may be JSON or Parquet."""
    with log.open(file) as opened:
        if file.endswith(".json"):
            for line in opened:
                if "domainMetadata" in (action := json.loads(line)):
                    yield action["domainMetadata"]
            return
        rows = pq.ParquetFile(opened)
        if "domainMetadata" in rows.schema_arrow.names:
            domains = rows.read(["domainMetadata"])["domainMetadata"]
            yield from domains.filter(pc.is_valid(domains)).to_pylist()
