"""Linking of key changes: a key change comes as a delete and an insert, which are paired here without headers.

debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-primary-key-updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakeward.adapters.sources.messages.message import TOPIC

LINKED_KEY: Final = "_lakeward_left"
MOVED: Final = "_lakeward_moved"
"""Columns: the old key of a row in the insert of a key change, and whether a message is the delete of one."""

_THIS, _BEFORE, _AFTER = "_lakeward_this", "_lakeward_row_before", "_lakeward_row_after"
_ENTERS, _LEAVES, _IS_SURE = "_lakeward_enters", "_lakeward_leaves", "_lakeward_is_sure"
_IS_LEFT = "_lakeward_is_left"


@dataclass(frozen=True, slots=True)
class Half:
    """The properties by which a message is recognised as half of a key change, each as SQL.

    `operation` is its operation, `transaction` its transaction. `keys` are the cells of its key, NULL unless all
    are present. `lacks_values` says that it is an insert with values that were not logged, `is_row` that it has a
    row at all: a tombstone may be between the two halves. If headers mark both halves, which are applied as delete
    and insert: `key` is the text of the message's key, `gets_key` and `leaves_key` say that the row gets or leaves
    that key, and `other` is the other key.
    """

    operation: str
    transaction: str
    keys: str
    lacks_values: str
    is_row: str
    key: str
    gets_key: str
    leaves_key: str
    other: str


def link_key_changes(
    messages: DataFrame, half: Half, operation: str, order: Sequence[str], partition: str | None = None
) -> DataFrame:
    """Link inserts that lack values with the deletes before them in `order`, if headers did not link them.

    Inserts are always logged whole, so one that lacks values is half of a key change. The other half is the row
    before it, a delete of the same transaction. Without that delete the insert becomes an update of a part of a
    row: it waits, and its missing values are not NULL. `operation` is the column with the operation of a message.

    In a topic of several partitions (`partition`, as SQL) the halves may be in different ones, and neighbours in a
    partition need not be neighbours in the log. So a pair counts only if all deletes and all such inserts of its
    transaction form pairs: a false pair would leave one of them without a partner.

    If a row gets a key that another row leaves later in the transaction, the delete of that other row would remove
    it. Such an insert is linked with its old key by the headers, and becomes an update.
    """
    values = f"'operation', {half.operation}, 'transaction', {half.transaction}, 'keys', {half.keys}"
    row_struct = f"named_struct({values}, 'lacks', {half.lacks_values} AND {LINKED_KEY} IS NULL)"
    topic = F.expr(f"coalesce({TOPIC}, '')")
    window = Window.partitionBy(topic, F.expr(half.is_row), F.expr(partition or "''")).orderBy(*order)
    neighbours = {_BEFORE: F.lag(_THIS).over(window), _AFTER: F.lead(_THIS).over(window)}
    frame = messages.selectExpr("*", f"{row_struct} AS {_THIS}").withColumns(neighbours)
    frame = frame.selectExpr(
        "*", f"{_is_pair(_BEFORE, _THIS)} AS {_ENTERS}", f"{_is_pair(_THIS, _AFTER)} AS {_LEAVES}"
    )
    frame = frame.withColumn(_IS_SURE, F.lit(True) if partition is None else _has_only_pairs(topic))
    later_rows = Window.partitionBy(topic, F.expr(half.transaction), F.expr(half.key)).orderBy(*order)
    later_rows = later_rows.rowsBetween(1, Window.unboundedFollowing)
    is_left = F.coalesce(F.max(F.expr(half.leaves_key)).over(later_rows), F.lit(False))
    gets_other_key = F.expr(f"{half.gets_key} AND {half.transaction} IS NOT NULL")
    frame = frame.withColumn(_IS_LEFT, gets_other_key & is_left)
    columns = [name for name in messages.columns if name not in (LINKED_KEY, MOVED, operation)]
    return frame.selectExpr(
        *columns,
        f"coalesce({LINKED_KEY}, CASE WHEN {_IS_LEFT} THEN {half.other} "
        f"WHEN {_ENTERS} AND {_IS_SURE} THEN {_BEFORE}.keys END) AS {LINKED_KEY}",
        f"{MOVED} OR ({_LEAVES} AND {_IS_SURE}) AS {MOVED}",
        f"CASE WHEN {_THIS}.lacks OR {_IS_LEFT} THEN 'update' ELSE {operation} END AS {operation}",
    )


def _is_pair(one: str, other: str) -> str:
    is_same_transaction = f"{one}.keys IS NOT NULL AND {one}.transaction = {other}.transaction"
    return f"coalesce({one}.operation = 'delete' AND {other}.lacks AND {is_same_transaction}, false)"


def _has_only_pairs(topic: Column) -> Column:
    """Return whether each delete and each insert that lacks values is half of a pair, in a transaction."""
    window = Window.partitionBy(topic, F.expr(f"{_THIS}.transaction"))

    def count(condition: str) -> Column:
        return F.count_if(F.expr(condition)).over(window)

    pairs = count(_ENTERS)
    return (count(f"{_THIS}.operation = 'delete' AND NOT {MOVED}") == pairs) & (count(f"{_THIS}.lacks") == pairs)
