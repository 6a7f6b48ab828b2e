"""What a partition cannot keep where it is a folder: its value stands in paths as a text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.names import quoted
from lakeward.core.errors import TableError

_NULLS: Final = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts that become NULL in a column that rows are partitioned by."""


def refuse_unkept(what: str, rows: DataFrame, partitions: Sequence[str], key: Sequence[str], format_: str) -> None:
    """Raise TableError for a row of which a partition would not keep a text: it would become NULL."""
    texts = [name for name, type_ in rows.dtypes if name in partitions and type_ == "string"]
    if not texts:
        return
    nulls = [F.col(quoted(name)).isin(*_NULLS) for name in texts]
    for row in rows.where(reduce(Column.__or__, nulls)).select(*map(quoted, {*texts, *key})).take(1):
        name = next(name for name in texts if row[name] in _NULLS)
        has = ", ".join(f"{column} {row[column]!r}" for column in key) or "it has no key"
        raise TableError(
            f"{what}: a row has {row[name]!r} in {name!r}, and {format_} would make it NULL",
            found=f"the table is partitioned by {name!r}, and no partition has that text; the row: {has}",
            todo="Nothing was applied. Drop the table together with what stands beside it, take another "
            "column for `partition_by`, and load it anew.",
        )
