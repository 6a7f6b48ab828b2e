"""Rules in Spark are what plain Python says they are, for rows, rejects and facts alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from rule_lists import SECRETS, SOURCE, cells, quality, rules

from lakeward.adapters.memory import Frame, facts_of
from lakeward.adapters.memory.shaper import MemoryShaper
from lakeward.adapters.spark.frames.event_frame import EVENT_COLUMNS
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.adapters.spark.shaping.column_rules import pads
from lakeward.adapters.spark.shaping.shaper import SparkShaper
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.types import to_spark
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position, canonical
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.ports import Batch
from lakeward.core.shaping.column_rules import Hash
from lakeward.core.shaping.shape import shape
from lakeward.core.shaping.shaped_source import TableRules

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

DIMENSION = Dimension(name=TableName("shop", "item"), schema=SOURCE, key=("id",))
OBJECTS = [SourceObject("1", 1, 1, 0), SourceObject("2", 2, 1, 0)]


def events(random: Random, count: int) -> list[ChangeEvent | Reject]:
    """Return a full load in object 1, with keys that come twice, and changes in object 2."""
    found: list[ChangeEvent | Reject] = []
    for row in range(count):
        is_load = row < count // 2
        position = Position(1, LOAD_SEQUENCE if is_load else row, 1 if is_load else 2, row)
        operation = Operation.READ if is_load else random.choice([Operation.UPDATE, Operation.DELETE])
        key = random.randrange(count)
        if random.random() < 0.1:
            found.append(Reject(position, Reason.CAST, ((key,),)))
            continue
        values = cells(random, key)
        found.append(ChangeEvent(operation=operation, position=position, key=(key,), cells=values))
    return found


def frame(spark: SparkSession, items: Frame) -> DataFrame:
    rows = [_row(item, arrival) for arrival, item in enumerate(items)]
    arrow = {c.name: pa.array([row[c.name] for row in rows], _arrow(str(c.type))) for c in SOURCE}
    types = {name: pa.int64() for name in (names.SEQUENCE, names.OBJECT, names.ROW, names.ARRIVAL, names.TIME)}
    for name in EVENT_COLUMNS:
        arrow[name] = pa.array([row[name] for row in rows], types.get(name, pa.string()))
    made = from_arrow(spark, pa.table(arrow))
    return made.withColumn("local", made["local"].cast("timestamp_ntz"))  # Arrow's becomes a point in time


def _row(item: ChangeEvent | Reject, arrival: int) -> dict[str, Any]:
    is_event = isinstance(item, ChangeEvent)
    values = dict(item.cells) if isinstance(item, ChangeEvent) else {"id": item.keys[0][0]}
    return {
        **dict.fromkeys(SOURCE.names),
        **values,
        names.OPERATION: item.operation.value if isinstance(item, ChangeEvent) else "update",
        names.SEQUENCE: item.position.sequence,
        names.OBJECT: item.position.object,
        names.ROW: item.position.row,
        names.ARRIVAL: arrival,
        names.TIME: None,
        names.REASON: None if is_event else "cast",
        names.DETAIL: None if is_event else "spoilt",
        names.TEXT: f"row {arrival}",
    }


def _arrow(type_: str) -> pa.DataType:
    return {
        "int": pa.int32(),
        "bigint": pa.int64(),
        "string": pa.string(),
        "decimal(8,2)": pa.decimal128(8, 2),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "struct<x: int, y: string>": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    }[type_]


def found_rows(shaped: DataFrame, columns: Sequence[str]) -> Mapping[int, Any]:
    """Return by arrival what stands of a row: its cells, or why it cannot be applied."""
    rows = to_arrow(shaped).to_pylist()
    return {row[names.ROW]: row[names.REASON] or {name: _plain(row[name]) for name in columns} for row in rows}


def expected_rows(items: Frame, columns: Sequence[str]) -> Mapping[int, Any]:
    return {
        item.position.row: {name: _plain(item.cells[name]) for name in columns}
        if isinstance(item, ChangeEvent)
        else item.reason.value
        for item in items
    }


def _plain(value: object) -> object:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.timestamp()
    return canonical(value)


@pytest.mark.parametrize("seed", range(12))
def test_spark_does_what_the_model_says(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    columns = rules(random, random.randrange(1, 8))
    schema = shape(columns, SOURCE).schema
    table = TableRules(columns=columns, quality=quality(random, schema, random.randrange(4)), source=SOURCE)
    items = events(random, 60)
    objects = [
        ObjectFacts(item, sum(e.position.object == item.order for e in items), is_load=item.order == 1)
        for item in OBJECTS
    ]
    facts = facts_of(DIMENSION, items, objects)
    by_model = MemoryShaper(table, SECRETS).shape(Batch(items, facts), DIMENSION, 1)
    shaper = SparkShaper(table, lambda: spark, SECRETS.__getitem__)
    shaper.check()
    by_spark = shaper.shape(Batch(frame(spark, items), facts), DIMENSION, 1)
    try:
        found = found_rows(by_spark.batch.frame, schema.names)
        for row, wanted in expected_rows(by_model.batch.frame, schema.names).items():
            assert found[row] == wanted, columns
        for name in ("schema", "operations", "rejects", "least", "greatest", "needs", "warnings", "read"):
            assert getattr(by_spark.batch.facts, name) == getattr(by_model.batch.facts, name), name
        types = {field.name: field.dataType for field in by_spark.batch.frame.schema}
        assert {c.name: to_spark(c.type) for c in schema}.items() <= types.items()
        counted = {rule.column for rule in table.quality if hasattr(rule, "most") and rule.kind == "null_share"}
        for one, other in zip(by_spark.inputs, by_model.inputs, strict=True):
            assert (one.name, one.rows, one.is_load) == (other.name, other.rows, other.is_load)
            assert {n: one.nulls.get(n, 0) for n in counted} == {n: other.nulls[n] for n in counted}
    finally:
        by_spark.batch.close()


def test_a_secret_stands_in_no_text_of_the_query(spark: SparkSession) -> None:
    rule = Hash(column="word", key="env:PEPPER")
    shaper = SparkShaper(TableRules(columns=(rule,), source=SOURCE), lambda: spark, SECRETS.__getitem__)
    items = events(Random(1), 4)
    batch = Batch(frame(spark, items), facts_of(DIMENSION, items, [ObjectFacts(item, 2) for item in OBJECTS]))
    shaped = shaper.shape(batch, DIMENSION, 1).batch
    plan = str(shaped.frame._jdf.queryExecution().toString())  # type: ignore[operator]
    assert "sha2" in plan
    for secret in (SECRETS["env:PEPPER"], *pads(SECRETS["env:PEPPER"])):
        assert secret.hex() not in plan.lower()
        assert secret.decode("latin-1") not in plan
        assert ", ".join(map(str, secret[:8])) not in plan
    shaped.close()
