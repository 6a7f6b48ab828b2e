"""The port of a side table: what the change log and the quarantine need of a table format.

Side tables are small and are written with each batch. Entries above the table's own batch come from a crash and are
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import pyarrow as pa

from lakeward.adapters.spark.sql import names
from lakeward.core.errors import CommitConflict
from lakeward.core.schema import Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGES: Final = "__changes"
QUARANTINE: Final = "__quarantine"
"""Suffixes of the names of the side tables."""

MOST_IN_ARROW: Final = 250_000
MOST_BYTES: Final = 32 * 1024 * 1024
"""Batches with more rows, or from larger files (in bytes), are not read into this process."""

MANY_FILES: Final = 8
"""From this number of small files on, their rows are compacted into one file."""

HOURS_KEPT: Final = 1
"""Hours for which old versions of a side table stay readable.

Commands without a lock (such as `quarantine list`) and joined tables load one version, and may read its files after
a run has trimmed the table.
"""

NOTHING: Final = pa.table({})

UNKNOWN: Final = -1
"""A version that is not known; it matches any version."""

RUN_AGAIN: Final = (
    "Nothing of this batch was applied. Run again when the other is done. Where processes do not share the folder "
    "`state`, a lease lets one at a time run a pipeline (docs/reference/lease.md)."
)
"""What to do after a conflict with another process."""


def refuse_others(
    table_name: object, name: Sequence[str], version: int | None, since: int | None, todo: str = RUN_AGAIN
) -> None:
    """Raise CommitConflict if another process has written a side table `since` a version.

    `table_name` is for messages. `name` has the parts of the name of the side table, `version` is its current
    version, `todo` says what to do.
    """
    if since not in (UNKNOWN, version):
        raise CommitConflict(
            f"{table_name}: another process works on the table",
            found=f"{'.'.join(name)} was at version {since} when this one looked, and is at {version}",
            todo=todo,
        )


class SideTable(Protocol):
    """A side table: it is named like its table, with a suffix.

    Conditions are in the SQL shared by Spark, Iceberg and DataFusion: comparisons of a column with a literal, `in`,
    `and`, `or`.
    """

    renames: Mapping[str, str]
    """The current names of columns, by their old names."""

    @property
    def name(self) -> Sequence[str]:
        """The parts of its name, as people know it."""
        ...

    @property
    def columns(self) -> Collection[str]:
        """The names of its columns; none if the table does not exist yet."""
        ...

    @property
    def pending(self) -> Mapping[str, str]:
        """The columns that are still to be renamed, each with its new name."""
        ...

    def rename(self) -> None:
        """Rename the pending columns, in the struct of an old key as well."""
        ...

    def rows(self, condition: str, wanted: Sequence[str]) -> pa.Table:
        """Return these columns of the rows that meet a condition. Spark is not needed."""
        ...

    def frame(self, condition: str) -> DataFrame | None:
        """Return the rows that meet a condition as of now, or None if there is no table."""
        ...

    def add(
        self,
        columns: Mapping[str, Type],
        frames: Sequence[DataFrame],
        rows: pa.Table = NOTHING,
        *,
        count: int,
        size: int = 0,
        partition_by: str | None = None,
        since: int | None = UNKNOWN,
    ) -> int | None:
        """Add rows in one commit and return the new version. The table is created or gets new columns if needed.

        `count` is the number of rows in the frames, `size` the number of bytes of the files that they come from.
        The frames may read the table itself, so they are read before its columns change. Raises CommitConflict if
        another process has written the table `since` a version, if one is given.
        """
        ...

    def forget(self, condition: str) -> int | None:
        """Remove the rows that meet a condition, if there are any; return the version afterwards."""
        ...

    def forget_above(self, batch: int) -> int | None:
        """Remove the entries above a batch, which a crash left; return the version afterwards."""
        return self.forget(f"{names.BATCH} > {batch}")

    @property
    def version(self) -> int | None:
        """The number of its current state, or None if it has none yet."""
        ...

    def replace(self, condition: str, frames: Sequence[DataFrame], since: int | None) -> None:
        """Replace the rows that meet a condition, on whole partitions, in one commit.

        Raises CommitConflict if another process has written the table since the version that the rows were read at.
        """
        ...

    def gather(self, condition: str) -> None:
        """Compact the rows that meet a condition into one file, if they are few and their files many."""
        ...

    def expire(self) -> None:
        """Remove old versions that nobody reads any more.

        Readers ask for the newest version, so one that still reads an older version started not long ago.
        """
        ...


OpenSideTable: TypeAlias = Callable[[str, Mapping[str, str], Callable[[], Sequence[str]]], SideTable]
"""Opens a side table, given its suffix, the renames of the settings, and a function.

The function returns the names of the main table's columns that the side table has once it holds rows of them.
"""


def with_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with exactly the columns of a schema, NULL where they have none of that name."""
    columns: list[Any] = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
