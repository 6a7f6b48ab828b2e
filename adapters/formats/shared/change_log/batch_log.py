"""What is known of the batches of a table: the records of them, and what operators said.

What is stamped above the table's own batch does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from lakeward.adapters.formats.shared.change_log import batch_record
from lakeward.adapters.formats.shared.change_log.batch_record import BatchRecord
from lakeward.adapters.formats.shared.change_log.entries import BATCH, KIND, RECORD, WORDS
from lakeward.adapters.formats.shared.side_tables.side_table import (
    CHANGES,
    QUARANTINE,
    UNKNOWN,
    Beside,
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
from lakeward.core.schema_changes.evolution import Recorded


class Batches:
    """The batches of the table of a `name`, as the `table` beside it has them; each record is read once.

    `n` is always the batch that the table itself is at, `stamped` the one that was remembered last: with
    `has_leftovers` there are entries above `n`, which a batch takes away before it is remembered. What is
    remembered was read, or written, at a `version` of the table beside it (`UNKNOWN` where this process has written
    something else since): another process that writes there works on the same batch, and is `met` until it has
    committed.
    """

    def __init__(self, name: TableName, table: Beside) -> None:
        self.name = name
        self.table = table
        self.records: dict[int, BatchRecord] = {}
        self.words: list[OperatorDecision] = []
        self.epoch = 1
        self.stamped = 0
        self.has_leftovers = False
        self.version: int | None = UNKNOWN
        self.met: CommitConflict | None = None

    def refuse_others(self) -> None:
        """Raise CommitConflict where another process has written what is remembered since this one looked."""
        if self.version != UNKNOWN:
            with self.meeting():
                refuse_others(self.name, self.table.name, self.table.version, self.version)

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Remember that another process was met, where what is written comes too late."""
        try:
            yield
        except CommitConflict as error:
            self.met = error
            raise

    def objects(self, progress: Progress) -> Mapping[str, SourceObject]:
        """Return the objects of all batches up to `n`, reading only the records not read yet.

        Raises LockedError where another process was met that has not committed yet.
        """
        upto = max(self.records, default=-1)
        if upto < progress.batch or not self.records or self.version == UNKNOWN or self.met is not None:
            self.version = self.table.version
            self._read_records(min(upto, progress.batch), progress.batch)
        above = [batch for batch in self.records if batch > progress.batch]
        if max(above, default=0) > progress.batch + 1:
            self.records.clear()  # whoever looks again, where the table has gone on, finds what was said by then
            raise self._is_ahead(progress.batch, max(above))
        if progress.batch and progress.batch not in self.records:
            raise TableError(
                f"{self.name} is at batch {progress.batch}, of which its companion has no record",
                found=f"{'.'.join(self.table.name)} knows {len(self.records)} batches",
                todo="Put the companion table back, or drop the table to load it anew.",
            )
        for batch in above:
            del self.records[batch]
        if not above:
            self.met = None
        if self.met is not None and not self.has_leftovers:  # whoever wrote what is above has yet to commit
            raise LockedError(self.met.what, found=self.met.found, todo=self.met.todo)
        self.has_leftovers |= max(self.stamped, *above, 0) > progress.batch
        self.epoch = progress.epoch
        of_epoch = [known for known in self.records.values() if known.epoch == progress.epoch]
        return {found.object.name: found.object for known in of_epoch for found in known.facts}

    def _is_ahead(self, here: int, known: int) -> TableError:
        """Return what to say of a table that knows less than its companion; one at no batch was dropped."""
        name, change_log = self.name, ".".join(self.table.name)
        found = f"its companion {change_log} knows batch {known}"
        if not here:
            return TableError(
                f"{name} has no batch, and what stands beside it has",
                found=f"{found}: the table was dropped, or emptied of its history, and that was not",
                todo=f"Put the table back; or drop {change_log} as well, and {change_log.removesuffix(CHANGES)}"
                f"{QUARANTINE} where there is one, to load the table anew.",
            )
        return TableError(
            f"{name} was rolled back to batch {here}",
            found=found,
            todo=f"`lakeward rollback {name}` takes back what it remembers, too, where the format can. Or roll it "
            "forward again, or drop the table and its companion to load it anew.",
        )

    @property
    def left(self) -> frozenset[str]:
        """The versions of objects of the epochs before that of the table."""
        every = [(known.epoch, found.object) for known in self.records.values() for found in known.facts]
        return frozenset(item.version for epoch, item in every if epoch < self.epoch)

    @property
    def object_names(self) -> Mapping[int, str]:
        """The names of the objects of all batches whose records are known, by their order."""
        found = (found.object for known in self.records.values() for found in known.facts)
        return {item.order: item.name for item in found}

    @property
    def truncates(self) -> frozenset[Position]:
        """The truncates of the table's epoch."""
        return remembered_truncates(self._of_epoch())

    def _of_epoch(self) -> list[Record]:
        of_epoch = (found.record for found in self.records.values() if found.epoch == self.epoch)
        return [record for record in of_epoch if record is not None]

    @property
    def times(self) -> Mapping[int, int]:
        """Those of `times_of_objects`, for the table's epoch."""
        return times_of_objects(self._of_epoch())

    @property
    def turned(self) -> int:
        """The newest batch of a time when the table was `ordered` (0: none).

        From then on what stands of a row counts: of what was remembered up to it, there is no more than the events
        that left none (`leave_departures` of the core).
        """
        return max((batch for batch, found in self.records.items() if found.ordered), default=0)

    def _read_records(self, after: int, upto: int) -> None:
        """Read the batch records behind a batch, and what operators said up to another."""
        kinds = "', '".join([BATCH, *WORDS])
        condition = f"{KIND} in ('{kinds}') and {names.BATCH} > {after}"
        found = self.table.rows(condition, (KIND, names.BATCH, RECORD)).to_pylist()
        batches = [row[names.BATCH] for row in found if row[KIND] == BATCH and row[names.BATCH] <= upto]
        if len(batches) > len(set(batches)):
            twice = max(batch for batch in batches if batches.count(batch) > 1)
            raise TableError(
                f"{self.name}: two processes wrote batch {twice} at once",
                found=f"{'.'.join(self.table.name)} has more than one record of it",
                todo="Only one may run at a time: is the folder `state` of the settings shared and kept? "
                "Remove the record of the one that did not commit, or load the table anew.",
            )
        for row in found:
            if row[KIND] == BATCH:
                self.records[row[names.BATCH]] = batch_record.read(row[names.BATCH], row[RECORD])
        said = [row for row in found if row[KIND] in WORDS and row[names.BATCH] <= upto]
        words = [batch_record.read_word(WORDS[row[KIND]], row[RECORD]) for row in said]
        self.words += [word for word in words if word not in self.words]
        self.words.sort(key=lambda word: word.at)

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of the batches behind `after`, up to `n`."""
        self.objects(progress)
        return [
            applied_record(found, batch)
            for batch, remembered in sorted(self.records.items())
            for found in remembered.facts
            if after < batch <= progress.batch
        ]

    def schema_changes(self, upto: int) -> Sequence[Recorded]:
        """Return how the columns differed up to `n`, in order; what stays as it was is told once."""
        condition = f"{KIND} = '{BATCH}' and {names.BATCH} <= {upto}"
        found = self.table.rows(condition, (names.BATCH, RECORD)).to_pylist()
        changes: list[Recorded] = []
        told: list[list[str]] = []
        for row in sorted(found, key=lambda row: row[names.BATCH]):
            content = json.loads(row[RECORD])
            differences = content.get("schema", [])
            if not (content["objects"] or differences):
                continue  # rows that waited are released
            for difference in differences:
                if difference not in told:
                    change, policy = batch_record.difference_of(difference)
                    name = content["objects"][0][0] if content["objects"] else ""
                    changes.append(Recorded(content["at"], name, change, policy))
            told = differences
        return changes
