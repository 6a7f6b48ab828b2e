"""Quality rules of rows as Spark SQL; `lakeward.core.shaping.quality_rules` defines their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame

from lakeward.adapters.spark.frames.event_frame import IS_EVENT, IS_LOAD, LEAVES_VALUES
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.casts import TextFormat, to_type
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.merge.change_log import Reason
from lakeward.core.schema import Schema
from lakeward.core.shaping.column_rules import find_column
from lakeward.core.shaping.quality_rules import (
    Action,
    Expression,
    InSet,
    Length,
    NotNull,
    OfOneColumn,
    Pattern,
    QualityRule,
    Range,
    RowRule,
    Unique,
)

BROKEN: Final = "_lakeward_broken_"
"""Prefix of the columns that say whether a row breaks a rule, followed by the number of the rule."""

_HAS_VALUES: Final = f"{IS_EVENT} AND {LEAVES_VALUES}"
WAS_READ: Final = f"({IS_EVENT} OR {names.REASON} = '{Reason.QUALITY.value}') AND {LEAVES_VALUES}"
"""SQL: whether a checked row has values to write."""


def row_rules(rules: Sequence[QualityRule], schema: Schema) -> dict[int, RowRule]:
    """Return the row rules, by number, whose columns a batch has."""
    numbered = enumerate(rules, 1)
    rows = {number: rule for number, rule in numbered if isinstance(rule, RowRule)}
    return {number: rule for number, rule in rows.items() if set(rule.columns) <= set(schema.names)}


def apply_quality_rules(
    frame: DataFrame, rules: dict[int, RowRule], schema: Schema, key: Sequence[str]
) -> DataFrame:
    """Return the frame with rows that break a rule as rejects, and a flag column for each rule that only warns."""
    if not rules:
        return frame
    flags = {
        n: f"({_HAS_VALUES} AND {_was_sent(frame, rule)} AND coalesce({is_broken(rule, schema, key)}, false))"
        for n, rule in rules.items()
    }
    flagged = frame.selectExpr("*", *[f"{sql} AS {BROKEN}{number}" for number, sql in flags.items()])
    refusing = {number: rule for number, rule in rules.items() if rule.action is Action.QUARANTINE}
    if not refusing:
        return flagged
    is_refused = " OR ".join(f"{BROKEN}{number}" for number in refusing)
    explanations = " ".join(
        f"WHEN {BROKEN}{number} THEN {_explanation(rule, number)}" for number, rule in refusing.items()
    )
    columns_changed = {
        names.REASON: f"CASE WHEN {is_refused} THEN '{Reason.QUALITY.value}' ELSE {names.REASON} END",
        names.DETAIL: f"CASE {explanations} ELSE {names.DETAIL} END",
    }
    columns = [name for name in flagged.columns if name not in {f"{BROKEN}{number}" for number in refusing}]
    return flagged.selectExpr(
        *[f"{columns_changed[n]} AS {n}" if n in columns_changed else quoted(n) for n in columns]
    )


def _was_sent(frame: DataFrame, rule: RowRule) -> str:
    """Return SQL for whether a row has all cells that a rule reads: a cell that was not sent breaks no rule."""
    if names.UNSET not in frame.columns or not rule.columns:
        return "true"
    rule_columns = ", ".join(map(text, rule.columns))
    return f"NOT coalesce(arrays_overlap({names.UNSET}, array({rule_columns})), false)"


def warning_flags(rules: dict[int, RowRule]) -> dict[str, str]:
    """Return the flag columns of rules that only warn, with the labels of the rules."""
    return {f"{BROKEN}{n}": rule.label for n, rule in rules.items() if rule.action is Action.WARN}


def is_broken(rule: RowRule, schema: Schema, key: Sequence[str]) -> str:
    """Return SQL for whether a row breaks a rule; NULL means that it does not."""
    match rule:
        case NotNull(of=columns):
            return "(" + " OR ".join(f"{quoted(name)} IS NULL" for name in columns) + ")"
        case InSet(column=column, values=values):
            listed = ", ".join(_value(value, column, schema) for value in values)
            return f"NOT {quoted(column)} IN ({listed})"
        case Range(column=column, least=least, most=most):
            bounds = [] if least is None else [f"{quoted(column)} < {_value(least, column, schema)}"]
            bounds += [] if most is None else [f"{quoted(column)} > {_value(most, column, schema)}"]
            return f"({' OR '.join(bounds)})"
        case Pattern(column=column, pattern=pattern):
            pattern_of_all = rf"\A(?:{pattern})\z"
            return f"NOT {quoted(column)} RLIKE {text(pattern_of_all)}"
        case Length(column=column, least=least, most=most):
            is_long = "" if most is None else f" OR length({quoted(column)}) > {most}"
            return f"(length({quoted(column)}) < {least}{is_long})"
        case Unique():
            same_key = ", ".join([names.OBJECT, f"{IS_EVENT} AND {IS_LOAD}", *map(quoted, key)])
            return f"({IS_LOAD} AND count(*) OVER (PARTITION BY {same_key}) > 1)"
        case Expression(expression=expression):
            return f"NOT (\n{expression}\n)"
        case _:
            raise TypeError(rule.kind)


def _value(value: str, column: str, schema: Schema) -> str:
    return to_type(text(value), find_column(schema, column).type, TextFormat())


def _explanation(rule: RowRule, number: int) -> str:
    explanation = f"breaks {rule.label} (quality rule {number})"
    if isinstance(rule, OfOneColumn):
        ending = text(f'" {explanation}')
        return f"concat('\"', CAST({quoted(rule.column)} AS string), {ending})"
    return text(f"the row {explanation}")
