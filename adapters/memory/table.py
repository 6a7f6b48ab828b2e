"""Tables in plain Python that do exactly what the core defines for a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakeward.adapters.memory import comparison, row_reader, versions
from lakeward.adapters.memory.source import Frame, facts_of
from lakeward.adapters.memory.versions import SavedState
from lakeward.core.dimension import Dimension, Match, TableName
from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.events import UNSET, ChangeEvent, Key, Operation, Position
from lakeward.core.history.bitemporal import KnownVersions, update_known_versions
from lakeward.core.history.snapshot_splice import splice
from lakeward.core.history.surrogate_numbers import Numbers, assign_numbers
from lakeward.core.history.version_checks import HistoryCheck
from lakeward.core.history.versions import Versions
from lakeward.core.ledger.objects import ObjectRecord
from lakeward.core.ledger.writer import applied_record
from lakeward.core.merge.append import append
from lakeward.core.merge.change_log import HOLDING, Change, ChangeLogContents, Reason, Reject, trim
from lakeward.core.merge.delivery import Delivery, DeliveryResult
from lakeward.core.merge.facts import Capability, ObjectFacts
from lakeward.core.merge.fold import Row, apply, columns_of, row_of
from lakeward.core.merge.image_match import match
from lakeward.core.merge.settle import absorb, settle
from lakeward.core.operations.key_state import KeyState, QuarantinedRow, Remembered, Stored
from lakeward.core.plan import MergePlan
from lakeward.core.ports import (
    Batch,
    ChangeLogState,
    Commit,
    Entry,
    MaintenancePolicy,
    MaintenanceReport,
    MergeResult,
    Opened,
    OperatorDecision,
    RepairedRow,
    RollbackPreview,
    Sample,
    Selection,
    TableState,
    Version,
)
from lakeward.core.progress import Progress
from lakeward.core.quarantine.holds import Waiter, Waiters
from lakeward.core.quarantine.repair import check_same_keys
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.changed_rows import shows_change, without_added
from lakeward.core.schema_changes.evolution import RecordedChange, SchemaChange
from lakeward.core.shaping.cells import recompute
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.core.text.literals import key_text
from lakeward.core.verification.compared_columns import ComparedColumns
from lakeward.core.verification.row_comparison import Comparison


@dataclass(slots=True)
class MemoryTable:
    """Rows and progress, replaced together, with the change log and the quarantine."""

    dimension: Dimension
    exists: bool = False
    rows: dict[Key, Row] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    memory: ChangeLogContents = field(default_factory=ChangeLogContents)
    written: dict[int, DeliveryResult] = field(default_factory=dict)
    remembered: int = 0
    objects: dict[int, tuple[ObjectFacts, ...]] = field(default_factory=dict)
    decisions: list[OperatorDecision] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    quarantined: dict[int, list[Reject]] = field(default_factory=dict)
    given_up: dict[int, frozenset[Position]] = field(default_factory=dict)
    repaired: dict[Position, RepairedRow] = field(default_factory=dict)
    shown: dict[int, tuple[SchemaChange, ...]] = field(default_factory=dict)
    states: dict[int, SavedState] = field(default_factory=dict)
    known_versions: dict[Key, KnownVersions] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=dict)
    capabilities: frozenset[Capability] = frozenset(Capability)

    # The table.

    def state(self) -> TableState:
        """Return the table state: progress and columns."""
        return TableState(self.progress, self.dimension.schema if self.exists else None)

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        """Return the merge result of a plan."""
        events = [_with_nulls(item, plan.evolution.absent) for item in frame if isinstance(item, ChangeEvent)]
        delivery = plan.delivery(events, [item for item in frame if isinstance(item, Reject)])
        dimension = replace(self.dimension, schema=plan.folded, ties=plan.dimension.ties)
        if plan.splices is not None:
            settled = splice(dimension, self.rows, self.memory, delivery, plan.splices, plan.facts)
        else:
            settled = _resolver_of(plan)(dimension, self.rows, self.memory, delivery)
        settled = replace(
            settled, rows={key: _with_recomputed(row, plan.recomputed) for key, row in settled.rows.items()}
        )
        counts = replace(settled.counts, read=settled.counts.read + plan.facts.skipped, skipped=plan.facts.skipped)
        remaining_holds = [h for h in self.memory.holds.values() if h.position not in settled.closed]
        remaining_holds = [h for h in remaining_holds if h.position.epoch == settled.epoch]
        waiting_positions = {change.event.position for change in self.memory.changes.values() if change.waiting}
        new_positions = set() if plan.releases else {item.position for item in frame} - waiting_positions
        held = {key for hold in [*remaining_holds, *settled.holds] for key in hold.keys}
        held |= Waiters.of(_waiters(settled.changes, settled.epoch)).moved()
        written, removed = self._count_differences(plan, settled)
        numbers = self.numbers_after(plan, settled.rows)
        return MergeResult(
            counts=counts,
            written=written,
            removed=removed,
            current=sum(
                _count_current(row) - _count_current(self.rows.get(key)) for key, row in settled.rows.items()
            ),
            numbered=sum(number > plan.numbered for number in numbers.values()),
            held=len(held),
            rejects=Counter(reject.reason for reject in settled.rejects if reject.position in new_positions),
            log_regressions=settled.log_regressions,
            detail=settled,
        )

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Replace rows and progress together."""
        if plan.batch != self.progress.batch + 1:
            raise CommitConflict(f"{self.dimension.name} is at batch {self.progress.batch} already")
        if self.exists:
            self.states[self.progress.batch] = SavedState.of(self)
        self.dimension = replace(self.dimension, schema=plan.evolution.schema)
        rows = self.rows_after(resolved.detail)
        changed = {key: rows.get(key) for key in resolved.detail.rows}
        self.known_versions = {**self.known_versions, **self.known_versions_after(plan, changed)}
        kept_numbers = {place: number for place, number in self.numbers.items() if place[0] not in changed}
        self.numbers = {**kept_numbers, **self.numbers_after(plan, changed)}
        self.rows = rows
        self.progress = progress
        self.exists = True
        return Commit(str(plan.batch), resolved.written, resolved.removed)

    def rows_after(self, settled: DeliveryResult) -> dict[Key, Row]:
        """Return the rows after a merge result."""
        changed = {key: None if row is None else _as_stored(row) for key, row in settled.rows.items()}
        return {key: row for key, row in {**self.rows, **changed}.items() if row is not None}

    def known_versions_after(self, plan: MergePlan, rows: Mapping[Key, Row | None]) -> dict[Key, KnownVersions]:
        """Return the bitemporal rows of these keys after a batch that leaves these rows; {} for other tables."""
        dimension = replace(plan.dimension, schema=plan.evolution.schema)
        if dimension.history is None or not dimension.history.is_bitemporal:
            return {}
        numbers, versions_of_keys = self.numbers_after(plan, rows), _versions(rows)
        return {
            k: update_known_versions(dimension, k, self.known_versions.get(k, ()), of, plan.batch, numbers)
            for k, of in versions_of_keys.items()
        }

    def numbers_after(self, plan: MergePlan, rows: Mapping[Key, Row | None]) -> Numbers:
        """Return the surrogate numbers of the versions of these keys after a batch that leaves these rows."""
        dimension = replace(plan.dimension, schema=plan.evolution.schema)
        columns = columns_of(dimension)
        if dimension.history is None or columns is None or not dimension.history.has_numbers:
            return {}
        earlier = _versions({key: self.rows.get(key) for key in rows})
        return assign_numbers(columns, self.numbers, earlier, _versions(rows), plan.numbered)

    def _count_differences(self, plan: MergePlan, settled: DeliveryResult) -> tuple[int, int]:
        """Return how many rows a batch adds, and how many it removes."""
        if known_versions := self.known_versions_after(plan, settled.rows):
            pairs = [(self.known_versions.get(key, ()), after) for key, after in known_versions.items()]
            added = sum(_count_missing(earlier, after) for earlier, after in pairs)
            return added, sum(_count_missing(after, earlier) for earlier, after in pairs)
        rows = [(self.rows.get(key), row) for key, row in settled.rows.items()]
        added = sum(_count_added(earlier, after) for earlier, after in rows)
        return added, sum(_count_added(after, earlier) for earlier, after in rows)

    # The change log.

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Return the change log state up to the table's batch. Entries of later batches are deleted."""
        if self.remembered > progress.batch:
            raise TableError(
                f"{self.dimension.name} was rolled back to batch {progress.batch}",
                found=f"its memory knows batch {self.remembered}",
                todo="Load the table again.",
            )
        for by_batch in (self.written, self.objects, self.epochs, self.quarantined, self.given_up, self.shown):
            for batch in [batch for batch in by_batch if batch > progress.batch]:
                del by_batch[batch]
        for batch in sorted(self.written):
            self.memory = absorb(self.dimension, self.memory, self.written.pop(batch))
            self.remembered = batch
        epoch_objects = [(self.epochs[n], one.object) for n, objects in self.objects.items() for one in objects]
        holds, records = tuple(self.memory.holds.values()), tuple(self.memory.records)
        return ChangeLogState(
            {item.name: item for epoch, item in epoch_objects if epoch == progress.epoch},
            holds,
            records,
            decisions=tuple(self.decisions),
            quarantined_changes=dict(self.shown),
            earlier_versions=frozenset(item.version for epoch, item in epoch_objects if epoch < progress.epoch),
        )

    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Record the change log of a batch, stamped with its number."""
        self.written[plan.batch] = resolved.detail
        self.objects[plan.batch] = plan.facts.objects
        self.epochs[plan.batch] = plan.epoch
        self.shown[plan.batch] = plan.evolution.quarantined_changes

    def trim(self, progress: Progress) -> None:
        """Fold remembered events that the low watermark has passed. Incomplete ones go into quarantine."""
        self.read_state(progress)
        for event in trim(self.dimension, self.memory):
            reject = Reject(event.position, Reason.INCOMPLETE_ROW, event.keys, event.transaction, event.time)
            self.quarantined.setdefault(progress.batch, []).append(reject)

    def record_decision(self, progress: Progress, decision: OperatorDecision) -> None:
        """Record an operator decision."""
        self.decisions.append(decision)

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of batches after `after`."""
        return [
            applied_record(recorded, batch)
            for batch, objects in sorted(self.objects.items())
            for recorded in objects
            if after < batch <= progress.batch
        ]

    # The quarantine.

    def refuse(self, plan: MergePlan, batch: Batch[Frame]) -> Batch[Frame]:
        """Return a batch with the rows that show quarantined schema changes as rejects."""
        items = [_refuse_row(item, plan, batch.facts.schema) for item in batch.frame]
        facts = facts_of(plan.dimension, items)
        return Batch(items, replace(batch.facts, operations=facts.operations, rejects=facts.rejects), batch.close)

    def hold(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Record the rejects, and what was discarded or overruled by a truncate, stamped with the batch."""
        self.quarantined[plan.batch] = list(resolved.detail.rejects)
        self.given_up[plan.batch] = frozenset(resolved.detail.closed)

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return the entries of the quarantine."""
        self.read_state(progress)
        closed = {p for batch, positions in self.given_up.items() if batch <= progress.batch for p in positions}
        closed |= set(self.memory.closed)
        return [
            self._entry(batch, reject)
            for batch, rejects in sorted(self.quarantined.items())
            for reject in rejects
            if batch <= progress.batch and reject.position not in closed and reject.position.epoch == progress.epoch
        ]

    def _entry(self, batch: int, reject: Reject) -> Entry:
        waiters = Waiters.of(_waiters(self.memory.changes.values(), self.memory.epoch))
        keys = reject.keys if reject.reason in HOLDING else ()
        waiting = waiters.behind(reject.position, keys)
        return Entry(
            key=self.key_text(reject.keys[-1]) if reject.keys and self.dimension.key else None,
            other_key=self.key_text(reject.keys[0]) if len(reject.keys) > 1 else None,
            reason=reject.reason.value,
            detail=reject.detail,
            object=f"{reject.position.object:08d}",
            row=reject.position.row,
            operation=None,
            epoch=reject.position.epoch,
            sequence=reject.position.sequence,
            order=reject.position.object,
            batch=batch,
            since=0,
            text="",
            time=reject.time,
            waiting_events=waiting.waits,
            repaired=self.repaired.get(reject.position),
            also_holds=tuple(map(self.key_text, waiting.also_holds)),
        )

    def key_text(self, key: Key) -> str:
        """Return a key as a JSON list of texts."""
        return key_text(self.dimension, key)

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        """Return the events that sent a part of a row and wait for the rest."""
        self.read_state(progress)
        changes = [change for change in self.memory.changes.values() if not change.waiting]
        rows = {key: base.row for key, base in self.memory.bases.items() if base.row is not None}
        folded = apply(self.dimension, rows, [change.event for change in changes])
        entries = [self._incomplete_entry(change) for change in changes if folded.is_waiting(change.event)]
        return sorted(entries, key=lambda entry: (entry.batch, entry.position))

    def _incomplete_entry(self, change: Change) -> Entry:
        reject = Reject(change.event.position, Reason.INCOMPLETE_ROW, change.event.keys, time=change.event.time)
        missing = [name for name in self.dimension.schema.names if change.event.cells.get(name, UNSET) is UNSET]
        entry = self._entry(change.batch, reject)
        operation = change.event.operation.value
        return replace(entry, operation=operation, detail=f"not sent: {', '.join(missing)}", is_waiting=True)

    def repair_row(self, progress: Progress, entries: Sequence[Entry], events: Frame) -> None:
        """Record repaired rows."""
        for entry, event in zip(entries, events, strict=True):
            if entry.key is not None and isinstance(event, ChangeEvent):
                old_key = None if event.old_key is None else self.key_text(event.old_key)
                check_same_keys(self.dimension, entry, self.key_text(event.key), old_key)
        self.repaired.update({entry.position: entry.repaired for entry in entries if entry.repaired is not None})

    def read_replay(self, progress: Progress, resolved: Sequence[Entry], repaired: Frame | None) -> Batch[Frame]:
        """Return the repaired rows as a batch. Waiting events are in the change log, and settling releases them."""
        return Batch(repaired or (), facts_of(self.dimension, repaired or ()))

    # Earlier states.

    def versions(self) -> Sequence[Version]:
        """Return the batches before the last one."""
        return versions.versions(self)

    def preview_rollback(self, name: str) -> RollbackPreview:
        """Return the preview of a rollback to a batch."""
        return versions.behind(self, name)

    def roll_back(self, preview: RollbackPreview) -> None:
        """Restore the state after a batch."""
        versions.roll_back(self, preview)

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        """Delete states of earlier batches."""
        return versions.expire(self, policy, is_dry=is_dry)

    def check_history(self, examples: int) -> HistoryCheck:
        """Check all versions against the rules of a history."""
        return versions.check(self, examples)

    def compare(
        self, source: Frame, columns: ComparedColumns, among: Collection[str] | None
    ) -> Comparison:
        """Compare the stored rows with those of the source."""
        return comparison.compare(self, source, columns, among)

    # All rows.

    def first(self, wanted: Selection, limit: int) -> Sample:
        """Return the first rows, and the number of rows."""
        return row_reader.first(self, wanted, limit)

    def write(self, wanted: Selection, folder: str) -> int:
        """Write rows to one Parquet file."""
        return row_reader.write(self, wanted, folder)

    # One key.

    def known(self, key: Key) -> KeyState:
        """Return everything that is known of a key."""
        self.read_state(self.progress)
        changes = [c for c in self.memory.changes.values() if key in c.event.keys or not c.event.keys]
        row = self.rows.get(key)
        change = None if row is None else self.memory.changes.get(row.position)
        return KeyState(
            key=key,
            progress=self.progress,
            remembered=[
                Remembered(event=c.event, batch=c.batch, settled=None if c.waiting else c.batch) for c in changes
            ],
            quarantined=[
                QuarantinedRow(
                    position=r.position,
                    reason=r.reason,
                    batch=batch,
                    detail=r.detail,
                    time=r.time,
                    discarded_in=self._discarding_batch(r.position),
                )
                for batch, rejects in self.quarantined.items()
                for r in rejects
                if key in r.keys and r.position.epoch == self.progress.epoch
            ],
            stored=None if row is None or row.deleted else Stored(row, None if change is None else change.batch),
            deleted_row=Stored(row, None if change is None else change.batch)
            if row is not None and row.deleted
            else None,
            base=self.memory.bases.get(key),
            objects={x.object.order: x.object.name for objects in self.objects.values() for x in objects},
            has_loads=any(record.loads for record in self.memory.records),
        )

    def _discarding_batch(self, position: Position) -> int | None:
        """Return the batch with which a quarantine entry was discarded, or None."""
        return next((batch for batch, positions in self.given_up.items() if position in positions), None)


def _with_nulls(event: ChangeEvent, absent: Sequence[str]) -> ChangeEvent:
    """Return an insert or read with NULL in the columns that its file lacks: such an event is always whole."""
    if not absent or event.operation not in (Operation.INSERT, Operation.READ):
        return event
    return replace(event, cells={**event.cells, **dict.fromkeys(absent)})


def _refuse_row(item: ChangeEvent | Reject, plan: MergePlan, incoming: Schema) -> ChangeEvent | Reject:
    """Return a row as a reject if it shows a schema change, else without the changed columns."""
    if isinstance(item, Reject):
        return item
    changes = plan.evolution.quarantined_changes
    leaves_values = item.operation not in (Operation.DELETE, Operation.TRUNCATE)
    if leaves_values and any(shows_change(change, item.cells, incoming) for change in changes):
        return Reject(item.position, Reason.SCHEMA, item.keys, item.transaction, item.time)
    return replace(item, cells=without_added(changes, item.cells))


@dataclass(slots=True)
class MemoryTarget:
    """Tables by name."""

    tables: dict[TableName, MemoryTable] = field(default_factory=dict)

    def table_state(self, dimension: Dimension) -> TableState:
        """Return the table state of a table; the default for a table that does not exist."""
        table = self.tables.get(dimension.name)
        return TableState(Progress(), None) if table is None else table.state()

    def schema_changes(self, dimension: Dimension) -> Sequence[RecordedChange]:
        """Return none: changes of columns are not recorded."""
        return ()

    def key_state(self, dimension: Dimension, key: Key) -> KeyState:
        """Return everything that a table knows of a key."""
        table = self.tables.setdefault(dimension.name, MemoryTable(dimension))
        return table.known(key)

    def open(self, dimension: Dimension) -> Opened[Frame]:
        """Return a table by name, created if it does not exist."""
        table = self.tables.setdefault(dimension.name, MemoryTable(dimension))
        return Opened(str(dimension.name), table, table, table, table, table, reader=table)


def _resolver_of(
    plan: MergePlan,
) -> Callable[[Dimension, Mapping[Key, Row], ChangeLogContents, Delivery], DeliveryResult]:
    """Return the function that resolves a plan: by image, by key, or by appending."""
    if plan.dimension.match is Match.IMAGE:
        return match
    return append if plan.appends else settle


def _count_added(before: Row | None, after: Row | None) -> int:
    """Return how many rows of a key are new; in a history each version is a row."""
    if after is None or not after.versions:
        return int(after is not None)
    return _count_missing(() if before is None else before.versions, after.versions)


def _count_missing(before: Sequence[object], after: Sequence[object]) -> int:
    return len([item for item in after if item not in before])


def _versions(rows: Mapping[Key, Row | None]) -> Mapping[Key, Versions]:
    return {key: () if row is None else row.versions for key, row in rows.items()}


def _count_current(row: Row | None) -> int:
    """Return how many versions of a key are current, or for a mirror whether the row is live."""
    if row is None or not row.versions:
        return int(row is not None and not row.deleted)
    return sum(version.is_current for version in row.versions)


def _as_stored(row: Row) -> Row:
    """Return a row as a table returns it: a history stores only the versions."""
    return row_of(row.versions) if row.versions else row


def _with_recomputed(row: Row | None, recomputed: RecomputedColumns) -> Row | None:
    """Return a row with its recomputed columns."""
    return row if row is None or not recomputed else replace(row, cells=recompute(row.cells, recomputed))


def _waiters(changes: Iterable[Change], epoch: int) -> Iterator[Waiter[Key]]:
    """Yield the events that wait behind a hold. Events that wait for a load are left out."""
    for change in changes:
        if change.waiting and change.event.position.epoch <= epoch:
            yield Waiter(change.event.position, change.event.keys)
