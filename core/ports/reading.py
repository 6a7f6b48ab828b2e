"""What looks at a table whole, and changes nothing."""

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


class Verification(Protocol[F_contra]):
    """What looks at a table whole, as anybody may have written to it, and changes nothing."""

    def check_history(self, examples: int) -> HistoryCheck:
        """Hold all versions of a history against its rules; of each rule that is broken, name so many keys at most.

        The options of the history are those that its versions were made with. Raises TableError where the table
        cannot be read.
        """
        ...

    def compare(
        self, source: F_contra, columns: ComparedColumns, among: Collection[str] | None
    ) -> Comparison:
        """Compare stored rows with those of a source snapshot (`core.verification.row_comparison`).

        The frame has the compared columns by the names of the source. It is read first, once, and then the table as
        it is now. With `among` keys of these texts alone count in the ranges that differ. Raises TableError where
        the table cannot be read, and what reading the frame raises.
        """
        ...


@dataclass(frozen=True, slots=True)
class SourceSnapshot(Generic[F]):
    """The rows of a table of the source at one moment, which are read when the frame is.

    `begins` is where the database was before the first row was read: no change below it is missing. `place` asks
    where it is now: once the rows are read, they have no change behind that.
    """

    rows: F
    begins: SourcePlace
    place: Callable[[], SourcePlace]


class SourceDatabase(Protocol[F]):
    """The database of a source, of which the rows of a table can be asked while it goes on; nothing is locked."""

    def describe(self, table: TableName) -> SourceTable | None:
        """Return what the database says of a table, None where it has none of that name.

        Raises StoreUnreachable where it does not answer, and SourceError where it lets nobody in.
        """
        ...

    def snapshot(
        self, table: SourceTable, columns: ComparedColumns
    ) -> AbstractContextManager[SourceSnapshot[F]]:
        """Return a snapshot of these columns, by the names of the source, while the context lasts.

        Raises as `describe` does, and SourceError where the rows cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is read of a table: all rows, or those of a history that were valid `at` an instant.

    These are what is believed now, or was after the batch `known`. Rows come `with_ours` where the columns that
    lakeward adds are wanted, too.
    """

    at: int | None = None
    known: int | None = None
    with_ours: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """The first of the rows that were selected, with their columns, and how many `rows` there are."""

    rows: int
    columns: Sequence[str]
    first: Sequence[Mapping[str, Cell]]


class Reading(Protocol):
    """What reads a table as it is now, whoever has written to it, and changes nothing.

    The options of a history are those that its versions were made with. Raises TableError where it cannot be read.
    """

    def first(self, wanted: Selection, limit: int) -> Sample:
        """Return so many rows at most, in the order of their keys, and how many there are."""
        ...

    def write(self, wanted: Selection, folder: str) -> int:
        """Write rows as Parquet files into an empty folder of this machine; return how many there are."""
        ...
