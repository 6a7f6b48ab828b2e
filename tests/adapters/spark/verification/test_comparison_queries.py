"""Rows that Spark compares: values that are alike hash alike, others do not, and it finds what the core does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.spark.verification import comparison_queries
from lakeward.core.schema import parse_type
from lakeward.core.settings.source_catalogue import SourceColumn
from lakeward.core.verification.compared_columns import ComparedColumn, ComparedColumns
from lakeward.core.verification.row_comparison import Comparison, Kind, RowDigest, compare_rows

pytestmark = pytest.mark.spark


def columns(key: Sequence[str], **types: tuple[str, str]) -> ComparedColumns:
    """Return columns by their names, which the source writes in capitals, with the types of source and table."""
    made = [
        ComparedColumn(
            name,
            SourceColumn(name=name.upper(), written=there, type=parse_type(there)),
            parse_type(there),
            parse_type(here),
            is_padded=name.startswith("padded"),
        )
        for name, (there, here) in types.items()
    ]
    return ComparedColumns(made, key)


def compare(source: DataFrame, table: DataFrame, by: ComparedColumns, **options: Any) -> Comparison:
    digests = comparison_queries.digest_source(source, by), comparison_queries.digest_table(table, by)
    return comparison_queries.compare(*digests, by, **options)


TIME = "2026-03-29 02:30:00.123456"
VALUES = (
    ("decimal(10,4)", "decimal(10,2)", "1.5", "1.50"),
    ("int", "bigint", "7", "7"),
    ("double", "float", "0.1", "0.1"),
    ("float", "float", "CAST('NaN' AS float)", "CAST('NaN' AS float)"),
    ("double", "double", "0.0D", "-0.0D"),
    ("timestamp_ntz", "timestamp", f"'{TIME}'", f"'{TIME}Z'"),
    ("boolean", "int", "true", "1"),
    ("binary", "binary", "X'00ff'", "X'00ff'"),
    ("string", "string", "'a '", "'a '"),
    ("string", "string", "NULL", "NULL"),
)


def test_values_of_the_source_are_compared_in_the_type_of_the_table(spark: SparkSession) -> None:
    types = {f"x{n}": (there, here) for n, (there, here, *_) in enumerate(VALUES)}
    by = columns(["id"], id=("int", "int"), padded=("string", "string"), **types)
    given = [f"CAST({value} AS {there}) AS X{n}" for n, (there, _, value, _) in enumerate(VALUES)]
    stored = [f"CAST({value} AS {here}) AS x{n}" for n, (_, here, _, value) in enumerate(VALUES)]
    source = spark.range(1).selectExpr("1 AS ID", "'ab   ' AS PADDED", *given)
    table = spark.range(1).selectExpr("1 AS id", "'ab' AS padded", *stored)
    assert compare(source, table, by).differing == 0


def test_what_differs_is_told_apart(spark: SparkSession) -> None:
    by = columns(["id"], id=("int", "int"), a=("string", "string"), b=("string", "string"), n=("bigint", "int"))
    pairs = (
        ("'a', NULL, 1L", "NULL, 'a', 1"),
        ("'a', '', 1L", "'a', NULL, 1"),
        ("'ab', 'c', 1L", "'a', 'bc', 1"),
        ("'a', 'b', 3000000000L", "'a', 'b', NULL"),
        ("'a', 'b ', 1L", "'a', 'b', 1"),
    )
    there = ", ".join(f"({n}, {value})" for n, (value, _) in enumerate(pairs))
    here = ", ".join(f"({n}, {value})" for n, (_, value) in enumerate(pairs))
    source = spark.sql(f"SELECT * FROM VALUES {there} AS t(ID, A, B, N)")
    table = spark.sql(f"SELECT * FROM VALUES {here} AS t(id, a, b, n)")
    stamps = []
    for batch in (1, 2):
        found = compare(source, table.selectExpr("*", f"{batch} AS _lakeward_batch"), by)
        assert found.kinds == {Kind.CHANGED: len(pairs)}
        stamps.append([one.stamp for one in found.differences])
    assert all(one != other for one, other in zip(*stamps, strict=True)), "what a row comes from is told"


def test_it_finds_what_the_core_does(spark: SparkSession) -> None:
    draw = random.Random(7)
    by = columns(["a", "b"], a=("string", "string"), b=("int", "int"), value=("bigint", "bigint"))
    rows = [(draw.choice(["", "x", "é", None]), key, key * 7) for key in range(300)]
    there = [row for row in rows if row[1] != 17] + [("twice", 5, 1), ("twice", 5, 1)]
    here = [(a, b, value + (b == 250)) for a, b, value in rows if b != 42] + [("x", 999, 0)]
    source, table = (
        spark.createDataFrame(side, f"{a} string, {b} int, {value} bigint")
        for side, (a, b, value) in ((there, ("A", "B", "VALUE")), (here, ("a", "b", "value")))
    )
    found = compare(source, table, by)
    core = compare_rows(*(map(_digest, side) for side in (there, here)))
    assert (found.source_rows, found.table_rows, len(found.ranges)) == (301, 300, 16)
    assert [one.key for one in found.differences] == [one.key for one in core.differences]
    assert [one.kind for one in found.differences] == [one.kind for one in core.differences]
    assert found.kinds == core.kinds
    assert 0 < sum(one.is_equal for one in found.ranges) < 16
    named = found.differences[1].key
    assert [one.key for one in compare(source, table, by, among={named}).differences] == [named]


def _digest(row: tuple[str | None, int, int]) -> RowDigest:
    text, number, value = row
    written = "null" if text is None else f'"{text}"'
    return RowDigest((text is not None, text or "", number), f'[{written},"{number}"]', value)
