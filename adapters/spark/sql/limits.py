"""Limits of what every reader of the lake can read, as SQL: years of dates and times, and valid UTF-8.

The form of CSV and JSON texts ensures both (`adapters.spark.sql.casts`, `adapters.spark.session.compatibility`).
Numbers since an epoch, values of typed files and results of rules are checked here, so that all inputs have the
same limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakeward.adapters.spark.session.compatibility import is_valid_utf8
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.schema import Type

YEARS: Final = {
    "date": "date'0001-01-01' AND date'9999-12-31'",
    "timestamp": "timestamp'0001-01-01 00:00:00' AND timestamp'9999-12-31 23:59:59.999999'",
    "timestamp_ntz": "timestamp_ntz'0001-01-01 00:00:00' AND timestamp_ntz'9999-12-31 23:59:59.999999'",
}
"""The first and the last value of each type, for BETWEEN. Sessions are in UTC."""

Check = Callable[[str, Type], str | None]
"""Returns SQL for whether a value without parts breaks a limit; None for a type without that limit."""


def inside(value: str, type_: Type) -> str:
    """Return SQL for a value; NULL if it, or a value within it, lies outside the years."""
    wrong = is_outside(value, type_)
    return value if wrong is None else f"CASE WHEN NOT {wrong} THEN {value} END"


def is_outside(value: str, type_: Type) -> str | None:
    """Return SQL for whether a value, or a value within it, lies outside the years; None for other types."""
    return is_somewhere(value, type_, _is_out_of_years)


def is_not_utf8(value: str, type_: Type) -> str | None:
    """Return SQL for whether a text, or a text within a value, is not valid UTF-8; None for types without text."""
    return is_somewhere(value, type_, _is_not_utf8)


def readable(value: str, type_: Type) -> str:
    """Return SQL for a value; NULL if not every reader of the lake could read it."""
    wrong = [sql for check in (is_outside, is_not_utf8) if (sql := check(value, type_)) is not None]
    return f"CASE WHEN NOT ({' OR '.join(wrong)}) THEN {value} END" if wrong else value


def is_somewhere(value: str, type_: Type, check: Check, depth: int = 0) -> str | None:
    """Return SQL for whether a check holds for a value or a value within it; the SQL is never NULL."""
    if not type_.is_nested:
        condition = check(value, type_)
        return None if condition is None else f"coalesce({condition}, false)"
    if type_.name == "struct":
        parts = [(f"{value}.{quoted(part.name)}", part.type) for part in type_.parts]
        checks = [is_somewhere(part, own, check, depth) for part, own in parts]
    else:
        lists = [value] if type_.name == "list" else [f"map_keys({value})", f"map_values({value})"]
        item = f"part_{depth}"
        inner = [is_somewhere(item, part.type, check, depth + 1) for part in type_.parts]
        pairs = zip(lists, inner, strict=True)
        checks = [
            condition_of_item and f"coalesce(exists({of}, {item} -> {condition_of_item}), false)"
            for of, condition_of_item in pairs
        ]
    conditions = [condition for condition in checks if condition is not None]
    return f"({' OR '.join(conditions)})" if conditions else None


def _is_out_of_years(value: str, type_: Type) -> str | None:
    return f"{value} NOT BETWEEN {YEARS[type_.name]}" if type_.name in YEARS else None


def _is_not_utf8(value: str, type_: Type) -> str | None:
    return f"NOT {is_valid_utf8(value)}" if type_.name == "string" else None
