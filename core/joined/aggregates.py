"""The types of aggregates. Those that are summed are summed exactly, whatever the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.core.joined.declaration import Aggregate, Function
from lakeward.core.schema import Type

_SUMS: Final[Mapping[str, str]] = {"int": "bigint", "bigint": "decimal", "decimal": "decimal"}
"""The types that can be summed without rounding, and the types that hold their sums."""


def type_of(aggregate: Aggregate, column: Type) -> Type | None:
    """Return the type of an aggregate of a column, or None where the column does not have that aggregate.

    The sum of an int is a bigint, that of a bigint or a decimal has 38 digits. A sum of floats would depend on the
    order of the rows.
    """
    if aggregate.function is Function.COUNT:
        return Type("bigint")
    if aggregate.function is Function.SUM:
        wide = _SUMS.get(column.name)
        return None if wide is None else Type(wide, 38, column.scale) if wide == "decimal" else Type(wide)
    return None if aggregate.function is not Function.LATEST and column.is_nested else column
