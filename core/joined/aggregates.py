"""What aggregates are made of rows, exactly: nothing is rounded, and no order of the rows matters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import Any, Final, TypeAlias

from lakeward.core.events import Cell
from lakeward.core.joined.declared import Aggregate, Function
from lakeward.core.schema import Type

Cells: TypeAlias = Mapping[str, Cell]

_EXACT: Final = Context(prec=76)
_SUMS: Final[Mapping[str, str]] = {"int": "bigint", "bigint": "decimal", "decimal": "decimal"}
"""The types that can be summed without rounding, and what is wide enough for their sums."""


def type_of(aggregate: Aggregate, column: Type) -> Type | None:
    """Return the type of an aggregate of a column, or None where there is none of such a column.

    The sum of an int is a bigint, that of a bigint or a decimal has 38 digits; that of a float would depend on
    the order of its rows.
    """
    if aggregate.function is Function.COUNT:
        return Type("bigint")
    if aggregate.function is Function.SUM:
        wide = _SUMS.get(column.name)
        return None if wide is None else Type(wide, 38, column.scale) if wide == "decimal" else Type(wide)
    return None if aggregate.function is not Function.LATEST and column.is_nested else column


def aggregated(aggregate: Aggregate, rows: Sequence[Cells], key: Sequence[str]) -> Cell:
    """Return the aggregate of rows of a source that has this key; of none, all but a count are NULL."""
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
    """Return what values of one type are ordered by, as Spark does: NULL before all, NaN behind all."""
    if value is None:
        return (0, 0)
    return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)
