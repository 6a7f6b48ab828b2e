"""The results of folded chains: the rows that they leave, and the outcome of each event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.event_frame import has_order
from lakeward.adapters.spark.history.surrogate_numbers import NOTHING, Numbering
from lakeward.adapters.spark.history.version_rows import VersionRows
from lakeward.adapters.spark.merge.fold.fold_items import KEY, PLACE_COLUMNS
from lakeward.adapters.spark.merge.fold.fold_verdicts import CHANGES, ROWS, VERDICTS
from lakeward.adapters.spark.merge.resolution import ID, IS_NOT_DELETED
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.dimension import DELETED
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Schema

SHIFTED: Final = "a row stands on the key that it enters, and the feed does not tell the transactions"

RELEASED_ID: Final = 1 << 62
"""IDs from this number on belong to events that waited in quarantine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """The chains of a batch after the fold.

    `folded` has one row for each chain, `stored` has the stored rows before the batch. `first_touched` are those
    rows of `stored` of which nothing was remembered. `history` is set if rows are versions. `settled` are the IDs
    of full-load rows that need not be remembered, because the table has them unchanged.
    """

    plan: MergePlan
    folded: DataFrame
    stored: DataFrame
    first_touched: DataFrame
    history: VersionRows | None = None
    settled: DataFrame | None = None

    def rows(self, numbering: Numbering = NOTHING) -> DataFrame:
        """Return the rows that the chains leave, in batch columns; for a history, the versions to write."""
        if self.history is None:
            return rows_of(ROWS, self.folded, self.plan.folded, str, soft=self.plan.dimension.is_soft)
        return self.history.rows(numbering.give(self._new_versions()))

    def numbering(self) -> Numbering:
        """Return the surrogate numbers for the new versions of a history, if it has such numbers."""
        return NOTHING if self.history is None else self.history.numbering(self._new_versions(), self.plan.numbered)

    def _new_versions(self) -> DataFrame:
        return self._changes().selectExpr("explode(c.fresh) AS fresh")

    def removed(self) -> DataFrame:
        """Return the replaced rows and where they lie; for a history, the versions to remove."""
        if self.history is None:
            return self.stored
        return self.history.gone(self._changes().selectExpr("explode(c.gone) AS gone"))

    def _changes(self) -> DataFrame:
        """Return the changes of each key of a history, without keys whose versions would break a rule."""
        return self.folded.selectExpr(f"explode({CHANGES}) AS c").where("c.wrong IS NULL")

    def opened(self) -> int:
        """Return how many current versions the batch adds, net; with soft deletes, how many live rows."""
        if self.history is None:
            return self._live_difference() if self.plan.dimension.is_soft else 0
        rows = self._changes().agg(F.expr("coalesce(sum(c.opened), 0) AS opened")).collect()
        return int(rows[0]["opened"])

    def _live_difference(self) -> int:
        live_rows = self.folded.selectExpr(f"explode(map_values({ROWS})) AS row").where("NOT row.gone")
        return live_rows.count() - self.stored.where(IS_NOT_DELETED).count()

    def bases(self) -> DataFrame:
        """Return the earlier rows of keys of which nothing was remembered, without keys that break a rule."""
        if self.history is None:
            return self.first_touched
        valid_keys = self._changes().selectExpr(f"c.key AS {KEY}")
        return self.history.bases(self.first_touched.join(valid_keys, KEY, "left_semi"))

    def verdicts(self) -> DataFrame:
        """Return one row for each event of the batch: its ID, its outcome, and what was noted about it."""
        return self.folded.selectExpr(f"inline({VERDICTS})")

    def refused(self) -> DataFrame | None:
        """Return the IDs of events that cannot be applied, each with a `reason` and a `message`.

        These are the first event of each chain for which no rule says which row it means. If there are none, they
        are the first event of each key of a history whose versions would break a rule.
        """
        undecided_verdicts = f"filter({VERDICTS}, v -> v.undecided)"
        columns = (f"'{Reason.KEY_SHIFT.value}' AS reason", f"{text(SHIFTED)} AS message")
        undecided = self.folded.where(f"size({undecided_verdicts}) > 0").selectExpr(
            f"get({undecided_verdicts}, 0).id AS {ID}", *columns
        )
        if not undecided.isEmpty():
            return undecided
        violations = self._violations()
        return None if violations is None or violations.isEmpty() else violations

    def _violations(self) -> DataFrame | None:
        if self.history is None:
            return None
        own_verdicts = f"filter({VERDICTS}, v -> v.key = c.key OR v.old <=> c.key)"
        changes = self.folded.selectExpr(VERDICTS, f"explode({CHANGES}) AS c").where("c.wrong IS NOT NULL")
        first = changes.where(f"size({own_verdicts}) > 0").selectExpr(
            f"get({own_verdicts}, 0).id AS {ID}", "c.wrong AS message"
        )
        return first.groupBy(ID).agg(
            F.expr(f"'{Reason.HISTORY.value}' AS reason"), F.expr("min(message) AS message")
        )

    def counts(self) -> tuple[Counts, int]:
        """Return the counts of the events that pass, and how many events found no row to complete."""
        verdicts = ("stale", "duplicates", "superseded", "applied", "incomplete")
        notes = {"insert_on_existing": "existing", "update_on_missing": "missing", "unset_as_null": "nulled"}
        is_counted = "verdict IN ('applied', 'superseded')"
        counted = {name: f"verdict = '{name}'" for name in verdicts}
        counted |= {name: f"{note} AND {is_counted}" for name, note in notes.items()}
        may_tie = f"{is_counted} AND {has_order('sequence')}"
        tied_events, filter_ties = f"count_if({may_tie})", f"FILTER (WHERE {may_tie})"
        meets_stored = f"bool_or(meets) {filter_ties}" if self.plan.dimension.unique_sequences else "false"
        differ = f"min(content) {filter_ties} != max(content) {filter_ties}"
        ties = (
            f"CASE WHEN {meets_stored} THEN {tied_events} WHEN {differ} THEN {tied_events} - 1 ELSE 0 END AS ties"
        )
        by_place = self.verdicts().where(f"id < {RELEASED_ID}").groupBy("sequence", "key", "old")
        counts = by_place.agg(
            *[F.expr(f"count_if({sql}) AS {name}") for name, sql in counted.items()], F.expr(ties)
        )
        sums = [F.expr(f"coalesce(sum({name}), 0) AS {name}") for name in (*counted, "ties")]
        totals: dict[str, int] = counts.agg(*sums).collect()[0].asDict()
        incomplete = totals.pop("incomplete")
        return Counts(**totals), incomplete


def rows_of(
    rows: str, folded: DataFrame, schema: Schema, column_name: Callable[[str], str], *, soft: bool = False
) -> DataFrame:
    """Return the rows that exist after a fold. `column_name` gives the name of each position column.

    With `soft` the soft-deleted rows are included, and a column says which they are.
    """
    place = dict(zip(PLACE_COLUMNS, "sor", strict=True))
    return (
        folded.selectExpr(f"explode(map_values({rows})) AS row")
        .where("row.cells IS NOT NULL" if soft else "NOT row.gone")
        .selectExpr(
            *[f"row.cells.c{index} AS {quoted(c.name)}" for index, c in enumerate(schema)],
            *[f"row.place.{part} AS {column_name(name)}" for name, part in place.items()],
            *([f"row.gone AS {DELETED}"] if soft else []),
        )
    )
