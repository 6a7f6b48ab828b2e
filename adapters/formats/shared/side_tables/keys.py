"""Keys of the side tables as texts, and frames completed to the columns of a side table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame

from lakeward.adapters.spark.sql import keys, names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.schema import Schema


def identity_columns(dimension: Dimension) -> Sequence[str]:
    """Return the columns that identify a row: the key, or the position of its event in a table without a key."""
    return dimension.key or names.POSITION


def key_text(dimension: Dimension, of: str = "") -> str:
    """Return SQL for the text of a key, NULL where a part of the key is NULL.

    `of` is the prefix of a struct that holds the key, such as "old.".
    """
    any_null = " OR ".join(f"{of}{quoted(name)} IS NULL" for name in dimension.key) or "true"
    return f"CASE WHEN NOT ({any_null}) THEN {keys.key_text(keys.key_columns(dimension), of)} END"


def with_exact_columns(frame: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """Return a frame with exactly these columns, NULL where it has none of that name."""
    names_present = set(frame.columns)
    return frame.selectExpr(
        *[
            f"CAST({quoted(name) if name in names_present else 'NULL'} AS {type_}) AS {quoted(name)}"
            for name, type_ in types.items()
        ]
    )


def combine_frames(schema: Schema, frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of several frames in one frame of one partition, with exactly the columns of a schema."""
    types = {column.name: ddl(column.type) for column in schema}
    return reduce(DataFrame.unionByName, [with_exact_columns(frame, types) for frame in frames]).coalesce(1)
