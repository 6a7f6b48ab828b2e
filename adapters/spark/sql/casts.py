"""Convert text to typed values: a value that does not fit its type becomes a reject and is never changed.

`docs/reference/types.md` states what each type accepts. Each rule here exists because the plain cast loses
something: `cast('2026' as date)` is 1 January, `cast('1.239' as decimal(5,2))` is 1.24, `cast('1e999' as double)`
is infinite. Expressions are SQL text: building them from columns costs a call into the JVM for each operator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from lakeward.adapters.spark.session.errors import FAILURES, short_message
from lakeward.adapters.spark.sql.limits import YEARS
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.names import text as literal
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.errors import ConfigError
from lakeward.core.schema import UNDECLARED, Column, Type

_DECIMAL = r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)\s*$"
_FLOAT = r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$"
_SPECIAL = r"(?i)^\s*([+-]?(inf|infinity)|nan)\s*$"
_BOOLEAN = r"(?i)^\s*(true|t|yes|y|1|false|f|no|n|0)\s*$"
_DATE = r"^\s*(?!0000)\d{4}-\d{2}-\d{2}([ T]00:00:00(\.0+)?)?\s*$"
_TIME = r"^\s*(?!0000)\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6}0*)?)?)?"
_ZONE = r"\s*(Z|[+-]\d{2}(:?\d{2})?)\s*$"
_HEX = r"^(0[xX]|\\x)?([0-9A-Fa-f]{2})*$"


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The text format of a column: a pattern for dates and times, an encoding for binary.

    Patterns are Spark's (spark.apache.org/docs/4.1.0/sql-ref-datetime-pattern.html). Encodings are hex (the
    default), base64 and utf-8. Times without a zone are in `zone`.
    """

    pattern: str | None = None
    zone: str = "UTC"


ENCODINGS: Final = ("hex", "base64", "utf-8")
NESTED: Final = ("list", "map", "struct")
"""Types whose values have no text form."""

_IN_TIME = ("date", "timestamp", "timestamp_ntz")


def check_text(item: Column, pattern: str | None, table: str) -> None:
    """Raise ConfigError if a column has no text form, or not in that format."""
    if item.type.name in NESTED:
        raise ConfigError(
            f"{table}: the column {item.name} is declared as {item.type}, and CSV has no such values",
            todo="Declare it as a string, or let DMS write Parquet.",
        )
    if pattern is not None and item.type.name == "timestamp_ntz" and _has_zone(pattern):
        raise ConfigError(
            f"{table}: the format {pattern!r} of the column {item.name} has a zone, and a {item.type} has none",
            todo="Declare the column as a `timestamp`, or take the zone out of the format.",
        )
    if pattern is not None and item.type.name in _IN_TIME and (lacking := _lacking(pattern)):
        raise ConfigError(
            f"{table}: the format {pattern!r} of the column {item.name} lacks {lacking}",
            found="Spark would make it up: the year 1970, a first of January, or a half of the day",
            todo="Declare the column as a `string`, or let the format name it.",
        )
    if pattern is None or item.type.name in _IN_TIME or (item.type.name == "binary" and pattern in ENCODINGS):
        return
    can_be = f"It may be {', '.join(ENCODINGS)}." if item.type.name == "binary" else "Leave it out."
    raise ConfigError(f"{table}: {pattern!r} is no format of the column {item.name} ({item.type})", todo=can_be)


def check_pattern(spark: SparkSession, item: Column, pattern: str, table: str) -> None:
    """Raise ConfigError if Spark does not accept a date or time pattern."""
    try:
        spark.sql(f"SELECT try_to_timestamp('', {literal(pattern)})").collect()
    except FAILURES as error:
        raise ConfigError(
            f"{table}: {pattern!r} is no pattern for the column {item.name} ({item.type})",
            found=short_message(error),
            todo="See spark.apache.org/docs/latest/sql-ref-datetime-pattern.html.",
        ) from error


def to_type(text: str, type_: Type, written: TextFormat) -> str:
    """Return SQL for the typed value of a text, NULL if it does not fit (or is NULL)."""
    match type_.name:
        case "string" | UNDECLARED.name:
            return text
        case "boolean":
            return _where(_like(text, _BOOLEAN), f"try_cast(trim({text}) AS boolean)")
        case "int" | "bigint":
            return f"try_cast({text} AS {ddl(type_)})"
        case "decimal":
            return _decimal(text, type_)
        case "float" | "double":
            return _floating(text, type_)
        case "date":
            return _date(text, written)
        case "timestamp" | "timestamp_ntz":
            return _timestamp(text, type_, written)
        case "binary":
            return _binary(text, written)
        case name:
            raise ValueError(f"{name} has no form as text")


