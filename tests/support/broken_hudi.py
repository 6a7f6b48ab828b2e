"""Mistakes in code of the Hudi adapter alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

from mutations import Break, Method, broken, patched, wrapped
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.hudi.metadata.columns import KEY
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.hudi.writes import write_options

BUCKETS = cycle(("2", "3"))
ORDERED_BY_ROW = {
    **write_options._ALWAYS,
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.ordering.fields": "_lakeward_row",
    "hoodie.datasource.write.precombine.field": "_lakeward_row",
}


def _delete_unwritten_keys(right: Method, removed: DataFrame, records: DataFrame, *more: Any) -> Any:
    return right(removed, records, *more).join(records.select(KEY), KEY, "left_anti").select(*records.columns)


def _use_other_buckets(right: Method, *arguments: Any) -> Mapping[str, str]:
    return {**right(*arguments), "hoodie.bucket.index.num.buckets": next(BUCKETS)}


BROKEN: Mapping[Break, TableOptions] = {
    broken(
        "deletes the old record only if no record of its key is written in any partition",
        wrapped(write_options, "deletes_of", _delete_unwritten_keys),
    ): TableOptions(partition_by=["b"]),
    broken(
        "sends no record for a deleted row",
        wrapped(write_options, "deletes_of", lambda right, *arguments: right(*arguments).limit(0)),
    ): TableOptions(),
    broken(
        "looks for a row in another file group than its own",
        wrapped(write_options, "options_of", _use_other_buckets),
    ): TableOptions(),
    broken(
        "lets Hudi choose between two rows, by a column", patched(write_options, "_ALWAYS", ORDERED_BY_ROW)
    ): TableOptions(write_mode="copy-on-write"),
    broken(
        "uses the length of a key's text as the key",
        wrapped(
            write_options,
            "as_records",
            lambda right, *of: right(*of).withColumn(KEY, F.expr(f"length({KEY}) || ''")),
        ),
    ): TableOptions(),
}
"""The mistakes, and the layout that shows each."""
