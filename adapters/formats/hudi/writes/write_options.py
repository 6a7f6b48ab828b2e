"""What a write of Hudi is told: one instant of the timeline, with rows, deletes and progress.

Which rows are written and which go, the plan has said; so the writer looks for no newer row, and for no row in
another partition. Options are those of hudi.apache.org/docs/configurations.
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
    # Readers merge a log with each read: it is written into the rows' files now and then.
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "10",
    # A block is held in memory several times over while it is written: those of 256 MiB do not fit into 1 GiB.
    "hoodie.logfile.data.block.max.size": str(16 * 2**20),
}

REPLACING: Final[Mapping[str, str]] = {f"{_WRITE}operation": "insert_overwrite_table"}
"""What has all rows replaced, in one commit."""


def options_of(
    dimension: Dimension, options: TableOptions, theirs: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """Return what each write of a table is told; `theirs` is what one has that another job made."""
    return {
        **(_LOGS if options.write_mode == "merge-on-read" else {}),
        **options.properties,
        **_ALWAYS,
        f"{_WRITE}table.type": options.write_mode.replace("-", "_").upper(),
        **({f"{_WRITE}partitionpath.field": ",".join(options.partition_by)} if options.partition_by else {}),
        **(theirs or _ours(dimension, options)),
    }


def _ours(dimension: Dimension, options: TableOptions) -> Mapping[str, str]:
    """Return how rows lie in a table that lakeward makes."""
    generators = {0: "NonpartitionedKeyGenerator", 1: "SimpleKeyGenerator"}
    keys = f"org.apache.hudi.keygen.{generators.get(len(options.partition_by), 'ComplexKeyGenerator')}"
    keyed = {
        RECORD_KEY: KEY,
        # Where a row lies is a matter of its key, so that nothing is looked for: ten times faster than an index.
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.hash.field": KEY,
        "hoodie.bucket.index.num.buckets": str(options.buckets),
    }
    return {
        "hoodie.table.name": re.sub(r"\W", "_", dimension.name.table),
        f"{_WRITE}hive_style_partitioning": "true",
        f"{_WRITE}partitionpath.urlencode": "true",
        f"{_WRITE}keygenerator.class": keys,
        **(keyed if has_record_key(dimension) else {}),
    }


def operation_of(plan: MergePlan, *, replaces: bool) -> Mapping[str, str]:
    """Return what kind of write carries out a plan."""
    operation = "upsert" if has_record_key(plan.dimension) else "insert"
    return REPLACING if replaces else {f"{_WRITE}operation": operation}


def said(
    progress: Progress, layout: Layout, run_ids: Mapping[str, str] = MappingProxyType({})
) -> Mapping[str, str]:
    """Return what the commit says of itself, with the ids of the run.

    Hudi keeps nowhere into how many buckets it hashes, and which keys.
    """
    ids = {f"{PREFIX}{name}": value for name, value in run_ids.items()}
    return {PROGRESS: progress.to_json(), LAYOUT: layout.to_json(), **ids}


def as_records(rows: DataFrame, dimension: Dimension, layout: Layout) -> DataFrame:
    """Return rows as Hudi takes them: with the record key, and no column that must not be NULL."""
    if KEY not in layout.record_key(dimension):
        return nullable(rows)
    others = [name for name in rows.columns if name != KEY]
    return nullable(rows.selectExpr(f"{_record_key(dimension)} AS {KEY}", *map(quoted, others)))


def nullable(rows: DataFrame) -> DataFrame:
    """Return rows whose columns may all be NULL, as those of a table that gets more columns must."""
    return rows.selectExpr(*[f"if(true, {quoted(name)}, NULL) AS {quoted(name)}" for name in rows.columns])


_FACT: Final = f"to_json(array({', '.join(f'string({name})' for name in names.POSITION)}))"
"""The text of the place of a row's fact, which tells rows apart where there is no key."""


def _record_key(dimension: Dimension) -> str:
    """Return the text of a key without a colon, as SQL: the bucket index takes what is before one for a name.

    It is JSON, of which a colon may be written so; at several of them Hudi 1.2 looks for the next name for ever.
    """
    return rf"replace({key_text(dimension)}, ':', '\\u003a')" if dimension.key else _FACT


def deletes_of(removed: DataFrame, records: DataFrame, place: Sequence[str]) -> DataFrame:
    """Return what takes rows away that stand where no record is written; `place` are the columns that say where.

    Their record keys are those that they have: a key whose column became wider may have another text by now.
    """
    gone = removed.selectExpr(*[f"{FILE}.{quoted(name)} AS {quoted(name)}" for name in place])
    is_same = [F.col(f"gone.{quoted(name)}").eqNullSafe(F.col(f"kept.{quoted(name)}")) for name in place]
    gone = gone.alias("gone").join(records.select(*map(quoted, place)).alias("kept"), is_same, "left_anti")
    types = {field.name: field.dataType.simpleString() for field in records.schema}
    rest = [
        f"CAST({DELETED if name == names.BATCH else 'NULL'} AS {type_}) AS {quoted(name)}"
        for name, type_ in types.items()
        if name not in place
    ]
    return gone.selectExpr("*", *rest).select(*map(quoted, records.columns))
