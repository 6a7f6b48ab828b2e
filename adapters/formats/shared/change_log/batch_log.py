"""The batches of a table: their records, and the decisions of operators.

Entries above the table's own batch come from a crash and are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from lakeward.adapters.formats.shared.change_log import batch_record
from lakeward.adapters.formats.shared.change_log.batch_record import BatchRecord
from lakeward.adapters.formats.shared.change_log.entries import BATCH, DECISIONS, KIND, RECORD
from lakeward.adapters.formats.shared.side_tables.side_table import (
    CHANGES,
    QUARANTINE,
    UNKNOWN,
    SideTable,
    refuse_others,
)
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import TableName
from lakeward.core.errors import CommitConflict, LockedError, TableError
from lakeward.core.events import Position
from lakeward.core.ledger.objects import ObjectRecord, SourceObject
from lakeward.core.ledger.writer import applied_record
from lakeward.core.merge.change_log import Record, times_of_objects
from lakeward.core.merge.truncates import remembered_truncates
from lakeward.core.ports import OperatorDecision
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import RecordedChange


class BatchLog:
    """The batches of one table, as its change log records them. Each record is read once.

    `n` in the methods below is the batch that the table itself is at. `newest_written` is the newest batch that
    this process wrote. `has_leftovers` says that there are entries above `n`, which the next batch removes before
    it writes. The change log was read or written at `version` (`UNKNOWN` after this process wrote something else).
    Another process that writes the change log works on the same batch: `conflict` is set until it has committed.
    """

    def __init__(self, name: TableName, table: SideTable) -> None:
        self.name = name
        self.table = table
        self.records: dict[int, BatchRecord] = {}
        self.decisions: list[OperatorDecision] = []
        self.epoch = 1
        self.newest_written = 0
        self.has_leftovers = False
        self.version: int | None = UNKNOWN
        self.conflict: CommitConflict | None = None

    def refuse_others(self) -> None:
        """Raise CommitConflict if another process has written the change log since this one read it."""
        if self.version != UNKNOWN:
            with self.recording_conflict():
                refuse_others(self.name, self.table.name, self.table.version, self.version)

    @contextmanager
    def recording_conflict(self) -> Iterator[None]:
        """Set `conflict` if a write is refused because another process was first."""
        try:
            yield
        except CommitConflict as error:
            self.conflict = error
            raise

    def objects(self, progress: Progress) -> Mapping[str, SourceObject]:
        """Return the objects of all batches up to `n`. Only records that were not read yet are read.

        Raises LockedError if another process has written a batch and not committed it yet.
        """
        upto = max(self.records, default=-1)
        if upto < progress.batch or not self.records or self.version == UNKNOWN or self.conflict is not None:
            self.version = self.table.version
            self._read_records(min(upto, progress.batch), progress.batch)
        later_batches = [batch for batch in self.records if batch > progress.batch]
        if max(later_batches, default=0) > progress.batch + 1:
            self.records.clear()  # the next call reads them again, in case the table has moved on
            raise self._is_ahead(progress.batch, max(later_batches))
        if progress.batch and progress.batch not in self.records:
            raise TableError(
                f"{self.name} is at batch {progress.batch}, and its change log has no record of it",
                found=f"{'.'.join(self.table.name)} knows {len(self.records)} batches",
                todo="Restore the change log table, or drop the table to load it anew.",
            )
        for batch in later_batches:
            del self.records[batch]
        if not later_batches:
            self.conflict = None
        if self.conflict is not None and not self.has_leftovers:  # the other process has not committed yet
            raise LockedError(self.conflict.what, found=self.conflict.found, todo=self.conflict.todo)
        self.has_leftovers |= max(self.newest_written, *later_batches, 0) > progress.batch
        self.epoch = progress.epoch
        of_epoch = [record for record in self.records.values() if record.epoch == progress.epoch]
        return {facts.object.name: facts.object for record in of_epoch for facts in record.facts}

    def _is_ahead(self, table_batch: int, log_batch: int) -> TableError:
        """Return the error for a table at an older batch than its change log. A table at no batch was dropped."""
        name, change_log = self.name, ".".join(self.table.name)
        found_text = f"its change log {change_log} knows batch {log_batch}"
        if not table_batch:
            return TableError(
                f"{name} has no batch, and its side tables have",
                found=f"{found_text}: the table or its commits were removed, and the change log was not",
                todo=f"Restore the table; or drop {change_log} as well, and {change_log.removesuffix(CHANGES)}"
                f"{QUARANTINE} where there is one, to load the table anew.",
            )
        return TableError(
            f"{name} was rolled back to batch {table_batch}",
            found=found_text,
            todo=f"`lakeward rollback {name}` rolls back its change log too, where the format can. Or roll it "
            "forward again, or drop the table and its change log to load it anew.",
        )

    @property
    def versions_of_earlier_epochs(self) -> frozenset[str]:
        """The versions of objects of earlier epochs than the table's."""
        versions = [(record.epoch, facts.object) for record in self.records.values() for facts in record.facts]
        return frozenset(item.version for epoch, item in versions if epoch < self.epoch)

    @property
    def object_names(self) -> Mapping[int, str]:
        """The names of the objects of all batches read so far, by order."""
        objects = (facts.object for record in self.records.values() for facts in record.facts)
        return {item.order: item.name for item in objects}

    @property
    def truncates(self) -> frozenset[Position]:
        """The truncates of the table's epoch."""
        return remembered_truncates(self._of_epoch())

    def _of_epoch(self) -> list[Record]:
        of_epoch = (item.record for item in self.records.values() if item.epoch == self.epoch)
        return [record for record in of_epoch if record is not None]

    @property
    def times(self) -> Mapping[int, int]:
        """The result of `times_of_objects` for the table's epoch."""
        return times_of_objects(self._of_epoch())

    @property
    def ordered_until(self) -> int:
        """The newest batch at which the table was `ordered` (0: none).

        Stored rows count from then on. Of older entries only those count whose events left no row.
        """
        return max((batch for batch, record in self.records.items() if record.ordered), default=0)

    def _read_records(self, after: int, upto: int) -> None:
        """Read the batch records above `after`, and the decisions of operators up to `upto`."""
        kinds = "', '".join([BATCH, *DECISIONS])
        condition = f"{KIND} in ('{kinds}') and {names.BATCH} > {after}"
        rows = self.table.rows(condition, (KIND, names.BATCH, RECORD)).to_pylist()
        batches = [row[names.BATCH] for row in rows if row[KIND] == BATCH and row[names.BATCH] <= upto]
        if len(batches) > len(set(batches)):
            repeated_batch = max(batch for batch in batches if batches.count(batch) > 1)
            raise TableError(
                f"{self.name}: two processes wrote batch {repeated_batch} at once",
                found=f"{'.'.join(self.table.name)} has more than one record of it",
                todo="Only one may run at a time: is the folder `state` of the settings shared and kept? "
                "Remove the record of the one that did not commit, or load the table anew.",
            )
        for row in rows:
            if row[KIND] == BATCH:
                self.records[row[names.BATCH]] = batch_record.read(row[names.BATCH], row[RECORD])
        decision_rows = [row for row in rows if row[KIND] in DECISIONS and row[names.BATCH] <= upto]
        decisions = [batch_record.read_decision(DECISIONS[row[KIND]], row[RECORD]) for row in decision_rows]
        self.decisions += [decision for decision in decisions if decision not in self.decisions]
        self.decisions.sort(key=lambda decision: decision.at)

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of the batches above `after`, up to `n`."""
        self.objects(progress)
        return [
            applied_record(facts, batch)
            for batch, record in sorted(self.records.items())
            for facts in record.facts
            if after < batch <= progress.batch
        ]

    def schema_changes(self, upto: int) -> Sequence[RecordedChange]:
        """Return the differences of columns up to `n`, in order. A difference that stays is returned once."""
        condition = f"{KIND} = '{BATCH}' and {names.BATCH} <= {upto}"
        rows = self.table.rows(condition, (names.BATCH, RECORD)).to_pylist()
        changes: list[RecordedChange] = []
        previous: list[list[str]] = []
        for row in sorted(rows, key=lambda row: row[names.BATCH]):
            content = json.loads(row[RECORD])
            differences = content.get("schema", [])
            if not (content["objects"] or differences):
                continue  # rows that waited are released
            for difference in differences:
                if difference not in previous:
                    change, policy = batch_record.difference_of(difference)
                    name = content["objects"][0][0] if content["objects"] else ""
                    changes.append(RecordedChange(content["at"], name, change, policy))
            previous = differences
        return changes
