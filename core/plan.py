"""The merge plan: a value that says all that applying a batch will do.

The core makes it, `lakeward plan` prints it, and a table format carries it out. `lakeward.core.merge.fold.apply`
defines the expected result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakeward.core.checks.batch_checks import refuse_batch, refuse_other_options
from lakeward.core.checks.source_clock import Backwards
from lakeward.core.dimension import Dimension, Match, Ordered, Within
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position, SourceOrder
from lakeward.core.history.older_snapshots import SnapshotSpan
from lakeward.core.history.options import ByTime
from lakeward.core.history.refusals import refuse_history
from lakeward.core.history.snapshot_splice import span_of
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.merge.change_log import Hold, Reason, Record, Reject
from lakeward.core.merge.delivery import Delivery, Resolution
from lakeward.core.merge.facts import PARTIAL, BatchFacts, Capability
from lakeward.core.merge.truncates import Truncates, remembered_truncates
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.batch_evolution import evolution_of
from lakeward.core.schema_changes.evolution import Evolution, Kind, SchemaChange
from lakeward.core.shaping.recomputed_columns import RecomputedColumns, select_recomputable


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """Everything that one batch will do to one table.

    The dimension has the columns that the table stores from the batch; `evolution` has all columns of the table
    afterwards. `recalls` says that some event may be older than the newest applied one, so that the remembered
    deletes must be read. `folds` says that its events must be applied one by one, in order; `folds_remembered` says
    that this must include remembered events, since some may be partial. Events at or below `low_watermark` are too
    late. `copies` are the orders of objects that were delivered before, `truncates` those that the batch meets.
    `begun_at` is when the batch was begun, in microseconds since 1970; in a history it dates events without a time.

    `holds` are the held keys. `releases` marks a batch of events that waited: the quarantined events that held them
    are discarded, or `repaired`. `recomputed` says which columns are computed again from the rows that the fold
    leaves. `numbered` is the highest surrogate number assigned before, 0 if none was. With `splices` the batch is a
    snapshot that arrives after newer ones, and counts for that span. One that `is_first` replaces the only load
    before it, and its rows count from the instant of a first load. The `suspect_objects`, by their order, are those
    whose changes are compared with earlier ones of their keys, by time and by place in the log.
    """

    dimension: Dimension
    evolution: Evolution
    batch: int
    epoch: int
    facts: BatchFacts
    recalls: bool
    appends: bool
    creates: bool
    folds: bool = False
    folds_remembered: bool = False
    low_watermark: SourceOrder | None = None
    copies: frozenset[int] = frozenset()
    truncates: Truncates = field(default_factory=Truncates)
    holds: tuple[Hold, ...] = ()
    releases: frozenset[Position] = frozenset()
    repaired: frozenset[Position] = frozenset()
    replaces: bool = False
    recomputed: RecomputedColumns = field(default_factory=RecomputedColumns)
    begun_at: int = 0
    numbered: int = 0
    splices: SnapshotSpan | None = None
    is_first: bool = False
    suspect_objects: frozenset[int] = frozenset()

    @property
    def with_all_columns(self) -> Dimension:
        """The dimension with all columns of the table after the batch."""
        return replace(self.dimension, schema=self.evolution.schema)

    @property
    def stored(self) -> Dimension:
        """The dimension with the columns and the key of the stored table after the batch."""
        return self.with_all_columns.stored

    @property
    def changes(self) -> tuple[SchemaChange, ...]:
        """The changes of the columns of the table, including those of derived columns of a history."""
        changes, history = self.evolution.changes, self.dimension.history
        return (
            changes
            if history is None
            else tuple(derived for change in changes for derived in history.derived(change))
        )

    @property
    def renames(self) -> Mapping[str, str]:
        """The new names of renamed columns, by their old ones."""
        return {change.path: change.to for change in self.changes if change.to is not None}

    @property
    def folded(self) -> Schema:
        """The columns of the table that are folded. The others are computed from them."""
        return Schema(tuple(c for c in self.evolution.schema if c.name not in self.recomputed.columns))

    @property
    def record(self) -> Record | None:
        """The record of the batch, or None where no event arrives with it."""
        facts = self.facts
        if self.releases or facts.least is None or facts.greatest is None:
            return None
        return Record(
            self.batch,
            frozenset(item.object.order for item in facts.objects),
            facts.least,
            facts.greatest,
            facts.time,
            frozenset({facts.least.epoch} if facts.has_loads else ()),
            facts.loaded or 0,
            self.truncates.arrived,
            added=bool(self.evolution.added),
        )

    def delivery(
        self,
        events: Sequence[ChangeEvent],
        rejects: Sequence[Reject],
        object_names: Mapping[int, str] | None = None,
    ) -> Delivery:
        """Return the delivery of the events and rejects that the batch reads.

        Events of a batch that `releases` are repaired ones: each is the resolution of a quarantined event.
        """
        repaired = {event.position[2:]: event for event in events if self.releases}
        return Delivery(
            number=self.batch,
            events=[] if self.releases else events,
            rejects=rejects,
            resolutions=[Resolution(position, repaired.get(position[2:])) for position in self.releases],
            loaded=self.facts.loaded,
            believed=self.facts.believed,
            ran=self.begun_at,
            by_hand=not self.facts.objects,
            own_times=self.facts.own_times,
            is_first=self.is_first,
            suspect_objects=self.suspect_objects,
            object_names=object_names or {},
        )

    @property
    def has_late(self) -> bool:
        """Whether some event of the batch is too late. A released event never is."""
        if self.releases or self.low_watermark is None or self.facts.least is None:
            return False
        return self.facts.least.source_order <= self.low_watermark


def plan(
    dimension: Dimension,
    facts: BatchFacts,
    progress: Progress,
    *,
    stored: Schema | None,
    capabilities: frozenset[Capability],
    applied: Iterable[SourceObject] = (),
    records: Iterable[Record] = (),
    has_partial_events: bool = False,
    holds: tuple[Hold, ...] = (),
    releases: frozenset[Position] = frozenset(),
    repaired: frozenset[Position] = frozenset(),
    begun_at: int = 0,
    is_first: bool = False,
) -> MergePlan:
    """Return the plan of a batch.

    `applied` are the objects of earlier batches of the table's epoch, `records` the records of all batches.
    `has_partial_events` says that some remembered event may be partial; `is_first` is that of `ObjectSelection`. A
    dimension without declared columns has those of the batch. `stored` is the schema of the stored table, or None
    where it does not exist.

    Raises SchemaConflict where the batch's columns differ from the table's and no policy allows it, or where the
    order, the key or the history of the table has changed; QuarantineFull or SourceError where more of the batch
    cannot be applied than the table tolerates; and ConfigError where the table format cannot do what the batch
    needs.
    """
    refuse_other_options(dimension, progress)
    records = [*records]
    batch = _interpret_batch(dimension, facts, progress, stored, records)
    delivered = _delivered_orders(batch.facts, () if batch.replaces else applied)
    refuse_batch(batch.dimension, batch.facts, delivered, missing=batch.needs - capabilities)
    refuse_history(batch.dimension, batch.facts, batch.evolution)
    planned = _plan_events(batch, progress, records, delivered, in_part=has_partial_events)
    return replace(
        planned,
        holds=tuple(hold for hold in holds if hold.position.epoch == planned.epoch),
        releases=releases,
        repaired=repaired,
        begun_at=begun_at,
        numbered=progress.numbered or 0,
        is_first=is_first and batch.replaces and _is_dated_alike(batch.dimension, batch.facts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _InterpretedBatch:
    """A batch as its table reads it: its columns, and which of its updates are partial rows.

    `needs` are the capabilities that the table format must have for it. The batch `creates` the table, or
    `replaces` all of its rows.
    """

    dimension: Dimension
    evolution: Evolution
    facts: BatchFacts
    needs: frozenset[Capability]
    creates: bool
    replaces: bool


def _interpret_batch(
    dimension: Dimension,
    facts: BatchFacts,
    progress: Progress,
    stored: Schema | None,
    records: Sequence[Record],
) -> _InterpretedBatch:
    """Return how a table reads a batch; raises SchemaConflict as `plan` does."""
    replaces = facts.loaded is not None and facts.loaded > progress.epoch
    evolution = evolution_of(dimension, facts, stored)
    dimension = replace(dimension, schema=evolution.stored_columns(facts.schema))
    meets_fewer = _meets_fewer_columns(dimension, facts, progress, evolution, records)
    applied = facts.with_parts() if meets_fewer or _takes_parts(dimension, facts, evolution) else facts
    completes = meets_fewer or (evolution.lacks_columns and Operation.UPDATE in facts.operations)
    # A table that keeps ended rows remembers complete updates as partial ones: its format need not complete any.
    needs = _needs(dimension, applied if completes else facts, replaces=replaces)
    return _InterpretedBatch(
        dimension=dimension,
        evolution=evolution,
        facts=applied,
        needs=needs,
        creates=stored is None,
        replaces=replaces,
    )


def _plan_events(
    batch: _InterpretedBatch,
    progress: Progress,
    records: Sequence[Record],
    delivered: frozenset[int],
    *,
    in_part: bool,
) -> MergePlan:
    """Return the plan of a batch of arriving events, as if no key were held; `delivered` objects came before."""
    dimension, evolution, facts = batch.dimension, batch.evolution, batch.facts
    epoch = facts.loaded if batch.replaces and facts.loaded else progress.epoch
    splices = span_of(dimension, facts, progress, records)
    records = [record for record in records if record.is_of(epoch)]
    low_watermark = _low_watermark(dimension, progress, epoch)
    truncates = _truncates(dimension, facts, records, low_watermark, delivered)
    is_in_part = _is_in_part(dimension, facts, records, in_part=in_part)
    is_new = batch.creates or batch.replaces
    return MergePlan(
        dimension=dimension,
        evolution=evolution,
        batch=progress.batch + 1,
        epoch=epoch,
        facts=facts,
        recalls=not _is_above(facts.least, progress.high_watermark),
        appends=not dimension.key,
        creates=batch.creates,
        folds=is_in_part or dimension.keeps_ended or _meets_truncates(dimension, facts, truncates),
        folds_remembered=is_in_part,
        low_watermark=low_watermark,
        copies=delivered,
        truncates=truncates,
        replaces=batch.replaces,
        recomputed=_recomputed_columns(dimension, facts, evolution, is_new=is_new),
        splices=splices,
    )


def _is_dated_alike(dimension: Dimension, facts: BatchFacts) -> bool:
    """Return True if all rows of a snapshot count from its time in a history."""
    history = dimension.history
    return history is not None and isinstance(history.validity, ByTime) and not facts.own_times


def _low_watermark(dimension: Dimension, progress: Progress, epoch: int) -> SourceOrder | None:
    """Return the low watermark of an epoch, or None.

    The watermark of an earlier epoch does not apply, because sequences may begin again. An `ordered` table has
    none: one from a time with another lateness would make redelivered events too late.
    """
    is_of_epoch = progress.low_watermark is not None and progress.low_watermark.epoch == epoch
    return progress.low_watermark if is_of_epoch and not isinstance(dimension.lateness, Ordered) else None


def _takes_parts(dimension: Dimension, facts: BatchFacts, evolution: Evolution) -> bool:
    """Return True if updates are folded as partial rows, because ended rows depend on earlier values.

    Nothing older comes to an `ordered` table. But where its versions are dated by a column that the batch lacks,
    new rows are refused and hold their keys, and the updates that wait behind them must record what they lack.
    """
    history = dimension.history
    if isinstance(dimension.lateness, Ordered):
        lacks_date = history is not None and history.dated_by in evolution.absent
        return lacks_date and Operation.UPDATE in facts.operations
    return dimension.keeps_ended or (evolution.lacks_columns and Operation.UPDATE in facts.operations)


def _meets_fewer_columns(
    dimension: Dimension, facts: BatchFacts, progress: Progress, evolution: Evolution, records: Sequence[Record]
) -> bool:
    """Return True if some event of the batch lies below one that came before its table got columns.

    Earlier updates lack these columns (semantics 6.1), so an older event may have their values and is folded with
    them.
    """
    epoch = progress.epoch if facts.loaded is None else max(facts.loaded, progress.epoch)
    low_watermark = _low_watermark(dimension, progress, epoch)
    newest_growth = progress.batch + 1 if evolution.added else max((r.batch for r in records if r.added), default=0)
    if isinstance(dimension.lateness, Ordered) or not dimension.key or facts.least is None:
        return False
    earlier = [r.greatest for r in records if r.batch < newest_growth and r.is_of(epoch)]
    return any(
        facts.least < position and (low_watermark is None or position.source_order > low_watermark)
        for position in earlier
    )


def _needs(dimension: Dimension, facts: BatchFacts, *, replaces: bool) -> frozenset[Capability]:
    needs = set(facts.needs)
    needs |= {Capability.RELOAD} if replaces else set()
    needs |= {Capability.SOFT_DELETE} if dimension.is_soft else set()
    needs |= {Capability.IMAGES} if dimension.match is Match.IMAGE else set()
    if dimension.history is not None:
        needs.add(Capability.HISTORY)
        needs |= {Capability.BITEMPORAL} if dimension.history.is_bitemporal else set()
        needs |= {Capability.NUMBERS} if dimension.history.has_numbers else set()
    return frozenset(needs)


def _recomputed_columns(
    dimension: Dimension, facts: BatchFacts, evolution: Evolution, *, is_new: bool
) -> RecomputedColumns:
    """Return which columns are computed again from stored rows.

    Rows of a table that is not new lack the added columns. Without a key no row is completed; in a history this is
    refused where it would be necessary.
    """
    if not dimension.key or dimension.history is not None:
        return RecomputedColumns()
    added = frozenset(change.path for change in evolution.changes if change.kind is Kind.ADD and not is_new)
    return select_recomputable(str(dimension.name), facts.recomputed, frozenset(evolution.schema.names), added)


def _truncates(
    dimension: Dimension,
    facts: BatchFacts,
    records: Iterable[Record],
    low_watermark: SourceOrder | None,
    delivered: frozenset[int],
) -> Truncates:
    """Return the truncates that a batch meets, without those that are too late."""
    in_time = [
        position for position in facts.truncates if low_watermark is None or position.source_order > low_watermark
    ]
    arriving = [position for position in in_time if position.object not in delivered]
    truncates = Truncates.of(
        remembered_truncates(records, low_watermark), arriving, unique=dimension.unique_sequences
    )
    truncates = replace(truncates, copies=truncates.copies + len(in_time) - len(arriving))
    return truncates.met_from(facts.least) if isinstance(dimension.lateness, Ordered) else truncates


def _meets_truncates(dimension: Dimension, facts: BatchFacts, truncates: Truncates) -> bool:
    """Return True if a batch has a truncate, or an event that is older than a remembered one."""
    if not dimension.key or truncates.arrived or facts.least is None or truncates.newest is None:
        return bool(dimension.key and truncates.arrived)
    return facts.least < truncates.newest


def _is_in_part(dimension: Dimension, facts: BatchFacts, records: Iterable[Record], *, in_part: bool) -> bool:
    """Return True if events must be folded with remembered ones: some are partial, or may meet a partial one.

    A batch of full-load rows alone, in a table that has nothing else, meets none.
    """
    if not dimension.key or PARTIAL & facts.needs:
        return bool(dimension.key)
    if isinstance(dimension.lateness, Ordered) or not (in_part or PARTIAL & facts.may_need):
        return False
    reached = [facts.greatest, *(record.greatest for record in records)]
    return any(position is not None and position.sequence != LOAD_SEQUENCE for position in reached)


def _delivered_orders(facts: BatchFacts, applied: Iterable[SourceObject]) -> frozenset[int]:
    orders = {item.order for item in applied}
    return frozenset(item.object.order for item in facts.objects if item.object.order in orders)


def _is_above(lowest: Position | None, high_watermark: Position | None) -> bool:
    """Return True if every event of the batch is above the high watermark, compared by (epoch, sequence)."""
    if lowest is None or high_watermark is None:
        return True
    return SourceOrder(*lowest[:2]) > high_watermark.source_order


def backwards(plan: MergePlan, rejects: Mapping[Reason, int]) -> Backwards | None:
    """Return the first object of a batch whose order runs backwards, within itself or against the low watermark."""
    within = [
        Backwards(item.object.name, item.backwards) for item in plan.facts.objects if item.backwards is not None
    ]
    objects = [item for item in plan.facts.objects if item.object.order not in plan.copies and not item.is_load]
    late = []
    if plan.low_watermark is not None and rejects.get(Reason.TOO_LATE):
        late = [
            Backwards(item.object.name, None)
            for item in objects
            if item.least is not None and item.least.source_order <= plan.low_watermark
        ]
    return next(iter([*within, *late]), None)


def tolerance_of(dimension: Dimension) -> int | None:
    """Return by how much a sequence may run backwards within an object, or None where any amount is allowed.

    Log positions may not at all. A commit time may by as much as a change may be late, in microseconds.
    """
    if dimension.sequences.are_wide or isinstance(dimension.lateness, Ordered):
        return 0
    return dimension.lateness.micros if isinstance(dimension.lateness, Within) else None