def misfit(raw: str, item: Column, typed: str | None = None) -> str:
    """Return SQL for the explanation that a text does not fit its column, NULL if it fits.

    The column is the typed value, unless `typed` is given as SQL. The typed value is tested first, since building
    the text may be expensive.
    """
    words = literal(f'" is not {item.type.with_article} (column {item.name})')
    is_unfit = f"{typed or quoted(item.name)} IS NULL AND {raw} IS NOT NULL"
    return f"CASE WHEN {is_unfit} THEN concat('\"', {raw}, {words}) END"


def _like(text: str, pattern: str) -> str:
    return f"{text} RLIKE {literal(pattern)}"


def _where(condition: str, value: str) -> str:
    return f"CASE WHEN {condition} THEN {value} END"


def _decimal(text: str, type_: Type) -> str:
    fraction = f"regexp_extract({text}, {literal(_FRACTION)}, 1)"
    fits = f"{_like(text, _DECIMAL)} AND length({fraction}) <= {type_.scale}"
    return _where(fits, f"try_cast(trim({text}) AS {ddl(type_)})")


_FRACTION = r"\.(\d*?)0*\s*$"


def _floating(text: str, type_: Type) -> str:
    """Return SQL that reads no number that would become infinite, and none except zero that would become zero."""
    value = f"try_cast(trim({text}) AS {ddl(type_)})"
    is_finite = f"NOT isnan({value}) AND abs({value}) < double('Infinity')"
    is_zero = f"regexp_extract({text}, '^[^eE]*', 0) RLIKE '^[^1-9]*$'"
    fits = f"{_like(text, _FLOAT)} AND {is_finite} AND ({value} != 0 OR {is_zero})"
    return _where(f"({fits}) OR {_like(text, _SPECIAL)}", value)


def _date(text: str, written: TextFormat) -> str:
    if written.pattern is None:
        return _where(_like(text, _DATE), f"try_cast(substring(trim({text}), 1, 10) AS date)")
    moment = f"try_to_timestamp({text}, {literal(_of_microseconds(written.pattern))})"
    return _where(f"{moment} = date_trunc('day', {moment})", _of_a_year(f"CAST({moment} AS date)", "date"))


def _timestamp(text: str, type_: Type, written: TextFormat) -> str:
    """Return SQL that reads an instant or a wall-clock time; sessions are in UTC."""
    if written.pattern is not None:
        moment = f"try_to_timestamp({text}, {literal(_of_microseconds(written.pattern))})"
        if type_.name == "timestamp_ntz":
            return _of_a_year(f"CAST({moment} AS timestamp_ntz)", "timestamp_ntz")
        in_zone = moment if _has_zone(written.pattern) else _in_zone(moment, written.zone)
        return _of_a_year(in_zone, "timestamp")
    local = _where(_like(text, _TIME + r"\s*$"), f"try_cast(trim({text}) AS timestamp_ntz)")
    if type_.name == "timestamp_ntz":
        return local
    zoned = _where(_like(text, _TIME + _ZONE), _of_a_year(f"try_cast(trim({text}) AS timestamp)", "timestamp"))
    here = _in_zone(f"CAST({local} AS timestamp)", written.zone)
    return f"coalesce({here if written.zone == 'UTC' else _of_a_year(here, 'timestamp')}, {zoned})"


def _in_zone(moment: str, zone: str) -> str:
    return moment if zone == "UTC" else f"to_utc_timestamp({moment}, {literal(zone)})"


def _of_a_year(value: str, type_: str) -> str:
    return _where(f"{value} BETWEEN {YEARS[type_]}", value)


def _has_zone(pattern: str) -> bool:
    """Return whether a pattern has a letter of a time zone."""
    return not _letters(pattern).isdisjoint("VzOXxZ")


def _lacking(pattern: str) -> str:
    """Return which part of a date or an hour a pattern lacks, '' if none."""
    letters = _letters(pattern)
    if "y" not in letters:
        return "a year"
    if "D" not in letters and not ("d" in letters and letters & {"M", "L"}):
        return "a month or a day"
    return "a half of the day (`a`)" if letters & {"h", "K"} and "a" not in letters else ""


def _letters(pattern: str) -> set[str]:
    """Return the characters of a pattern outside quotes."""
    return {*"".join(pattern.split("'")[::2])}


def _of_microseconds(pattern: str) -> str:
    """Return a pattern that accepts finer fractions of a second only if the rest is zeros.

    Spark would cut it off.
    """
    parts = pattern.split("'")
    parts[::2] = [_FINER.sub(lambda match: "S" * 6 + "['0']" * (len(match[0]) - 6), part) for part in parts[::2]]
    return "'".join(parts)


_FINER: Final = re.compile("S{7,9}")


def _binary(text: str, written: TextFormat) -> str:
    match written.pattern:
        case "utf-8":
            return f"CAST({text} AS binary)"
        case "base64":
            return f"try_to_binary({text}, 'base64')"
        case _:
            digits = f"regexp_replace({text}, {literal(_PREFIX)}, '')"
            return _where(_like(text, _HEX), f"unhex({digits})")


_PREFIX = r"^(0[xX]|\\x)"
