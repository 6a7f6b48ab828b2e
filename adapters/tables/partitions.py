"""What a partition cannot keep where it is a folder: its value stands in paths as a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame

from lakeward.adapters.spark import names
from lakeward.adapters.spark.events import IS_EVENT, LEAVES_VALUES
from lakeward.adapters.spark.names import quoted, text
from lakeward.adapters.spark.resolve import rejected
from lakeward.core.errors import MendError, TableError
from lakeward.core.events import Operation
from lakeward.core.memory import Reason
from lakeward.core.plan import MergePlan

_NULLS: Final = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts that become NULL in a column that rows are partitioned by."""

_IS_NULL: Final = f"IN ({', '.join(map(text, _NULLS))})"
_IS_SENT: Final = f"{IS_EVENT} AND {LEAVES_VALUES}"


@dataclass(frozen=True, slots=True)
class Partitions:
    """The columns that rows are partitioned by, in a format that keeps their values in paths."""

    format: str = ""
    columns: Sequence[str] = ()

    def without_unkept(self, plan: MergePlan, frame: DataFrame) -> tuple[MergePlan, DataFrame]:
        """Return a batch with the rows as rejects of which no partition keeps a text; they hold their keys.

        Raises MendError where a person mended a row like that.
        """
        texts = self._texts(frame)
        if not texts:
            return plan, frame
        wrong = frame.where(f"{_IS_SENT} AND {_any(texts)}")
        if plan.releases:
            for row in wrong.select(names.ROW, *map(quoted, texts)).take(1):
                raise self._mended(plan, row.asDict(), texts)
            return plan, frame
        found = {Operation(row[0]): row["count"] for row in wrong.groupBy(names.OPERATION).count().collect()}
        if not found:
            return plan, frame
        for name in texts:
            is_wrong = f"({_IS_SENT} AND {quoted(name)} {_IS_NULL})"
            words = f"no partition by {name} has its text, {self.format} would make it NULL"
            frame = rejected(frame, plan.dimension, f"coalesce({is_wrong}, false)", Reason.CAST, words)
        operations = Counter(plan.facts.operations) - Counter(found)
        rejects = Counter(plan.facts.rejects) + Counter({Reason.CAST: sum(found.values())})
        return replace(plan, facts=replace(plan.facts, operations=operations, rejects=rejects)), frame

    def refuse_unkept(self, plan: MergePlan, rows: DataFrame) -> None:
        """Raise TableError for a row that is made of several events, or by rules, and would not be kept."""
        texts = self._texts(rows) if plan.folds else []
        if not texts:
            return
        for row in rows.where(_any(texts)).select(*map(quoted, {*texts, *plan.dimension.key})).take(1):
            name = next(name for name in texts if row[name] in _NULLS)
            has = ", ".join(f"{column} {row[column]!r}" for column in plan.dimension.key)
            todo = "Nothing was applied. Let a rule of the columns give another text, or take another column for "
            again = "`partition_by`; a table that is there is dropped with what stands beside it for that."
            raise TableError(
                f"{plan.dimension.name}: a row has {row[name]!r} in {name!r}, and {self.format} would make it NULL",
                found=f"the table is partitioned by {name!r}, and no partition has that text; the row: {has}",
                todo=f"{todo}`partition_by`." if plan.creates else f"{todo}{again}",
            )

    def _texts(self, rows: DataFrame) -> list[str]:
        return [name for name, type_ in rows.dtypes if name in self.columns and type_ == "string"]

    def _mended(self, plan: MergePlan, row: dict[str, object], texts: Sequence[str]) -> MendError:
        name = next(name for name in texts if row[name] in _NULLS)
        return MendError(
            f"{plan.dimension.name}: row {row[names.ROW]} as it was mended has {row[name]!r} in {name!r}",
            found=f"the table is partitioned by {name!r}, and {self.format} would make it NULL",
            todo="Nothing was applied. Mend it with another text, or NULL (`lakeward quarantine fix`), or give it "
            "up.",
        )


def _any(columns: Sequence[str]) -> str:
    return "(" + " OR ".join(f"{quoted(name)} {_IS_NULL}" for name in columns) + ")"
