"""The versions that a Delta table comes from, and a rollback to one of them.

A rollback is a version of its own, which Delta's history calls a RESTORE. It has the earlier files, and carries the
earlier progress like any commit of ours. (Delta's own command restores rows, and no progress.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Any

import deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta.java import Jvm, committing
from lakeward.adapters.formats.delta.metadata.commit_files import File, changed_by
from lakeward.adapters.formats.delta.metadata.progress import (
    APP,
    RESTORE,
    SCHEMA,
    commits_in,
    history,
    log_of,
    micros_of,
    progress_in,
    restored_by,
    user_metadata_in,
)
from lakeward.adapters.formats.delta.operations.restored_version import Columns, columns_of_then, restore
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.version_notes import checkpoints
from lakeward.adapters.formats.shared.operations.commit_failures import table_changed
from lakeward.adapters.formats.shared.operations.rollback import states_of
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.adapters.spark.session.errors import short_message
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError
from lakeward.core.ports import Version

_Commit = Mapping[str, Any]


@dataclass(frozen=True)
class DeltaLineage:
    """The commits that the state of a table comes from, from its log."""

    places: Places
    name: TableName
    table: deltalake.DeltaTable
    spark: Callable[[], SparkSession]

    @classmethod
    def of(cls, places: Places, name: TableName, spark: Callable[[], SparkSession]) -> DeltaLineage | None:
        """Return the lineage of a table as of now, or None if it does not exist."""
        table = places.load(name)
        return None if table is None else cls(places, name, table, spark)

    @cached_property
    def _commits(self) -> Sequence[_Commit]:
        """The commit infos, newest first."""
        return list(history(self._log, self.table.version()))

    @property
    def _log(self) -> Folder:
        return log_of(self.places, self.name)

    @property
    def batch(self) -> int:
        """The batch that the table is at."""
        return next((progress.batch for progress in map(progress_in, self._commits) if progress is not None), 0)

    def versions(self) -> Sequence[Version]:
        """Return our commits whose files exist, newest first."""
        return _own_versions(self._complete_commits())

    def commits(self) -> Sequence[Version]:
        """Return our commits that are in the log, newest first.

        Names include the table's id, since versions of every table count from 0.
        """
        return [
            replace(version, name=f"{self.table.metadata().id}/{version.name}")
            for version in _own_versions(self._commits)
        ]

    def commit_showing(self, batch: int) -> str | None:
        """Return a version with the rows of a batch whose files all exist: ours, or a later one of others."""
        states = states_of(batch, ((str(commit["version"]), progress_in(commit)) for commit in self._commits))
        oldest = min(map(int, states), default=0)
        complete = {
            str(commit["version"])
            for commit in takewhile(lambda commit: commit["version"] >= oldest, self._complete_commits())
        }
        return next((name for name in states if name in complete), None)

    def find(self, name: str) -> Version | None:
        """Return a commit with the progress of our last commit up to it, or None."""
        commits = [commit for commit in self._commits if commit["version"] <= int(name)] if name.isdecimal() else []
        own_commit = next((commit for commit in commits if progress_in(commit) is not None), None)
        progress = None if own_commit is None else progress_in(own_commit)
        if own_commit is None or progress is None or str(commits[0]["version"]) != name:
            return None
        return Version(name=name, progress=progress, committed=micros_of(own_commit))

    def is_at(self, name: str) -> bool:
        """Return whether the current state is that of a commit and its batch; a RESTORE of others is not."""
        head = self._commits[0]
        current_versions = {head["version"], restored_by(head) if _is_our_restore(head) else head["version"]}
        return name in map(str, current_versions) and self.table.transaction_version(APP) == self.batch

    def check(self, name: str) -> None:
        """Raise TableError if files or log entries of the version are gone, or its columns cannot be restored."""
        if int(name) not in {commit["version"] for commit in self._complete_commits()}:
            raise TableError(
                f"{self.name} cannot be rolled back to version {name}",
                found="files that it had then were removed, by VACUUM, say, or so was what the log had before it",
                todo=f"Nothing was changed. `lakeward rollback {self.name}` lists the versions that are whole.",
            )
        self._columns(name)

    def go_back(self, version: Version) -> None:
        """Commit a version with the files, the progress and the columns of an earlier one."""
        with committing(str(self.name)), self.places.apart(self.name):
            jvm, path = Jvm(self.spark()), self.places.of(self.name)
            now = jvm.snapshot(path)
            if int(now.version()) != self.table.version():
                raise table_changed(str(self.name))
            restore(jvm, path, now, version, self._columns(version.name))

    def _complete_commits(self) -> Iterator[_Commit]:
        """Yield the commits whose log entries and files all exist, newest first."""
        first, missing = self._first_version, frozenset[File]()
        folder = self.places.at(self.name)
        is_there = folder.existence_check()
        for commit in self._commits:
            if commit["version"] < first:
                return
            if not missing:
                yield commit
            if commit.get("operation") != RESTORE:  # a RESTORE has the files of the commit that follows here
                added, removed = changed_by(folder, commit["version"])
                missing = missing - added | {file for file in removed if not file.is_there(is_there)}

    @property
    def _first_version(self) -> int:
        """The first version that the log can still describe."""
        if 0 in commits_in(self._log):
            return 0
        return min(checkpoints(self._log), default=self.table.version())

    def _columns(self, name: str) -> Columns | None:
        """Return the columns of a version if batches have changed them since, else None. Changes of others stay."""
        later = takewhile(lambda commit: str(commit["version"]) != name, self._commits)
        if not any(SCHEMA in user_metadata_in(commit) for commit in later):
            return None
        try:
            earlier = self.places.open_version(self.name, version=int(name))
        except (DeltaError, OSError) as error:
            raise TableError(
                f"{self.name} cannot be read as it was at version {name}",
                found=short_message(error),
                todo="Nothing was changed. Name another version.",
            ) from error
        return columns_of_then(str(self.name), earlier, self.table)


def _own_versions(commits: Iterable[_Commit]) -> list[Version]:
    """Return our commits. A rollback and the commit that it went back to are one, if the latter still exists."""
    versions = {}
    for commit in commits:
        if (progress := progress_in(commit)) is not None:
            name = str(commit["version"])
            versions[progress.batch] = Version(name=name, progress=progress, committed=micros_of(commit))
    return list(versions.values())


def _is_our_restore(commit: _Commit) -> bool:
    return commit.get("operation") == RESTORE and progress_in(commit) is not None


def oldest_batch(places: Places, name: TableName) -> int | None:
    """Return the batch of our first commit that the log still has, or None."""
    table = places.load(name)
    commits = () if table is None else history(log_of(places, name), table.version())
    return min((progress.batch for progress in map(progress_in, commits) if progress is not None), default=None)
