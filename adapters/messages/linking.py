"""A key change comes as a delete and an insert: the two are found in messages without headers that would tell.

debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-primary-key-updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakeward.adapters.messages.message import TOPIC

LEFT: Final = "_lakeward_left"
MOVED: Final = "_lakeward_moved"
"""The key that a row left, whose insert is half of a key change; whether a delete is the other half."""

_THIS, _BEFORE, _AFTER = "_lakeward_this", "_lakeward_row_before", "_lakeward_row_after"


@dataclass(frozen=True, slots=True)
class Half:
    """What tells whether a message is half of a key change, each as SQL.

    Its operation, its transaction, the cells of its key (NULL where it does not tell the whole of it), whether
    it is an insert that lacks values, and whether it is a row at all: a tombstone may lie between the two halves.
    """

    said: str
    transaction: str
    keys: str
    lacks: str
    is_row: str


def linked(opened: DataFrame, half: Half, operation: str, order: Sequence[str]) -> DataFrame:
    """Link inserts that lack values with the deletes before them, where headers did not, in the given order.

    An insert is always logged whole: one that lacks values is half of a key change. The other half is
    the row before it, a delete of the same transaction. Where it is not there, the insert is an
    update of a part of a row, which waits, and is not made up with NULL. `operation` is the column
    with what a message does.
    """
    values = f"'said', {half.said}, 'transaction', {half.transaction}, 'keys', {half.keys}"
    this = f"named_struct({values}, 'lacks', {half.lacks} AND {LEFT} IS NULL)"
    window = Window.partitionBy(F.expr(f"coalesce({TOPIC}, '')"), F.expr(half.is_row)).orderBy(*order)
    neighbours = {_BEFORE: F.lag(_THIS).over(window), _AFTER: F.lead(_THIS).over(window)}
    found = opened.selectExpr("*", f"{this} AS {_THIS}").withColumns(neighbours)
    columns = [name for name in opened.columns if name not in (LEFT, MOVED, operation)]
    return found.selectExpr(
        *columns,
        f"coalesce({LEFT}, CASE WHEN {_is_pair(_BEFORE, _THIS)} THEN {_BEFORE}.keys END) AS {LEFT}",
        f"{MOVED} OR coalesce({_is_pair(_THIS, _AFTER)}, false) AS {MOVED}",
        f"CASE WHEN {_THIS}.lacks THEN 'update' ELSE {operation} END AS {operation}",
    )


def _is_pair(one: str, other: str) -> str:
    is_told = f"{one}.keys IS NOT NULL AND {one}.transaction = {other}.transaction"
    return f"{one}.said = 'delete' AND {other}.lacks AND {is_told}"
