"""Sets of texts: Spark SQL finds in them what Python does."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.formats.shared.rows.text_sets import TextSet
from lakeward.adapters.spark.session.compatibility import from_arrow

PIECES = ["", *",:/.", "..", ".hoodie", "__null__", *"aAé \n\r%_\\'\u2028"]
SETS = [
    TextSet(words=("", "__null__", "it's \\ a")),
    TextSet(pairs=((",", ":"), (":", ","))),
    TextSet(parts=("", ".", ".."), beginnings=(".hoodie",)),
    TextSet(words=("a",), pairs=((",", ":"),), parts=("..",)),
]


@pytest.mark.spark
def test_sql_finds_what_python_does(spark: SparkSession) -> None:
    random = Random(0)
    drawn = ["".join(random.choices(PIECES, k=random.randrange(5))) for _ in range(2000)]
    texts = sorted({*drawn, "it's \\ a"})
    rows = from_arrow(spark, pa.table({"odd `name": [*texts, None]}))
    found = rows.selectExpr("*", *[one.sql("odd `name") for one in SETS]).collect()
    assert {row[0]: row[1:] for row in found} == {
        **{text: tuple(one.has(text) for one in SETS) for text in texts},
        None: (None,) * len(SETS),
    }
    assert all({one.has(text) for text in texts} == {True, False} for one in SETS)
