"""The use cases, as named steps.

A batch is read, planned and resolved, and then made visible by two commits: the
companion remembers it, stamped with the next batch number; then rows and progress
appear at once. A crash between any two steps leaves a table that says where it is, and
memory stamped above that, which does not exist. Crash tests walk `STEPS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Generic, TypeAlias, TypeVar

from lakeward.core.books import Books
from lakeward.core.counts import Counts
from lakeward.core.dimension import Dimension
from lakeward.core.errors import AlarmRaised, CommitConflict, ConservationError, MendError
from lakeward.core.events import Mark, Operation, Position
from lakeward.core.evolution import with_new_names
from lakeward.core.facts import PARTIAL, BatchFacts, Capability
from lakeward.core.ledger import Past, SourceObject, Taken
from lakeward.core.loads import Load, awaited_load
from lakeward.core.memory import Memory, floor, next_mark
from lakeward.core.mending import check_every
from lakeward.core.plan import MergePlan, backwards, plan
from lakeward.core.ports import (
    Batch,
    Entry,
    Notice,
    Opened,
    Queue,
    Recalled,
    Resolved,
    Source,
    Standing,
    Statistics,
)
from lakeward.core.progress import Progress
from lakeward.core.refusals import refuse_flood, refuse_half_load, refuse_small_load
from lakeward.core.replay import columns_with, is_as_written, not_as_written
from lakeward.core.twins import first_twin

F = TypeVar("F")

LOOK: Final = ("believe", "recall", "take")
WORK_OUT: Final = ("read", "decide", "resolve")
"""The steps that `lakeward plan` takes: they change nothing."""

STEPS: Final = (
    *LOOK,
    "note",
    *WORK_OUT,
    *("hold", "remember", "commit", "record", "acknowledge", "trim", "archive"),
)
"""The steps of a batch."""

ATTEMPTS: Final = 5
"""How often a batch is worked out anew after another writer committed in between."""

Watch: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Given the name of a step, returns what to enter before it and leave after it."""


def unwatched(_step: str) -> AbstractContextManager[object]:
    """Watch nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[F]):
    """One table, where its changes come from, and the notices that called for it; `books` keep the ledger.

    `statistics` are those of the task that loads it, where they can be asked.
    """

    dimension: Dimension
    source: Source[F]
    opened: Opened[F]
    queue: Queue | None = None
    notices: Sequence[Notice] = ()
    books: Books | None = None
    statistics: Statistics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What waits for a table: where it stands, what it remembers, and what is listed."""

    standing: Standing
    recalled: Recalled
    past: Past
    taken: Taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Generic[F]):
    """A batch that is worked out and not yet done; `held_before` it are so many keys."""

    plan: MergePlan
    batch: Batch[F]
    resolved: Resolved
    progress: Progress
    taken: Taken
    held_before: int = 0

    @property
    def is_last(self) -> bool:
        """Whether all that waited is in this batch; objects that changed while they were read are not."""
        return not self.taken.files_left and len(self.plan.facts.objects) == len(self.taken.objects)

    def close(self) -> None:
        """Free what the batch holds."""
        self.resolved.close()
        self.batch.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one batch did to one table."""

    table: str
    plan: MergePlan
    progress: Progress
    written: int
    removed: int
    commit: str
    is_last: bool = True

    @property
    def counts(self) -> Counts:
        """The counts of the batch."""
        return self.progress.counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Entries of the quarantine that a person is done with: to be applied as they were mended, or given up."""

    mended: Sequence[Entry] = ()
    given_up: Sequence[Entry] = ()

    @property
    def entries(self) -> Sequence[Entry]:
        """All of them."""
        return (*self.mended, *self.given_up)


class Idle(Enum):
    """Why there is no batch: nothing waits, all that does changed while it was read, or a full load must come."""

    NOTHING = "nothing"
    CHANGING = "changing"
    LOADING = "loading"


def look(job: Job[F], watch: Watch = unwatched, *, is_whole: bool = False) -> Look:
    """See what waits for a table, changing nothing; `is_whole` lists all objects, whatever is due.

    Raises AlarmRaised where what is listed may mean loss.
    """
    with watch("believe"):
        standing = job.opened.table.standing()
    with watch("recall"):
        recalled = job.opened.companion.recall(standing.progress)
    with watch("take"):
        past = _past(job, standing.progress, recalled, is_whole=is_whole)
        taken = job.source.take(job.dimension, past)
    return Look(standing=standing, recalled=recalled, past=past, taken=taken)


def load_before(job: Job[F], progress: Progress, recalled: Recalled) -> Load | None:
    """Return the full load that must come before anything else is applied, or None."""
    return awaited_load(job.dimension.snapshots, progress, recalled.reloads, recalled.wholes)


