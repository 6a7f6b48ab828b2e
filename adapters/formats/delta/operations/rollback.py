"""The versions that a Delta table comes from, and the way back to one.

It is a version of its own, which Delta's history calls a RESTORE: it has the files of then, and carries the
progress of then as a commit of ours does. (Delta's own command takes rows back, and no progress.)
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
    said_in,
)
from lakeward.adapters.formats.delta.operations.restored_version import Columns, columns_of_then, restore
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.version_notes import checkpoints
from lakeward.adapters.formats.shared.operations.rollback import states_of
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.adapters.spark.session.errors import said
from lakeward.core.dimension import TableName
from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.ports import Version

_Commit = Mapping[str, Any]


@dataclass(frozen=True)
class DeltaLine:
    """The commits that the state of a table comes from, as its log has them."""

    places: Places
    name: TableName
    table: deltalake.DeltaTable
    spark: Callable[[], SparkSession]

    @classmethod
    def of(cls, places: Places, name: TableName, spark: Callable[[], SparkSession]) -> DeltaLine | None:
        """Return those of a table as it is now, or None where it is not there."""
        table = places.load(name)
        return None if table is None else cls(places, name, table, spark)

    @cached_property
    def _commits(self) -> Sequence[_Commit]:
        """What they say of themselves, newest first."""
        return list(history(self._log, self.table.version()))

    @property
    def _log(self) -> Folder:
        return log_of(self.places, self.name)

    @property
    def batch(self) -> int:
        """The batch that the table is at."""
        return next((progress.batch for progress in map(progress_in, self._commits) if progress is not None), 0)

    def versions(self) -> Sequence[Version]:
        """Return our commits whose files are there, newest first."""
        return _ours(self._whole())

    def commits(self) -> Sequence[Version]:
        """Return our commits that the log has, newest first, each named with the table: all count from 0."""
        return [
            replace(version, name=f"{self.table.metadata().id}/{version.name}") for version in _ours(self._commits)
        ]

    def shown_by(self, batch: int) -> str | None:
        """Return a version with the rows of a batch of which every file is there: ours, or one behind it."""
        states = states_of(batch, ((str(one["version"]), progress_in(one)) for one in self._commits))
        oldest = min(map(int, states), default=0)
        whole = {str(one["version"]) for one in takewhile(lambda one: one["version"] >= oldest, self._whole())}
        return next((name for name in states if name in whole), None)

    def find(self, name: str) -> Version | None:
        """Return a commit, with the progress of our last up to it, or None."""
        line = [commit for commit in self._commits if commit["version"] <= int(name)] if name.isdecimal() else []
        own = next((commit for commit in line if progress_in(commit) is not None), None)
        progress = None if own is None else progress_in(own)
        if own is None or progress is None or str(line[0]["version"]) != name:
            return None
        return Version(name=name, progress=progress, committed=micros_of(own))

    def is_at(self, name: str) -> bool:
        """Whether the current state is that of a commit, the number of its batch included: no RESTORE of others."""
        head = self._commits[0]
        here = {head["version"], restored_by(head) if _is_our_restore(head) else head["version"]}
        return name in map(str, here) and self.table.transaction_version(APP) == self.batch

    def check(self, name: str) -> None:
        """Refuse where files of then are gone, or the log, or where columns cannot be called as they were."""
        if int(name) not in {commit["version"] for commit in self._whole()}:
            raise TableError(
                f"{self.name} cannot be taken back to version {name}",
                found="files that it had then were removed, by VACUUM, say, or so was what the log had before it",
                todo=f"Nothing was changed. `lakeward rollback {self.name}` lists the versions that are whole.",
            )
        self._columns(name)

    def take_back(self, version: Version) -> None:
        """Make the files, the progress and the columns of then those of a version of its own."""
        with committing(str(self.name)), self.places.apart(self.name):
            jvm, path = Jvm(self.spark()), self.places.of(self.name)
            now = jvm.snapshot(path)
            if int(now.version()) != self.table.version():
                raise CommitConflict(
                    f"{self.name}: another writer has just committed to the table", todo="Ask again."
                )
            restore(jvm, path, now, version, self._columns(version.name))

    def _whole(self) -> Iterator[_Commit]:
        """Walk over the commits of which the log has all, and every file is there, newest first."""
        first, gone = self._first_version, frozenset[File]()
        folder = self.places.at(self.name)
        is_there = folder.presence()
        for commit in self._commits:
            if commit["version"] < first:
                return
            if not gone:
                yield commit
            if commit.get("operation") != RESTORE:  # its files are those of the next
                added, removed = changed_by(folder, commit["version"])
                gone = gone - added | {file for file in removed if not file.is_there(is_there)}

    @property
    def _first_version(self) -> int:
        """The first version that can be made from what the log has."""
        if 0 in commits_in(self._log):
            return 0
        return min(checkpoints(self._log), default=self.table.version())

    def _columns(self, name: str) -> Columns | None:
        """Return the columns of then where batches have changed them since, else None: what others did stays."""
        behind = takewhile(lambda commit: str(commit["version"]) != name, self._commits)
        if not any(SCHEMA in said_in(commit) for commit in behind):
            return None
        try:
            then = self.places.opened(self.name, version=int(name))
        except (DeltaError, OSError) as error:
            raise TableError(
                f"{self.name} cannot be read as it was at version {name}",
                found=said(error),
                todo="Nothing was changed. Name another version.",
            ) from error
        return columns_of_then(str(self.name), then, self.table)


def _ours(commits: Iterable[_Commit]) -> list[Version]:
    """Return those that are ours; where the commit is there that a rollback went to, it stands for both."""
    found = {}
    for commit in commits:
        if (progress := progress_in(commit)) is not None:
            name = str(commit["version"])
            found[progress.batch] = Version(name=name, progress=progress, committed=micros_of(commit))
    return list(found.values())


def _is_our_restore(commit: _Commit) -> bool:
    return commit.get("operation") == RESTORE and progress_in(commit) is not None


def oldest_batch(places: Places, name: TableName) -> int | None:
    """Return the batch of the first commit of ours that the log still has, or None where it has none."""
    table = places.load(name)
    commits = () if table is None else history(log_of(places, name), table.version())
    return min((progress.batch for progress in map(progress_in, commits) if progress is not None), default=None)
