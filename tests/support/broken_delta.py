"""Mistakes in code of the Delta adapter alone: each function makes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from ways import use_spark

from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.adapters.formats.delta.writes import change, deletion_vectors
from lakeward.adapters.formats.delta.writes.change import Change
from lakeward.adapters.spark.merge.resolution import POS
from lakeward.adapters.spark.sql.inline_rows import inline

Break = Callable[[pytest.MonkeyPatch], None]


def marks_the_row_behind(patch: pytest.MonkeyPatch) -> None:
    """Counts the rows of a file from one instead of zero."""
    delete = Change.delete_here

    def behind(self: Change, places: pa.Table | None) -> bool:
        if places is None:
            return False
        moved = pc.add(places[POS], 1)
        return delete(self, places.drop_columns([POS]).append_column(POS, moved))

    patch.setattr(Change, "delete_here", behind)


def marks_the_row_behind_by_spark(patch: pytest.MonkeyPatch) -> None:
    """Does so if Spark resolves the batch."""
    use_spark(patch)
    delete = Change.delete
    patch.setattr(Change, "delete", lambda self, places: delete(self, places.withColumn(POS, F.col(POS) + 1)))


def forgets_the_vector_before(patch: pytest.MonkeyPatch) -> None:
    """Replaces a deletion vector without keeping its deletes."""
    patch.setattr(deletion_vectors, "read_vector", lambda *_: BitMap64())


def forgets_the_vector_before_by_spark(patch: pytest.MonkeyPatch) -> None:
    """Does so if Spark resolves the batch."""
    use_spark(patch)

    def without(spark: SparkSession, types: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> DataFrame:
        return inline(spark, types, [(url, None) for url, _ in rows])

    patch.setattr(change, "inline", without)


def loses_what_else_a_file_held(patch: pytest.MonkeyPatch) -> None:
    """Rewrites a file with only the new rows, without a check."""
    rewrite = Change.rewrite
    patch.setattr(Change, "rewrite", lambda self, places: rewrite(self, places).limit(0))
    patch.setattr(Change, "check", lambda *_: None)


LONG = frozenset({forgets_the_vector_before_by_spark})
"""Mistakes that take long. The gate tries the same one without Spark, and another one with it."""

COPY_ON_WRITE = TableOptions(write_mode="copy-on-write")
BROKEN: Sequence[tuple[str, Break, TableOptions]] = (
    ("in order", marks_the_row_behind, TableOptions()),
    ("in order", marks_the_row_behind_by_spark, TableOptions()),
    ("in order", forgets_the_vector_before, TableOptions()),
    ("in order", forgets_the_vector_before_by_spark, TableOptions()),
    ("in order", loses_what_else_a_file_held, COPY_ON_WRITE),
)
"""The script that shows each mistake, and its layout."""
