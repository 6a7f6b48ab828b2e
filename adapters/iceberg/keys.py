"""What companion and quarantine have in common: keys as people write them, rows made whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from lakeward.adapters.spark.names import quoted


def key_text(key: Sequence[str], of: str = "") -> str:
    """Return a key as a JSON list of texts, NULL where a part of it is NULL; as SQL.

    `of` is a prefix: that of a struct that has the key.
    """
    parts = ", ".join(f"string({of}{quoted(name)})" for name in key)
    any_null = " OR ".join(f"{of}{quoted(name)} IS NULL" for name in key) or "true"
    return f"CASE WHEN NOT ({any_null}) THEN to_json(array({parts})) END"


def completed(frame: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """Return a frame with exactly these columns, NULL where it has none of that name."""
    has = set(frame.columns)
    return frame.selectExpr(
        *[
            f"CAST({quoted(name) if name in has else 'NULL'} AS {type_}) AS {quoted(name)}"
            for name, type_ in types.items()
        ]
    )
