"""Mistakes in code of the Delta adapter alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from mutations import Break, Method, broken, patched, wrapped
from pyroaring import BitMap64
from pyspark.sql import functions as F
from resolution_switches import use_spark

from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.adapters.formats.delta.writes import change, deletion_vectors
from lakeward.adapters.formats.delta.writes.change import Change
from lakeward.adapters.spark.merge.resolution import POS


def _delete_next_row(right: Method, own: Change, places: pa.Table | None) -> Any:
    if places is None:
        return False
    return right(own, places.drop_columns([POS]).append_column(POS, pc.add(places[POS], 1)))


FORGETS_VECTORS_IN_SPARK = broken(
    "replaces a deletion vector without keeping its deletes, in Spark",
    use_spark,
    wrapped(change, "inline", lambda right, spark, types, rows: right(spark, types, [(u, None) for u, _ in rows])),
)
LOSES_ROWS = broken(
    "rewrites a file with only the new rows, without a check",
    wrapped(Change, "rewrite", lambda right, *arguments: right(*arguments).limit(0)),
    patched(Change, "check", lambda *_: None),
)
LONG = frozenset({FORGETS_VECTORS_IN_SPARK})
"""Mistakes that take long. The gate tries the same one without Spark, and another one with it."""

BROKEN: Mapping[Break, TableOptions] = {
    broken("counts the rows of a file from one", wrapped(Change, "delete_here", _delete_next_row)): TableOptions(),
    broken(
        "counts the rows of a file from one, in Spark",
        use_spark,
        wrapped(Change, "delete", lambda right, own, at: right(own, at.withColumn(POS, F.col(POS) + 1))),
    ): TableOptions(),
    broken(
        "replaces a deletion vector without keeping its deletes",
        patched(deletion_vectors, "read_vector", lambda *_: BitMap64()),
    ): TableOptions(),
    FORGETS_VECTORS_IN_SPARK: TableOptions(),
    LOSES_ROWS: TableOptions(write_mode="copy-on-write"),
}
"""The mistakes, and the layout that shows each."""
