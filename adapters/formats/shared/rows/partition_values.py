"""Texts that a format does not store unchanged: values of partition columns are texts in paths.

A Hudi table made by another job may also have record keys in which the texts of two keys are the same.
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
from lakeward.adapters.spark.merge.resolution import reject_rows
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.errors import RepairError, TableError
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Schema

_NULLS: Final = TextSet(words=("", "__HIVE_DEFAULT_PARTITION__"))
"""Texts that become NULL in a partition column."""

_WHICH: Final = "_lakeward_which"
_IS_SENT: Final = f"{IS_EVENT} AND {LEAVES_VALUES}"


@dataclass(frozen=True, slots=True)
class _LossyTexts:
    """Texts of a column that are not stored unchanged: which ones, why, and what they become."""

    column: str
    texts: TextSet
    why: str
    becomes: str

    @property
    def condition(self) -> str:
        """SQL for whether the text of a row is one of them."""
        return self.texts.sql(self.column)


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partition columns of a table whose format stores their values in paths.

    `mixed` are texts that the format would take for others, by column.
    """

    format: str = ""
    columns: Sequence[str] = ()
    mixed: Mapping[str, TextSet] = field(default_factory=dict)

    def reject_lossy_texts(self, plan: MergePlan, batch: Frame) -> tuple[MergePlan, Frame]:
        """Return a batch in which rows with such a text are rejects that hold their keys.

        Raises RepairError for a repaired row with such a text.
        """
        lossy_texts = self._lossy_texts(batch)
        if not _may_have(batch, lossy_texts):
            return plan, batch
        frame = fitted(in_spark(batch), plan.dimension.schema)
        wrong = frame.where(f"{_IS_SENT} AND ({_any(lossy_texts)})")
        if plan.releases:
            for row in _first(wrong, lossy_texts, names.ROW):
                raise self._mended(plan, row, lossy_texts[row[_WHICH]])
            return plan, batch
        counts = count_operations(wrong)
        if not counts:
            return plan, batch
        for texts in lossy_texts:
            is_wrong = f"coalesce({_IS_SENT} AND {texts.condition}, false)"
            frame = reject_rows(frame, plan.dimension, is_wrong, Reason.CAST, f"{texts.why}, {texts.becomes}")
        operations = Counter(plan.facts.operations) - Counter(counts)
        rejects = Counter(plan.facts.rejects) + Counter({Reason.CAST: sum(counts.values())})
        return replace(plan, facts=replace(plan.facts, operations=operations, rejects=rejects)), frame

    def may_lose(self, schema: Schema) -> bool:
        """Return whether rows with these columns may have such a text."""
        of_texts = (schema.find(name) for name in self.columns)
        texts = [column for column in of_texts if column is not None and ddl(column.type) == "string"]
        return bool(texts or self.mixed)

    def refuse_lossy_texts(self, plan: MergePlan, written: Frame) -> None:
        """Raise TableError for a row with such a text that comes from several events or from column rules."""
        lossy_texts = self._lossy_texts(written) if plan.folds else []
        if not _may_have(written, lossy_texts):
            return
        for row in _first(in_spark(written), lossy_texts, *plan.dimension.key):
            texts = lossy_texts[row[_WHICH]]
            has = ", ".join(f"{column} {row[column]!r}" for column in plan.dimension.key)
            todo = "Nothing was applied. Let a rule of the columns give another text, or take another column for "
            reload_hint = "`partition_by`; an existing table has to be dropped with its side tables for that."
            raise TableError(
                f"{plan.dimension.name}: a row has {row[texts.column]!r} in {texts.column!r}, and {texts.becomes}",
                found=f"{texts.why}; the row: {has}",
                todo=f"{todo}`partition_by`." if plan.creates else f"{todo}{reload_hint}",
            )

    def _lossy_texts(self, rows: Frame) -> list[_LossyTexts]:
        texts = _texts_of(rows)
        nulls, others = f"{self.format} would make it NULL", f"{self.format} would take it for another"
        lossy_texts = [
            _LossyTexts(name, _NULLS, f"no partition by {name} has its text", nulls)
            for name in self.columns
            if name in texts
        ]
        mixed = [
            _LossyTexts(name, mixed, f"no path or record key with {name} has its text", others)
            for name, mixed in self.mixed.items()
            if name in texts
        ]
        return lossy_texts + mixed

    def _mended(self, plan: MergePlan, row: Row, texts: _LossyTexts) -> RepairError:
        return RepairError(
            f"{plan.dimension.name}: row {row[names.ROW]} as it was mended has {row[texts.column]!r} in "
            f"{texts.column!r}",
            found=f"{texts.why}, {texts.becomes}",
            todo="Nothing was applied. Mend it with another text, or NULL (`lakeward quarantine fix`), or give it "
            "up.",
        )


def _texts_of(rows: Frame) -> set[str]:
    """Return the names of the text columns."""
    if isinstance(rows, LocalFrame):
        return {field.name for field in rows.rows.schema if pa.types.is_string(field.type)}
    return {name for name, type_ in rows.dtypes if type_ == "string"}


def _may_have(rows: Frame, lossy_texts: Sequence[_LossyTexts]) -> bool:
    """Return whether a row may have such a text; of a Spark frame that is assumed."""
    if not isinstance(rows, LocalFrame):
        return bool(lossy_texts)
    return any(
        item.texts.has(value)
        for item in lossy_texts
        for value in pc.unique(rows.rows[item.column]).to_pylist()
        if value is not None
    )


def _any(lossy_texts: Sequence[_LossyTexts]) -> str:
    return " OR ".join(texts.condition for texts in lossy_texts)


def _first(rows: DataFrame, lossy_texts: Sequence[_LossyTexts], *columns: str) -> Sequence[Row]:
    """Return one row with such a text, if any: these columns, the text columns and the index of the text."""
    cases = " ".join(f"WHEN {texts.condition} THEN {place}" for place, texts in enumerate(lossy_texts))
    selected = dict.fromkeys((*columns, *(texts.column for texts in lossy_texts)))
    return rows.where(_any(lossy_texts)).selectExpr(*map(quoted, selected), f"CASE {cases} END AS {_WHICH}").take(1)
