"""Taking a table back to an earlier commit, with what stands beside it.

The table goes first, in one commit: rows, progress, and the columns that batches had changed. Then the quarantine
and the companion forget what is stamped above it. What the companion had trimmed since then comes back:
it is kept as it was before each trimming, for as long as the table has a commit that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from pyspark.sql import SparkSession

from lakeward.adapters.formats.shared.change_log import batch_record
from lakeward.adapters.formats.shared.change_log.entries import BATCH, KIND, RECORD, WORDS
from lakeward.adapters.formats.shared.change_log.retention import next_trim
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.side_tables.side_table import Make
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.ledger.writer import applied_record
from lakeward.core.ports import ChangeLogState, RollbackPreview, Version
from lakeward.core.progress import Progress
from lakeward.plugins.registry import SMALL_BATCH


class Line(Protocol):
    """The commits that a table's state comes from, as they were when it was loaded; it has one of ours at least."""

    @property
    def batch(self) -> int:
        """The batch that the table is at."""
        ...

    def versions(self) -> Sequence[Version]:
        """Return our commits that it can be taken back to, newest first, each batch once; the current one, too."""
        ...

    def commits(self) -> Sequence[Version]:
        """Return our commits, newest first, each batch once, by names that no table of its name had before it.

        They are all that it still tells of: the files of some may be gone, and even the last may be forgotten.
        """
        ...

    def shown_by(self, batch: int) -> str | None:
        """Return the name of a commit with the rows of a batch: ours, or one that others made of them.

        None where the files of each of them are gone. That of the current state is always there.
        """
        ...

    def find(self, name: str) -> Version | None:
        """Return a commit of any writer's, with the progress of our last before it; None where it has none such."""
        ...

    def is_at(self, name: str) -> bool:
        """Whether the current state is that of a commit."""
        ...

    def check(self, name: str) -> None:
        """Raise TableError, with the reason, where it cannot be taken back to a commit that it has."""
        ...

    def take_back(self, version: Version) -> None:
        """Make a commit the current state, in one commit; raises CommitConflict where another writer was first."""
        ...


def states_of(batch: int, states: Iterable[tuple[str, Progress | None]]) -> Sequence[str]:
    """Return which of these states of a table, newest first, have the rows of a batch: that of its commit is first.

    Each comes with the progress of its commit, which is None where it is another writer's. Where none is ours, the
    table has forgotten the commit that all of them are behind.
    """
    found, behind, is_known = list[str](), list[str](), False
    for name, progress in states:
        behind.append(name)
        if progress is not None:
            found, behind, is_known = found + behind * (progress.batch == batch), [], True
    found = found if is_known else behind
    return [*found[-1:], *found[:-1]]


class Earlier(Protocol):
    """What a companion was before each time that it was trimmed, by the batch that it was trimmed with."""

    def batches(self) -> Collection[int]:
        """Return the batches with which it was trimmed, and before which it is kept."""
        ...

    def whole(self) -> Collection[int]:
        """Return those of them of which every file is there: others may have removed some, by VACUUM, say."""
        ...

    def keep(self, batch: int) -> None:
        """Keep it as it is, before it is trimmed with a batch; what no commit of the table needs any more goes."""
        ...

    def bring_back(self, batch: int, trimmed: int | None) -> None:
        """Give the companion what it knew at a batch, in one commit, and forget what is kept above that.

        It is what is kept before it was `trimmed` with a batch, or else what it knows, without what is
        stamped above.
        """
        ...


class KeepingEarlier(Keeping):
    """The companion and the quarantine of a table that can be taken back; what is trimmed there is kept."""

    def __init__(
        self,
        dimension: Dimension,
        make: Make,
        spark: Callable[[], SparkSession],
        earlier: Earlier,
        small_batch: int = SMALL_BATCH,
    ) -> None:
        self.make = make
        self.earlier = earlier
        super().__init__(dimension, make, spark, small_batch)

    def forget(self) -> None:
        """Forget what was read of the companion: it is another now."""
        self.change_log = ChangeLogTable(self.dimension, self.make)

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Return what is remembered; a batch that the companion was trimmed with was no crash's."""
        change_log_state = super().read_state(progress)
        if self.change_log.batches.has_leftovers and progress.batch + 1 in self.earlier.batches():
            raise TableError(
                f"{self.dimension.name} was rolled back to batch {progress.batch}",
                found=f"its companion was trimmed with batch {progress.batch + 1}",
                todo=f"`lakeward rollback {self.dimension.name}` takes back what it remembers, too. Or roll it "
                "forward again, or drop the table and its companion to load it anew.",
            )
        return change_log_state

    def trim(self, progress: Progress) -> None:
        """Forget what can no longer matter to the table as it stands, and keep it for one that is taken back."""
        if next_trim(progress.batch - 1) == progress.batch:
            self.earlier.keep(progress.batch)
        super().trim(progress)