def _past(job: Job[F], progress: Progress, recalled: Recalled, *, is_whole: bool) -> Past:
    lowest = floor(job.dimension.lateness, recalled.records, progress.mark, progress.epoch)
    load = load_before(job, progress, recalled)
    if load is not None and job.statistics is not None:
        load = replace(load, told=job.statistics.full_load(job.dimension.name))
    if job.books is not None:
        table = str(job.dimension.name)
        return job.books.past(table, progress, recalled, lowest, load=load, is_whole=is_whole)
    return Past(
        seen=recalled.objects,
        floor=lowest,
        last=progress.object,
        acked=recalled.acked(progress.epoch if load is None else load.epoch),
        cut=recalled.cut(progress.epoch),
        left=recalled.left,
        load=load,
    )


def prepare(job: Job[F], watch: Watch = unwatched) -> Prepared[F] | Idle:
    """Work out the next batch of a table, changing nothing."""
    return _prepare(job, look(job, watch), watch)


def _prepare(job: Job[F], seen: Look, watch: Watch) -> Prepared[F] | Idle:
    standing, taken = seen.standing, seen.taken
    if not taken.objects:
        return Idle.LOADING if taken.awaited is not None and taken.awaited.is_told else Idle.NOTHING
    epoch = standing.progress.epoch if taken.load is None else taken.load
    with watch("read"):
        batch = job.source.read(job.dimension, taken, epoch)
    try:
        refuse_half_load(str(job.dimension.name), batch.facts, seen.past)
    except AlarmRaised:
        batch.close()
        raise
    if not batch.facts.objects:
        batch.close()
        return Idle.CHANGING
    return _work_out(job, _Found(standing=standing, recalled=seen.recalled, batch=batch, taken=taken), watch)


def prepare_release(job: Job[F], settled: Settlement, watch: Watch = unwatched) -> Prepared[F]:
    """Work out what follows once these entries of the quarantine are settled."""
    with watch("believe"):
        standing = job.opened.table.standing()
    with watch("recall"):
        recalled = job.opened.companion.recall(standing.progress)
    with watch("read"):
        dimension = _as_it_will_be(job, standing, recalled, settled.mended)
        mended = job.source.mend(dimension, settled.mended) if settled.mended else None
        batch = job.opened.quarantine.waiting(standing.progress, settled.entries, mended)
        if settled.mended:
            batch = replace(batch, facts=replace(batch.facts, schema=dimension.schema))
        again = job.source.remaking(dimension, batch.facts.needs)
        batch = replace(batch, facts=replace(batch.facts, remaking=again))
    found = _Found(standing=standing, recalled=recalled, batch=batch, settled=settled)
    return _work_out(job, found, watch)


def as_it_stands(job: Job[F], standing: Standing) -> Dimension:
    """Return the dimension with the columns of the table: they are those that a mended row must have."""
    if standing.schema is None:
        return job.dimension
    return replace(job.dimension, schema=with_new_names(standing.schema, job.dimension.policies.renames))


