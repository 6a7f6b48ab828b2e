"""Texts that a format cannot keep: of a partition that is a folder its value stands in a path, as a text.

A table of Hudi that another job made may have record keys in which the texts of two keys are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql import DataFrame, Row

from lakeward.adapters.spark import names
from lakeward.adapters.spark.events import IS_EVENT, LEAVES_VALUES, count_operations
from lakeward.adapters.spark.names import quoted, text
from lakeward.adapters.spark.resolve import rejected
from lakeward.adapters.spark.types import ddl
from lakeward.core.errors import MendError, TableError
from lakeward.core.memory import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Schema

_NULLS: Final = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts that become NULL in a column that rows are partitioned by."""

_WHICH: Final = "_lakeward_which"
_IS_NULL: Final = f"IN ({', '.join(map(text, _NULLS))})"
_IS_SENT: Final = f"{IS_EVENT} AND {LEAVES_VALUES}"


@dataclass(frozen=True, slots=True)
class _Unkept:
    """Texts of a column that are not kept: which, as SQL, why, and what would become of them."""

    column: str
    are_so: str
    why: str
    becomes: str


@dataclass(frozen=True, slots=True)
class Partitions:
    """The columns that rows are partitioned by, in a format that keeps their values in paths.

    `mixed` are texts that it would take for others, as SQL, by the columns that may have them.
    """

    format: str = ""
    columns: Sequence[str] = ()
    mixed: Mapping[str, str] = field(default_factory=dict)

    def without_unkept(self, plan: MergePlan, frame: DataFrame) -> tuple[MergePlan, DataFrame]:
        """Return a batch with the rows as rejects of which no partition keeps a text; they hold their keys.

        Raises MendError where a person mended a row like that.
        """
        unkept = self._unkept(frame)
        if not unkept:
            return plan, frame
        wrong = frame.where(f"{_IS_SENT} AND ({_any(unkept)})")
        if plan.releases:
            for row in _first(wrong, unkept, names.ROW):
                raise self._mended(plan, row, unkept[row[_WHICH]])
            return plan, frame
        found = count_operations(wrong)
        if not found:
            return plan, frame
        for texts in unkept:
            is_wrong = f"coalesce({_IS_SENT} AND {texts.are_so}, false)"
            frame = rejected(frame, plan.dimension, is_wrong, Reason.CAST, f"{texts.why}, {texts.becomes}")
        operations = Counter(plan.facts.operations) - Counter(found)
        rejects = Counter(plan.facts.rejects) + Counter({Reason.CAST: sum(found.values())})
        return replace(plan, facts=replace(plan.facts, operations=operations, rejects=rejects)), frame

    def may_lose(self, schema: Schema) -> bool:
        """Return whether some text of rows with these columns may be one that no partition keeps."""
        of_texts = (schema.find(name) for name in self.columns)
        texts = [column for column in of_texts if column is not None and ddl(column.type) == "string"]
        return bool(texts or self.mixed)

    def refuse_unkept(self, plan: MergePlan, rows: DataFrame) -> None:
        """Raise TableError for a row that is made of several events, or by rules, and would not be kept."""
        unkept = self._unkept(rows) if plan.folds else []
        if not unkept:
            return
        for row in _first(rows, unkept, *plan.dimension.key):
            texts = unkept[row[_WHICH]]
            has = ", ".join(f"{column} {row[column]!r}" for column in plan.dimension.key)
            todo = "Nothing was applied. Let a rule of the columns give another text, or take another column for "
            again = "`partition_by`; a table that is there is dropped with what stands beside it for that."
            raise TableError(
                f"{plan.dimension.name}: a row has {row[texts.column]!r} in {texts.column!r}, and {texts.becomes}",
                found=f"{texts.why}; the row: {has}",
                todo=f"{todo}`partition_by`." if plan.creates else f"{todo}{again}",
            )

    def _unkept(self, rows: DataFrame) -> list[_Unkept]:
        texts = {name for name, type_ in rows.dtypes if type_ == "string"}
        nulls, others = f"{self.format} would make it NULL", f"{self.format} would take it for another"
        lost = [
            _Unkept(name, f"{quoted(name)} {_IS_NULL}", f"no partition by {name} has its text", nulls)
            for name in self.columns
            if name in texts
        ]
        mixed = [
            _Unkept(name, is_so, f"no path or record key with {name} has its text", others)
            for name, is_so in self.mixed.items()
        ]
        return lost + mixed

    def _mended(self, plan: MergePlan, row: Row, texts: _Unkept) -> MendError:
        return MendError(
            f"{plan.dimension.name}: row {row[names.ROW]} as it was mended has {row[texts.column]!r} in "
            f"{texts.column!r}",
            found=f"{texts.why}, {texts.becomes}",
            todo="Nothing was applied. Mend it with another text, or NULL (`lakeward quarantine fix`), or give it "
            "up.",
        )


def _any(unkept: Sequence[_Unkept]) -> str:
    return " OR ".join(texts.are_so for texts in unkept)


def _first(rows: DataFrame, unkept: Sequence[_Unkept], *columns: str) -> Sequence[Row]:
    """Return one row with such a text, if there is one: these columns, those of texts, and `_WHICH` text it is."""
    cases = " ".join(f"WHEN {texts.are_so} THEN {place}" for place, texts in enumerate(unkept))
    shown = dict.fromkeys((*columns, *(texts.column for texts in unkept)))
    return rows.where(_any(unkept)).selectExpr(*map(quoted, shown), f"CASE {cases} END AS {_WHICH}").take(1)
