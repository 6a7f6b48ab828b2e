"""Working out what a plan does to the rows of an Iceberg table; nothing is written.

The table's keys and positions are streamed past those of the batch. Batches of rows that
are not sent whole are folded over what the companion remembers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.iceberg.companion import IcebergCompanion
from lakeward.adapters.iceberg.quarantine import IcebergQuarantine
from lakeward.adapters.spark import names
from lakeward.adapters.spark.chains import RELEASED_ID, Before, Chains, fold, part_chains
from lakeward.adapters.spark.copies import without_facts
from lakeward.adapters.spark.events import (
    IS_EVENT,
    IS_HOLDING,
    IS_LOAD,
    IS_REJECT,
    IS_TRUNCATE,
    KeyRange,
    range_of,
)
from lakeward.adapters.spark.fitting import called_now, fitted, kept_as, with_kept
from lakeward.adapters.spark.items import with_absent
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.spark.resolve import (
    ID,
    INCOMPLETE,
    IS_LIVE,
    IS_NEWS,
    SMALL,
    Known,
    as_rejects,
    counts,
    events_of,
    holding_rejects,
    keys_of_both,
    late_as_rejects,
    no_place,
    part_at_barriers,
    reject_without_key,
    sequence_literal,
    standing,
    verdicts,
    winners,
    without_copies,
)
from lakeward.adapters.spark.types import ddl as type_ddl
from lakeward.adapters.spark.types import from_bound
from lakeward.core.counts import Counts
from lakeward.core.dimension import Ordered
from lakeward.core.errors import SchemaConflict
from lakeward.core.events import Position
from lakeward.core.memory import HOLDING, Hold, Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Resolved

FILE: Final = "_lakeward_standing_file"
POS: Final = "_lakeward_standing_pos"


@dataclass(slots=True)
class Outcome:
    """What resolving found, for the steps that carry it out.

    `drops_below` is the place of a truncate: of what is `removed` it is all that lies below it.
    """

    upserts: DataFrame
    removed: DataFrame | None = None
    changes: DataFrame | None = None
    deletes: DataFrame | None = None
    bases: DataFrame | None = None
    waiting: DataFrame | None = None
    released: DataFrame | None = None
    rejects: DataFrame | None = None
    drops_below: Position | None = None
    table: Any = None
    cached: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Free what is cached."""
        for frame in self.cached:
            frame.unpersist()


