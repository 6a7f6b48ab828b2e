"""What companion and quarantine have in common: keys as people write them, rows made whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame

from lakeward.adapters.spark.sql import keys, names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.schema import Schema


def told_apart_by(dimension: Dimension) -> Sequence[str]:
    """Return the columns that tell the rows of a table apart: its key, or the place of each row's fact."""
    return dimension.key or names.POSITION


def key_text(dimension: Dimension, of: str = "") -> str:
    """Return the text of a key, NULL where a part of it is NULL; as SQL.

    `of` is a prefix: that of a struct that has the key.
    """
    any_null = " OR ".join(f"{of}{quoted(name)} IS NULL" for name in dimension.key) or "true"
    return f"CASE WHEN NOT ({any_null}) THEN {keys.key_text(keys.key_columns(dimension), of)} END"


def completed(frame: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """Return a frame with exactly these columns, NULL where it has none of that name."""
    has = set(frame.columns)
    return frame.selectExpr(
        *[
            f"CAST({quoted(name) if name in has else 'NULL'} AS {type_}) AS {quoted(name)}"
            for name, type_ in types.items()
        ]
    )


def whole(schema: Schema, frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of frames in one, which is written as one file, with exactly the columns of a schema."""
    types = {column.name: ddl(column.type) for column in schema}
    return reduce(DataFrame.unionByName, [completed(frame, types) for frame in frames]).coalesce(1)
