"""The text of a key is one, wherever it is made: what holds a key and what comes later of it meet."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.formats.shared.side_tables import keys as side_table_keys
from lakeward.adapters.spark.merge.fold.fold_items import Key
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import canonical
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.text.literals import key_text, needs_java, same_key, text_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

WHOLE = [
    sign * float(number)
    for digits in range(1, 17)
    for number in (10 ** (digits - 1), 10**digits - 1, 1234567890123456 % 10**digits, 2**53 - 1)
    for sign in (1, -1)
    if number < 2**53
]
VALUES: dict[str, list[Any]] = {
    "bigint": [-5, 5],
    "decimal(8,2)": [Decimal("1.50"), Decimal(0)],
    "double": [-0.0, 0.0, 1.1, 1e300, float("nan"), *WHOLE],
    "float": [-0.0, 0.0, 1.5, float("inf")],
    "boolean": [True, False],
    "date": [date(1, 1, 1)],
    "timestamp": [datetime(2026, 11, 21, 10, 0, 0, 500_000, UTC)],
    "string": ["", "a b", '"', "Köln 🚉", "\x1b", "\\u001b", "\u2028"],
    "binary": [b"", b"\xca", b"\xcb", b"0x"],
}


def test_texts_are_equal_where_keys_are_and_the_core_reads_them(spark: SparkSession) -> None:
    for type_, values in VALUES.items():
        schema = Schema((Column("odd `k`", parse_type(type_)),))
        dimension = Dimension(name=TableName("shop", "item"), schema=schema, key=("odd `k`",))
        rows = spark.createDataFrame(
            [(value,) for value in values], f"{quoted('odd `k`')} {ddl(schema.columns[0].type)}"
        )
        both = [Key(dimension).text(), side_table_keys.key_text(dimension)]
        found = [
            tuple(row)
            for row in rows.selectExpr(*[f"from_json({one}, 'array<string>')[0]" for one in both]).collect()
        ]
        texts = [text for (text,) in rows.selectExpr(Key(dimension).text()).collect()]
        assert all(one == other for one, other in found), type_
        for (one, _), left in zip(found, values, strict=True):
            text = texts.pop(0)
            if not needs_java(dimension, (canonical(left),)):
                assert text == key_text(dimension, (canonical(left),)), type_
            assert same_key(dimension, [one], [text_of(left, schema.columns[0].type)]), (type_, one)
            for (other, _), right in zip(found, values, strict=True):
                assert (one == other) is (canonical(left) == canonical(right)), (type_, one, other)


def test_java_is_needed_for_digits_that_differ_between_its_versions() -> None:
    def needs(type_: str, value: Any) -> bool:
        columns = (Column("id", parse_type(type_)),)
        return needs_java(Dimension(name=TableName("shop", "item"), schema=Schema(columns), key=("id",)), (value,))

    assert not any(needs("double", value) for value in (*WHOLE, 0.0, "NaN"))
    assert all(needs("double", value) for value in (0.5, float(2**53), float("inf")))
    assert needs("float", 1.0)
    assert not needs("bigint", 1)