class TableVersions:
    """The commits that a table can be taken back to; `load` gives those that there are now."""

    def __init__(self, kept: KeepingEarlier, load: Callable[[], Line | None]) -> None:
        self.kept = kept
        self.load = load
        self.name = kept.dimension.name

    def versions(self) -> Sequence[Version]:
        """Return our commits of which all is kept that the companion knew, but the current state."""
        line = self.load()
        if line is None:
            return []
        newest, kept = self._newest(line), self.kept.earlier.whole()
        return [
            version
            for version in line.versions()
            if not self._stands_at(line, version.name, newest)
            and not _is_lost(version.progress.batch, newest, kept)
        ]

    def behind(self, name: str) -> RollbackPreview:
        """Return what going back to a commit undoes; it may be another writer's, of rows compacted, say."""
        line = self.load()
        version = None if line is None else line.find(name)
        if line is None or version is None:
            raise self._unknown(name)
        newest, batch = self._newest(line), version.progress.batch
        if self._stands_at(line, name, newest):
            raise ConfigError(f"{self.name} stands at {name} already", todo="Nothing was changed.")
        if _is_lost(batch, newest, self.kept.earlier.whole()):
            was = "removed by others" if next_trim(batch) in self.kept.earlier.batches() else "forgotten"
            raise TableError(
                f"{self.name} cannot be taken back to {name}",
                found=f"what it remembered at batch {batch}, before it was trimmed with batch {next_trim(batch)}, "
                f"was {was}",
                todo=f"Nothing was changed. Name a later one (`lakeward rollback {self.name}` lists them), or load "
                f"the table anew: `lakeward reload {self.name}`.",
            )
        line.check(name)
        found = self._entries(batch)
        later = [batch_record.read(number, text) for kind, number, text in found if kind == BATCH]
        return RollbackPreview(
            version=version,
            objects=[applied_record(item, 0) for one in later for item in one.facts],
            batches=len(later),
            by_hand=sum(not one.facts for one in later),
            words=[batch_record.read_word(WORDS[kind], text) for kind, _, text in found if kind in WORDS],
        )

    def roll_back(self, preview: RollbackPreview) -> None:
        """Take the table back, then what stands beside it; what is done already is not done again."""
        line, batch = self.load(), preview.version.progress.batch
        if line is None:
            raise TableError(f"{self.name} is gone", todo="Nothing was changed.")
        newest = self._newest(line)
        if newest == line.batch > batch:  # what a crash left would be taken for a batch of then
            self.kept.change_log.table.forget_above(newest)
        if not line.is_at(preview.version.name):
            line.take_back(preview.version)
        self.kept.quarantine.table.forget_above(batch)
        trimmed = next_trim(batch)
        is_needed = trimmed <= newest and trimmed in self.kept.earlier.batches()
        self.kept.earlier.bring_back(batch, trimmed if is_needed else None)
        self.kept.forget()

    def _stands_at(self, line: Line, name: str, newest: int) -> bool:
        """Whether the table is there, and what stands beside it as well."""
        return line.is_at(name) and newest <= line.batch

    def _unknown(self, name: str) -> ConfigError:
        there = [version.name for version in self.versions()]
        found = f"there are {', '.join(there[:3])}{' …' if len(there) > 3 else ''}" if there else "there is none"
        return ConfigError(
            f"{self.name} has no commit {name} that it can be taken back to",
            found=found,
            todo=f"`lakeward rollback {self.name}` lists them. Nothing was changed.",
        )

    # The companion.

    def _entries(self, above: int) -> Sequence[tuple[str, int, str]]:
        """Return what is stamped above a batch: records of batches, and words of operators."""
        kinds = "', '".join([BATCH, *WORDS])
        condition = f"{KIND} in ('{kinds}') and {names.BATCH} > {above}"
        found = self.kept.change_log.table.rows(condition, (KIND, names.BATCH, RECORD))
        return [(row[KIND], row[names.BATCH], row[RECORD]) for row in found.to_pylist()]

    def _newest(self, line: Line) -> int:
        """Return the newest batch that the companion may have been trimmed with.

        That is the table's; of one that was taken back by others, or not to the end, the newest that is known.
        """
        here = line.batch
        known = max((batch for kind, batch, _ in self._entries(here) if kind == BATCH), default=0)
        return known if known > here + 1 or known in self.kept.earlier.batches() else here


def _is_lost(batch: int, newest: int, kept: Collection[int]) -> bool:
    """Whether something that a companion knew at a batch was forgotten since, up to the newest, and is not kept."""
    trimmed = next_trim(batch)
    return trimmed <= newest and trimmed not in kept
