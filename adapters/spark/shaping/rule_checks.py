"""Checks of rules that need Spark: expressions, patterns and formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from lakeward.adapters.spark.shaping.expressions import check_format, check_pattern, check_type, parse
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Schema, Type
from lakeward.core.shaping.column_rules import Cast, Replace, Rule
from lakeward.core.shaping.quality_rules import Expression, Pattern, QualityRule
from lakeward.core.shaping.reshaping_rules import Split, Sql
from lakeward.core.shaping.shape import shape


def needs_spark(rules: Sequence[Rule | QualityRule]) -> bool:
    """Return whether Spark must check some rule before anything is read."""
    has_format = any(isinstance(rule, Cast) and rule.format is not None for rule in rules)
    return has_format or any(isinstance(rule, Sql | Replace | Split | Expression | Pattern) for rule in rules)


@contextmanager
def _within(where: str) -> Iterator[None]:
    """Add to an error the rule that it is about."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.what}", found=error.found, todo=error.todo) from error


def check_words(spark: SparkSession, columns: Sequence[Rule], quality: Sequence[QualityRule]) -> None:
    """Raise ConfigError, with the number of the rule, for a pattern or format that is not valid."""
    for number, rule in enumerate(columns, 1):
        with _within(f"rule {number}, {rule.kind}"):
            match rule:
                case Replace(pattern=pattern, by=by):
                    check_pattern(spark, pattern, by)
                case Split(pattern=pattern):
                    check_pattern(spark, pattern)
                case Cast(format=str()) if rule.type.name != "binary":
                    check_format(spark, rule)
    for number, judge in enumerate(quality, 1):
        if isinstance(judge, Pattern):
            with _within(f"quality rule {number}, {judge.kind}"):
                check_pattern(spark, judge.pattern, may_be_empty=True)


def resolved(spark: SparkSession, rules: Sequence[Rule], source: Schema) -> tuple[Rule, ...]:
    """Return the rules with the columns that their expressions read; raises ConfigError for a wrong expression.

    Without source columns only the form of an expression is checked.
    """
    resolved_rules = list(rules)
    for number, rule in enumerate(rules, 1):
        if isinstance(rule, Sql):
            before = shape(resolved_rules[: number - 1], source).schema if len(source) else None
            with _within(f"rule {number}, {rule.kind}"):
                resolved_rules[number - 1] = replace(
                    rule, columns=_parsed(spark, rule.expression, before, rule.type)
                )
    return tuple(resolved_rules)


def resolved_quality(
    spark: SparkSession, rules: Sequence[QualityRule], schema: Schema | None
) -> tuple[QualityRule, ...]:
    """Return the quality rules with the columns that their expressions read, like `resolved`."""
    resolved_rules = list(rules)
    for number, rule in enumerate(rules, 1):
        if isinstance(rule, Expression):
            with _within(f"quality rule {number}, {rule.kind}"):
                resolved_rules[number - 1] = replace(
                    rule, reads=_parsed(spark, rule.expression, schema, Type("boolean"))
                )
    return tuple(resolved_rules)


def _parsed(spark: SparkSession, expression: str, schema: Schema | None, wanted: Type) -> tuple[str, ...]:
    parsed = parse(spark, expression, schema)
    if schema is not None:
        check_type(parsed, wanted)
    return parsed.columns