def replayable(job: Job[F], entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries that can be replayed: what is mended, and rows whose change the table may follow now.

    Raises MendError where that is none, and some show a change that it may not follow.
    """
    standing = job.opened.table.standing()
    recalled = job.opened.companion.recall(standing.progress)
    found, refused = [], None
    for entry in entries:
        if entry.mended is not None:
            found.append(entry)
        elif is_as_written(entry):
            try:
                _as_it_will_be(job, standing, recalled, [entry])
                found.append(entry)
            except MendError as error:
                refused = refused or error
    if refused is not None and not found:
        raise refused
    return found


def _as_it_will_be(job: Job[F], standing: Standing, recalled: Recalled, entries: Sequence[Entry]) -> Dimension:
    """Return the dimension with the columns of the table once these entries are replayed.

    Raises MendError for an entry that cannot be: the table may have other columns since it was mended.
    """
    stands = as_it_stands(job, standing)
    dimension = replace(stands, schema=columns_with(job.dimension, stands.schema, entries, recalled.shown))
    written = [entry for entry in entries if is_as_written(entry)]
    if written and job.source.written(stands) != stands:
        raise not_as_written(dimension, written[0], "rules make its columns")
    check_every(job.source.written(dimension), [entry for entry in entries if not is_as_written(entry)])
    return dimension


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found(Generic[F]):
    """What the steps before the decision found."""

    standing: Standing
    recalled: Recalled
    batch: Batch[F]
    taken: Taken = field(default_factory=Taken)
    settled: Settlement = field(default_factory=Settlement)


def _work_out(job: Job[F], found: _Found[F], watch: Watch) -> Prepared[F]:
    standing, batch = found.standing, found.batch
    resolved: Resolved | None = None
    try:
        with watch("decide"):
            releases = frozenset(entry.position for entry in found.settled.entries)
            planned = plan(
                job.dimension,
                batch.facts,
                standing.progress,
                stored=standing.schema,
                capabilities=job.opened.table.capabilities,
                seen=found.recalled.objects.values(),
                records=found.recalled.records,
                in_part=found.recalled.in_part,
                holds=tuple(hold for hold in found.recalled.holds if hold.position not in releases),
                releases=releases,
                mended=frozenset(entry.position for entry in found.settled.mended),
            )
            refuse_small_load(planned, standing.progress, found.recalled.acked(planned.epoch))
            if planned.evolution.shown:
                batch = job.opened.quarantine.refuse(planned, batch)
                planned = replace(planned, facts=batch.facts)
        with watch("resolve"):
            resolved = job.opened.table.resolve(planned, batch.frame)
            _check_sum(planned, resolved)
            refuse_flood(planned.dimension, resolved.rejects, resolved.counts.read)
    except BaseException:
        if resolved is not None:
            resolved.close()
        batch.close()
        raise
    progress = _progress_after(found, planned, resolved)
    return Prepared(
        plan=planned,
        batch=batch,
        resolved=resolved,
        progress=progress,
        taken=found.taken,
        held_before=standing.progress.held,
    )


def carry_out(job: Job[F], prepared: Prepared[F], watch: Watch = unwatched) -> Report:
    """Do what was worked out: quarantine, memory, then rows and progress at once; `finish` comes after it."""
    planned, resolved, progress = prepared.plan, prepared.resolved, prepared.progress
    with watch("hold"):
        job.opened.quarantine.hold(planned, resolved)
    with watch("remember"):
        job.opened.companion.remember(planned, resolved)
    with watch("commit"):
        commit = job.opened.table.commit(planned, resolved, progress)
    return Report(
        table=str(job.dimension.name),
        plan=planned,
        progress=progress,
        written=commit.written,
        removed=commit.removed,
        commit=commit.name,
        is_last=prepared.is_last,
    )


def finish(job: Job[F], report: Report, watch: Watch = unwatched) -> None:
    """Do what follows a commit. It is no part of it: were it to fail, the batch is in the table."""
    objects = report.plan.facts.objects
    with watch("record"):
        if job.books is not None:
            job.books.applied(report.table, objects, report.progress.batch)
    with watch("acknowledge"):
        if report.is_last:
            acknowledge(job)
    with watch("trim"):
        job.opened.companion.trim(report.progress)
    with watch("archive"):
        put_away(job, [found.object for found in objects])


def put_away(job: Job[F], objects: Sequence[SourceObject]) -> None:
    """Move applied objects into the archive, where the source has one."""
    moved = job.source.archive(job.dimension, objects) if objects else ()
    if moved and job.books is not None:
        job.books.archived(str(job.dimension.name), moved)


def acknowledge(job: Job[F]) -> None:
    """Tell the queue that all its notices told of is committed."""
    if job.queue is not None and job.notices:
        job.queue.acknowledge(job.notices)


def apply_changes(
    job: Job[F],
    watch: Watch = unwatched,
    on_batch: Callable[[Report], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Counts:
    """Apply what waits for a table, batch by batch, until nothing does; return the counts.

    It ends early, between two batches, once `is_stopped`.
    """
    total, is_acknowledged = Counts(), False
    while not is_stopped():
        report = _retried(lambda: _apply_one(job, watch))
        if isinstance(report, Idle):
            if report is Idle.NOTHING and not is_acknowledged:
                acknowledge(job)
            break
        total, is_acknowledged = total + report.counts, report.is_last
        on_batch(report)
        finish(job, report, watch)
    return total


def mend(job: Job[F], entries: Sequence[Entry]) -> None:
    """Write down rows of the quarantine as a person mended them; `release` applies them.

    It is one write beside the table, and changes nothing of it: its key stays held. Raises
    MendError, before anything is written, where a row does not fit the table.
    """
    standing = job.opened.table.standing()
    dimension = as_it_stands(job, standing)
    check_every(job.source.written(dimension), entries)
    events = job.source.mend(dimension, entries)
    job.opened.quarantine.mend(standing.progress, entries, events)


def release(job: Job[F], settled: Settlement, watch: Watch = unwatched) -> Report:
    """Apply entries of the quarantine as they were mended, or give them up, and what waited behind, in order."""

    def once() -> Report:
        prepared = prepare_release(job, settled, watch)
        try:
            return carry_out(job, prepared, watch)
        finally:
            prepared.close()

    report = _retried(once)
    finish(job, report, watch)
    return report


def truncate(job: Job[F], place: Position, watch: Watch = unwatched) -> Report:
    """Remove every row that lies below a place, for a truncate that the source did not write down."""

    def once() -> Report:
        standing = job.opened.table.standing()
        recalled = job.opened.companion.recall(standing.progress)
        dimension = as_it_stands(job, standing)
        facts = BatchFacts(
            schema=dimension.schema,
            operations={Operation.TRUNCATE: 1},
            least=place,
            greatest=place,
            needs=frozenset({Capability.TRUNCATE}),
            may_need=PARTIAL if recalled.in_part else frozenset(),
            truncates=(place,),
        )
        batch = Batch(job.source.truncation(dimension, place), facts)
        prepared = _work_out(job, _Found(standing=standing, recalled=recalled, batch=batch), watch)
        try:
            return carry_out(job, prepared, watch)
        finally:
            prepared.close()

    report = _retried(once)
    finish(job, report, watch)
    return report


def _apply_one(job: Job[F], watch: Watch) -> Report | Idle:
    try:
        seen = look(job, watch)
        with watch("note"):
            _note(job, seen)
        prepared = _prepare(job, seen, watch)
    except AlarmRaised as error:
        if job.books is not None:
            job.books.alarm(str(job.dimension.name), error)
        raise
    if isinstance(prepared, Idle):
        return prepared
    try:
        return carry_out(job, prepared, watch)
    finally:
        prepared.close()


def _note(job: Job[F], seen: Look) -> None:
    """Write down what was listed, before any of it is read; what a crash left outside the archive goes there."""
    if job.books is not None:
        progress, companion = seen.standing.progress, job.opened.companion
        job.books.note(str(job.dimension.name), seen.past, seen.taken, seen.recalled, progress, companion)
    put_away(job, seen.taken.leftovers)


R = TypeVar("R")


def _retried(attempt: Callable[[], R]) -> R:
    """Work a batch out on the new state where another writer committed in between."""
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except CommitConflict:
            continue
    return attempt()


def _check_sum(planned: MergePlan, resolved: Resolved) -> None:
    counts, read = resolved.counts, 0 if planned.releases else planned.facts.read
    is_told = sum(resolved.rejects.values()) == counts.quarantined
    if not counts.add_up() or counts.read != read or not is_told:
        raise ConservationError(
            f"{planned.dimension.name}: the counts of batch {planned.batch} do not add up",
            found=f"{read} rows were read, and counted as {counts}; refused: {dict(resolved.rejects)}",
            todo="Nothing was applied. This is a defect of lakeward: please report it.",
        )


def _progress_after(found: _Found[F], planned: MergePlan, resolved: Resolved) -> Progress:
    before, facts = found.standing.progress, planned.facts
    objects = [item.object.name for item in facts.objects]
    reached = [position for position in (before.high_water, facts.greatest) if position is not None]
    times = [time for time in (before.time, None if planned.releases else facts.time) if time is not None]
    known = facts.ahead if planned.replaces else before.ahead
    ahead = [found for found in (known, facts.ahead) if found is not None]
    return replace(
        before,
        batch=planned.batch,
        epoch=planned.epoch,
        high_water=before.high_water if planned.releases else max(reached, default=None),
        mark=_mark_after(found, planned),
        object=objects[-1] if objects else before.object,
        time=max(times, default=None),
        rows=resolved.written if planned.replaces else before.rows + resolved.written - resolved.removed,
        held=resolved.held,
        inexact_since=(None if planned.replaces else before.inexact_since) or facts.inexact_since,
        ahead=max(ahead, default=None),
        backwards=before.backwards if planned.releases else backwards(planned, resolved.rejects),
        twin=before.twin if planned.releases else first_twin(planned, found.recalled.objects.values()),
        sequences=planned.dimension.sequences,
        key=planned.dimension.key,
        counts=resolved.counts,
        totals=resolved.counts if planned.replaces else before.totals + resolved.counts,
    )


def _mark_after(found: _Found[F], planned: MergePlan) -> Mark | None:
    """Return the mark once the batch is committed: it is found from the records of all batches."""
    new = [] if planned.record is None else [planned.record]
    records = [*found.recalled.records, *new]
    loaded = max((item.loaded for item in records), default=0)
    memory = Memory(epoch=planned.epoch, loaded=loaded, mark=found.standing.progress.mark, records=records)
    return next_mark(memory, planned.dimension.lateness)
