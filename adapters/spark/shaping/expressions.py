"""Check the expressions and patterns of users with Spark's parser before anything is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from pyspark.sql import SparkSession

from lakeward.adapters.spark.session.compatibility import condition_of
from lakeward.adapters.spark.session.errors import FAILURES, short_message
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl, ddl_of
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Schema, Type
from lakeward.core.shaping.cells import GROUP
from lakeward.core.shaping.column_rules import Cast
from lakeward.core.text.suggestions import nearest


@dataclass(frozen=True, slots=True)
class Expression:
    """The result of parsing an expression: the columns that it reads, and its Spark SQL type."""

    columns: tuple[str, ...]
    type: str


_SUBQUERIES: Final = ("ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery")
_RUN_DEPENDENT: Final = (
    "Current",
    "LocalTimestamp",
    "Now",
    "UnixTimestamp0",
    "SessionUser",
    "SparkVersion",
    "Version",
)
_USER_FUNCTIONS: Final = ("PythonUDF", "ScalaUDF", "HiveSimpleUDF", "HiveGenericUDF", "UserDefined")
_RELATIVE_DAYS: Final = ("now", "today", "tomorrow", "yesterday")
_RELATIVE_LITERAL: Final = re.compile(
    rf"(?i)\b(date|timestamp(_ntz|_ltz)?)\s*['\"]\s*({'|'.join(_RELATIVE_DAYS)})\b"
)
"""A literal such as TIMESTAMP 'now': the parser replaces it by the time of the run."""


def parse(spark: SparkSession, expression: str, schema: Schema | None) -> Expression:
    """Return the columns and the type of an expression; without a schema only its form is checked.

    Raises ConfigError for anything but values of one row that are the same in each run. This excludes subqueries,
    unknown columns, aggregates and windows, and what depends on chance or on the run.
    """
    jvm_session = cast("Any", spark)._jsparkSession
    try:
        parsed = jvm_session.sessionState().sqlParser().parseExpression(expression)
    except FAILURES as error:
        raise ConfigError("the expression cannot be parsed", found=short_message(error), todo=_SYNTAX) from error
    if _RELATIVE_LITERAL.search(expression):
        raise ConfigError("the expression depends on the run", found=expression, todo=_SAME_EACH_TIME)
    for node in _tree(parsed):
        _refuse_form(node)
    if schema is None:
        return Expression((), "")
    empty = spark.createDataFrame([], ", ".join(f"{quoted(c.name)} {ddl(c.type)}" for c in schema))
    try:
        frame = empty.selectExpr(f"(\n{expression}\n) AS value")
    except FAILURES as error:
        raise _not_resolved(error, schema) from error
    plan = cast("Any", frame)._jdf.queryExecution().analyzed()
    if plan.nodeName() != "Project" or plan.child().children().nonEmpty():
        raise ConfigError("the expression is not of one row", todo=_ONE_ROW)
    (value,) = _items(plan.projectList())
    for node in _tree(value.child()):
        _refuse_meaning(node)
    columns = tuple(dict.fromkeys(str(item.name()) for item in _items(value.references().toSeq())))
    return Expression(columns, ddl_of(frame.schema["value"].dataType))


_SYNTAX: Final = "See spark.apache.org/docs/4.1.0/sql-ref-syntax.html."
_ONE_ROW: Final = "Aggregates, windows and functions that make several rows have no place in a rule."
_SAME_EACH_TIME: Final = "A rule must give the same on a full load, on changes and on a replay."


def _refuse_form(node: Any) -> None:
    name = _name(node)
    if name in _SUBQUERIES:
        raise ConfigError(
            "the expression has a subquery", todo="A rule sees the columns of its row and nothing else."
        )
    if "Window" in name:
        raise ConfigError("the expression has a window", todo=_ONE_ROW)
    if "Star" in name:
        raise ConfigError("the expression has a *", todo="Name the columns.")


def _refuse_meaning(node: Any) -> None:
    """Refuse what depends on chance, on the run, or on functions registered in the session."""
    name = _name(node)
    if name == "AggregateExpression" or "WindowExpression" in name:
        raise ConfigError("the expression is not of one row", todo=_ONE_ROW)
    if any(name.startswith(word) for word in _USER_FUNCTIONS):
        raise ConfigError("the expression calls a function that Spark does not bring", todo=_SAME_EACH_TIME)
    if not node.deterministic():
        raise ConfigError(
            "the expression gives another value each time", found=str(node.sql()), todo=_SAME_EACH_TIME
        )
    if any(name.startswith(word) for word in _RUN_DEPENDENT) or _is_relative_time(node):
        raise ConfigError("the expression depends on the run", found=str(node.sql()), todo=_SAME_EACH_TIME)


def _is_relative_time(node: Any) -> bool:
    """Return whether a text such as 'now' is cast to a time here."""
    if node.dataType().simpleString() not in ("date", "timestamp", "timestamp_ntz"):
        return False
    constants = [child for child in _items(node.children()) if child.foldable() and child.deterministic()]
    texts = [str(child.eval(None)).split() for child in constants if child.dataType().simpleString() == "string"]
    return any(words and words[0].lower() in _RELATIVE_DAYS for words in texts)


def _tree(node: Any) -> Iterator[Any]:
    yield node
    for child in _items(node.children()):
        yield from _tree(child)


def _items(seq: Any) -> list[Any]:
    return [seq.apply(place) for place in range(seq.length())]


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName()).removesuffix("$")


def _not_resolved(error: BaseException, schema: Schema) -> ConfigError:
    condition = condition_of(error)
    if condition.startswith("UNRESOLVED_COLUMN"):
        unknown = str(error.getMessageParameters()["objectName"]).replace("`", "")  # type: ignore[attr-defined]
        return ConfigError(
            f"the expression names {unknown!r}, and there is no such column",
            found="the columns are " + ", ".join(schema.names),
            todo=nearest(unknown, schema.names),
        )
    return ConfigError("the expression cannot be resolved", found=short_message(error), todo=_SYNTAX)


def check_type(expression: Expression, wanted: Type) -> None:
    """Raise ConfigError if an expression has another type than declared."""
    if expression.type != ddl(wanted):
        raise ConfigError(
            f"the expression gives {expression.type}, and {wanted} is declared",
            todo=f"Declare the type that it gives, or write CAST(… AS {ddl(wanted)}).",
        )


def check_pattern(spark: SparkSession, pattern: str, by: str = "", *, may_be_empty: bool = False) -> None:
    """Raise ConfigError if Java does not accept a pattern, or `by` names a group that the pattern lacks."""
    jvm = cast("Any", spark.sparkContext._jvm)
    try:
        matcher = jvm.java.util.regex.Pattern.compile(pattern).matcher("")
    except FAILURES as error:
        raise ConfigError(f"{pattern!r} is no pattern", found=short_message(error), todo=_PATTERNS) from error
    if matcher.find() and not may_be_empty:
        raise ConfigError(f"{pattern!r} matches the empty text", todo="Let it match one character at least.")
    groups = [int(mark[1]) for mark in GROUP.finditer(by) if mark[1] != "$"]
    if max(groups, default=0) > matcher.groupCount():
        raise ConfigError(
            f"{by!r} names group {max(groups)}, and the pattern has {matcher.groupCount()}",
            todo="A dollar itself is written as $$.",
        )


_PATTERNS: Final = (
    "Patterns are Java's: docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/regex/Pattern.html."
)


def check_format(spark: SparkSession, rule: Cast) -> None:
    """Raise ConfigError if Spark does not accept a date or time pattern."""
    pattern = text(rule.format or "")
    moment = "timestamp_micros(0)"
    tried = (
        f"date_format({moment}, {pattern})" if rule.type.name == "string" else f"try_to_timestamp('', {pattern})"
    )
    try:
        spark.sql(f"SELECT {tried}").collect()
    except FAILURES as error:
        raise ConfigError(
            f"{rule.format!r} is no pattern of a {rule.type}",
            found=short_message(error),
            todo="See spark.apache.org/docs/4.1.0/sql-ref-datetime-pattern.html.",
        ) from error
