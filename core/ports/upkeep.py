"""What keeps a table in shape, takes it back, or takes it over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakeward.core.ledger.objects import ObjectRecord
from lakeward.core.plan import MergePlan
from lakeward.core.ports.beside import OperatorDecision
from lakeward.core.ports.tables import Commit
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A commit that a table can be taken back to: its name in the table's own terms, and what it says.

    `committed` is when it was made, in microseconds since 1970, where that is known.
    """

    name: str
    progress: Progress
    committed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPreview:
    """What a table forgets that is taken back to a version.

    `objects` are those of so many `batches` behind it; `by_hand` of these batches have none: a person made
    them. `words` are what operators said since.
    """

    version: Version
    objects: Sequence[ObjectRecord] = ()
    batches: int = 0
    by_hand: int = 0
    words: Sequence[OperatorDecision] = ()


class Versions(Protocol):
    """What a table keeps of how it stood, for a person who takes it back; one that declares `rollback` has it."""

    def versions(self) -> Sequence[Version]:
        """Return the commits that it can be taken back to, newest first."""
        ...

    def behind(self, name: str) -> RollbackPreview:
        """Return what taking it back to a commit undoes.

        Raises ConfigError or TableError, with the reason, where it cannot be taken back to that.
        """
        ...

    def roll_back(self, preview: RollbackPreview) -> None:
        """Take rows and progress back in one commit, and then forget what is stamped above them.

        Where a crash came in between, the table refuses batches until it is asked again. Raises CommitConflict.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """How a table is kept in shape; what is None is left alone. Ages are in microseconds, sizes in bytes.

    A data file of whose rows this share is `deleted` is written anew, and so are so many `small` files that
    lie together, into files of about `file_size`. Snapshots older than `keep` expire, but the last
    `keep_last`. Files that no snapshot names are removed once they are older than `orphans`.
    """

    deleted: float | None = None
    small: int | None = None
    file_size: int = 128 * 1024 * 1024
    keep: int | None = None
    keep_last: int = 1
    orphans: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """What care did, or would do: data files written anew, their bytes, snapshots expired, files removed.

    `layout` is what it changed of how the table is made.
    """

    files: int = 0
    bytes: int = 0
    snapshots: int = 0
    orphans: Sequence[str] = ()
    layout: Sequence[LayoutChange] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChange:
    """An option of how a table is made that the table has otherwise than its settings say.

    `how` says what making it so means for a table that has rows. Where the format cannot, `refused` says why, and
    `todo` what to do instead.
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
    """How a table with rows is made, against what its settings say of it; they change no row."""

    def differences(self) -> Sequence[LayoutChange]:
        """Return what the settings name and the table has otherwise; no engine is started.

        What they do not name is as the table has it. Nothing differs in a table that is not there.
        """
        ...

    def change(self, changes: Sequence[LayoutChange]) -> None:
        """Make the table as the settings say, in commits that change no row; none of the changes is refused.

        Raises ConfigError, before anything is changed, for what names no column or property of it, and
        CommitConflict where another writer was there first.
        """
        ...


class Maintenance(Protocol):
    """What keeps a table in shape, and changes no row of it; one that declares `maintain` has it."""

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        """Carry it out, or only tell what it would do; the commit that says how far the table is must stay.

        Raises CommitConflict where another writer was there first.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalTable:
    """A table that another engine wrote: its state, named in the table's own terms, columns, and rows.

    So many of the rows have NULL in the key, and so many keys stand `twice` or more, one of them for `example`.
    `refused` says in words what it has that lakeward cannot write.
    """

    state: str
    schema: Schema
    rows: int
    null_keys: int = 0
    twice: int = 0
    example: str | None = None
    refused: Sequence[str] = ()


class Adoption(Protocol):
    """What takes over a table that another engine wrote; a format that can has it."""

    def look(self) -> ExternalTable:
        """Look at the table whole, changing nothing.

        Raises ConfigError where there is none, or it is one of ours, and TableError where it cannot be read.
        """
        ...

    def adopt(self, foreign: ExternalTable, plan: MergePlan, progress: Progress) -> Commit:
        """Write the record of the plan beside the table, then give it our columns and the progress in one commit.

        Its rows stay as they are, with NULL in our columns: they are older than every change. Raises CommitConflict
        where the table is not in the state that was looked at.
        """
        ...
