"""Rows as text: small frames inside a query, and rows as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.spark.sql.names import quoted, text


def inline(
    spark: SparkSession, columns: Mapping[str, str], rows: Iterable[Sequence[str | int | bool | None]]
) -> DataFrame:
    """Return a frame of these rows; `columns` are their names and Spark types."""
    row_texts = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    if not row_texts:
        return spark.createDataFrame([], ", ".join(f"{quoted(name)} {type_}" for name, type_ in columns.items()))
    plain = [f"c{index}" for index in range(len(columns))]
    typed = [f"CAST(c{i} AS {type_}) AS {quoted(name)}" for i, (name, type_) in enumerate(columns.items())]
    return spark.sql(f"SELECT {', '.join(typed)} FROM VALUES {row_texts} AS t({', '.join(plain)})")


def _literal(value: str | int | bool | None) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int():
            return f"'{value}'"  # quoted: not every bigint or decimal has a literal
        case _:
            return text(value)


def as_json(columns: Iterable[str]) -> str:
    """Return SQL for columns as one JSON text without loss: with NULLs and microseconds."""
    return f"to_json(struct({', '.join(columns)}), {_options(ignoreNullFields='false')})"


def of_json(value: str, columns: Mapping[str, str], broken: str) -> str:
    """Return SQL for a struct read from the text of `as_json`; `columns` are their names and Spark types.

    The field called `broken` is NULL if all of the text fits.
    """
    fields = ", ".join(f"{quoted(name)} {type_}" for name, type_ in {**columns, broken: "string"}.items())
    return f"from_json({value}, {text(fields)}, {_options(columnNameOfCorruptRecord=broken)})"


_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


def _options(**more: str) -> str:
    options = {"timestampFormat": f"{_MOMENT}XXX", "timestampNTZFormat": _MOMENT, **more}
    return f"map({', '.join(f'{text(name)}, {text(value)}' for name, value in options.items())})"
