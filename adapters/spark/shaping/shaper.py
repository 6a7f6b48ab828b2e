"""Apply the rules of a table to an event frame, and compute its facts again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.spark.checks.refused_files import find_refusals
from lakeward.adapters.spark.execution.parallelism import level_of
from lakeward.adapters.spark.execution.query_plans import with_identity
from lakeward.adapters.spark.frames.event_frame import (
    AHEAD,
    IS_EVENT,
    IS_HOLDING,
    IS_REJECT,
    SKIPPED,
    Group,
    by_object,
    facts,
    survey,
    with_ahead,
)
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame, in_spark
from lakeward.adapters.spark.session.compatibility import from_arrow
from lakeward.adapters.spark.session.errors import FAILURES, short_message
from lakeward.adapters.spark.shaping.column_rules import INNER, OUTER, layers, pads
from lakeward.adapters.spark.shaping.quality_rules import WAS_READ, apply_quality_rules, row_rules, warning_flags
from lakeward.adapters.spark.shaping.rule_checks import check_words, needs_spark, resolved, resolved_quality
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, RepairError, SourceError
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.facts import BatchFacts, Capability, ObjectFacts
from lakeward.core.ports import Batch
from lakeward.core.schema import Schema
from lakeward.core.shaping.column_rules import Hash
from lakeward.core.shaping.file_rules import Input, NullShare
from lakeward.core.shaping.quality_rules import check
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.core.shaping.shape import Shape, key_steps, source_key
from lakeward.core.shaping.shaped_source import ShapedBatch, TableRules
from lakeward.core.text.numbers import format_count

MISFIT: Final = "_lakeward_rule_misfit"
KEY_MISFIT: Final = "_lakeward_rule_key_misfit"
"""Columns with the explanation of a value that does not fit: in another column, in a key column."""


class SparkShaper:
    """Applies the rules of one table with Spark; `secret_of` returns the key of a hash by its name."""

    def __init__(
        self, rules: TableRules, spark: Callable[[], SparkSession], secret_of: Callable[[str], bytes]
    ) -> None:
        self.rules = rules
        self.spark = spark
        self.secret_of = secret_of
        self._resolved: dict[Schema, TableRules] = {}

    def check(self) -> None:
        """Raise ConfigError for rules that Spark does not accept, and for missing secrets."""
        for name in self._secrets():
            self.secret_of(name)
        if needs_spark([*self.rules.columns, *self.rules.quality]):
            check_words(self.spark(), self.rules.columns, self.rules.quality)
            self._rules_of(self.rules.source)

    def _secrets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rule.key for rule in self.rules.columns if isinstance(rule, Hash)))

    def _rules_of(self, source: Schema) -> TableRules:
        """Return the rules with the columns that their expressions read of such a source."""
        if source not in self._resolved:
            rules = self.rules
            if needs_spark([*rules.columns, *rules.quality]):
                rules = replace(rules, columns=resolved(self.spark(), rules.columns, source))
                schema = rules.shape(source).schema if len(source) else None
                rules = replace(rules, quality=resolved_quality(self.spark(), rules.quality, schema))
            self._resolved[source] = rules
        return self._resolved[source]

    def shape(self, batch: Batch[Frame], dimension: Dimension, epoch: int) -> ShapedBatch[DataFrame]:
        """Return the batch after its rules. The result is cached, and the given batch is closed."""
        if not isinstance(batch.frame, DataFrame | LocalFrame):
            raise ConfigError(
                "rules need a source that reads with Spark", found=f"it gives a {type(batch.frame).__name__}"
            )
        rules = self._rules_of(self.rules.complete(batch.facts.schema))
        form = rules.shape(batch.facts.schema)
        recomputed = rules.recomputed(form, dimension.key, batch.facts.may_need)
        source_key(form, dimension.key)
        check(rules.quality, form.schema, dimension.key)
        schema = form.without([name for name in form.source.names if batch.facts.schema.find(name) is None])
        judges = row_rules(rules.quality, schema)
        flags = warning_flags(judges)
        dimension = replace(dimension, schema=schema)
        frame = apply_quality_rules(self._apply_rules(batch, form, dimension), judges, schema, dimension.key)
        frame = frame if dimension.keeps_text else without_text(frame)
        object_bytes = sum(item.object.size for item in batch.facts.objects)
        with _translate_failures(dimension):  # planning evaluates rows of this process
            frame = with_identity(frame, str(dimension.name)).persist(level_of(object_bytes))
        try:
            groups = self._survey(_with_ahead(frame, batch.facts.believed), dimension, flags)
            inputs = _inputs(frame, batch, groups, rules, schema)
            refusals = find_refusals(frame, groups)
        except BaseException:
            frame.unpersist()
            raise
        batch.close()
        facts_again = replace(_facts(groups, batch, dimension, epoch, flags), recomputed=recomputed)
        if rules.columns:  # rules may hash the value that an alarm would show
            refusals = {order: replace(refusal, detail=_NOT_SHOWN) for order, refusal in refusals.items()}
        objects = tuple(replace(item, refusal=refusals.get(item.object.order)) for item in facts_again.objects)
        facts_again = replace(facts_again, objects=objects)
        missing = tuple(name for name in form.schema.names if schema.find(name) is None)
        return ShapedBatch(Batch(frame.drop(*flags), facts_again, close=lambda: _free(frame)), inputs, missing)

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return how the rules compute columns of stored rows again, from the declared columns."""
        rules = self._rules_of(self.rules.source)
        return rules.recomputed(rules.shape(rules.source), dimension.key, may_need)

    def repaired(self, frame: DataFrame, dimension: Dimension) -> DataFrame:
        """Return repaired rows after the rules; raises RepairError if one breaks a rule."""
        rules = self._rules_of(self.rules.source if self.rules.columns else dimension.schema)
        if rules.columns:
            frame = self._shape_repaired(frame, rules, dimension)
        judges = row_rules(rules.quality, dimension.schema)
        checked = apply_quality_rules(frame, judges, dimension.schema, dimension.key)
        wrong = checked.where(IS_REJECT).select(names.OBJECT, names.ROW, names.DETAIL).collect()
        if wrong:
            raise RepairError(
                f"{dimension.name}: "
                f"{format_count(len(wrong), 'repaired row still breaks', 'repaired rows still break')} a rule",
                found="; ".join(f"row {row[names.ROW]} {row[names.DETAIL]}" for row in wrong),
                todo="Nothing was changed. Correct the cells, and take the file again.",
                rows=[(row[names.OBJECT], row[names.ROW]) for row in wrong],
            )
        return frame

    def _shape_repaired(self, frame: DataFrame, rules: TableRules, dimension: Dimension) -> DataFrame:
        """Return source rows with the columns of the table, cast to its types, which may be wider now."""
        form = rules.shape(rules.source)
        shaped = applied(self._with_secrets(frame, (), form), form, dimension.key, self._secrets())
        shaped = with_parts(without_text(as_rejects(shaped, form.schema, dimension.key)), form)
        rest = [name for name in shaped.columns if form.schema.find(name) is None]
        columns = [f"CAST({quoted(c.name)} AS {ddl(c.type)}) AS {quoted(c.name)}" for c in dimension.schema]
        return shaped.selectExpr(*columns, *rest)

    def _apply_rules(self, batch: Batch[Frame], form: Shape, dimension: Dimension) -> DataFrame:
        """Return the frame with the columns that the batch gives the table, and misfits as rejects."""
        absent = [name for name in form.source.names if batch.facts.schema.find(name) is None]
        frame = applied(
            self._with_secrets(in_spark(batch.frame), absent, form), form, dimension.key, self._secrets()
        )
        frame = with_parts(as_rejects(frame, form.schema, dimension.key), form)
        return frame.drop(*[name for name in form.schema.names if dimension.schema.find(name) is None])

    def _with_secrets(self, frame: DataFrame, absent: Sequence[str], form: Shape) -> DataFrame:
        """Add the pads of hashes by a join, so that no secret is in the text of a query."""
        columns = [
            f"CAST(NULL AS {ddl(c.type)}) AS {quoted(c.name)}" if c.name in absent else quoted(c.name)
            for c in form.source
        ]
        rest = [quoted(name) for name in frame.columns if form.source.find(name) is None]
        frame = frame.selectExpr(*columns, *rest)
        secrets: dict[str, list[bytes]] = {}
        for number, name in enumerate(self._secrets()):
            inner, outer = pads(self.secret_of(name))
            secrets |= {f"{INNER}{number}": [inner], f"{OUTER}{number}": [outer]}
        if not secrets:
            return frame
        return frame.crossJoin(F.broadcast(from_arrow(self.spark(), pa.table(secrets))))

    def _survey(self, frame: DataFrame, dimension: Dimension, flags: Mapping[str, str]) -> Sequence[Group]:
        with _translate_failures(dimension):
            return survey(frame, dimension, *flags, *([AHEAD] if AHEAD in frame.columns else []))


