"""Ports that read a whole table, of the lake or of the source database, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Protocol

from lakeward.core.dimension import TableName
from lakeward.core.events import Cell
from lakeward.core.history.version_checks import HistoryCheck
from lakeward.core.ports.frames import F, F_contra
from lakeward.core.settings.source_catalogue import SourceTable
from lakeward.core.verification.compared_columns import ComparedColumns
from lakeward.core.verification.row_comparison import Comparison
from lakeward.core.verification.source_places import SourcePlace


@dataclass(frozen=True, slots=True)
class SourceSnapshot(Generic[F]):
    """The rows of a source table at one moment. They are read when the frame is.

    `begins` is the log position of the database before the first row was read: the rows have all changes below it.
    `place` asks for the position now: after the rows were read, they have no change above it.
    """

    rows: F
    begins: SourcePlace
    place: Callable[[], SourcePlace]


class SourceDatabase(Protocol[F]):
    """The database of a source. Its tables are read while applications write to them; nothing is locked."""

    def describe(self, table: TableName) -> SourceTable | None:
        """Return columns and key of a table; None if the database has no table of that name.

        Raises StoreUnreachable if the database does not answer, and SourceError if it denies access.
        """
        ...

    def snapshot(
        self, table: SourceTable, columns: ComparedColumns
    ) -> AbstractContextManager[SourceSnapshot[F]]:
        """Return a context manager in which the rows of these columns can be read, by the names of the source.

        Raises as `describe` does, and SourceError if the rows cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows of a table are read.

    All rows, or the versions of a history that were valid at the instant `at` (microseconds since 1970). Of a
    bitemporal history they are as known now, or as known after the batch `known`. With `with_ours` the rows have
    the columns that lakeward adds, too.
    """

    at: int | None = None
    known: int | None = None
    with_ours: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """The first selected rows, their columns, and `rows`, the number of all selected rows."""

    rows: int
    columns: Sequence[str]
    first: Sequence[Mapping[str, Cell]]


class TableReader(Protocol[F_contra]):
    """Reads one table as it is now, whoever wrote to it, and changes nothing.

    Each method raises TableError if the table cannot be read.
    """

    def first(self, wanted: Selection, limit: int) -> Sample:
        """Return the first `limit` rows at most, in the order of their keys, and how many rows there are."""
        ...

    def write(self, wanted: Selection, folder: str) -> int:
        """Write rows as Parquet files and return the number of rows.

        `folder` is the absolute path of an empty folder of this machine.
        """
        ...

    def check_history(self, examples: int) -> HistoryCheck:
        """Check all versions of a history against its rules.

        At most `examples` keys are named for each rule that is broken. The options of the history are those that
        its versions were made with.
        """
        ...

    def compare(
        self, source: F_contra, columns: ComparedColumns, among: Collection[str] | None
    ) -> Comparison:
        """Compare stored rows with those of a source snapshot, by the rules of `core.verification.row_comparison`.

        `source` has the compared columns by the names of the source. It is read first, once; then the table is read
        as it is at that time. With `among`, only keys of these texts count in the ranges that differ. Raises what
        reading the frame raises, too.
        """
        ...
