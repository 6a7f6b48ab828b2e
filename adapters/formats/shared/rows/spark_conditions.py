"""Conditions on rows as Spark columns."""

from __future__ import annotations

from functools import reduce
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.rows.conditions import All, AtLeast, AtMost, Condition, OneOf
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.events import canonical

_NAN: Final = canonical(float("nan"))


def as_column(where: Condition, type_: Any) -> Column:
    """Return a condition as a Spark column. `type_` is the JSON type of the row."""
    match where:
        case All(of=parts):
            return reduce(Column.__and__, [as_column(part, type_) for part in parts])
        case OneOf(of=parts):
            return reduce(Column.__or__, [as_column(part, type_) for part in parts])
        case AtMost(name=name, value=value):
            return F.col(name) <= value
        case AtLeast(name=name, value=value):
            return F.col(name) >= value
    for name in where.path:
        type_ = next(field["type"] for field in type_["fields"] if field["name"] == name)
    is_nan = where.value == _NAN and type_ in ("float", "double")
    return F.col(quoted(*where.path)).eqNullSafe(F.lit(float("nan") if is_nan else where.value))
