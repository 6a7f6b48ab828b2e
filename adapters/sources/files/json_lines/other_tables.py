"""Messages of other tables in the files of a table: whether they may be there, and which tables they name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import functions as F

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.landing.places import fill_template, path_prefix
from lakeward.adapters.sources.messages.decoded import OTHER_TABLE
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.core.dimension import TableName
from lakeward.core.ledger.other_tables import MOST_NAMES, OtherTables

HAS_OTHER: Final = "_lakeward_has_other"
"""Flags a message with a row of another table."""


def tables_sharing_folder(
    table: TableName,
    settings: FilesOptions,
    of_tables: Mapping[TableName, FilesOptions],
    every: Collection[TableName],
) -> Sequence[TableName]:
    """Return the tables of `every` that read the folder of `table`, or a folder within it or around it.

    `settings` are those of [source], `of_tables` those of tables that override them.
    """

    def folder(name: TableName) -> str:
        return path_prefix(fill_template(of_tables.get(name, settings).folder, name).lower())

    own_folder, others = folder(table), {name: folder(name) for name in every if name != table}
    return [name for name, other in others.items() if own_folder.startswith(other) or other.startswith(own_folder)]


def has_own_folder(own: FilesOptions, settings: FilesOptions, sharing: Sequence[TableName]) -> bool:
    """Return whether a table has a folder of its own, which must have no messages of other tables.

    The folder is named by the table, or set for the table under [tables] (`own` are the table's settings), and no
    table is `sharing` it.
    """
    return ("{schema}" in own.folder or own.folder != settings.folder) and not sharing


def names_needed(table: TableName, sharing: Sequence[TableName]) -> frozenset[str]:
    """Return which of `schema` and `table` a message must name to differ from the tables `sharing`."""
    return frozenset("schema" if one.table.lower() == table.table.lower() else "table" for one in sharing)


def other_tables(frame: Frame, *, is_shared: bool) -> OtherTables | None:
    """Return the other tables that the messages of a frame name, each with the number of its messages."""
    if isinstance(frame, LocalFrame):
        return count_other_tables(frame.rows.column(OTHER_TABLE).to_pylist(), is_shared=is_shared)
    rows = frame.where(f"{OTHER_TABLE} IS NOT NULL").groupBy(OTHER_TABLE).agg(F.count("*").alias("messages"))
    total = F.expr("sum(messages) OVER ()")
    named = rows.withColumn("total", total).orderBy(F.desc("messages"), OTHER_TABLE).limit(MOST_NAMES).collect()
    if not named:
        return None
    return OtherTables(named[0]["total"], tuple((row[0], row["messages"]) for row in named), is_shared=is_shared)


def count_other_tables(named: Iterable[str | None], *, is_shared: bool) -> OtherTables | None:
    """Return the other tables as `other_tables` does; `named` has the value of `OTHER_TABLE` of each message."""
    counts = Counter(name for name in named if name is not None)
    if not counts:
        return None
    largest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return OtherTables(counts.total(), tuple(largest[:MOST_NAMES]), is_shared=is_shared)
