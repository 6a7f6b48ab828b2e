"""Write the versions of keys with a single whole event and no earlier state, without a fold.

In a first load every key is such a key: its row becomes one version.
`lakeward.adapters.spark.merge.fold.batch_fold` folds all other keys.
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
_IS_SINGLE, _IS_KNOWN = "_lakeward_is_lone", "_lakeward_is_known"


def split_single_events(new_events: DataFrame, known_frames: Sequence[DataFrame]) -> tuple[DataFrame, DataFrame]:
    """Split events into whole events that are the only ones of their chain, and all others.

    `known_frames` are the frames of known state; a chain in any of them is not single.
    """
    flagged = new_events.selectExpr(
        "*", f"{_IS_WHOLE} AND count(*) OVER (PARTITION BY {CHAIN}) = 1 AS {_IS_SINGLE}"
    )
    known_chains = (
        reduce(DataFrame.union, [frame.select(CHAIN) for frame in known_frames])
        .distinct()
        .selectExpr(CHAIN, f"true AS {_IS_KNOWN}")
    )
    events = flagged.join(known_chains, CHAIN, "left").withColumn(
        _IS_SINGLE, F.expr(f"{_IS_SINGLE} AND {_IS_KNOWN} IS NULL")
    )
    events = events.drop(_IS_KNOWN).localCheckpoint()
    return events.where(_IS_SINGLE).drop(_IS_SINGLE), events.where(f"NOT {_IS_SINGLE}").drop(_IS_SINGLE)


def judge_single_events(items: DataFrame, history: VersionRows, folded: DataFrame) -> DataFrame:
    """Return the results of chains with one item each, in the columns of the folded chains (`folded`)."""
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
    columns = [CHAIN, "NULL", f"array({verdict})", f"array({change})"]
    typed = zip(columns, folded.schema, strict=True)
    return items.selectExpr(*[f"CAST({sql} AS {ddl_of(field.dataType)}) AS {field.name}" for sql, field in typed])