@contextmanager
def _translate_failures(dimension: Dimension) -> Iterator[None]:
    """Raise SourceError if Spark cannot apply a rule to some row."""
    try:
        yield
    except FAILURES as error:
        raise SourceError(
            f"{dimension.name}: a rule cannot be carried out on the rows of the batch",
            found=short_message(error),
            todo="Nothing of this batch was applied; other tables go on. An expression must give a value for "
            "each row: try_cast, try_divide and the like give NULL where it has none.",
        ) from error


def applied(frame: DataFrame, form: Shape, key: Sequence[str], secrets: Sequence[str]) -> DataFrame:
    """Return the frame with the columns that the rules make, and the explanations of misfits."""
    source_columns = set(form.source.names)
    rest = [name for name in frame.columns if name not in source_columns]
    source_list = ", ".join(map(quoted, form.source.names))
    text_column = (
        f"CASE WHEN {names.TEXT} IS NULL THEN to_json(struct({source_list})) ELSE {names.TEXT} END AS {names.TEXT}"
    )
    frame = frame.selectExpr(
        *[quoted(name) for name in form.source.names],
        *[text_column if name == names.TEXT else name for name in rest],
        *[f"string(NULL) AS {name}" for name in (MISFIT, KEY_MISFIT)],
    )
    for layer in layers(form, key_steps(form, key), secrets, partial(_was_sent, frame)):
        misfit = f"coalesce({', '.join([MISFIT, *layer.misfits, 'string(NULL)'])}) AS {MISFIT}"
        key_misfit = f"coalesce({', '.join([KEY_MISFIT, *layer.key_misfits, 'string(NULL)'])}) AS {KEY_MISFIT}"
        frame = frame.selectExpr(*layer.select(), *rest, misfit, key_misfit)
    return frame.drop(*[name for name in rest if name.startswith((INNER, OUTER))])


