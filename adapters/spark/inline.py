"""Small frames whose rows stand in the query itself: nothing is sent to Java but a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.spark.names import quoted, text


def inline(
    spark: SparkSession, columns: Mapping[str, str], rows: Iterable[Sequence[str | int | bool]]
) -> DataFrame:
    """Return a frame of these rows; `columns` are their names and Spark types."""
    listed = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    if not listed:
        return spark.createDataFrame([], ", ".join(f"{quoted(name)} {type_}" for name, type_ in columns.items()))
    plain = [f"c{index}" for index in range(len(columns))]
    typed = [f"CAST(c{i} AS {type_}) AS {quoted(name)}" for i, (name, type_) in enumerate(columns.items())]
    return spark.sql(f"SELECT {', '.join(typed)} FROM VALUES {listed} AS t({', '.join(plain)})")


def _literal(value: str | int | bool) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"'{value}'"  # a number so great or so small that no literal could be written as one
        case _:
            return text(value)
