"""Taking a table back to an earlier snapshot, with what stands beside it.

The table goes first, in one commit: its branch, the tag and the columns. Then the companion and the quarantine
forget what is stamped above it. What the companion had trimmed since then comes back with a
snapshot of its own, which a tag keeps for as long as the table has a commit that needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.snapshot import ManageSnapshots

from lakeward.adapters.iceberg.java import Jvm, committing
from lakeward.adapters.iceberg.keeping import tags_of
from lakeward.adapters.iceberg.progress import (
    SCHEMA_PROPERTY,
    TAG,
    ancestors,
    commits_of,
    is_ours,
    progress_of,
    properties_of,
)
from lakeward.adapters.spark import names
from lakeward.adapters.tables import records
from lakeward.adapters.tables.beside import CHANGES, QUARANTINE
from lakeward.adapters.tables.companion import BATCH, KIND, RECORD, WORDS, next_trim
from lakeward.core.books import applied_record
from lakeward.core.errors import CommitConflict, ConfigError, TableError
from lakeward.core.ports import Undone, Version

if TYPE_CHECKING:
    from lakeward.adapters.iceberg.table import IcebergTable


class IcebergVersions:
    """The snapshots of a table that it can be taken back to."""

    def __init__(self, table: IcebergTable) -> None:
        self.table = table
        self.name = table.dimension.name
        self.companion, self.quarantine = (table.kept.make(suffix, {}, tuple) for suffix in (CHANGES, QUARANTINE))

    def versions(self) -> Sequence[Version]:
        """Return our commits of which all is kept that the companion knew, but the current state."""
        main = self._load()
        if main is None:
            return []
        newest = self._newest(main)
        return [
            Version(name=str(snapshot.snapshot_id), progress=progress, committed=snapshot.timestamp_ms * 1000)
            for snapshot, progress in commits_of(main)
            if not self._stands_at(main, snapshot, newest) and not self._is_trimmed(progress.batch, newest)
        ]

    def _stands_at(self, main: Table, snapshot: Snapshot, newest: int) -> bool:
        """Whether the table is there, and what stands beside it as well."""
        return snapshot == main.current_snapshot() and newest <= _batch(main)

    def behind(self, name: str) -> Undone:
        """Return what going back to a snapshot undoes; it may be another writer's, of rows compacted, say."""
        main = self._load()
        before = [] if main is None else list(ancestors(main))
        line = [snapshot for snapshot in before if str(snapshot.snapshot_id) == name]
        own = None if main is None or not line else next((s for s in ancestors(main, line[0]) if is_ours(s)), None)
        if main is None or own is None:
            raise self._unknown(name, [version.name for version in self.versions()])
        progress = progress_of(own)
        newest = self._newest(main)
        if self._stands_at(main, line[0], newest):
            raise ConfigError(f"{self.name} stands at {name} already", todo="Nothing was changed.")
        self._refuse_trimmed(name, progress.batch, newest)
        self._refuse_columns(main, line[0], before)
        found = self._rows(f"{names.BATCH} > {progress.batch}")
        later = [records.read(batch, line) for kind, batch, line in found if kind == BATCH]
        return Undone(
            version=Version(name=name, progress=progress, committed=own.timestamp_ms * 1000),
            objects=[applied_record(item, 0) for batch in later for item in batch.facts],
            batches=len(later),
            by_hand=sum(not batch.facts for batch in later),
            words=[records.read_word(WORDS[kind], line) for kind, _, line in found if kind in WORDS],
        )

    def roll_back(self, undone: Undone) -> None:
        """Take the table back, then what stands beside it; what is done already is not done again."""
        main, progress = self._load(), undone.version.progress
        if main is None:
            raise TableError(f"{self.name} is gone", todo="Nothing was changed.")
        with committing(str(self.name)):
            if (here := _batch(main)) > progress.batch:
                self.companion.forget_above(here)  # what a crash left would be taken for a batch of then
            newest = self._newest(main)
            self._set_current(main, int(undone.version.name))
            self.quarantine.forget_above(progress.batch)
            self._bring_back(progress.batch, newest)
        self.table.kept.forget()

    # The table.

    def _load(self) -> Table | None:
        return self.table.catalog.load(self.name)

    def _set_current(self, main: Table, snapshot: int) -> None:
        """Make a snapshot the current one: the branch, our tag, and the columns where batches had changed them."""
        before = list(ancestors(main))
        target = next(one for one in before if one.snapshot_id == snapshot)
        if target == before[0]:
            return
        own = next(one for one in ancestors(main, target) if is_ours(one))
        table = Jvm(self.table.spark()).table(*self.table.name)
        operations = table.operations()
        base = operations.current()
        if base.currentSnapshot().snapshotId() != before[0].snapshot_id:
            raise CommitConflict(f"{self.name}: another writer has just committed to the table", todo="Ask again.")
        jvm = Jvm(self.table.spark()).iceberg
        made = jvm.TableMetadata.buildFrom(base).setBranchSnapshot(snapshot, "main")
        made.setRef(TAG, jvm.SnapshotRef.tagBuilder(own.snapshot_id).build())
        if _changes_columns(before, target) and target.schema_id is not None:
            made.setCurrentSchema(target.schema_id)
        operations.commit(base, made.build())

    def _refuse_columns(self, main: Table, target: Snapshot, before: Sequence[Snapshot]) -> None:
        """Refuse where rows are partitioned or sorted by a column that there was not then."""
        if target.schema_id is None or not _changes_columns(before, target):
            return
        then = main.schemas()[target.schema_id]
        needed = {part.source_id for part in main.spec().fields} | {o.source_id for o in main.sort_order().fields}
        lacking = [main.schema().find_column_name(number) for number in needed - set(then.field_ids)]
        if lacking:
            raise TableError(
                f"{self.name} cannot be taken back to {target.snapshot_id}",
                found=f"it is partitioned or sorted by {', '.join(map(str, lacking))}, which it had not then",
                todo="Nothing was changed. Take that out of the table's partitions or order first (in Spark: "
                "`ALTER TABLE … DROP PARTITION FIELD …`).",
            )

    def _unknown(self, name: str, there: Sequence[str]) -> ConfigError:
        found = f"there are {', '.join(there[:3])}{' …' if len(there) > 3 else ''}" if there else "there is none"
        return ConfigError(
            f"{self.name} has no snapshot {name} that it can be taken back to",
            found=found,
            todo=f"`lakeward rollback {self.name}` lists them. Nothing was changed.",
        )

    # What stands beside it.

    def _rows(self, condition: str) -> Sequence[tuple[str, int, str]]:
        kinds = "', '".join([BATCH, *WORDS])
        found = self.companion.rows(f"{KIND} in ('{kinds}') and {condition}", (KIND, names.BATCH, RECORD))
        return [(row[KIND], row[names.BATCH], row[RECORD]) for row in found.to_pylist()]

    def _newest(self, main: Table) -> int:
        """Return the newest batch that the companion may have been trimmed with.

        That is the table's; of one that was taken back by others, or not to the end, the newest that is known.
        """
        here = _batch(main)
        known = max((batch for kind, batch, _ in self._rows(f"{names.BATCH} > {here}") if kind == BATCH), default=0)
        companion = self.companion.load()
        is_trimmed = companion is not None and known in tags_of(companion)
        return known if known > here + 1 or is_trimmed else here

    def _is_trimmed(self, batch: int, newest: int) -> bool:
        """Whether something that the companion knew at a batch is lost."""
        trimmed, table = next_trim(batch), self.companion.load()
        return trimmed <= newest and (table is None or trimmed not in tags_of(table))

    def _refuse_trimmed(self, name: str, batch: int, newest: int) -> None:
        if self._is_trimmed(batch, newest):
            raise TableError(
                f"{self.name} cannot be taken back to {name}",
                found=f"what it remembered at batch {batch} was forgotten with batch {next_trim(batch)}",
                todo=f"Nothing was changed. Name a later one (`lakeward rollback {self.name}` lists them), or load "
                f"the table anew: `lakeward reload {self.name}`.",
            )

    def _bring_back(self, batch: int, newest: int) -> None:
        """Give the companion what it knew at a batch, in one commit: what was trimmed since, and nothing more."""
        table = self.companion.load()
        if table is None:
            return
        tags, trimmed, above = tags_of(table), next_trim(batch), f"{names.BATCH} > {batch}"
        then = table.refs()[tags[trimmed]].snapshot_id if trimmed <= newest and trimmed in tags else None
        with table.transaction() as transaction:
            manage = ManageSnapshots(transaction)
            if then is not None:
                manage.set_current_snapshot(then)
            if table.scan(above, selected_fields=(names.BATCH,), snapshot_id=then).count():
                transaction.delete(above)
            for number, tag in tags.items():
                if number > batch:
                    manage.remove_tag(tag)
            manage.commit()


def _batch(main: Table) -> int:
    """Return the batch that a table is at."""
    return next((progress.batch for _, progress in commits_of(main)), 0)


def _changes_columns(before: Collection[Snapshot], target: Snapshot) -> bool:
    """Whether a batch behind a snapshot changed the columns; what others did to them stays."""
    return any(SCHEMA_PROPERTY in properties_of(one) for one in _until(before, target))


def _until(before: Collection[Snapshot], target: Snapshot) -> Iterator[Snapshot]:
    for snapshot in before:
        if snapshot == target:
            return
        yield snapshot