def as_rejects(frame: DataFrame, schema: Schema, key: Sequence[str]) -> DataFrame:
    """Turn rows with a value that does not fit, or without a key, into rejects."""
    must_have_key = f"(({IS_EVENT} AND NOT {names.OPERATION} <=> 'truncate') OR {IS_HOLDING})"
    problems = [(f"{must_have_key} AND {KEY_MISFIT} IS NOT NULL", Reason.UNREADABLE, KEY_MISFIT)]
    for name in key:
        explanation = text(f"the key column {name} is NULL")
        problems.append((f"{must_have_key} AND {quoted(name)} IS NULL", Reason.NULL_KEY, explanation))
    problems.append((f"{IS_EVENT} AND {MISFIT} IS NOT NULL", Reason.CAST, MISFIT))
    reasons = " ".join(f"WHEN {wrong} THEN '{reason.value}'" for wrong, reason, _ in problems)
    explanations = " ".join(f"WHEN {wrong} THEN {explanation}" for wrong, _, explanation in problems)
    columns_changed = {
        names.REASON: f"CASE {reasons} ELSE {names.REASON} END",
        names.DETAIL: f"CASE {explanations} ELSE {names.DETAIL} END",
    }
    all_columns = [*schema.names, *[name for name in frame.columns if schema.find(name) is None]]
    columns = [name for name in all_columns if name not in (MISFIT, KEY_MISFIT)]
    return frame.selectExpr(
        *[f"{columns_changed[n]} AS {n}" if n in columns_changed else quoted(n) for n in columns]
    )


_IS_NEW: Final = f"{names.OPERATION} IN ('insert', 'read')"
"""SQL: whether cells that a row did not send are NULL."""


def _was_sent(frame: DataFrame, needs: Collection[str]) -> str:
    """Return SQL for whether a row sent these source columns, or they are NULL in it."""
    if names.UNSET not in frame.columns or not needs:
        return "true"
    listed = ", ".join(map(text, sorted(needs)))
    return f"({_IS_NEW} OR NOT coalesce(arrays_overlap({names.UNSET}, array({listed})), false))"


