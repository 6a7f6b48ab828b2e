"""The Delta adapter, broken on purpose where it has ways of its own: each function makes one mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.delta import change
from lakeward.adapters.delta.change import Change
from lakeward.adapters.delta.options import TableOptions
from lakeward.adapters.spark.inline import inline
from lakeward.adapters.spark.resolve import POS

Break = Callable[[pytest.MonkeyPatch], None]


def marks_the_row_behind(patch: pytest.MonkeyPatch) -> None:
    """Counts the rows of a file from one, where Delta counts from nought."""
    delete = Change.delete
    patch.setattr(Change, "delete", lambda self, places: delete(self, places.withColumn(POS, F.col(POS) + 1)))


def forgets_the_vector_before(patch: pytest.MonkeyPatch) -> None:
    """Puts a deletion vector in the place of another, without what that one deleted."""

    def without(spark: SparkSession, types: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> DataFrame:
        return inline(spark, types, [(url, None) for url, _ in rows])

    patch.setattr(change, "inline", without)


def keeps_rows_that_a_load_does_not_hold(patch: pytest.MonkeyPatch) -> None:
    """Lets the files of the epoch before stand beside those of a full load, and says that they are gone."""

    patch.setattr(Change, "drop_all", lambda self, rows: setattr(self, "dropped_rows", rows))


def loses_what_else_a_file_held(patch: pytest.MonkeyPatch) -> None:
    """Rewrites a file with the new rows alone, and checks nothing."""
    rewrite = Change.rewrite
    patch.setattr(Change, "rewrite", lambda self, places: rewrite(self, places).limit(0))
    patch.setattr(Change, "check", lambda *_: None)


COPY_ON_WRITE = TableOptions(write_mode="copy-on-write")
BROKEN: Sequence[tuple[str, Break, TableOptions]] = (
    ("in order", marks_the_row_behind, TableOptions()),
    ("in order", forgets_the_vector_before, TableOptions()),
    ("in order", loses_what_else_a_file_held, COPY_ON_WRITE),
    ("reloaded", keeps_rows_that_a_load_does_not_hold, TableOptions()),
)
"""The mistakes, by the script that shows them, and the layout that has them."""
