"""Compute aggregates of rows exactly: nothing is rounded, and the order of rows does not matter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import Any, Final, TypeAlias

from lakeward.core.events import Cell
from lakeward.core.joined.declaration import Aggregate, Function
from lakeward.core.schema import Type

Cells: TypeAlias = Mapping[str, Cell]

_EXACT: Final = Context(prec=76)
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


def aggregated(aggregate: Aggregate, rows: Sequence[Cells], key: Sequence[str]) -> Cell:
    """Return the aggregate of rows of a source with this key. Of no rows, all but a count are NULL."""
    if aggregate.function is Function.COUNT and aggregate.column is None:
        return len(rows)
    column = aggregate.column or ""
    values = [cells[column] for cells in rows if cells[column] is not None]
    match aggregate.function:
        case Function.COUNT:
            return len(values)
        case Function.LATEST:
            order = (aggregate.by or "", *key)
            newest = max(rows, key=lambda cells: [_rank(cells[name]) for name in order], default=None)
            return None if newest is None else newest[column]
        case Function.SUM:
            return _sum(values) if values else None
        case Function.MIN:
            return min(values, key=_rank, default=None)
        case Function.MAX:
            return max(values, key=_rank, default=None)


def _sum(values: Sequence[Any]) -> Cell:
    return reduce(_EXACT.add, values) if isinstance(values[0], Decimal) else sum(values)


def _rank(value: Any) -> tuple[int, Any]:
    """Return the sort key of a value, in the order of Spark: NULL before all, NaN after all."""
    if value is None:
        return (0, 0)
    return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)
