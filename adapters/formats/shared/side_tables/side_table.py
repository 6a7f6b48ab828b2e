"""The tables that stand beside a table: what the companion and the quarantine need of a format.

They are small, and written with each batch. What is stamped above the table's own batch
was left by a crash and does not exist.
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
"""What stands beside a table is called so."""

MOST_IN_ARROW: Final = 250_000
MOST_BYTES: Final = 32 * 1024 * 1024
"""More rows than that, or rows of larger files, do not pass through this process."""

MANY_FILES: Final = 8
"""So many files are put together, where their rows are few."""

HOURS_KEPT: Final = 1
"""So long what stands beside a table can be read as it was. Commands that take no lock (`quarantine list`, say)
and joined tables load a version of it, and may read its files when a run has trimmed it since."""

NOTHING: Final = pa.table({})

UNKNOWN: Final = -1
"""Stands for a version that is not known; it is equal to any."""


LOST: Final = (
    "Nothing of this batch was applied. Run again when the other is done. Where processes do not share the folder "
    "`state`, a lease lets one at a time run a pipeline (docs/reference/lease.md)."
)
"""What to do where another process was first."""


def refuse_others(
    what: object, beside: Sequence[str], version: int | None, since: int | None, todo: str = LOST
) -> None:
    """Raise CommitConflict where a table beside another was written `since` a version, by another process."""
    if since not in (UNKNOWN, version):
        raise CommitConflict(
            f"{what}: another process works on the table",
            found=f"{'.'.join(beside)} was at version {since} when this one looked, and is at {version}",
            todo=todo,
        )


class Beside(Protocol):
    """A table named like another, with a suffix.

    Conditions are in the SQL that Spark, Iceberg, and DataFusion share: comparisons of a column with a
    literal, `in`, `and`, `or`.
    """

    renames: Mapping[str, str]
    """What columns are called now, by their old names."""

    @property
    def name(self) -> Sequence[str]:
        """Its name, as people know it."""
        ...

    @property
    def columns(self) -> Collection[str]:
        """The names of its columns; none where it was not made yet."""
        ...

    @property
    def pending(self) -> Mapping[str, str]:
        """The columns that have another name than they should, with that one."""
        ...

    def rename(self) -> None:
        """Give columns their new names, in the struct of an old key, too."""
        ...

    def rows(self, condition: str, wanted: Sequence[str]) -> pa.Table:
        """Return these columns of the rows that meet a condition; no Spark is needed."""
        ...

    def frame(self, condition: str) -> DataFrame | None:
        """Return the rows that meet a condition, as they are now, or None where there is no table."""
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
        """Add rows in one commit, to a table with these columns, made where it is not there; return its version.

        `count` says how many rows the frames have, `size` how many bytes the files have that
        they are from. The frames may read the table itself, so they are read before its
        columns change. Raises CommitConflict where another process has written `since` a version, if one is given.
        """
        ...

    def forget(self, condition: str) -> int | None:
        """Remove the rows that meet a condition, if there are any; return the version then."""
        ...

    def forget_above(self, batch: int) -> int | None:
        """Remove what is stamped above a batch, which a crash left; return the version then."""
        return self.forget(f"{names.BATCH} > {batch}")

    @property
    def version(self) -> int | None:
        """The number of the state that it is at, or None where it has none yet."""
        ...

    def replace(self, condition: str, frames: Sequence[DataFrame], since: int | None) -> None:
        """Put rows in the place of those that meet a condition, on whole partitions, in one commit.

        Raises CommitConflict where another process has written since the version that they were worked out of.
        """
        ...

    def gather(self, condition: str) -> None:
        """Put the rows that meet a condition into one file, where they are few and their files many."""
        ...

    def expire(self) -> None:
        """Remove the versions that nobody reads: the last is asked, and who is still at another came lately."""
        ...


Make: TypeAlias = Callable[[str, Mapping[str, str], Callable[[], Sequence[str]]], Beside]
"""Opens what stands beside a table, by its suffix.

It is given the renames of the settings, and says which of the other's columns it has once it has rows of them.
"""


def shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with exactly the columns of a schema, NULL where they have none of that name."""
    columns: list[Any] = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
