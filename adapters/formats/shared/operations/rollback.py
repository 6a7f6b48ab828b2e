"""Roll a table back to an earlier commit, together with its side tables.

The table goes first, in one commit: rows, progress, and the columns that later batches had changed. Then quarantine
and change log forget entries above its batch. Entries that were trimmed since then are restored: the change log is
kept as it was before each trim, for as long as the table has a commit that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from pyspark.sql import SparkSession

from lakeward.adapters.formats.shared.change_log import batch_record
from lakeward.adapters.formats.shared.change_log.entries import BATCH, DECISIONS, KIND, RECORD
from lakeward.adapters.formats.shared.change_log.retention import next_trim
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.side_tables.side_table import OpenSideTable
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.ledger.writer import applied_record
from lakeward.core.ports import ChangeLogState, RollbackPreview, Version
from lakeward.core.progress import Progress
from lakeward.plugins.registry import SMALL_BATCH


class TableLineage(Protocol):
    """The commits that a table's state comes from, as of when it was loaded; at least one is of lakeward."""

    @property
    def batch(self) -> int:
        """The batch that the table is at."""
        ...

    def versions(self) -> Sequence[Version]:
        """Return our commits that it can be rolled back to, newest first, each batch once, with the current one."""
        ...

    def commits(self) -> Sequence[Version]:
        """Return our commits, newest first, each batch once, by names that no earlier table of its name had.

        These are all commits that the table still lists: files of some may be gone, and even the last may be
        forgotten.
        """
        ...

    def commit_showing(self, batch: int) -> str | None:
        """Return the name of a commit with the rows of a batch: ours, or one that others made of it.

        None if the files of each are gone. Those of the current state are always there.
        """
        ...

    def find(self, name: str) -> Version | None:
        """Return a commit of any writer, with the progress of our last commit before it; None if there is none."""
        ...

    def is_at(self, name: str) -> bool:
        """Return whether the current state is that of a commit."""
        ...

    def check(self, name: str) -> None:
        """Raise TableError, with the reason, if it cannot be rolled back to a commit that it has."""
        ...

    def go_back(self, version: Version) -> None:
        """Make a commit the current state, in one commit. Raises CommitConflict if another writer was first."""
        ...


def states_of(batch: int, states: Iterable[tuple[str, Progress | None]]) -> Sequence[str]:
    """Return the states of a table that have the rows of a batch; that of the batch's own commit is first.

    `states` are names, newest first, each with the progress of its commit, which is None for another writer's. If
    none is ours, the table has forgotten the commit that all of them follow.
    """
    names, behind, is_known = list[str](), list[str](), False
    for name, progress in states:
        behind.append(name)
        if progress is not None:
            names, behind, is_known = names + behind * (progress.batch == batch), [], True
    names = names if is_known else behind
    return [*names[-1:], *names[:-1]]


class ChangeLogVersions(Protocol):
    """A change log as it was before each trim, by the batch that it was trimmed with."""

    def batches(self) -> Collection[int]:
        """Return the batches with which it was trimmed, and before which it is kept."""
        ...

    def complete_batches(self) -> Collection[int]:
        """Return the batches whose version still has every file; VACUUM by others may have removed some."""
        ...

    def keep(self, batch: int) -> None:
        """Keep it as it is, before it is trimmed with a batch.

        Versions that no commit of the table needs any more are dropped.
        """
        ...

    def restore(self, batch: int, trimmed: int | None) -> None:
        """Restore the change log as of a batch, in one commit, and drop versions kept above that.

        It is the version kept before it was `trimmed` with a batch, or else its current entries, without those
        above `batch`.
        """
        ...


