"""Frames with columns of a source: what is put beside them meets none of these, whatever they are called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from frames import to_frame
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.spark.joined.joined_rows import join_frames
from lakeward.adapters.spark.joined.source_frames import AT, renamed, sources_of
from lakeward.adapters.spark.merge.fold.fold_items import Key
from lakeward.adapters.spark.merge.fold.retention import trim_chains
from lakeward.adapters.spark.merge.resolution import ID, as_rejects, reject_each, stored_column
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Sequences, SourceOrder
from lakeward.core.history.options import History
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import JoinDeclaration, Source
from lakeward.core.merge.change_log import Reason
from lakeward.core.schema import Column, Schema, Type

pytestmark = pytest.mark.spark

COLUMNS = ("is_wrong", "why", "said", "reason", "message", "first", "last", "base", "odd.name", "tick`s")


def dimension(**more: Any) -> Dimension:
    schema = Schema(tuple(Column(name, Type("int")) for name in COLUMNS))
    return Dimension(name=TableName("shop", "item"), schema=schema, key=COLUMNS, **more)


def rows(spark: SparkSession, **more: str) -> DataFrame:
    """Return one row, which has its place in each column of the source, and what is given as SQL."""
    own = [f"{number} AS {quoted(name)}" for number, name in enumerate(COLUMNS)]
    return spark.range(1).selectExpr(*own, *[f"{sql} AS {name}" for name, sql in more.items()])


def own(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.select(*map(quoted, COLUMNS)).collect()]


ROW = tuple(range(len(COLUMNS)))


def test_events_that_are_refused_keep_their_columns(spark: SparkSession) -> None:
    plan: Any = SimpleNamespace(dimension=dimension())
    texts = dict.fromkeys((names.REASON, names.DETAIL, names.TEXT), "string(NULL)")
    given = {names.OPERATION: "'update'", names.TIME: "0L", names.ARRIVAL: "1L", **texts}
    frame = rows(spark, **given)
    refused = spark.range(1).selectExpr(f"4L AS {ID}", "'key_shift' AS reason", "'it is so' AS message")
    for marked in (
        reject_each(frame, plan, refused),
        as_rejects(frame, plan, refused, Reason.KEY_SHIFT, "it is so"),
    ):
        assert set(marked.columns) == set(frame.columns)
        assert own(marked) == [ROW]
        assert [row[:] for row in marked.select(names.REASON, names.DETAIL).collect()] == [
            ("key_shift", "it is so")
        ]


def test_what_the_mark_has_passed_is_forgotten_up_to_a_transaction_that_it_parts(spark: SparkSession) -> None:
    table = dimension(sequences=Sequences.PLACES)
    place = {names.SEQUENCE: "CAST(5 AS decimal(38,0))", names.OBJECT: "1L", names.ROW: "1L"}
    expressions = {
        names.OPERATION: "'update'",
        names.TRANSACTION: "'t'",
        names.UNSET: "CAST(NULL AS array<string>)",
    }
    expressions[names.BATCH] = "1L"
    events = rows(spark, **place, **expressions)
    later = rows(spark, **{**place, names.SEQUENCE: "CAST(7 AS decimal(38,0))", names.ROW: "2L"}, **expressions)
    bases = rows(spark, **{stored_column(name): sql for name, sql in place.items()}, **{names.BATCH: "1L"})
    pinned = rows(spark, **place).limit(0)
    for mark, left in ((6, 2), (7, 0)):
        trimmed = trim_chains(table, SourceOrder(1, mark), events.unionByName(later), bases, pinned)
        assert own(trimmed.events) == [ROW] * left
        assert own(trimmed.bases) == ([ROW] if left else [])


def test_keys_have_their_texts_without_their_columns(spark: SparkSession) -> None:
    assert Key(dimension()).with_key_text_only(rows(spark)).columns == ["_lakeward_key_text"]


def test_columns_that_change_names_with_each_other(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr("0 AS k0", "1 AS k1", "2 AS `odd.name`")
    found = renamed(frame, ["k0", "k1"], ["k1", "k0"])
    assert [row.asDict() for row in found.collect()] == [{"k1": 0, "k0": 1, "odd.name": 2}]


def test_joined_rows_over_time_are_told_from_what_stands_for_none(spark: SparkSession) -> None:
    of = {"item": ("a", "b", "x"), "other": ("a", "y")}
    tables = {
        TableName("shop", name): Dimension(
            name=TableName("shop", name),
            schema=Schema(tuple(Column(column, Type("int")) for column in columns)),
            key=columns[:-1],
            history=History(),
        )
        for name, columns in of.items()
    }
    sources = {
        "item": Source(table=TableName("shop", "item"), columns={"k1": "a", "k0": "b", "told": "x"}),
        "other": Source(table=TableName("shop", "other"), columns={"_made": "y"}, on=("a",), to=("a",)),
    }
    joined = JoinDeclaration(name=TableName("dw", "joined"), sources=sources, unknown={}, history=History())
    joining = validate_joined(joined, tables)
    versions = {"item": [(1, 2, 7, 0, 0, None)], "other": [(1, 9, 5, 5, None)]}
    frames = {}
    for name, side in sources_of(joining).items():
        types = ", ".join(f"{column} int" for column in of[name])
        frame = to_frame(spark, versions[name], f"{types}, known bigint, since bigint, until bigint")
        frames[name] = side.select_needed(frame, "known", "since", "until")
    found = join_frames(joining, frames, None).select("k1", "k0", "told", "_made", AT).collect()
    assert {tuple(row) for row in found if row["k1"] == 1} == {(1, 2, 7, None, 0), (1, 2, 7, 9, 5)}
    assert [row["told"] for row in found if row["k1"] != 1] == [None]
