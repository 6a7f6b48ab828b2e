"""Ports of table operations: rollback, maintenance, layout changes and adoption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakeward.core.ledger.objects import ObjectRecord
from lakeward.core.plan import MergePlan
from lakeward.core.ports.change_log import OperatorDecision
from lakeward.core.ports.tables import Commit
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A commit to which a table can be rolled back.

    `name` is its name in the terms of the table format. `committed` is its time in microseconds since 1970; None if
    unknown.
    """

    name: str
    progress: Progress
    committed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPreview:
    """What a rollback to a version would undo.

    `objects` are the applied objects of the `batches` after the version. `by_hand` is the number of these batches
    that have no object because an operator made them. `decisions` are the decisions of operators since the version.
    """

    version: Version
    objects: Sequence[ObjectRecord] = ()
    batches: int = 0
    by_hand: int = 0
    decisions: Sequence[OperatorDecision] = ()


class Versions(Protocol):
    """Rolls one table back to an earlier commit. A format that declares the capability `rollback` has it."""

    def versions(self) -> Sequence[Version]:
        """Return the commits to which the table can be rolled back, newest first."""
        ...

    def preview_rollback(self, name: str) -> RollbackPreview:
        """Return what a rollback to the commit `name` would undo.

        Raises ConfigError or TableError if the table cannot be rolled back to it.
        """
        ...

    def roll_back(self, preview: RollbackPreview) -> None:
        """Restore rows and progress in one commit, then delete change log and quarantine entries of later batches.

        After a crash between the two steps, the table refuses batches until this is called again. Raises
        CommitConflict if another writer committed first.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """Which maintenance a table gets. Steps whose value is None are left out.

    - `deleted`: rewrite a data file if at least this share of its rows (0 to 1) is deleted.
    - `small`: compact small files of one partition if there are at least so many.
    - `file_size`: the target size of rewritten files in bytes.
    - `keep`: expire snapshots older than this, in microseconds, except the last `keep_last`.
    - `orphans`: remove files that no snapshot refers to and that are older than this, in microseconds.
    """

    deleted: float | None = None
    small: int | None = None
    file_size: int = 128 * 1024 * 1024
    keep: int | None = None
    keep_last: int = 1
    orphans: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """What maintenance did, or would do.

    `files` and `bytes` are the number and the size of the rewritten data files. `snapshots` is the number of
    expired snapshots, `orphans` are the removed files, and `layout` are the changed options.
    """

    files: int = 0
    bytes: int = 0
    snapshots: int = 0
    orphans: Sequence[str] = ()
    layout: Sequence[LayoutChange] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChange:
    """A table option whose value in the table (`before`) differs from the settings (`after`).

    `how` says what the change means for a table that has rows. If the format cannot change the option, `refused`
    is the reason and `todo` what to do instead.
    """

    option: str
    before: str
    after: str
    how: str = ""
    refused: str | None = None
    todo: str | None = None

    def __str__(self) -> str:
        return f"{self.option} is {self.before}, and the settings say {self.after}"


class Layout(Protocol):
    """Compares the layout of a table, such as partitions and properties, with its settings, and changes it."""

    def differences(self) -> Sequence[LayoutChange]:
        """Return the options that the settings name and that differ in the table. Starts no engine.

        Returns none for a table that does not exist.
        """
        ...

    def change(self, changes: Sequence[LayoutChange]) -> None:
        """Change the options of the table, in commits that change no row. None of `changes` is refused.

        Raises ConfigError, before anything is changed, for names that are no column or property of the table, and
        CommitConflict if another writer committed first.
        """
        ...


class Maintenance(Protocol):
    """Compacts files, expires snapshots and removes orphaned files of one table. Changes no row.

    A format that declares the capability `maintain` has it.
    """

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        """Carry out a policy, or with `is_dry` only report what it would do.

        The commit that has the progress of the table must not expire. Raises CommitConflict if another writer
        committed first.
        """
        ...


class SmallFiles(Protocol):
    """Merges the small files of one table between two batches of a run that follows. Changes no row.

    A format has it if merging takes less time than the batches lose by small files.
    """

    def merge(self, policy: MaintenancePolicy, size: int) -> MaintenanceReport:
        """Merge files of fewer than `size` bytes if a partition has as many of them as `small` of the policy.

        `size` is less than `file_size` of the policy. The other steps of the policy are left out. The commit has no
        progress. Raises CommitConflict if another writer committed first.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalTable:
    """A table that another engine wrote.

    - `state`: the name of its current commit, in the terms of the table format.
    - `rows`: the number of rows; `null_keys` of them have NULL in the key.
    - `duplicate_keys`: the number of keys that occur more than once, one of which is `example`.
    - `refused`: in words, the features of the table that lakeward cannot write.
    """

    state: str
    schema: Schema
    rows: int
    null_keys: int = 0
    duplicate_keys: int = 0
    example: str | None = None
    refused: Sequence[str] = ()


class Adoption(Protocol):
    """Takes over a table that another engine wrote."""

    def inspect(self) -> ExternalTable:
        """Inspect the whole table and change nothing.

        Raises ConfigError if there is no table, or if it is one of lakeward's, and TableError if it cannot be read.
        """
        ...

    def adopt(self, external: ExternalTable, plan: MergePlan, progress: Progress) -> Commit:
        """Write the batch record of the plan, then add lakeward's columns and the progress in one commit.

        Existing rows are kept. Their position columns are NULL, which sorts before every change. Raises
        CommitConflict if the table is no longer in the state of `external`.
        """
        ...
