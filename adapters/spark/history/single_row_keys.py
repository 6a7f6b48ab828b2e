"""Keys of a history that one whole row names, and of which nothing is known: what they become needs no fold.

A first load is nothing else: a row is a version. `lakeward.adapters.spark.merge.fold.batch_fold` folds all other
keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.version_rows import VersionRows
from lakeward.adapters.spark.merge.fold.fold_items import CHAIN, OLD_KEY
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import struct
from lakeward.adapters.spark.sql.types import ddl_of

_IS_WHOLE: Final = (
    f"{names.OPERATION} != 'delete' AND {OLD_KEY} IS NULL AND {names.INSTANT} IS NOT NULL "
    f"AND coalesce(size({names.UNSET}), 0) <= 0"
)
_IS_LONE, _IS_KNOWN = "_lakeward_is_lone", "_lakeward_is_known"


def part_lone(arrived: DataFrame, met: Sequence[DataFrame]) -> tuple[DataFrame, DataFrame]:
    """Part events into those that are alone in their chain and whole, and all others.

    `met` is what is known, with the chains that it is of.
    """
    alone = arrived.selectExpr("*", f"{_IS_WHOLE} AND count(*) OVER (PARTITION BY {CHAIN}) = 1 AS {_IS_LONE}")
    known = (
        reduce(DataFrame.union, [frame.select(CHAIN) for frame in met])
        .distinct()
        .selectExpr(CHAIN, f"true AS {_IS_KNOWN}")
    )
    parted = alone.join(known, CHAIN, "left").withColumn(_IS_LONE, F.expr(f"{_IS_LONE} AND {_IS_KNOWN} IS NULL"))
    parted = parted.drop(_IS_KNOWN).localCheckpoint()
    return parted.where(_IS_LONE).drop(_IS_LONE), parted.where(f"NOT {_IS_LONE}").drop(_IS_LONE)


def judged_alone(items: DataFrame, history: VersionRows, judged: DataFrame) -> DataFrame:
    """Return what becomes of chains with one item each, in the columns of those that were `judged` by a fold."""
    e = "item"
    verdict = struct(
        {
            "id": f"{e}.id",
            "operation": f"{e}.operation",
            "sequence": f"{e}.place.s",
            "key": f"{e}.key",
            "old": "string(NULL)",
            "content": f"{e}.content",
            "meets": "false",
            "verdict": "'applied'",
            "undecided": "false",
            "existing": "false",
            "missing": f"{e}.operation = 'update'",
            "nulled": "false",
        }
    )
    fresh = history.new(history.versions.first(e), f"{e}.cells")
    change = struct(
        {"key": f"{e}.key", "gone": "array()", "fresh": f"array({fresh})", "opened": "1", "wrong": "NULL"}
    )
    made = [CHAIN, "NULL", f"array({verdict})", f"array({change})"]
    typed = zip(made, judged.schema, strict=True)
    return items.selectExpr(*[f"CAST({sql} AS {ddl_of(field.dataType)}) AS {field.name}" for sql, field in typed])
