"""A key change comes as a delete and an insert: the two are found in messages without headers that would tell.

debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-primary-key-updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakeward.adapters.sources.messages.message import TOPIC

LEFT: Final = "_lakeward_left"
MOVED: Final = "_lakeward_moved"
"""The key that a row left, whose insert is half of a key change; whether a delete is the other half."""

_THIS, _BEFORE, _AFTER = "_lakeward_this", "_lakeward_row_before", "_lakeward_row_after"
_ENTERS, _LEAVES, _IS_SURE = "_lakeward_enters", "_lakeward_leaves", "_lakeward_is_sure"
_IS_LEFT = "_lakeward_is_left"


@dataclass(frozen=True, slots=True)
class Half:
    """What tells whether a message is half of a key change, each as SQL.

    Its operation, its transaction, the cells of its key (NULL where it does not tell the whole of it), whether
    it is an insert that lacks values, and whether it is a row at all: a tombstone may lie between the two halves.
    Where headers tell both halves, and do not make them one, the text of its `key`, whether the row `enters` or
    `leaves` it, and the `other` key.
    """

    said: str
    transaction: str
    keys: str
    lacks: str
    is_row: str
    key: str
    enters: str
    leaves: str
    other: str


def linked(
    opened: DataFrame, half: Half, operation: str, order: Sequence[str], partition: str | None = None
) -> DataFrame:
    """Link inserts that lack values with the deletes before them, where headers did not, in the given order.

    An insert is always logged whole: one that lacks values is half of a key change. The other half is
    the row before it, a delete of the same transaction. Where it is not there, the insert is an
    update of a part of a row, which waits, and is not made up with NULL. `operation` is the column
    with what a message does.

    In a topic of several partitions, which the SQL `partition` tells apart, the halves may lie in two, and
    neighbours of one need not be those of the log. There all deletes and such inserts of a transaction must
    pair off: a false pair is a delete and an insert further on, and leaves one of those before without its own.

    A row that enters a key which another one leaves behind it in the transaction is no insert, which the delete of
    the other would take away: it is linked with the key that it left, by the headers.
    """
    values = f"'said', {half.said}, 'transaction', {half.transaction}, 'keys', {half.keys}"
    this = f"named_struct({values}, 'lacks', {half.lacks} AND {LEFT} IS NULL)"
    topic = F.expr(f"coalesce({TOPIC}, '')")
    window = Window.partitionBy(topic, F.expr(half.is_row), F.expr(partition or "''")).orderBy(*order)
    neighbours = {_BEFORE: F.lag(_THIS).over(window), _AFTER: F.lead(_THIS).over(window)}
    found = opened.selectExpr("*", f"{this} AS {_THIS}").withColumns(neighbours)
    found = found.selectExpr(
        "*", f"{_is_pair(_BEFORE, _THIS)} AS {_ENTERS}", f"{_is_pair(_THIS, _AFTER)} AS {_LEAVES}"
    )
    found = found.withColumn(_IS_SURE, F.lit(True) if partition is None else _pairs_off(topic))
    behind = Window.partitionBy(topic, F.expr(half.transaction), F.expr(half.key)).orderBy(*order)
    behind = behind.rowsBetween(1, Window.unboundedFollowing)
    is_left = F.coalesce(F.max(F.expr(half.leaves)).over(behind), F.lit(False))
    is_told = F.expr(f"{half.enters} AND {half.transaction} IS NOT NULL")
    found = found.withColumn(_IS_LEFT, is_told & is_left)
    columns = [name for name in opened.columns if name not in (LEFT, MOVED, operation)]
    return found.selectExpr(
        *columns,
        f"coalesce({LEFT}, CASE WHEN {_IS_LEFT} THEN {half.other} "
        f"WHEN {_ENTERS} AND {_IS_SURE} THEN {_BEFORE}.keys END) AS {LEFT}",
        f"{MOVED} OR ({_LEAVES} AND {_IS_SURE}) AS {MOVED}",
        f"CASE WHEN {_THIS}.lacks OR {_IS_LEFT} THEN 'update' ELSE {operation} END AS {operation}",
    )


def _is_pair(one: str, other: str) -> str:
    is_told = f"{one}.keys IS NOT NULL AND {one}.transaction = {other}.transaction"
    return f"coalesce({one}.said = 'delete' AND {other}.lacks AND {is_told}, false)"


def _pairs_off(topic: Column) -> Column:
    """Return whether each delete of a transaction is half of a pair, and each insert that lacks values."""
    window = Window.partitionBy(topic, F.expr(f"{_THIS}.transaction"))

    def count(of: str) -> Column:
        return F.count_if(F.expr(of)).over(window)

    pairs = count(_ENTERS)
    return (count(f"{_THIS}.said = 'delete' AND NOT {MOVED}") == pairs) & (count(f"{_THIS}.lacks") == pairs)
