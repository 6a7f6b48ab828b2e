"""Working out what a plan does to the rows of a table; nothing is written.

The table's keys and positions are streamed past those of the batch. Batches of rows that
are not sent whole are folded over what the companion remembers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.spark import names
from lakeward.adapters.spark.caching import freed_on_failure
from lakeward.adapters.spark.chains import RELEASED_ID, Chains
from lakeward.adapters.spark.copies import kept, without_facts, without_shown
from lakeward.adapters.spark.events import (
    IS_EVENT,
    IS_HOLDING,
    IS_LOAD,
    IS_REJECT,
)
from lakeward.adapters.spark.fitting import fitted
from lakeward.adapters.spark.folding import fold
from lakeward.adapters.spark.histories import VersionRows
from lakeward.adapters.spark.inline import inline
from lakeward.adapters.spark.items import with_absent
from lakeward.adapters.spark.parting import part_chains
from lakeward.adapters.spark.remaking import remade
from lakeward.adapters.spark.resolve import (
    FILE,
    ID,
    INCOMPLETE,
    IS_LIVE,
    IS_NEWS,
    POS,
    Known,
    as_rejects,
    as_told,
    counts,
    events_of,
    holding_rejects,
    keys_of_both,
    late_as_rejects,
    part_at_barriers,
    reject_without_key,
    verdicts,
    winners,
    without_copies,
)
from lakeward.adapters.spark.splicing import spliced
from lakeward.adapters.spark.truncates import in_force, not_overruled, without_truncates
from lakeward.adapters.tables.before import Remembering
from lakeward.adapters.tables.companion import CompanionTable
from lakeward.adapters.tables.images import by_images, meets_images
from lakeward.adapters.tables.instants import with_instants
from lakeward.adapters.tables.keeping import Keeping
from lakeward.adapters.tables.outcome import Outcome
from lakeward.adapters.tables.partitions import Partitions
from lakeward.adapters.tables.quarantine import QuarantineTable
from lakeward.adapters.tables.rows import Loaded, Rows
from lakeward.adapters.tables.ties import shown, without_held, without_ties
from lakeward.adapters.tables.writing import written
from lakeward.core import mending
from lakeward.core.counts import Counts
from lakeward.core.dimension import Ordered, Ties
from lakeward.core.errors import SchemaConflict
from lakeward.core.history.snapshots import Span
from lakeward.core.memory import HOLDING, Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Resolved
from lakeward.core.splicing import refuse_broken, refuse_in_part

_NO_PARTITIONS: Final = Partitions()


@dataclass(frozen=True, slots=True)
class _News:
    """What is new of a batch: its rows, those that come `late` as rejects, and its truncates apart.

    Late ones are counted by the reason for which they were refused before, if they were.
    """

    frame: DataFrame
    truncates: DataFrame | None
    known: Known
    late: Mapping[Reason | None, int]

    @property
    def too_late(self) -> int:
        """How many rows come too late."""
        return sum(self.late.values())

    def rejects(self, plan: MergePlan, refused: Mapping[Reason, int]) -> Mapping[Reason, int]:
        """Return by reason the rows that go into quarantine, with those that the table itself `refused`."""
        moved = Counter({reason: rows for reason, rows in self.late.items() if reason is not None})
        found = {Reason.TOO_LATE: self.too_late, **refused}
        return _rejects(plan, self.known, found, moved)


@dataclass(frozen=True, slots=True)
class _Decided:
    """The events that pass and those that wait, and the chains of what passes.

    `frame` are the rows of the batch; so many are `refused`, by the reason for which they turned out to be
    rejects: no rule decides what they mean, or others have altered the versions of their keys. `lifted` are
    events that waited and that a truncate may let pass. `has_refused` says whether one of either is such a
    reject.
    """

    frame: DataFrame
    passing: DataFrame
    waiting: DataFrame | None
    chains: Chains
    refused: Mapping[Reason, int]
    has_refused: bool
    lifted: DataFrame | None

    @property
    def rows(self) -> DataFrame:
        """All rows, rejects among them."""
        return _with(self.frame, self.lifted)

    def released(self, plan: MergePlan) -> DataFrame | None:
        """Return the events that wait no more: those that pass, and those that are held themselves now."""
        source = self.frame if plan.releases else self.lifted
        if source is None:
            return None
        shifted = source.where(f"{names.REASON} IN ('{Reason.KEY_SHIFT.value}', '{Reason.HISTORY.value}')")
        passing = self.passing if plan.releases else self.passing.where(f"{ID} >= {RELEASED_ID}")
        return passing.unionByName(shifted, allowMissingColumns=True)


Work: TypeAlias = Callable[[Loaded | None, Partitions], Resolved]
"""Works out rows of a table as it was loaded, None where it is not there yet, and as it is partitioned."""


def resolved_by(
    kept: Keeping, plan: MergePlan, frame: DataFrame, table: Loaded | None, partitions: Partitions = _NO_PARTITIONS
) -> Resolved:
    """Work out what a plan does to a table, or to one that is not there yet.

    Rows of which its `partitions` would not keep a text go into quarantine.
    """
    plan, frame = with_instants(plan, fitted(frame, plan.dimension.schema), lambda: kept.companion.object_names)
    plan, frame = partitions.without_unkept(plan, frame)
    resolver = Resolver(kept.companion, kept.quarantine, kept.spark)
    if plan.appends:
        is_asked = meets_images(plan)
        return by_images(kept, plan, frame, table) if is_asked else resolver.appends(plan, frame, table)
    resolve = resolver.reload if plan.replaces else resolver.merge
    resolved = resolve(plan, frame, table)
    with freed_on_failure(resolved.close):
        partitions.refuse_unkept(plan, written(plan, resolved))
    return resolved


@dataclass(frozen=True, slots=True)
class Resolver:
    """Resolves the batches of one table, by what its companion and its quarantine know."""

    companion: CompanionTable
    kept: QuarantineTable
    spark: Callable[[], SparkSession]

    def appends(self, plan: MergePlan, frame: DataFrame, table: Loaded | None) -> Resolved:
        """Every fact of a table without a key is a row of its own."""
        frame = reject_without_key(frame, plan.dimension)
        f = plan.facts
        written = sum(n for operation, n in f.operations.items() if operation.value in ("insert", "read"))
        refused = sum(f.operations.values()) - written
        outcome = Outcome(
            upserts=frame.where(IS_EVENT),
            rejects=frame.where(IS_REJECT) if refused or f.rejects else None,
            drops_all=plan.replaces,
            table=table,
        )
        read = Counts(
            read=f.read, skipped=f.skipped, quarantined=refused + sum(f.rejects.values()), applied=written
        )
        return Resolved(
            counts=Counts() if plan.releases else read,
            written=written,
            removed=Rows(plan, table, self.spark).count() if plan.replaces else 0,
            rejects=_rejects(plan, Known(), {Reason.NO_KEY: refused}),
            detail=outcome,
        )

    def reload(self, plan: MergePlan, frame: DataFrame, table: Loaded | None) -> Resolved:
        """The rows of a full load take the place of all that stand, and meet none of them."""
        if plan.dimension.history is not None:  # its rows stay: what the load lacks ends
            return self.merge(plan, frame, table)
        rows = Rows(plan, table, self.spark)
        resolved = self.merge(plan, frame, table if plan.dimension.is_soft else None)
        outcome: Outcome = resolved.detail
        outcome.table, outcome.drops_all = table, True
        with freed_on_failure(resolved.close):
            if plan.dimension.is_soft:
                resolved = self._with_lacking(resolved, rows)
            return replace(resolved, removed=rows.count())

    def _with_lacking(self, resolved: Resolved, rows: Rows) -> Resolved:
        """Keep the rows that a full load lacks, where deletes are soft: they went."""
        outcome: Outcome = resolved.detail
        lacking, live = rows.lacking(outcome.upserts), rows.live()
        outcome.upserts = outcome.upserts.unionByName(lacking, allowMissingColumns=True)
        return replace(
            resolved,
            written=resolved.written + lacking.count(),
            current=resolved.current - (0 if live is None else live.count()),
        )

    def merge(self, plan: MergePlan, frame: DataFrame, table: Loaded | None) -> Resolved:
        """Each event meets the row that stands of its key, if there is one."""
        rows = Rows(plan, table, self.spark)
        if plan.splices is not None and rows.history is not None:
            return self._splices(plan, rows.history, plan.splices, frame, rows)
        news = self._news(plan, frame, rows)
        plan, told_apart = without_ties(plan, news.frame, rows, self.companion)
        news = replace(news, frame=told_apart)
        return self._folds(plan, news, rows) if plan.folds else self._judges(plan, news, rows)

    def _splices(self, plan: MergePlan, shown: VersionRows, span: Span, frame: DataFrame, rows: Rows) -> Resolved:
        """Put a snapshot between others; none of its rows is late, a copy or behind a hold."""
        refuse_in_part(plan.dimension, plan.facts)
        done = spliced(plan, shown, span, rows.all(), events_of(frame))
        refuse_broken(plan.dimension, plan.facts.objects[0].object.name, done.wrong())
        f, numbering = plan.facts, done.numbering(plan.numbered)
        outcome = Outcome(
            upserts=done.rows(numbering),
            removed=done.removed(),
            rejects=frame.where(IS_REJECT) if f.rejects else None,
            table=rows.table,
        )
        refused, applied = sum(f.rejects.values()), sum(f.operations.values())
        return Resolved(
            counts=Counts(read=f.read, skipped=f.skipped, quarantined=refused, applied=applied),
            written=outcome.upserts.count(),
            removed=done.removed().count(),
            current=done.opened(),
            numbered=numbering.given,
            held=self._held(plan, frame),
            rejects=f.rejects,
            detail=outcome,
        )

    def _news(self, plan: MergePlan, frame: DataFrame, rows: Rows) -> _News:
        """Leave out of a batch what is known, and what comes too late."""
        frame, truncates = without_truncates(frame, plan)
        frame, known = without_copies(frame, plan)
        frame, held = without_held(plan, frame, rows, self.kept)
        frame, copies = self._without_facts(plan, frame, rows)
        frame, late = late_as_rejects(frame, plan)
        return _News(frame, truncates, known._replace(events=known.events + held + copies), late)

    def _judges(self, plan: MergePlan, news: _News, rows: Rows) -> Resolved:
        """Judge whole rows by what stands of their keys, in one pass and without an order."""
        frame, known = news.frame, news.known
        passing, waiting = self._part(plan, events_of(frame), frame)
        waiting, waited = self._not_waiting_yet(plan, waiting)
        gone = self.companion.deletes(plan.batch - 1) if plan.recalls else None
        found = None if rows.table is None else rows.found(passing, gone)
        judged = verdicts(passing, found, plan, (FILE, POS)).persist()
        with freed_on_failure(judged.unpersist):
            tally, written, removed = counts(judged, passing, plan)
            all_stand = written == tally.stale + tally.duplicates + tally.superseded + tally.applied
            upserts = passing if all_stand else winners(passing, judged, deletes=False)
            is_ordered = isinstance(plan.dimension.lateness, Ordered)
            outcome = Outcome(
                upserts=rows.kept(upserts, judged),
                removed=judged.where(f"{IS_NEWS} AND {IS_LIVE}"),
                changes=None if is_ordered else passing.where(f"NOT {IS_LOAD}"),
                deletes=winners(passing, judged, deletes=True) if is_ordered and tally.applied > written else None,
                waiting=waiting,
                released=passing if plan.releases else None,
                rejects=frame.where(IS_REJECT) if plan.facts.rejects or news.too_late else None,
                table=rows.table,
                cached=[judged],
            )
            rejects = news.rejects(plan, {})
            tally = replace(
                tally, duplicates=tally.duplicates + waited + known.rows, quarantined=sum(rejects.values())
            )
            return Resolved(
                counts=self._counts(plan, tally, waiting),
                written=written,
                removed=removed,
                held=self._held(plan, frame),
                rejects=rejects,
                detail=outcome,
                close=outcome.close,
            )

    def _without_facts(self, plan: MergePlan, frame: DataFrame, rows: Rows) -> tuple[DataFrame, int]:
        """Leave out the events that are known by their sequence, where that is unique."""
        if not plan.dimension.unique_sequences or plan.releases or plan.replaces:
            return frame, 0
        if not plan.recalls:
            return without_facts(frame, plan, [])
        facts = self.companion.facts(plan.batch - 1)
        stands = shown(plan, rows)
        if stands is None or not kept(plan):
            return without_facts(frame, plan, facts if stands is None else [*facts, stands])
        frame, copies = without_facts(frame, plan, facts)
        frame, more = without_shown(frame, plan, stands)
        return frame, copies + more

    def _folds(self, plan: MergePlan, news: _News, rows: Rows) -> Resolved:
        """Fold the events in order over what is remembered; hold key changes that no rule decides."""
        is_ordered = isinstance(plan.dimension.lateness, Ordered)
        done = self._decided(plan, news, rows)
        frame, chains = done.frame, done.chains
        tally, incomplete = chains.counts()
        refused = dict(done.refused)
        if incomplete and is_ordered:
            ids = chains.verdicts().where("verdict = 'incomplete'").selectExpr(f"id AS {ID}")
            frame = as_rejects(frame, plan, ids, Reason.INCOMPLETE_ROW, INCOMPLETE)
            refused[Reason.INCOMPLETE_ROW] = incomplete
        has_rejects = bool(plan.facts.rejects or news.late or any(refused.values()) or done.has_refused)
        waiting, waited = self._not_waiting_yet(plan, done.waiting)
        numbering = chains.numbering()
        upserts = remade(chains.rows(numbering), plan.remaking)
        released = done.released(plan)
        removed = chains.removed()
        drops_below = None
        if not plan.dimension.keeps_ended:  # what a truncate ends goes
            removed, drops_below = rows.with_truncated(removed), plan.truncates.removes_below
        changes = _changes(plan, done.passing, chains)
        if news.truncates is not None:
            changes = changes.unionByName(news.truncates, allowMissingColumns=True)
        outcome = Outcome(
            upserts=upserts,
            removed=removed,
            changes=changes,
            bases=chains.bases() if plan.in_part and not is_ordered else None,
            waiting=waiting,
            released=released,
            drops_below=drops_below,
            rejects=_with(frame, done.lifted).where(IS_REJECT) if has_rejects else None,
            table=rows.table,
        )
        rejects = news.rejects(plan, refused)
        again = waited + news.known.rows
        tally = replace(tally, duplicates=tally.duplicates + again, quarantined=sum(rejects.values()))
        counts = self._counts(plan, tally, waiting)
        if plan.releases:
            counts = replace(counts, released=counts.released + incomplete + sum(done.refused.values()))
        else:
            waits = counts.waiting if is_ordered else counts.waiting + incomplete
            counts = replace(counts, released=0 if released is None else released.count(), waiting=waits)
        return Resolved(
            counts=counts,
            written=upserts.count(),
            removed=removed.count(),
            current=chains.opened(),
            numbered=numbering.given,
            held=self._held(plan, done.rows, done),
            rejects=rejects,
            detail=outcome,
            close=outcome.close,
        )

    def _decided(self, plan: MergePlan, news: _News, rows: Rows) -> _Decided:
        """Fold what passes, again and again until no key change of it is left that no rule decides."""
        frame, lifted = news.frame, self._overruled(plan)
        before = Remembering(self.companion, plan, rows).before(news.frame, news.truncates)
        found: Counter[Reason] = Counter()
        has_refused = False
        while True:
            events = with_absent(events_of(frame), plan) if plan.in_part else events_of(frame)
            every = events if lifted is None else events.unionByName(events_of(lifted), allowMissingColumns=True)
            passing, waiting = self._part(plan, every, _with(frame, lifted), has_refused=has_refused)
            chains = fold(plan, passing, before)
            refused = chains.refused()
            if refused is None:
                if lifted is not None and waiting is not None:
                    waiting = waiting.where(f"{ID} < {RELEASED_ID}")
                return _Decided(frame, passing, waiting, chains, found, has_refused, lifted)
            self._refuse_mended(plan, frame, refused)
            counted = refused.where(f"{ID} < {RELEASED_ID}").groupBy("reason").count().collect()
            found.update({Reason(row["reason"]): row["count"] for row in counted})
            has_refused = True
            frame = as_told(frame, plan, refused).localCheckpoint()
            if lifted is not None:
                lifted = as_told(lifted, plan, refused).localCheckpoint()

    def _refuse_mended(self, plan: MergePlan, frame: DataFrame, refused: DataFrame) -> None:
        """Raise MendError where a row that a person mended turns out to be none that can be applied."""
        if not plan.mended:
            return
        types = {names.OBJECT: "bigint", names.ROW: "bigint"}
        mended = inline(self.spark(), types, [(place.object, place.row) for place in plan.mended])
        told = as_told(frame, plan, refused).where(IS_REJECT)
        found = told.join(F.broadcast(mended), [names.OBJECT, names.ROW], "left_semi").head()
        if found is None:
            return
        order, row = found[names.OBJECT], found[names.ROW]
        name = self.companion.object_names.get(order, order)
        if found[names.REASON] == Reason.HISTORY.value:
            raise mending.breaks_history(plan.dimension, name, row, found[names.DETAIL])
        raise mending.undecided(plan.dimension, name, row)

    def _overruled(self, plan: MergePlan) -> DataFrame | None:
        """Return the events that wait, where a truncate may lift what holds them; they come after all others."""
        if not plan.truncates.arrived or self.companion.waiting(plan.batch - 1) is None:
            return None
        waited = self.companion.waiting_events(plan.batch - 1)
        return waited.withColumn(names.ARRIVAL, F.expr(f"{RELEASED_ID >> 2} + {names.ARRIVAL}")).localCheckpoint()

    def _part(
        self, plan: MergePlan, events: DataFrame, rows: DataFrame, *, has_refused: bool = False
    ) -> tuple[DataFrame, DataFrame | None]:
        """Part the events into those that pass and those that wait behind a hold, or a reject among the rows."""
        holds = in_force(plan)
        barriers = [self.kept.barriers(holds)] if holds else []
        if has_refused or any(reason in HOLDING for reason in plan.facts.rejects):
            barriers.append(holding_rejects(not_overruled(plan, rows), plan))
        if not barriers:
            return events, None
        if not plan.folds:
            return part_at_barriers(events, reduce(DataFrame.unionByName, barriers), plan)
        waiting = self.companion.waiting(plan.batch - 1)
        is_among_events = plan.releases or plan.replaces or plan.truncates.arrived
        if waiting is not None and not is_among_events and names.OLD in waiting.columns:
            moves = not_overruled(plan, waiting.where(f"{names.OLD} IS NOT NULL"))
            barriers.append(keys_of_both(moves, plan.dimension.key))
        return part_chains(plan, events, reduce(DataFrame.unionByName, barriers))

    def _not_waiting_yet(self, plan: MergePlan, waiting: DataFrame | None) -> tuple[DataFrame | None, int]:
        """Leave out what waits already, or still does behind another hold; return how many came again.

        Raises SchemaConflict where whole rows are to wait that lack a column: they are kept without saying so.
        """
        if waiting is None:
            return None, 0
        again = 0
        known = self.companion.waiting(plan.batch - 1) if plan.recalls and (plan.holds or plan.releases) else None
        if known is not None:
            new = waiting.join(F.broadcast(known), [names.OBJECT, names.ROW], "left_anti")
            again = 0 if plan.releases else waiting.count() - new.count()
            waiting = new
        if plan.evolution.lacks and not plan.in_part and not waiting.isEmpty():
            raise _cannot_wait(plan)
        return waiting, again

    def _counts(self, plan: MergePlan, tally: Counts, waiting: DataFrame | None) -> Counts:
        """Complete the counts of what passed by those of what did not, and of truncates."""
        if plan.releases:
            settled = tally.stale + tally.duplicates + tally.superseded + tally.applied
            mended = len(plan.mended) - (0 if waiting is None else waiting.count())
            return Counts(released=settled - mended)
        return replace(
            tally + plan.truncates.counts(in_history=plan.dimension.history is not None),
            read=plan.facts.read,
            skipped=plan.facts.skipped,
            waiting=0 if waiting is None else waiting.count(),
            ties=tally.ties if plan.dimension.ties is Ties.ARRIVAL else 0,
        )

    def _held(self, plan: MergePlan, frame: DataFrame, done: _Decided | None = None) -> int:
        """Count the keys that are held afterwards: by what is in quarantine, and by key changes that wait."""
        held = {str(key[0]) for hold in in_force(plan) for key in hold.keys}
        frame = not_overruled(plan, frame)
        has_refused = done is not None and done.has_refused
        if has_refused or any(reason in HOLDING for reason in plan.facts.rejects):
            held |= self.kept.keys_of(frame.where(IS_HOLDING))
        return len(held if done is None else held | self._moved(plan, done))

    def _moved(self, plan: MergePlan, done: _Decided) -> set[str]:
        """Return the keys of key changes that wait after the batch, as texts."""
        if done.waiting is None or names.OLD not in done.waiting.columns:
            return set()
        moves = f"{names.OLD} IS NOT NULL"
        held = self.kept.keys_of(done.waiting.where(moves))
        if plan.releases or plan.replaces:
            return held
        released = done.released(plan)
        freed = [] if released is None else released.where(moves).select(names.OBJECT, names.ROW).collect()
        return held | self.companion.waiters(plan.batch - 1).moved({tuple(row) for row in freed})


def _rejects(
    plan: MergePlan, known: Known, refused: Mapping[Reason, int], moved: Mapping[Reason, int] = MappingProxyType({})
) -> Mapping[Reason, int]:
    """Return by reason the rows that go into quarantine: no copies, and what the table itself refused.

    Those that were `moved` are among these, and had another reason before.
    """
    if plan.releases:
        return {}
    return Counter(plan.facts.rejects) - Counter(known.rejects) - Counter(moved) + Counter(refused)


def _with(frame: DataFrame, lifted: DataFrame | None) -> DataFrame:
    return frame if lifted is None else frame.unionByName(lifted, allowMissingColumns=True)


def _changes(plan: MergePlan, passing: DataFrame, chains: Chains) -> DataFrame:
    """Return what is to be remembered of the events that pass; rows of a full load are in the table."""
    if isinstance(plan.dimension.lateness, Ordered):
        return _deletes(passing, chains)
    if not plan.in_part:
        return passing.where(f"NOT {IS_LOAD}")
    return passing if chains.settled is None else passing.join(chains.settled, ID, "left_anti")


def _deletes(passing: DataFrame, chains: Chains) -> DataFrame:
    """Return the deletes that stand in the end: all that an `ordered` table remembers."""
    stand = chains.verdicts().where("verdict = 'applied' AND operation = 'delete'").selectExpr(f"id AS {ID}")
    return passing.join(stand, ID, "left_semi")


def _cannot_wait(plan: MergePlan) -> SchemaConflict:
    return SchemaConflict(
        f"{plan.dimension.name}: rows that lack a column of the table would wait behind a held key",
        found="missing: "
        + ", ".join([*plan.evolution.absent, *[".".join(names) for names in plan.evolution.lacking]]),
        todo="Nothing was applied, for it would not be known later that they lack it. Settle what is in "
        "quarantine (`lakeward quarantine list`), and run again.",
    )