def with_parts(frame: DataFrame, form: Shape) -> DataFrame:
    """Return a frame that says which of the columns made by rules were not sent; those are NULL.

    Cells that an insert did not send are NULL to the rules. A column that the rules leave NULL then counts as not
    sent.
    """
    if names.UNSET not in frame.columns:
        return frame
    unsent = {}
    for item in form.schema:
        is_made = f"({_IS_NEW} AND {quoted(item.name)} IS NOT NULL)"
        needs = ", ".join(map(text, sorted(form.needs[item.name])))
        overlaps = f"coalesce(arrays_overlap({names.UNSET}, array({needs})), false)" if needs else "false"
        unsent[item.name] = f"({overlaps} AND NOT coalesce({is_made}, false))"
    listed = ", ".join(f"CASE WHEN {is_unsent} THEN {text(name)} END" for name, is_unsent in unsent.items())
    columns = {
        **{n: f"CASE WHEN NOT {is_unsent} THEN {quoted(n)} END AS {quoted(n)}" for n, is_unsent in unsent.items()},
        names.UNSET: f"nullif(array_compact(array({listed})), CAST(array() AS array<string>)) AS {names.UNSET}",
    }
    return frame.selectExpr(*[columns.get(name, quoted(name)) for name in frame.columns])


def _with_ahead(frame: DataFrame, limit: int | None) -> DataFrame:
    return frame if limit is None else with_ahead(frame, limit)


def without_text(frame: DataFrame) -> DataFrame:
    """Keep the source text of rejects only."""
    return frame.withColumn(names.TEXT, F.expr(f"CASE WHEN {IS_REJECT} THEN {names.TEXT} END"))


def _facts(
    groups: Sequence[Group],
    batch: Batch[Frame],
    dimension: Dimension,
    epoch: int,
    flags: Mapping[str, str],
) -> BatchFacts:
    """Compute the facts again, with those facts of the source that rows do not show."""
    objects = [item.object for item in batch.facts.objects]
    facts_again = facts(groups, dimension, dimension.schema, objects, epoch, may_need=batch.facts.may_need)
    source_facts = {item.object: item for item in batch.facts.objects}
    warnings: Counter[str] = Counter()
    for flag, name in flags.items():
        warnings[name] += sum(group.rows for group in groups if flag in group.flags)
    return replace(
        facts_again,
        objects=tuple(_with_order(item, source_facts[item.object]) for item in facts_again.objects),
        own_times=batch.facts.own_times,
        believed=batch.facts.believed,
        loaded=batch.facts.loaded,
        needs=facts_again.needs | batch.facts.needs,
        others=batch.facts.others,
        databases=batch.facts.databases,
        header=batch.facts.header,
        warnings={name: rows for name, rows in warnings.items() if rows},
        cautions=batch.facts.cautions,
    )


_NOT_SHOWN: Final = "its value is not shown, since the table has column rules"


def _with_order(item: ObjectFacts, source_facts: ObjectFacts) -> ObjectFacts:
    """Return the facts of an object with its source's facts on order: rules change values, not places."""
    return replace(
        item,
        is_load=source_facts.is_load,
        backwards=source_facts.backwards,
        spans=source_facts.spans,
        steps=source_facts.steps,
    )


def _inputs(
    frame: DataFrame, batch: Batch[Frame], groups: Sequence[Group], rules: TableRules, schema: Schema
) -> tuple[Input, ...]:
    """Return the inputs of file rules for each object. NULLs are counted in a pass of their own."""
    null_columns = {rule.column for rule in rules.quality if isinstance(rule, NullShare)} & set(schema.names)
    counts: dict[int, dict[str, int]] = {}
    if null_columns:
        order = sorted(null_columns)
        sums = [F.expr(f"count_if({quoted(name)} IS NULL) AS n{place}") for place, name in enumerate(order)]
        rows = frame.where(WAS_READ).groupBy(names.OBJECT).agg(F.expr("count(*) AS valued"), *sums).collect()
        for row in rows:
            nulls = {name: row[f"n{place}"] for place, name in enumerate(order)}
            counts[row[names.OBJECT]] = {"": row["valued"], **nulls}
    groups_of_objects = by_object(groups)
    return tuple(
        Input(
            name=item.object.name,
            is_load=item.is_load,
            rows=sum(g.rows for g in groups_of_objects.get(item.object.order, ()) if g.reason != SKIPPED),
            valued=counts.get(item.object.order, {}).get("", 0),
            nulls=counts.get(item.object.order, {}),
        )
        for item in batch.facts.objects
    )


def _free(frame: DataFrame) -> None:
    frame.unpersist()