class RestorableSideTables(SideTables):
    """The side tables of a table that can be rolled back: what is trimmed is kept."""

    def __init__(
        self,
        dimension: Dimension,
        open_side_table: OpenSideTable,
        spark: Callable[[], SparkSession],
        change_log_versions: ChangeLogVersions,
        small_batch: int = SMALL_BATCH,
    ) -> None:
        self.open_side_table = open_side_table
        self.change_log_versions = change_log_versions
        super().__init__(dimension, open_side_table, spark, small_batch)

    def forget(self) -> None:
        """Forget what was read of the change log, since it has been replaced."""
        self.change_log = ChangeLogTable(self.dimension, self.open_side_table)

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Return the change log state. Raises TableError if the table was rolled back without its change log.

        An entry above the table's batch is not from a crash if the change log was trimmed with its batch.
        """
        change_log_state = super().read_state(progress)
        if self.change_log.batches.has_leftovers and progress.batch + 1 in self.change_log_versions.batches():
            raise TableError(
                f"{self.dimension.name} was rolled back to batch {progress.batch}",
                found=f"its change log was trimmed with batch {progress.batch + 1}",
                todo=f"`lakeward rollback {self.dimension.name}` rolls back its change log too. Or roll it "
                "forward again, or drop the table and its change log to load it anew.",
            )
        return change_log_state

    def trim(self, progress: Progress) -> None:
        """Trim the change log, and keep it as it was before, for a rollback."""
        if next_trim(progress.batch - 1) == progress.batch:
            self.change_log_versions.keep(progress.batch)
        super().trim(progress)


class TableVersions:
    """The commits that a table can be rolled back to. `load` returns its current lineage."""

    def __init__(self, side_tables: RestorableSideTables, load: Callable[[], TableLineage | None]) -> None:
        self.side_tables = side_tables
        self.load = load
        self.name = side_tables.dimension.name

    def versions(self) -> Sequence[Version]:
        """Return our commits whose change log is kept in full, without the current state."""
        lineage = self.load()
        if lineage is None:
            return []
        newest, kept_batches = self._newest(lineage), self.side_tables.change_log_versions.complete_batches()
        return [
            version
            for version in lineage.versions()
            if not self._is_at(lineage, version.name, newest)
            and not _is_lost(version.progress.batch, newest, kept_batches)
        ]

    def preview_rollback(self, name: str) -> RollbackPreview:
        """Return what a rollback to a commit undoes. It may be another writer's commit, of compacted rows say."""
        lineage = self.load()
        version = None if lineage is None else lineage.find(name)
        if lineage is None or version is None:
            raise self._unknown(name)
        newest, batch = self._newest(lineage), version.progress.batch
        if self._is_at(lineage, name, newest):
            raise ConfigError(f"{self.name} stands at {name} already", todo="Nothing was changed.")
        if _is_lost(batch, newest, self.side_tables.change_log_versions.complete_batches()):
            has_version = next_trim(batch) in self.side_tables.change_log_versions.batches()
            reason = "removed by others" if has_version else "forgotten"
            raise TableError(
                f"{self.name} cannot be rolled back to {name}",
                found=f"what it remembered at batch {batch}, before it was trimmed with batch {next_trim(batch)}, "
                f"was {reason}",
                todo=f"Nothing was changed. Name a later one (`lakeward rollback {self.name}` lists them), or load "
                f"the table anew: `lakeward reload {self.name}`.",
            )
        lineage.check(name)
        entries = self._entries(batch)
        later = [batch_record.read(number, text) for kind, number, text in entries if kind == BATCH]
        return RollbackPreview(
            version=version,
            objects=[applied_record(item, 0) for record in later for item in record.facts],
            batches=len(later),
            by_hand=sum(not record.facts for record in later),
            decisions=[
                batch_record.read_decision(DECISIONS[kind], text) for kind, _, text in entries if kind in DECISIONS
            ],
        )

    def roll_back(self, preview: RollbackPreview) -> None:
        """Roll the table back, then its side tables. Steps that were done already are not done again."""
        lineage, batch = self.load(), preview.version.progress.batch
        if lineage is None:
            raise TableError(f"{self.name} is gone", todo="Nothing was changed.")
        newest = self._newest(lineage)
        if newest == lineage.batch > batch:  # entries left by a crash would look like an applied batch
            self.side_tables.change_log.table.forget_above(newest)
        if not lineage.is_at(preview.version.name):
            lineage.go_back(preview.version)
        self.side_tables.quarantine.table.forget_above(batch)
        trimmed = next_trim(batch)
        is_needed = trimmed <= newest and trimmed in self.side_tables.change_log_versions.batches()
        self.side_tables.change_log_versions.restore(batch, trimmed if is_needed else None)
        self.side_tables.forget()

    def _is_at(self, lineage: TableLineage, name: str, newest: int) -> bool:
        """Return whether the table and its side tables are at a commit."""
        return lineage.is_at(name) and newest <= lineage.batch

    def _unknown(self, name: str) -> ConfigError:
        commits = [version.name for version in self.versions()]
        more = " …" if len(commits) > 3 else ""
        return ConfigError(
            f"{self.name} has no commit {name} that it can be rolled back to",
            found=f"there are {', '.join(commits[:3])}{more}" if commits else "there is none",
            todo=f"`lakeward rollback {self.name}` lists them. Nothing was changed.",
        )

    # The change log.

    def _entries(self, above: int) -> Sequence[tuple[str, int, str]]:
        """Return kind, batch and text of the entries above a batch: batch records and operator decisions."""
        kinds = "', '".join([BATCH, *DECISIONS])
        condition = f"{KIND} in ('{kinds}') and {names.BATCH} > {above}"
        rows = self.side_tables.change_log.table.rows(condition, (KIND, names.BATCH, RECORD))
        return [(row[KIND], row[names.BATCH], row[RECORD]) for row in rows.to_pylist()]

    def _newest(self, lineage: TableLineage) -> int:
        """Return the newest batch that the change log may have been trimmed with.

        It is the table's batch. If the table was rolled back by others, or a rollback was not finished, it is the
        newest batch on record.
        """
        table_batch = lineage.batch
        recorded = max((batch for kind, batch, _ in self._entries(table_batch) if kind == BATCH), default=0)
        was_trimmed = recorded in self.side_tables.change_log_versions.batches()
        return recorded if recorded > table_batch + 1 or was_trimmed else table_batch


def _is_lost(batch: int, newest: int, kept_batches: Collection[int]) -> bool:
    """Return whether entries of a batch were trimmed since, up to the newest batch, and are not kept."""
    trimmed = next_trim(batch)
    return trimmed <= newest and trimmed not in kept_batches
