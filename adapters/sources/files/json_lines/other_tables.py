"""Messages of other tables in the files of a table: whether they may be there, and of which tables they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import functions as F

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.landing.places import below, filled
from lakeward.adapters.sources.messages.decoded import OTHER_TABLE
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.core.dimension import TableName
from lakeward.core.ledger.other_tables import MOST_NAMES, OtherTables

HAS_OTHER: Final = "_lakeward_has_other"
"""Flags a message with a row of another table."""


def tables_beside(
    table: TableName,
    settings: FilesOptions,
    of_tables: Mapping[TableName, FilesOptions],
    every: Collection[TableName],
) -> Sequence[TableName]:
    """Return which of `every` table but this one reads its folder, or a folder within it or around it."""

    def folder(name: TableName) -> str:
        return below(filled(of_tables.get(name, settings).folder, name).lower())

    mine, others = folder(table), {name: folder(name) for name in every if name != table}
    return [name for name, other in others.items() if mine.startswith(other) or other.startswith(mine)]


def has_own_folder(own: FilesOptions, settings: FilesOptions, beside: Sequence[TableName]) -> bool:
    """Return whether the folder of a table is its own, so that it should have no messages of other tables.

    It is named by the table, or set for it alone under [tables] (`own` are the settings of the table), and no table
    is `beside`.
    """
    return ("{schema}" in own.folder or own.folder != settings.folder) and not beside


def names_needed(table: TableName, beside: Sequence[TableName]) -> frozenset[str]:
    """Return which of `schema` and `table` a message must name, to be told from those of the tables `beside`."""
    return frozenset("schema" if one.table.lower() == table.table.lower() else "table" for one in beside)


def other_tables(frame: Frame, *, is_shared: bool) -> OtherTables | None:
    """Return which other tables the messages of a frame name, with the number of messages of each."""
    if isinstance(frame, LocalFrame):
        return count_other_tables(frame.rows.column(OTHER_TABLE).to_pylist(), is_shared=is_shared)
    rows = frame.where(f"{OTHER_TABLE} IS NOT NULL").groupBy(OTHER_TABLE).agg(F.count("*").alias("messages"))
    total = F.expr("sum(messages) OVER ()")
    found = rows.withColumn("total", total).orderBy(F.desc("messages"), OTHER_TABLE).limit(MOST_NAMES).collect()
    if not found:
        return None
    return OtherTables(found[0]["total"], tuple((row[0], row["messages"]) for row in found), is_shared=is_shared)


def count_other_tables(named: Iterable[str | None], *, is_shared: bool) -> OtherTables | None:
    """Return the same of the `OTHER_TABLE` of each message."""
    counts = Counter(name for name in named if name is not None)
    if not counts:
        return None
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return OtherTables(counts.total(), tuple(found[:MOST_NAMES]), is_shared=is_shared)
