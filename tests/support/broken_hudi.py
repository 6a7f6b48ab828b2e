"""Mistakes in code of the Hudi adapter alone: each function makes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.hudi.metadata.columns import KEY
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.hudi.writes import write_options

Break = Callable[[pytest.MonkeyPatch], None]


def leaves_a_twin_where_a_row_moves(patch: pytest.MonkeyPatch) -> None:
    """Deletes the old record only if no record of its key is written in any partition."""
    deletes = write_options.deletes_of

    def of_keys_alone(removed: DataFrame, records: DataFrame, *more: Any) -> DataFrame:
        return deletes(removed, records, *more).join(records.select(KEY), KEY, "left_anti").select(*records.columns)

    patch.setattr(write_options, "deletes_of", of_keys_alone)


def deletes_nothing(patch: pytest.MonkeyPatch) -> None:
    """Sends no record for a deleted row."""
    deletes = write_options.deletes_of
    patch.setattr(write_options, "deletes_of", lambda *arguments: deletes(*arguments).limit(0))


def hashes_into_other_buckets_with_each_batch(patch: pytest.MonkeyPatch) -> None:
    """Looks for a row in another file group than its own."""
    options, buckets = write_options.options_of, cycle(("2", "3"))

    def of_a_batch(*arguments: Any) -> Mapping[str, str]:
        return {**options(*arguments), "hoodie.bucket.index.num.buckets": next(buckets)}

    patch.setattr(write_options, "options_of", of_a_batch)


def takes_the_greatest_for_the_newest(patch: pytest.MonkeyPatch) -> None:
    """Lets Hudi choose between two rows, by a column."""
    always = {
        **write_options._ALWAYS,
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.ordering.fields": "_lakeward_row",
        "hoodie.datasource.write.precombine.field": "_lakeward_row",
    }
    patch.setattr(write_options, "_ALWAYS", always)


def mixes_up_keys(patch: pytest.MonkeyPatch) -> None:
    """Uses the length of a key's text as the key."""
    records = write_options.as_records
    patch.setattr(
        write_options,
        "as_records",
        lambda *arguments: records(*arguments).withColumn(KEY, F.expr(f"length({KEY}) || ''")),
    )


PARTITIONED = TableOptions(partition_by=["b"])
BROKEN: Sequence[tuple[str, Break, TableOptions]] = (
    ("in order", leaves_a_twin_where_a_row_moves, PARTITIONED),
    ("in order", deletes_nothing, TableOptions()),
    ("in order", hashes_into_other_buckets_with_each_batch, TableOptions()),
    ("in order", takes_the_greatest_for_the_newest, TableOptions(write_mode="copy-on-write")),
    ("in order", mixes_up_keys, TableOptions()),
)
"""The script that shows each mistake, and its layout."""
