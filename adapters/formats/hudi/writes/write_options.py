"""The options of a write of Hudi: one instant of the timeline with rows, deletes and progress.

The plan has decided which rows are written and removed, so the writer searches for no newer row and for no row in
another partition. Options: hudi.apache.org/docs/configurations
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.hudi.metadata.columns import KEY
from lakeward.adapters.formats.hudi.metadata.timeline import LAYOUT, PREFIX, PROGRESS
from lakeward.adapters.formats.hudi.operations.layout import DELETED, RECORD_KEY, Layout, has_record_key
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.shared.side_tables.keys import key_text
from lakeward.adapters.spark.merge.resolution import FILE
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.plan import MergePlan
from lakeward.core.progress import Progress

_WRITE: Final = "hoodie.datasource.write."

_ALWAYS: Final[Mapping[str, str]] = {
    "hoodie.write.table.version": "9",  # its timeline is the one that lakeward reads
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",  # what is newest, the plan has worked out
    "hoodie.combine.before.upsert": "false",
    "hoodie.combine.before.insert": "false",
    "hoodie.payload.delete.field": names.BATCH,
    "hoodie.payload.delete.marker": str(DELETED),
    "hoodie.metadata.enable": "false",  # a table of its own within the table: it costs as much as a small batch
    "hoodie.table.timeline.timezone": "UTC",
    f"{_WRITE}commitmeta.key.prefix": PREFIX,
    f"{_WRITE}schema.allow.auto.evolution.column.drop": "true",  # a rename writes all rows anew
}

_LOGS: Final[Mapping[str, str]] = {
    # Readers merge logs at each read, so they are compacted now and then.
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "10",
    # A block is held in memory several times over while it is written: those of 256 MiB do not fit into 1 GiB.
    "hoodie.logfile.data.block.max.size": str(16 * 2**20),
}

REPLACING: Final[Mapping[str, str]] = {f"{_WRITE}operation": "insert_overwrite_table"}
"""The operation that replaces all rows in one commit."""


def options_of(
    dimension: Dimension, options: TableOptions, external_options: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """Return the options of each write of a table; `external_options` are those of one that another job created."""
    return {
        **(_LOGS if options.write_mode == "merge-on-read" else {}),
        **options.properties,
        **_ALWAYS,
        f"{_WRITE}table.type": options.write_mode.replace("-", "_").upper(),
        **({f"{_WRITE}partitionpath.field": ",".join(options.partition_by)} if options.partition_by else {}),
        **(external_options or _own_options(dimension, options)),
    }


def _own_options(dimension: Dimension, options: TableOptions) -> Mapping[str, str]:
    """Return the options for the placement of rows in a table that lakeward creates."""
    generators = {0: "NonpartitionedKeyGenerator", 1: "SimpleKeyGenerator"}
    keys = f"org.apache.hudi.keygen.{generators.get(len(options.partition_by), 'ComplexKeyGenerator')}"
    key_options = {
        RECORD_KEY: KEY,
        # The key decides where a row is, so nothing is searched: ten times faster than an index.
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.hash.field": KEY,
        "hoodie.bucket.index.num.buckets": str(options.buckets),
    }
    return {
        "hoodie.table.name": re.sub(r"\W", "_", dimension.name.table),
        f"{_WRITE}hive_style_partitioning": "true",
        f"{_WRITE}partitionpath.urlencode": "true",
        f"{_WRITE}keygenerator.class": keys,
        **(key_options if has_record_key(dimension) else {}),
    }


def operation_of(plan: MergePlan, *, replaces: bool) -> Mapping[str, str]:
    """Return the operation that carries out a plan."""
    operation = "upsert" if has_record_key(plan.dimension) else "insert"
    return REPLACING if replaces else {f"{_WRITE}operation": operation}


def commit_metadata(
    progress: Progress, layout: Layout, run_ids: Mapping[str, str] = MappingProxyType({})
) -> Mapping[str, str]:
    """Return the extra metadata of a commit, with the ids of the run.

    Hudi does not store into how many buckets it hashes, and which keys.
    """
    ids = {f"{PREFIX}{name}": value for name, value in run_ids.items()}
    return {PROGRESS: progress.to_json(), LAYOUT: layout.to_json(), **ids}


def as_records(rows: DataFrame, dimension: Dimension, layout: Layout) -> DataFrame:
    """Return rows as Hudi needs them: with the record key, and with all columns nullable."""
    if KEY not in layout.record_key(dimension):
        return nullable(rows)
    others = [name for name in rows.columns if name != KEY]
    return nullable(rows.selectExpr(f"{_record_key(dimension)} AS {KEY}", *map(quoted, others)))


def nullable(rows: DataFrame) -> DataFrame:
    """Return rows whose columns are all nullable, as those of a table that gets more columns must be."""
    return rows.selectExpr(*[f"if(true, {quoted(name)}, NULL) AS {quoted(name)}" for name in rows.columns])


_FACT: Final = f"to_json(array({', '.join(f'string({name})' for name in names.POSITION)}))"
"""SQL for the text of a row's position, which identifies rows of a table without a key."""


def _record_key(dimension: Dimension) -> str:
    """Return SQL for the text of a key without a colon: the bucket index takes what precedes one for a name.

    The text is JSON, in which a colon may be escaped. At several colons Hudi 1.2 would search for the next name
    forever.
    """
    return rf"replace({key_text(dimension)}, ':', '\\u003a')" if dimension.key else _FACT


def deletes_of(removed: DataFrame, records: DataFrame, place: Sequence[str]) -> DataFrame:
    """Return records that delete rows for which no record is written. `place` are the columns of their place.

    Their record keys are the stored ones: the text of a key whose column became wider may differ by now.
    """
    keys_to_delete = removed.selectExpr(*[f"{FILE}.{quoted(name)} AS {quoted(name)}" for name in place])
    is_same = [F.col(f"gone.{quoted(name)}").eqNullSafe(F.col(f"kept.{quoted(name)}")) for name in place]
    keys_to_delete = keys_to_delete.alias("gone").join(
        records.select(*map(quoted, place)).alias("kept"), is_same, "left_anti"
    )
    types = {field.name: field.dataType.simpleString() for field in records.schema}
    rest = [
        f"CAST({DELETED if name == names.BATCH else 'NULL'} AS {type_}) AS {quoted(name)}"
        for name, type_ in types.items()
        if name not in place
    ]
    return keys_to_delete.selectExpr("*", *rest).select(*map(quoted, records.columns))
