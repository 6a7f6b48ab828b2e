"""What the chains of a batch are after it: the rows that they leave, and what became of each event."""

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
from lakeward.adapters.spark.merge.resolution import ID, STANDS
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.dimension import DELETED
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Schema

SHIFTED: Final = "a row stands on the key that it enters, and the feed does not tell the transactions"

RELEASED_ID: Final = 1 << 62
"""From there on the IDs are those of events that waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """The chains of a batch after it: `folded` has one row a chain, `stood` are their rows before.

    `first_touched` are those of `stood` of which nothing was remembered. A `history` has a row a version.
    `settled` are the IDs of rows of a full load that need not be remembered, since the table has them as they are.
    """

    plan: MergePlan
    folded: DataFrame
    stood: DataFrame
    first_touched: DataFrame
    history: VersionRows | None = None
    settled: DataFrame | None = None

    def rows(self, numbering: Numbering = NOTHING) -> DataFrame:
        """Return the rows that the chains leave, in the columns of a batch; of a history, those to be written."""
        if self.history is None:
            return rows_of(ROWS, self.folded, self.plan.folded, str, soft=self.plan.dimension.is_soft)
        return self.history.rows(numbering.give(self._fresh()))

    def numbering(self) -> Numbering:
        """Return how the versions of a history are numbered that are new, where they are."""
        return NOTHING if self.history is None else self.history.numbering(self._fresh(), self.plan.numbered)

    def _fresh(self) -> DataFrame:
        return self._changes().selectExpr("explode(c.fresh) AS fresh")

    def removed(self) -> DataFrame:
        """Return the rows that others take the place of, and where they lie; of a history, those that go."""
        if self.history is None:
            return self.stood
        return self.history.gone(self._changes().selectExpr("explode(c.gone) AS gone"))

    def _changes(self) -> DataFrame:
        """Return what becomes of each key of a history, but of those that break a rule and that no event names."""
        return self.folded.selectExpr(f"explode({CHANGES}) AS c").where("c.wrong IS NULL")

    def opened(self) -> int:
        """Return how many more versions of a history are current than before; where deletes are soft, rows."""
        if self.history is None:
            return self._stand() if self.plan.dimension.is_soft else 0
        found = self._changes().agg(F.expr("coalesce(sum(c.opened), 0) AS opened")).collect()
        return int(found[0]["opened"])

    def _stand(self) -> int:
        stand = self.folded.selectExpr(f"explode(map_values({ROWS})) AS row").where("NOT row.gone")
        return stand.count() - self.stood.where(STANDS).count()

    def bases(self) -> DataFrame:
        """Return the rows before the batch of the keys of which nothing was remembered; none that break a rule."""
        if self.history is None:
            return self.first_touched
        right = self._changes().selectExpr(f"c.key AS {KEY}")
        return self.history.bases(self.first_touched.join(right, KEY, "left_semi"))

    def verdicts(self) -> DataFrame:
        """Return one row an event of the batch: its ID, what became of it, and what was noted of it."""
        return self.folded.selectExpr(f"inline({VERDICTS})")

    def refused(self) -> DataFrame | None:
        """Return the IDs of events that cannot be applied, with the `reason` of each, and in `words` what is wrong.

        It is the first of each chain of which no rule says what row it means; where there is none, the first of
        each key of a history whose versions would break a rule.
        """
        wrong = f"filter({VERDICTS}, v -> v.undecided)"
        told = (f"'{Reason.KEY_SHIFT.value}' AS reason", f"{text(SHIFTED)} AS words")
        found = self.folded.where(f"size({wrong}) > 0").selectExpr(f"get({wrong}, 0).id AS {ID}", *told)
        if not found.isEmpty():
            return found
        breaking = self._breaking()
        return None if breaking is None or breaking.isEmpty() else breaking

    def _breaking(self) -> DataFrame | None:
        if self.history is None:
            return None
        mine = f"filter({VERDICTS}, v -> v.key = c.key OR v.old <=> c.key)"
        changes = self.folded.selectExpr(VERDICTS, f"explode({CHANGES}) AS c").where("c.wrong IS NOT NULL")
        first = changes.where(f"size({mine}) > 0").selectExpr(f"get({mine}, 0).id AS {ID}", "c.wrong AS words")
        return first.groupBy(ID).agg(F.expr(f"'{Reason.HISTORY.value}' AS reason"), F.expr("min(words) AS words"))

    def counts(self) -> tuple[Counts, int]:
        """Return the counts of the events that pass, and how many found no row to complete."""
        verdicts = ("stale", "duplicates", "superseded", "applied", "incomplete")
        notes = {"insert_on_existing": "existing", "update_on_missing": "missing", "unset_as_null": "nulled"}
        took_part = "verdict IN ('applied', 'superseded')"
        counted = {name: f"verdict = '{name}'" for name in verdicts}
        counted |= {name: f"{note} AND {took_part}" for name, note in notes.items()}
        may_tie = f"{took_part} AND {has_order('sequence')}"
        alike, of_them = f"count_if({may_tie})", f"FILTER (WHERE {may_tie})"
        met = f"bool_or(meets) {of_them}" if self.plan.dimension.unique_sequences else "false"
        differ = f"min(content) {of_them} != max(content) {of_them}"
        ties = f"CASE WHEN {met} THEN {alike} WHEN {differ} THEN {alike} - 1 ELSE 0 END AS ties"
        by_place = self.verdicts().where(f"id < {RELEASED_ID}").groupBy("sequence", "key", "old")
        counts = by_place.agg(
            *[F.expr(f"count_if({sql}) AS {name}") for name, sql in counted.items()], F.expr(ties)
        )
        sums = [F.expr(f"coalesce(sum({name}), 0) AS {name}") for name in (*counted, "ties")]
        found: dict[str, int] = counts.agg(*sums).collect()[0].asDict()
        incomplete = found.pop("incomplete")
        return Counts(**found), incomplete


def rows_of(
    rows: str, folded: DataFrame, schema: Schema, named: Callable[[str], str], *, soft: bool = False
) -> DataFrame:
    """Return the rows that stand after a fold, and their places in columns of those names.

    Where deletes are soft, it has those that went as well, and says so.
    """
    place = dict(zip(PLACE_COLUMNS, "sor", strict=True))
    return (
        folded.selectExpr(f"explode(map_values({rows})) AS row")
        .where("row.cells IS NOT NULL" if soft else "NOT row.gone")
        .selectExpr(
            *[f"row.cells.c{index} AS {quoted(c.name)}" for index, c in enumerate(schema)],
            *[f"row.place.{part} AS {named(name)}" for name, part in place.items()],
            *([f"row.gone AS {DELETED}"] if soft else []),
        )
    )
