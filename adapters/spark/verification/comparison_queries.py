"""Compare rows by Spark queries that return counts, hashes and a few keys: `core.verification.row_comparison`.

Each side is read once, down to the key and a hash of each row. The result is checkpointed: a database that is read
by single statements shows another state to each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.sql.keys import key_texts
from lakeward.adapters.spark.sql.names import BATCH, POSITION, quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.verification.compared_columns import ComparedColumn, ComparedColumns
from lakeward.core.verification.row_comparison import (
    MOST_NAMED,
    RANGES,
    Comparison,
    Difference,
    Kind,
    RangeSummary,
    Summary,
)

_KEY: Final = "k"
_HASH: Final = "h"
_STAMP: Final = "stamp"
_SIDE: Final = "is_source"
_RANGE: Final = "part"
_BOUNDS: Final = "bounds"
_SAMPLE: Final = 4000
"""The approximate number of keys from which the bounds of ranges are chosen."""


def digest_source(rows: DataFrame, columns: ComparedColumns) -> DataFrame:
    """Return the key of each source row, and a hash of its values in the types of the table.

    A value that does not fit the type of the table becomes NULL, and its hash equals that of no table value.
    """
    source_values = {column.name: quoted(column.source.name) for column in columns.columns}
    return _digest(rows, columns, source_values, "0L")


def digest_table(rows: DataFrame, columns: ComparedColumns) -> DataFrame:
    """Return the key and hash of each table row in the same way, with a number of the change that wrote it."""
    table_values = {column.name: quoted(column.name) for column in columns.columns}
    position_columns = [name for name in (*POSITION, BATCH) if name in rows.columns]
    return _digest(
        rows, columns, table_values, f"xxhash64({', '.join(position_columns)})" if position_columns else "0L"
    )


def _digest(rows: DataFrame, columns: ComparedColumns, cells: dict[str, str], stamp: str) -> DataFrame:
    values = {column.name: _value(column, cells[column.name]) for column in columns.columns}
    key = ", ".join(f"{text(f'k{i}')}, {values[name]}" for i, name in enumerate(columns.key))
    # A hash skips NULL, so the hash also covers which values are NULL.
    parts = [part for name, value in values.items() for part in (f"{cells[name]} IS NULL", value)]
    hash_ = f"xxhash64({', '.join(parts)})"
    digests = rows.selectExpr(f"named_struct({key}) AS {_KEY}", f"{hash_} AS {_HASH}", f"{stamp} AS {_STAMP}")
    return digests.localCheckpoint()


def _value(column: ComparedColumn, cell: str) -> str:
    """Return SQL for a value in the type of the table; trailing blanks of a padded text are removed."""
    value = f"try_cast({cell} AS {ddl(column.type)})"
    if column.is_padded and column.type.name == "string":
        return f"rtrim({value})"
    return value


def compare(
    source: DataFrame, table: DataFrame, columns: ComparedColumns, among: Collection[str] | None = None
) -> Comparison:
    """Compare both sides: ranges of the key first, then the keys of the ranges that differ."""
    rows = source.selectExpr(f"true AS {_SIDE}", "*").unionAll(table.selectExpr(f"false AS {_SIDE}", "*"))
    bounds_reached = [
        f"CASE WHEN get({_BOUNDS}, {place}) <= {_KEY} THEN 1 ELSE 0 END" for place in range(RANGES - 1)
    ]
    with_ranges = rows.crossJoin(F.broadcast(_bounds(rows))).selectExpr(
        _SIDE, _KEY, _HASH, _STAMP, f"{' + '.join(bounds_reached)} AS {_RANGE}"
    )
    ranges = _summarize(with_ranges)
    differing = [str(number) for number, one in ranges.items() if not one.is_equal]
    if not differing:
        return Comparison(ranges=[*ranges.values()])
    keys = _differing_keys(with_ranges.where(f"{_RANGE} IN ({', '.join(differing)})"), columns, among).persist()
    try:
        return Comparison(ranges=[*ranges.values()], kinds=_count(keys), differences=_name(keys))
    finally:
        keys.unpersist()


def _bounds(rows: DataFrame) -> DataFrame:
    """Return one row with the keys at which ranges of about equal size begin, chosen from a sample."""
    share = min(1.0, _SAMPLE / max(rows.count(), 1))
    sample = rows.sample(share, 0).agg(F.expr(f"array_sort(collect_set({_KEY})) AS keys"))
    at = ", ".join(f"get(keys, CAST(size(keys) * {place} / {RANGES} AS int))" for place in range(1, RANGES))
    return sample.selectExpr(f"array({at}) AS {_BOUNDS}").localCheckpoint()


def _key_text(key: str, columns: ComparedColumns) -> str:
    """Return SQL for a key as `adapters.spark.sql.keys.key_text` writes it."""
    texts = key_texts([(f"{key}.k{i}", column.type) for i, column in enumerate(columns.of_key)])
    return f"to_json(array({', '.join(texts)}))"


def _sums(side: str) -> list[str]:
    """Return SQL for the number of rows of a side and the sum of their hashes."""
    return [f"count_if({side})", f"coalesce({_sum(f'CASE WHEN {side} THEN {_HASH} END')}, 0)"]


def _sum(value: str) -> str:
    """Return SQL for the sum of 64-bit numbers, as a decimal that cannot overflow."""
    return f"sum(CAST({value} AS decimal(20,0)))"


def _summarize(with_ranges: DataFrame) -> dict[int, RangeSummary]:
    """Return by number what each side has in each range with rows."""
    sums = [F.expr(sql) for side in (_SIDE, f"NOT {_SIDE}") for sql in _sums(side)]
    return {
        number: RangeSummary(Summary(source_rows, int(source_hash)), Summary(table_rows, int(table_hash)))
        for number, source_rows, source_hash, table_rows, table_hash in with_ranges.groupBy(_RANGE)
        .agg(*sums)
        .orderBy(_RANGE)
        .collect()
    }


def _differing_keys(rows: DataFrame, columns: ComparedColumns, among: Collection[str] | None) -> DataFrame:
    """Return the keys that differ, with the rows and hashes of each side."""
    named = ("n_source", "h_source", "n_table", "h_table", _STAMP)
    sums = [*_sums(_SIDE), *_sums(f"NOT {_SIDE}"), _sum(_STAMP)]
    by_key = rows.groupBy(_KEY).agg(*(F.expr(f"{sql} AS {name}") for sql, name in zip(sums, named, strict=True)))
    by_key = by_key.where("n_source <> n_table OR h_source <> h_table")
    by_key = by_key.withColumn("key", F.expr(_key_text(_KEY, columns)))
    return by_key if among is None else by_key.where(F.col("key").isin([*among]))


def _name(keys: DataFrame) -> Sequence[Difference]:
    """Return the first keys that differ, in key order."""
    first_keys = (
        keys.orderBy(_KEY).select("key", "n_source", "h_source", "n_table", "h_table", _STAMP).limit(MOST_NAMED)
    )
    return [
        Difference(key, Summary(source_rows, int(source_hash)), Summary(table_rows, int(table_hash)), int(stamp))
        for key, source_rows, source_hash, table_rows, table_hash, stamp in first_keys.collect()
    ]


def _count(keys: DataFrame) -> dict[Kind, int]:
    """Return the number of keys of each kind. The kind depends only on the row counts, capped at two."""
    counts = keys.groupBy(F.expr("least(n_source, 2)"), F.expr("least(n_table, 2)")).count().collect()
    kinds: dict[Kind, int] = defaultdict(int)
    for source_rows, table_rows, number in counts:
        kinds[Difference("", Summary(source_rows), Summary(table_rows)).kind] += number
    return dict(kinds)