@dataclass(frozen=True, slots=True)
class _Decided:
    """The events that pass and those that wait, the chains of what passes, and how many events no rule decides.

    `released` are those that pass and waited, since a truncate lifted what held them.
    """

    frame: DataFrame
    passing: DataFrame
    waiting: DataFrame | None
    chains: Chains
    shifted: int
    released: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Resolver:
    """Resolves the batches of one table, by what its companion and its quarantine know."""

    name: tuple[str, str, str]
    companion: IcebergCompanion
    kept: IcebergQuarantine
    spark: Callable[[], SparkSession]

    def appends(self, plan: MergePlan, frame: DataFrame, table: Any) -> Resolved:
        """Every fact of a table without a key is a row of its own."""
        frame = reject_without_key(frame)
        f = plan.facts
        written = sum(n for operation, n in f.operations.items() if operation.value in ("insert", "read"))
        refused = sum(f.operations.values()) - written
        outcome = Outcome(
            upserts=frame.where(IS_EVENT),
            rejects=frame.where(IS_REJECT) if refused or f.rejects else None,
            table=table,
        )
        read = Counts(
            read=f.read, skipped=f.skipped, quarantined=refused + sum(f.rejects.values()), applied=written
        )
        return Resolved(
            counts=Counts() if plan.releases else read,
            written=written,
            removed=0,
            rejects=_rejects(plan, Known(), {Reason.NO_KEY: refused}),
            detail=outcome,
        )

    def merge(self, plan: MergePlan, frame: DataFrame, table: Any) -> Resolved:
        """Each event meets the row that stands of its key, if there is one."""
        frame, truncates = _without_truncates(frame, plan)
        frame, known = without_copies(frame, plan)
        frame, copies = self._without_facts(plan, frame, table)
        known = known._replace(events=known.events + copies)
        frame, too_late = late_as_rejects(frame, plan)
        if plan.folds:
            return self._folds(plan, frame, truncates, table, known, too_late)
        passing, waiting = self._part(plan, events_of(frame), frame)
        waiting, copies = self._not_waiting_yet(plan, waiting)
        if waiting is not None and _lacks(plan) and not waiting.isEmpty():
            raise _cannot_wait(plan)
        found = None if table is None else self._found(plan, passing, table)
        judged = verdicts(passing, found, plan, (FILE, POS)).persist()
        tally, written, removed = counts(judged, passing, plan)
        all_stand = written == tally.stale + tally.duplicates + tally.superseded + tally.applied
        upserts = passing if all_stand else winners(passing, judged, deletes=False)
        is_ordered = isinstance(plan.dimension.lateness, Ordered)
        outcome = Outcome(
            upserts=self._kept(plan, upserts, judged, table),
            removed=judged.where(f"{IS_NEWS} AND {IS_LIVE}"),
            changes=None if is_ordered else passing.where(f"NOT {IS_LOAD}"),
            deletes=winners(passing, judged, deletes=True) if is_ordered and tally.applied > written else None,
            waiting=waiting,
            released=passing if plan.releases else None,
            rejects=frame.where(IS_REJECT) if plan.facts.rejects or too_late else None,
            table=table,
            cached=[judged],
        )
        rejects = _rejects(plan, known, {Reason.TOO_LATE: too_late})
        tally = replace(tally, duplicates=tally.duplicates + copies + known.rows, quarantined=sum(rejects.values()))
        return Resolved(
            counts=self._counts(plan, tally, waiting),
            written=written,
            removed=removed,
            held=self._held(plan, frame),
            rejects=rejects,
            detail=outcome,
            close=outcome.close,
        )

    def _without_facts(self, plan: MergePlan, frame: DataFrame, table: Any) -> tuple[DataFrame, int]:
        """Leave out the events that are known by their sequence, where that is unique."""
        if not plan.dimension.unique_sequences or plan.releases or plan.replaces:
            return frame, 0
        if not plan.recalls:
            return without_facts(frame, plan, [])
        facts = self.companion.facts(plan.batch - 1)
        has_rows = table is not None and table.currentSnapshot() is not None
        if has_rows and isinstance(plan.dimension.lateness, Ordered):
            stands = self._rows(plan, table, plan.facts.key_range).where(f"NOT {IS_LOAD}")
            facts.append(stands.withColumn(names.OPERATION, F.expr("explode(array('insert', 'update'))")))
        return without_facts(frame, plan, facts)

    def _folds(
        self,
        plan: MergePlan,
        frame: DataFrame,
        truncates: DataFrame | None,
        table: Any,
        known: Known,
        too_late: int,
    ) -> Resolved:
        """Fold the events in order over what is remembered; hold key changes that no rule decides."""
        if plan.evolution.lacking:
            raise _cannot_fold(plan)
        is_ordered = isinstance(plan.dimension.lateness, Ordered)
        done = self._decided(plan, frame, table)
        frame, chains = done.frame, done.chains
        tally, incomplete = chains.counts()
        refused = {Reason.TOO_LATE: too_late, Reason.KEY_SHIFT: done.shifted}
        if incomplete and is_ordered:
            ids = chains.verdicts().where("verdict = 'incomplete'").selectExpr(f"id AS {ID}")
            frame = as_rejects(frame, plan, ids, Reason.INCOMPLETE_ROW, INCOMPLETE)
            refused[Reason.INCOMPLETE_ROW] = incomplete
        waiting, waited = self._not_waiting_yet(plan, done.waiting)
        upserts = chains.rows()
        released = _released(done) if plan.releases else done.released
        removed = self._with_truncated(plan, table, chains.stood)
        changes = _changes(plan, done.passing, chains)
        outcome = Outcome(
            upserts=upserts,
            removed=removed,
            changes=changes if truncates is None else changes.unionByName(truncates, allowMissingColumns=True),
            bases=chains.first_touched if plan.in_part and not is_ordered else None,
            waiting=waiting,
            released=released,
            drops_below=plan.truncates.removes_below,
            rejects=frame.where(IS_REJECT) if plan.facts.rejects or any(refused.values()) else None,
            table=table,
            cached=[chains.folded],
        )
        rejects = _rejects(plan, known, refused)
        tally = replace(tally, duplicates=tally.duplicates + waited + known.rows, quarantined=sum(rejects.values()))
        counts = self._counts(plan, tally, waiting)
        if plan.releases:
            counts = replace(counts, released=counts.released + incomplete)
        else:
            counts = replace(counts, released=0 if released is None else released.count())
            counts = counts if is_ordered else replace(counts, waiting=counts.waiting + incomplete)
        return Resolved(
            counts=counts,
            written=upserts.count(),
            removed=removed.count(),
            held=self._held(plan, frame, done),
            rejects=rejects,
            detail=outcome,
            close=outcome.close,
        )

    def _decided(self, plan: MergePlan, frame: DataFrame, table: Any) -> _Decided:
        """Fold what passes, again and again until no key change of it is left that no rule decides."""
        before, shifted = self._before(plan, table), 0
        waited = self._overruled(plan)
        while True:
            events = with_absent(events_of(frame), plan) if plan.in_part else events_of(frame)
            every = events if waited is None else events.unionByName(waited, allowMissingColumns=True)
            passing, waiting = self._part(plan, every, frame)
            chains = fold(plan, passing, before)
            undecided = chains.undecided()
            if undecided is None:
                if waited is None:
                    return _Decided(frame, passing, waiting, chains, shifted)
                released = passing.where(f"{ID} >= {RELEASED_ID}")
                waiting = None if waiting is None else waiting.where(f"{ID} < {RELEASED_ID}")
                return _Decided(frame, passing, waiting, chains, shifted, released)
            shifted += undecided.count()
            frame = as_rejects(frame, plan, undecided, Reason.KEY_SHIFT, _SHIFTED).localCheckpoint()
            chains.close()

    def _overruled(self, plan: MergePlan) -> DataFrame | None:
        """Return the events that wait, where a truncate may lift what holds them; each has an ID."""
        if not plan.truncates.arrived or self.companion.waiting(plan.batch - 1) is None:
            return None
        waited = events_of(self.companion.waiting_events(plan.batch - 1))
        return waited.withColumn(ID, F.expr(f"{RELEASED_ID} + {ID}")).localCheckpoint()

    def _with_truncated(self, plan: MergePlan, table: Any, stood: DataFrame) -> DataFrame:
        """Return, beside the rows that stood of the batch's keys, those that a truncate of it removes."""
        limit, newest = plan.truncates.removes_below, plan.truncates.newest
        is_new = limit is not None and (newest is None or limit > newest)
        if limit is None or not is_new or table is None or table.currentSnapshot() is None:
            return stood
        rows = self._rows(plan, table, ()).where(f"{_place(names.EPOCH)} < {_literal(plan, limit)}")
        others = rows.selectExpr(*map(quoted, plan.dimension.key), f"_file AS {FILE}", f"_pos AS {POS}")
        others = others.join(stood.select(FILE, POS), [FILE, POS], "left_anti")
        return stood.unionByName(others, allowMissingColumns=True)

    def _before(self, plan: MergePlan, table: Any) -> Before:
        """Return what the table knows of before a batch."""
        by_rows = isinstance(plan.dimension.lateness, Ordered) or not plan.in_part
        upto = plan.batch - 1
        return Before(
            remembered=self.companion.events(upto),
            bases=None if by_rows else self.companion.bases(upto),
            rows=lambda keys: self._rows_of(plan, table, keys),
            by_rows=by_rows,
        )

    def _rows_of(self, plan: MergePlan, table: Any, keys: DataFrame) -> DataFrame:
        """Return the rows of these keys as they stand, and where they lie."""
        stands = [f"{name} AS {standing(name)}" for name in names.POSITION]
        if table is None or table.currentSnapshot() is None:
            types = [f"CAST(NULL AS {type_ddl(c.type)}) AS {quoted(c.name)}" for c in plan.evolution.schema]
            places = no_place(plan.dimension, (POS,))
            return self.spark().range(0).selectExpr(*types, *places, f"'' AS {FILE}")
        rows = self._rows(plan, table, range_of(keys, plan.dimension))
        has = [name for name in plan.evolution.schema.names if name in rows.columns]
        rows = rows.selectExpr(*map(quoted, has), *stands, f"_file AS {FILE}", f"_pos AS {POS}")
        return rows.join(keys, list(plan.dimension.key), "left_semi")

    def _part(self, plan: MergePlan, events: DataFrame, frame: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        """Part the events into those that pass and those that wait behind a hold."""
        holds = _in_force(plan)
        barriers = [self.kept.barriers(holds)] if holds else []
        if any(reason in HOLDING for reason in plan.facts.rejects):
            barriers.append(holding_rejects(_not_overruled(plan, frame), plan))
        if not barriers:
            return events, None
        if not plan.folds:
            return part_at_barriers(events, reduce(DataFrame.unionByName, barriers), plan)
        waiting = self.companion.waiting(plan.batch - 1)
        if waiting is not None and not plan.releases and names.OLD in waiting.columns:
            moves = _not_overruled(plan, waiting.where(f"{names.OLD} IS NOT NULL"))
            barriers.append(keys_of_both(moves, plan.dimension.key))
        return part_chains(plan, events, reduce(DataFrame.unionByName, barriers))

    def _not_waiting_yet(self, plan: MergePlan, waiting: DataFrame | None) -> tuple[DataFrame | None, int]:
        """Leave out what waits already, or still does behind another hold; return how many came again."""
        if waiting is None or not plan.recalls or not plan.holds:
            return waiting, 0
        known = self.companion.waiting(plan.batch - 1)
        if known is None:
            return waiting, 0
        new = waiting.join(F.broadcast(known), [names.OBJECT, names.ROW], "left_anti")
        return new, 0 if plan.releases else waiting.count() - new.count()

    def _found(self, plan: MergePlan, events: DataFrame, table: Any) -> DataFrame:
        """Return what stands of the batch's keys: rows, and the memory of deletes where it may matter.

        The table's keys and positions are streamed past the keys of the batch; where those
        lie in a range, the files outside of it are not read.
        """
        key = list(plan.dimension.key)
        target = self._rows(plan, table, plan.facts.key_range)
        wanted = events.selectExpr(*map(quoted, key))
        if plan.facts.read <= SMALL:
            wanted = F.broadcast(wanted)
        found = target.selectExpr(
            *map(quoted, key),
            *[f"{name} AS {standing(name)}" for name in names.POSITION],
            f"true AS {IS_LIVE}",
            f"_file AS {FILE}",
            f"_pos AS {POS}",
        ).join(wanted, key, "left_semi")
        gone = self.companion.deletes(plan.batch - 1) if plan.recalls else None
        if gone is None:
            return found
        place = f"max(struct({', '.join(names.POSITION)})) AS place"
        newest = gone.join(wanted, key, "left_semi").groupBy(*map(quoted, key)).agg(F.expr(place))
        remembered = newest.join(found.selectExpr(*map(quoted, key)), key, "left_anti").selectExpr(
            *map(quoted, key),
            *[f"place.{name} AS {standing(name)}" for name in names.POSITION],
            f"false AS {IS_LIVE}",
        )
        return found.unionByName(remembered, allowMissingColumns=True)

    def _rows(self, plan: MergePlan, table: Any, key_range: KeyRange) -> DataFrame:
        """Return the rows of the table as it was loaded, in a range of keys."""
        snapshot, rows = table.currentSnapshot(), self.spark().read
        if snapshot is not None:
            rows = rows.option("versionAsOf", str(snapshot.snapshotId()))
        target = rows.table(quoted(*self.name))
        if plan.evolution.changes:
            target = called_now(target.selectExpr("*", "_file", "_pos"), plan.evolution.renames)
            target = fitted(target, plan.evolution.schema)
        for name, bounds in zip(plan.dimension.key, key_range, strict=False):
            item = plan.dimension.schema.find(name)
            if bounds is not None and item is not None:
                least, most = (from_bound(bound, item.type) for bound in bounds)
                target = target.where(f"{quoted(name)} BETWEEN {least} AND {most}")
        return target

    def _kept(self, plan: MergePlan, upserts: DataFrame, judged: DataFrame, table: Any) -> DataFrame:
        """Give updated rows what stands in columns and fields that the batch has not; a new row has NULL there."""
        evolution, key = plan.evolution, list(plan.dimension.key)
        if not _lacks(plan) or table is None or table.currentSnapshot() is None:
            return upserts
        parts = sorted({names[0] for names in evolution.lacking})
        rows = self._rows(plan, table, plan.facts.key_range).selectExpr(
            *map(quoted, [*key, *evolution.absent]), *[f"{quoted(name)} AS {kept_as(name)}" for name in parts]
        )
        updated = judged.where(f"{IS_LIVE} AND deletes = 0 AND inserts = 0").selectExpr(ID)
        kept = upserts.join(updated, ID, "left_semi").join(rows, key, "left")
        kept = with_kept(kept, evolution.schema, evolution.lacking)
        return kept.unionByName(upserts.join(updated, ID, "left_anti"), allowMissingColumns=True)

    def _counts(self, plan: MergePlan, tally: Counts, waiting: DataFrame | None) -> Counts:
        """Complete the counts of what passed by those of what did not, and of truncates."""
        if plan.releases:
            settled = tally.stale + tally.duplicates + tally.superseded + tally.applied
            mended = len(plan.mended) - (0 if waiting is None else waiting.count())
            return Counts(released=settled - mended)
        return replace(
            tally + plan.truncates.counts,
            read=plan.facts.read,
            skipped=plan.facts.skipped,
            waiting=0 if waiting is None else waiting.count(),
        )

    def _held(self, plan: MergePlan, frame: DataFrame, done: _Decided | None = None) -> int:
        """Count the keys that are held afterwards: by what is in quarantine, and by key changes that wait."""
        held = {str(key[0]) for hold in _in_force(plan) for key in hold.keys}
        frame = _not_overruled(plan, frame)
        if (done is not None and done.shifted) or any(reason in HOLDING for reason in plan.facts.rejects):
            held |= self.kept.keys_of(frame.where(IS_HOLDING))
        return len(held if done is None else held | self._moved(plan, done))

    def _moved(self, plan: MergePlan, done: _Decided) -> set[str]:
        """Return the keys of key changes that wait after the batch, as texts."""
        if done.waiting is None or names.OLD not in done.waiting.columns:
            return set()
        moves = f"{names.OLD} IS NOT NULL"
        held = self.kept.keys_of(done.waiting.where(moves))
        if plan.releases:
            return held
        freed = (
            [] if done.released is None else done.released.where(moves).select(names.OBJECT, names.ROW).collect()
        )
        return held | self.companion.waiters(plan.batch - 1).moved({tuple(row) for row in freed})


def _rejects(plan: MergePlan, known: Known, refused: Mapping[Reason, int]) -> Mapping[Reason, int]:
    """Return by reason the rows that go into quarantine: no copies, and what the table itself refused."""
    if plan.releases:
        return {}
    return Counter(plan.facts.rejects) - Counter(known.rejects) + Counter(refused)


_SHIFTED: Final = "a row stands on the key that it enters, and the feed does not tell the transactions"


def _released(done: _Decided) -> DataFrame:
    """Return the events that wait no more: those that pass, and those that are held themselves now."""
    shifted = done.frame.where(f"{names.REASON} = '{Reason.KEY_SHIFT.value}'")
    return done.passing.unionByName(shifted, allowMissingColumns=True)


def _without_truncates(frame: DataFrame, plan: MergePlan) -> tuple[DataFrame, DataFrame | None]:
    """Part the truncates that come in time from what has a key; return those to remember."""
    if not plan.facts.truncates:
        return frame, None
    in_time = "" if plan.mark is None else f" AND {names.SEQUENCE} > {sequence_literal(plan, plan.mark.sequence)}"
    is_one, listed = f"({IS_TRUNCATE}{in_time})", ", ".join(_literal(plan, t) for t in plan.truncates.arrived)
    rest = frame.where(f"NOT coalesce({is_one}, false)")
    return rest, frame.where(f"{is_one} AND {_place(str(plan.epoch))} IN ({listed})") if listed else None


def _in_force(plan: MergePlan) -> list[Hold]:
    """Return the holds that no truncate of the batch overrules."""
    return [hold for hold in plan.holds if not plan.truncates.overrule(hold.position, hold.reason)]


def _not_overruled(plan: MergePlan, rows: DataFrame) -> DataFrame:
    """Return the rows that hold a key, or wait, in spite of the truncates; `Truncates.overrule` as SQL."""
    if not plan.truncates.all:
        return rows
    is_above = f"{_place(str(plan.epoch))} > {_literal(plan, plan.truncates.all[-1])}"
    unplaced = f"{names.REASON} <=> '{Reason.SEQUENCE.value}'"
    return rows.where(f"{unplaced} OR {is_above}" if names.REASON in rows.columns else is_above)


def _place(epoch: str) -> str:
    """Return the position of a row as SQL."""
    return f"named_struct('e', {epoch}, 's', {names.SEQUENCE}, 'o', {names.OBJECT}, 'r', {names.ROW})"


def _literal(plan: MergePlan, place: Position) -> str:
    """Return a position as SQL, to be compared with that of a row."""
    sequence = sequence_literal(plan, place.sequence)
    return f"named_struct('e', {place.epoch}, 's', {sequence}, 'o', {place.object}L, 'r', {place.row}L)"


def _changes(plan: MergePlan, passing: DataFrame, chains: Chains) -> DataFrame:
    """Return what is to be remembered of the events that pass; rows of a full load are in the table."""
    if isinstance(plan.dimension.lateness, Ordered):
        return _deletes(passing, chains)
    return passing if plan.in_part else passing.where(f"NOT {IS_LOAD}")


def _deletes(passing: DataFrame, chains: Chains) -> DataFrame:
    """Return the deletes that stand in the end: all that an `ordered` table remembers."""
    stand = chains.verdicts().where("verdict = 'applied' AND operation = 'delete'").selectExpr(f"id AS {ID}")
    return passing.join(stand, ID, "left_semi")


def _lacks(plan: MergePlan) -> bool:
    return bool(plan.evolution.absent or plan.evolution.lacking)


def _cannot_fold(plan: MergePlan) -> SchemaConflict:
    return SchemaConflict(
        f"{plan.dimension.name}: rows that lack a field of a column cannot be folded in order",
        found="missing: " + ", ".join(".".join(names) for names in plan.evolution.lacking),
        todo="Nothing of the table was applied; other tables go on. The table has rows in part: let the source "
        "write these rows with all fields, or send them into quarantine (`drop`, docs/schema-changes.md).",
    )


def _cannot_wait(plan: MergePlan) -> SchemaConflict:
    return SchemaConflict(
        f"{plan.dimension.name}: rows that lack a column of the table would wait behind a held key",
        found="missing: "
        + ", ".join([*plan.evolution.absent, *[".".join(names) for names in plan.evolution.lacking]]),
        todo="Nothing was applied, for it would not be known later that they lack it. Settle what is in "
        "quarantine (`lakeward quarantine list`), and run again.",
    )
