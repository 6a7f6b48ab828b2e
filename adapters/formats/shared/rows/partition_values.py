"""Texts that a format cannot keep: of a partition that is a folder its value stands in a path, as a text.

A table of Hudi that another job made may have record keys in which the texts of two keys are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row

from lakeward.adapters.formats.shared.rows.text_sets import TextSet
from lakeward.adapters.spark.frames.event_frame import IS_EVENT, LEAVES_VALUES, count_operations
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame, in_spark
from lakeward.adapters.spark.merge.resolution import rejected
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.errors import RepairError, TableError
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Schema

_NULLS: Final = TextSet(words=("", "__HIVE_DEFAULT_PARTITION__"))
"""Texts that become NULL in a column that rows are partitioned by."""

_WHICH: Final = "_lakeward_which"
_IS_SENT: Final = f"{IS_EVENT} AND {LEAVES_VALUES}"


@dataclass(frozen=True, slots=True)
class _Unkept:
    """Texts of a column that are not kept: which, why, and what would become of them."""

    column: str
    texts: TextSet
    why: str
    becomes: str

    @property
    def are_so(self) -> str:
        """Whether the text of a row is one of them, as SQL."""
        return self.texts.sql(self.column)


@dataclass(frozen=True, slots=True)
class Partitions:
    """The columns that rows are partitioned by, in a format that keeps their values in paths.

    `mixed` are texts that it would take for others, by the columns that may have them.
    """

    format: str = ""
    columns: Sequence[str] = ()
    mixed: Mapping[str, TextSet] = field(default_factory=dict)

    def without_unkept(self, plan: MergePlan, batch: Frame) -> tuple[MergePlan, Frame]:
        """Return a batch with the rows as rejects of which no partition keeps a text; they hold their keys.

        Raises MendError where a person mended a row like that.
        """
        unkept = self._unkept(batch)
        if not _may_have(batch, unkept):
            return plan, batch
        frame = fitted(in_spark(batch), plan.dimension.schema)
        wrong = frame.where(f"{_IS_SENT} AND ({_any(unkept)})")
        if plan.releases:
            for row in _first(wrong, unkept, names.ROW):
                raise self._mended(plan, row, unkept[row[_WHICH]])
            return plan, batch
        found = count_operations(wrong)
        if not found:
            return plan, batch
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

    def refuse_unkept(self, plan: MergePlan, written: Frame) -> None:
        """Raise TableError for a row that is made of several events, or by rules, and would not be kept."""
        unkept = self._unkept(written) if plan.folds else []
        if not _may_have(written, unkept):
            return
        for row in _first(in_spark(written), unkept, *plan.dimension.key):
            texts = unkept[row[_WHICH]]
            has = ", ".join(f"{column} {row[column]!r}" for column in plan.dimension.key)
            todo = "Nothing was applied. Let a rule of the columns give another text, or take another column for "
            again = "`partition_by`; a table that is there is dropped with what stands beside it for that."
            raise TableError(
                f"{plan.dimension.name}: a row has {row[texts.column]!r} in {texts.column!r}, and {texts.becomes}",
                found=f"{texts.why}; the row: {has}",
                todo=f"{todo}`partition_by`." if plan.creates else f"{todo}{again}",
            )

    def _unkept(self, rows: Frame) -> list[_Unkept]:
        texts = _texts_of(rows)
        nulls, others = f"{self.format} would make it NULL", f"{self.format} would take it for another"
        lost = [
            _Unkept(name, _NULLS, f"no partition by {name} has its text", nulls)
            for name in self.columns
            if name in texts
        ]
        mixed = [
            _Unkept(name, mixed, f"no path or record key with {name} has its text", others)
            for name, mixed in self.mixed.items()
            if name in texts
        ]
        return lost + mixed

    def _mended(self, plan: MergePlan, row: Row, texts: _Unkept) -> RepairError:
        return RepairError(
            f"{plan.dimension.name}: row {row[names.ROW]} as it was mended has {row[texts.column]!r} in "
            f"{texts.column!r}",
            found=f"{texts.why}, {texts.becomes}",
            todo="Nothing was applied. Mend it with another text, or NULL (`lakeward quarantine fix`), or give it "
            "up.",
        )


def _texts_of(rows: Frame) -> set[str]:
    """Return the columns of texts."""
    if isinstance(rows, LocalFrame):
        return {field.name for field in rows.rows.schema if pa.types.is_string(field.type)}
    return {name for name, type_ in rows.dtypes if type_ == "string"}


def _may_have(rows: Frame, unkept: Sequence[_Unkept]) -> bool:
    """Return whether some row, of whatever kind, may have a text that is not kept: in Spark nobody has looked."""
    if not isinstance(rows, LocalFrame):
        return bool(unkept)
    return any(
        one.texts.has(value)
        for one in unkept
        for value in pc.unique(rows.rows[one.column]).to_pylist()
        if value is not None
    )


def _any(unkept: Sequence[_Unkept]) -> str:
    return " OR ".join(texts.are_so for texts in unkept)


def _first(rows: DataFrame, unkept: Sequence[_Unkept], *columns: str) -> Sequence[Row]:
    """Return one row with such a text, if there is one: these columns, those of texts, and `_WHICH` text it is."""
    cases = " ".join(f"WHEN {texts.are_so} THEN {place}" for place, texts in enumerate(unkept))
    shown = dict.fromkeys((*columns, *(texts.column for texts in unkept)))
    return rows.where(_any(unkept)).selectExpr(*map(quoted, shown), f"CASE {cases} END AS {_WHICH}").take(1)
