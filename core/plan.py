"""The merge plan: a value that says all that applying a batch will do.

Planned here, printed by `lakeward plan`, carried out by a table format. What carrying
it out must amount to is said by `lakeward.core.fold.apply`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from lakeward.core.clock import Ahead, Backwards
from lakeward.core.dimension import SHARE_FROM, Dimension, Ordered, Unreadable, Within
from lakeward.core.errors import AlarmRaised, ConfigError, QuarantineFull, SchemaConflict, SourceError
from lakeward.core.events import LOAD_SEQUENCE, Cell, Mark, Operation, Position, Sequences
from lakeward.core.evolution import Evolution, Kind, SchemaChange, evolve
from lakeward.core.ledger import SourceObject
from lakeward.core.memory import UNPLACED, Hold, Reason, Record
from lakeward.core.progress import Progress
from lakeward.core.remaking import Remaking, in_table
from lakeward.core.schema import Column, Schema
from lakeward.core.truncates import Truncates, remembered_truncates


class Capability(Enum):
    """What a table format can do beyond the merge of ordered, whole rows."""

    TRUNCATE = "truncate"
    UNSET = "unset"
    KEY_CHANGE = "key_change"
    RELOAD = "reload"


PARTIAL: Final = frozenset({Capability.UNSET, Capability.KEY_CHANGE})
"""What makes the state of a row depend on more than its newest event."""


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What one object of a batch was found to hold; of `unreadable` rows not even the key is known.

    `ahead` is its greatest source time that lies too far in the future to be believed,
    `backwards` the first row whose sequence runs backwards by more than the lateness. `is_load`
    says that it is one of a declared full load, also where it holds nothing.
    """

    object: SourceObject
    rows: int
    least: Position | None = None
    greatest: Position | None = None
    unreadable: int = 0
    ahead: int | None = None
    is_load: bool = False
    backwards: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """What the core needs to know of a batch to decide, found in one pass over it.

    `key_range` holds the least and the greatest value of each key column whose type
    makes that cheap, in the form that the adapters agree on, else None. `needs` are the
    capabilities that its events call for, `may_need` those that events of its source may
    call for, in this batch or another. `time` is its greatest source time, up to the latest
    that is `believed` (None: all are). `least` and `greatest` bound the rows whose place in the
    order is known, if there are any. `truncates` are the positions of its truncates.
    `warnings` are how many rows break a quality rule that only warns, by what the rule is called.
    `remaking` says how rules make columns of the row that stands.
    """

    schema: Schema
    objects: tuple[ObjectFacts, ...] = ()
    operations: Mapping[Operation, int] = field(default_factory=dict)
    rejects: Mapping[Reason, int] = field(default_factory=dict)
    skipped: int = 0
    least: Position | None = None
    greatest: Position | None = None
    time: int | None = None
    key_range: tuple[tuple[Cell, Cell] | None, ...] = ()
    needs: frozenset[Capability] = frozenset()
    may_need: frozenset[Capability] = frozenset()
    loaded: int | None = None
    believed: int | None = None
    truncates: tuple[Position, ...] = ()
    warnings: Mapping[str, int] = field(default_factory=dict)
    remaking: Remaking = field(default_factory=Remaking)

    @property
    def ahead(self) -> Ahead | None:
        """The greatest source time that is not believed."""
        found = (Ahead(item.ahead, item.object.name) for item in self.objects if item.ahead is not None)
        return max(found, default=None)

    @property
    def has_loads(self) -> bool:
        """Whether it has rows of a full load; one whose place is not known may be of anything."""
        has_place = bool(self.operations) or not UNPLACED.issuperset(self.rejects)
        return has_place and self.least is not None and self.least.sequence == LOAD_SEQUENCE

    @property
    def read(self) -> int:
        """How many rows the batch holds, of any kind."""
        return sum(self.operations.values()) + sum(self.rejects.values()) + self.skipped

    @property
    def inexact_since(self) -> str | None:
        """The first object with a row whose key cannot be read."""
        return next((found.object.name for found in self.objects if found.unreadable), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """Everything that one batch will do to one table.

    The dimension has the columns that the table takes of the batch; `evolution` says which
    the table has afterwards. `recalls` says that some event may be older than what the table
    has seen, so that its memory of deletes must be asked; `folds`, that its events must be
    taken one by one, in order; `in_part`, that they must then meet what is remembered, since
    some may not be whole. What lies at or below the `mark` comes too late; `copies` are the
    orders of objects that were delivered before, `truncates` those that the batch meets.
    `holds` are the keys that wait for a person. `releases` marks a batch of events that waited
    rather than of new ones: what held them is given up, or `mended`. `remaking` says which
    columns are made again of the rows that the fold leaves.
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
    in_part: bool = False
    mark: Mark | None = None
    copies: frozenset[int] = frozenset()
    truncates: Truncates = field(default_factory=Truncates)
    holds: tuple[Hold, ...] = ()
    releases: frozenset[Position] = frozenset()
    mended: frozenset[Position] = frozenset()
    replaces: bool = False
    remaking: Remaking = field(default_factory=Remaking)

    @property
    def folded(self) -> Schema:
        """The columns of the table that are folded; the others are made of them."""
        return Schema(tuple(c for c in self.evolution.schema if c.name not in self.remaking.columns))

    @property
    def record(self) -> Record | None:
        """The record of the batch, or None where nothing arrives with it."""
        facts = self.facts
        if self.releases or facts.least is None or facts.greatest is None:
            return None
        return Record(
            self.batch,
            frozenset(found.object.order for found in facts.objects),
            facts.least,
            facts.greatest,
            facts.time,
            frozenset({facts.least.epoch} if facts.has_loads else ()),
            facts.loaded or 0,
            self.truncates.arrived,
        )

    @property
    def has_late(self) -> bool:
        """Whether some event of the batch comes too late; what waited never does."""
        if self.releases or self.mark is None or self.facts.least is None:
            return False
        return self.facts.least.mark <= self.mark


def plan(
    dimension: Dimension,
    facts: BatchFacts,
    progress: Progress,
    *,
    stored: Schema | None,
    capabilities: frozenset[Capability],
    seen: Iterable[SourceObject] = (),
    records: Iterable[Record] = (),
    in_part: bool = False,
    holds: tuple[Hold, ...] = (),
    releases: frozenset[Position] = frozenset(),
    mended: frozenset[Position] = frozenset(),
) -> MergePlan:
    """Decide what applying a batch will do.

    `seen` are the objects of earlier batches of the table's epoch, `records` what those of all held;
    `in_part` says that some event that is remembered may not be whole. A dimension that declares no columns has
    those of the batch. `stored` is the schema of the table as it is, or None where there
    is none yet. Raises SchemaConflict where the batch's columns are not the table's and no
    policy says what to do, or its order is made of something else, QuarantineFull or
    SourceError where more of the batch cannot be applied than the table tolerates, and
    ConfigError where the table format cannot do what the batch calls for.
    """
    _refuse_other_sequences(dimension, progress)
    _refuse_other_key(dimension, progress)
    replaces = facts.loaded is not None and facts.loaded > progress.epoch
    evolution = _evolution(dimension, facts, stored)
    dimension = replace(dimension, schema=evolution.taken(facts.schema))
    if evolution.lacks and Operation.UPDATE in facts.operations and not isinstance(dimension.lateness, Ordered):
        facts = _with_parts(facts)
    delivered = _delivered(facts, () if replaces else seen)
    _refuse_unreadable(dimension, facts, delivered)
    refuse_flood(dimension, facts.rejects, facts.read)
    missing = (facts.needs | ({Capability.RELOAD} if replaces else set())) - capabilities
    if missing:
        raise ConfigError(
            f"{dimension.name}: the table format cannot do what this batch needs",
            found="needed: " + ", ".join(sorted(item.value for item in missing)),
            todo="Nothing was applied. Choose a table format that declares it (`lakeward plugins`).",
        )
    _refuse_key_changes(dimension, facts)
    epoch = facts.loaded if replaces and facts.loaded else progress.epoch
    records = [record for record in records if record.is_of(epoch)]
    truncates = _truncates(dimension, facts, records, progress.mark, delivered)
    is_in_part = _is_in_part(dimension, facts, records, in_part=in_part)
    return MergePlan(
        dimension=dimension,
        evolution=evolution,
        batch=progress.batch + 1,
        epoch=epoch,
        facts=facts,
        recalls=not _is_above(facts.least, progress.high_water),
        appends=not dimension.key,
        creates=stored is None,
        folds=is_in_part or _meets_truncates(dimension, facts, truncates),
        in_part=is_in_part,
        mark=None if replaces else progress.mark,
        copies=delivered,
        truncates=truncates,
        holds=tuple(hold for hold in holds if hold.position.epoch == epoch),
        releases=releases,
        mended=mended,
        replaces=replaces,
        remaking=_remaking(dimension, facts, evolution, is_new=stored is None or replaces),
    )


def _with_parts(facts: BatchFacts) -> BatchFacts:
    """Say of a batch that it has updates of a part of a row: an older one may come that has the rest."""
    has = frozenset({Capability.UNSET})
    return replace(facts, needs=facts.needs | has, may_need=facts.may_need | has)


def _remaking(dimension: Dimension, facts: BatchFacts, evolution: Evolution, *, is_new: bool) -> Remaking:
    """Return what is made again of rows that stand; those of a table that is not new lack what it adds."""
    if not dimension.key:
        return Remaking()
    added = frozenset(change.path for change in evolution.changes if change.kind is Kind.ADD and not is_new)
    return in_table(str(dimension.name), facts.remaking, frozenset(evolution.schema.names), added)


_SEQUENCES: Final[Mapping[Sequences, str]] = {
    Sequences.TIMES: "commit times, or the order of the files alone",
    Sequences.PLACES: "places in the source's log",
    Sequences.UNIQUE: "unique numbers of the changes",
}


def _refuse_other_sequences(dimension: Dimension, progress: Progress) -> None:
    """Refuse to put events into an order that is made of something else than that of the table."""
    if progress.batch and progress.sequences is not dimension.sequences:
        raise SchemaConflict(
            f"{dimension.name}: the order of its changes cannot be made of something else",
            found=f"the table goes by {_SEQUENCES[progress.sequences]}; the settings say "
            f"{_SEQUENCES[dimension.sequences]}",
            todo="Nothing of the table was applied; other tables go on. Set `sequence_column` and `sequence_kind` "
            "under [source] as they were, or drop the table and what is kept beside it (docs/reload.md).",
        )


def _refuse_other_key(dimension: Dimension, progress: Progress) -> None:
    """Refuse to tell rows apart by other columns than before: what is stored and remembered goes by those."""
    if not progress.batch or progress.key is None:
        return
    known = tuple(dimension.policies.renames.get(name, name) for name in progress.key)
    if known != dimension.key:
        was, is_ = (", ".join(key) if key else "no column" for key in (known, dimension.key))
        raise SchemaConflict(
            f"{dimension.name}: its key cannot become another",
            found=f"the table goes by {was}; the settings say {is_}",
            todo="Nothing of the table was applied; other tables go on. Set `key` as it was, or drop the table and "
            "what is kept beside it (docs/reload.md).",
        )


def _refuse_key_changes(dimension: Dimension, facts: BatchFacts) -> None:
    """Refuse key changes in an `ordered` table: it forgets the rows that they cover between two batches."""
    if isinstance(dimension.lateness, Ordered) and Capability.KEY_CHANGE in facts.needs and dimension.key:
        where = f" in {facts.objects[0].object.name}" if len(facts.objects) == 1 else ""
        raise ConfigError(
            f"{dimension.name}: the key of a row changes, and the table is `ordered`",
            found=f"a key change{where}; a transaction may go on moving rows in the next batch",
            todo='Nothing was applied. Give the table a `lateness` that is a duration, as "24h", with a '
            "`timestamp_column`: then what a transaction has moved is remembered.",
        )


def _truncates(
    dimension: Dimension,
    facts: BatchFacts,
    records: Iterable[Record],
    mark: Mark | None,
    delivered: frozenset[int],
) -> Truncates:
    """Return the truncates that a batch meets; those that come too late are none of them."""
    in_time = [place for place in facts.truncates if mark is None or place.mark > mark]
    came = [place for place in in_time if place.object not in delivered]
    found = Truncates.of(remembered_truncates(records, mark), came, unique=dimension.unique_sequences)
    return replace(found, copies=found.copies + len(in_time) - len(came))


def _meets_truncates(dimension: Dimension, facts: BatchFacts, truncates: Truncates) -> bool:
    """Whether a batch has a truncate, or an event that is older than one that is remembered."""
    if not dimension.key or truncates.arrived or facts.least is None or truncates.newest is None:
        return bool(dimension.key and truncates.arrived)
    return facts.least < truncates.newest


def _is_in_part(dimension: Dimension, facts: BatchFacts, records: Iterable[Record], *, in_part: bool) -> bool:
    """Whether events must meet what is remembered: some are in part, or any may meet such a one.

    Nothing but rows of a full load meets nothing.
    """
    if not dimension.key or PARTIAL & facts.needs:
        return bool(dimension.key)
    if isinstance(dimension.lateness, Ordered) or not (in_part or PARTIAL & facts.may_need):
        return False
    reached = [facts.greatest, *(record.greatest for record in records)]
    return any(position is not None and position.sequence != LOAD_SEQUENCE for position in reached)


def _delivered(facts: BatchFacts, seen: Iterable[SourceObject]) -> frozenset[int]:
    orders = {item.order for item in seen}
    return frozenset(found.object.order for found in facts.objects if found.object.order in orders)


def _is_above(least: Position | None, high_water: Position | None) -> bool:
    """Whether everything is newer than all that was seen, by (epoch, sequence) alone."""
    if least is None or high_water is None:
        return True
    return Mark(*least[:2]) > high_water.mark


def backwards(plan: MergePlan, reasons: Mapping[Reason, int]) -> Backwards | None:
    """Return the first object of a batch whose order runs backwards, within itself or against the mark."""
    within = [Backwards(f.object.name, f.backwards) for f in plan.facts.objects if f.backwards is not None]
    late = []
    if plan.mark is not None and reasons.get(Reason.TOO_LATE):
        new = [f for f in plan.facts.objects if f.object.order not in plan.copies and not f.is_load]
        late = [Backwards(f.object.name, None) for f in new if f.least is not None and f.least.mark <= plan.mark]
    return next(iter([*within, *late]), None)


def tolerance_of(dimension: Dimension) -> int | None:
    """Return by how much a sequence may run backwards within an object, or None where it always may.

    A number may not; a time may by as much as a change may be late.
    """
    if dimension.sequences.are_wide or isinstance(dimension.lateness, Ordered):
        return 0
    return dimension.lateness.micros if isinstance(dimension.lateness, Within) else None


def refuse_flood(dimension: Dimension, reasons: Mapping[Reason, int], read: int) -> None:
    """Raise QuarantineFull where more of a batch cannot be applied than the table tolerates.

    Rows that show a change of columns count towards no share: of a file that has it, they may all be.
    """
    rejected, tolerance = sum(reasons.values()), dimension.tolerance
    is_many = rejected > tolerance.max_rows
    unforeseen = rejected - reasons.get(Reason.SCHEMA, 0)
    is_much = read >= SHARE_FROM and unforeseen > tolerance.max_share * read
    if is_many or is_much:
        limit = f"max_rows = {tolerance.max_rows:,}" if is_many else f"max_share = {tolerance.max_share:g}"
        words = ", ".join(f"{number:,} {reason.value}" for reason, number in reasons.items() if number)
        raise QuarantineFull(
            f"{dimension.name}: {rejected:,} of the {read:,} rows of one batch cannot be applied",
            found=f"{words}; `{limit}` is the most that may go into quarantine",
            todo="Nothing of the table was applied; other tables go on. Is a column's type, its format or "
            "`null_text` declared wrongly? Where the files are as they should be, raise the limit under "
            f'[tables."{dimension.name}".quarantine].',
        )


def refuse_small_load(plan: MergePlan, progress: Progress, acked: Mapping[str, frozenset[str]]) -> None:
    """Raise LOAD-001 where a snapshot has too few of the rows that the table has; see `Snapshots`."""
    snapshots, facts = plan.dimension.snapshots, plan.facts
    if snapshots is None or not plan.replaces:
        return
    rows, table = facts.operations.get(Operation.READ, 0), plan.dimension.name
    about = [found.object.version for found in facts.objects]
    if rows >= snapshots.least_share * progress.rows or acked.get("LOAD-001", frozenset()).issuperset(about):
        return
    raise AlarmRaised(
        "LOAD-001",
        f"{table}: the full load has {rows:,} rows, and the table {progress.rows:,}",
        found=f"{len(about):,} file(s); a load of less than {snapshots.least_share:g} of the rows is taken for a "
        "part of one (`least_share`)",
        todo="Nothing was applied. Is the load still being written, or was it cut off? Run again when it is whole. "
        f"If so many rows really went: `lakeward ack {table} LOAD-001`.",
        about=about,
    )


def _refuse_unreadable(dimension: Dimension, facts: BatchFacts, delivered: frozenset[int]) -> None:
    """Raise SourceError at a row whose key cannot be read, where the table stops at one."""
    if dimension.tolerance.unreadable is not Unreadable.STOP:
        return
    for found in facts.objects:
        if found.unreadable and found.object.order not in delivered:
            raise SourceError(
                f"{dimension.name}: {found.object.name} has {found.unreadable:,} row(s) whose key cannot be read",
                found='`unreadable = "stop"` is set: nobody can know which rows they change',
                todo="Nothing of the table was applied; other tables go on. Replace the file by a right one, or "
                'let the table become inexact with `unreadable = "inexact"`: the rows then go into quarantine.',
            )


def _evolution(dimension: Dimension, facts: BatchFacts, stored: Schema | None) -> Evolution:
    declared = dimension.schema if len(dimension.schema) else facts.schema
    evolution = evolve(stored or declared, facts.schema, dimension.policies, dimension.key)
    where = f" in {facts.objects[0].object.name}" if facts.objects else ""
    for change in evolution.refused:
        if change.kind is Kind.RENAME:
            raise _cannot_rename(dimension, change, stored, where)
    if evolution.refused:
        raise SchemaConflict(
            f"{dimension.name}: the columns of the source and of the table differ",
            found="; ".join(map(str, evolution.refused)) + where,
            todo="Nothing of the table was applied; other tables go on. Declare the columns as they are now "
            "under [tables], let the table follow (docs/schema-changes.md), or keep these files back.",
        )
    _refuse_names_alike(dimension, evolution.schema.columns)
    return evolution


def _cannot_rename(dimension: Dimension, change: SchemaChange, stored: Schema | None, where: str) -> SchemaConflict:
    """Say what stands in the way of a new name: a column of that name, or one that still has the old one."""
    has_both = stored is not None and stored.find(change.path) is not None
    found = f"the table has both {change.path} and {change.to}, or two columns that would be called so"
    return SchemaConflict(
        f"{dimension.name}: the column {change.path} cannot be called {change.to}",
        found=found if has_both else f"the source still has a column {change.path}{where}",
        todo="Nothing of the table was applied; other tables go on. Take the name out of `rename` under "
        f'[tables."{dimension.name}".schema] where they are two columns; where they are one, copy the values of '
        "the one into the other and drop it.",
    )


def _refuse_names_alike(dimension: Dimension, columns: Sequence[Column]) -> None:
    """Refuse two columns, or fields of one, that differ only in case: most readers would not tell them apart."""
    known: dict[str, str] = {}
    for name, type_ in ((column.name, column.type) for column in columns):
        _refuse_names_alike(dimension, type_.parts)
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise SchemaConflict(
                f"{dimension.name}: two columns differ only in case",
                found=f"found {other} and {name}",
                todo="Nothing of the table was applied. Let DMS rename one (a transformation rule "
                "`rename-column`), or bring the files back to one spelling.",
            )
