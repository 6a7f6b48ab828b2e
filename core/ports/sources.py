"""Ports of sources: changes, inventories, backlogs, catalogues and the stores of files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol, runtime_checkable

from lakeward.core.dimension import Dimension, Lateness, TableName
from lakeward.core.events import Position, Sequences
from lakeward.core.ledger.full_loads import LoadStatus
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import Capability
from lakeward.core.ports.frames import Batch, F
from lakeward.core.ports.quarantine import Cells, Entry
from lakeward.core.settings.proposals import Proposal
from lakeward.core.settings.source_catalogue import SourceTable
from lakeward.core.shaping.recomputed_columns import RecomputedColumns


class Source(Protocol[F]):
    """Selects the objects of a table and reads their changes.

    `Dimension.source` is the name of the table at the source; `Dimension.name` is for messages.
    """

    @property
    def lateness(self) -> Lateness:
        """The lateness of tables whose settings do not say it."""
        ...

    @property
    def sequences(self) -> Sequences:
        """What the order of the events is made of."""
        ...

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the column that orders the events of a table; "" if a setting could name one and does not.

        If its values may be times without a zone, return the text of an `OrderBy`, which has the zone, too. Return
        None if no setting can change the order. A table that has rows is stopped when the value changes.
        """
        ...

    def key_form(self, dimension: Dimension) -> str | None:
        """Return the settings that change the values of a key, in the words of `core.checks.key_form.key_form`.

        Return None if no setting does. A table that has rows is stopped when the value changes.
        """
        ...

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Return the objects of the next batch. Raises AlarmRaised if the listing shows signs of loss or change."""
        ...

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[F]:
        """Read the selected objects whole, as events of `epoch`.

        An object that changed since it was selected is left out, and so are all objects after it.
        """
        ...

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return the names of applied objects that cannot be read again.

        Raises ConfigError or SourceError if the table cannot be read again from a point before them.
        """
        ...

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> F:
        """Return a frame of one truncate event at `place` that the source did not write.

        `time` is the source time in microseconds since 1970, None if unknown.
        """
        ...

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied objects to the archive, and return the names of those that are there now.

        Returns none if the source keeps its objects. It is called again if a crash came after the commit.
        """
        ...

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension with the columns and the key that rows, and repaired rows, have at the source."""
        ...

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return how column rules recompute columns from the stored row.

        `may_need` has the capabilities that the events of the batch may need.
        """
        ...

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return a row in quarantine as the source wrote it. Columns that cannot be told are left out."""
        ...

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> F:
        """Return rows in quarantine as a frame of events. A row that is not repaired is read as it was written.

        Raises RepairError, naming each cell that does not fit its column.
        """
        ...


@runtime_checkable
class StagingArea(Protocol):
    """Removes staged files that outlive a run. A `Source` that stages files there has this method, too."""

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        """Remove the staged files of a table that ended runs left and no run needs, and return their names.

        With `is_dry`, only return the names. Raises StoreUnreachable if the place does not answer.
        """
        ...


class SourceInventory(Protocol):
    """Lists the tables of a source, and what operators should know of them. Reads no rows and starts no engine."""

    def tables(self) -> Sequence[TableName]:
        """Return the tables of the source, configured or not."""
        ...

    def warnings(self, tables: Collection[TableName]) -> Sequence[str]:
        """Return warnings about content of the source that belongs to none of the configured `tables`."""
        ...

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return warnings about a configured table that hold whatever its next batch is."""
        ...

    def match_objects(self, tables: Collection[TableName]) -> Callable[[str], Collection[TableName]]:
        """Return a function from the URL of an object, as `s3://bucket/key`, to the tables that read it.

        The function may return a table too many. It returns none if the objects of the source are in no bucket.
        """
        ...


class Backlog(Protocol):
    """Counts the waiting messages of a source that is a log. Reads no messages and starts no engine."""

    def count_waiting(self, table: TableName, applied: Collection[str]) -> int | None:
        """Return the number of messages that wait for a table; None if it is unknown.

        `applied` are the names of its applied objects. Raises StoreUnreachable if the source does not answer.
        """
        ...

    def consistent_as_of(self, applied: Sequence[tuple[TableName, Collection[SourceObject]]]) -> int | None:
        """Return the time up to which all transactions of the source are in all of these tables.

        `applied` has each table with its applied objects. The time is that of a transaction, in microseconds since
        1970; None if it is unknown. Raises StoreUnreachable if the source does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class UnroutedRow:
    """A row that names no table.

    `object` and `row` are its place, `why` is the reason in words, `text` the row as it was written, and `since`
    the time in microseconds since 1970 at which it was found.
    """

    object: str
    row: int
    why: str
    text: str
    since: int


class UnroutedRows(Protocol):
    """Stores the rows that name no table, until an operator looks at them: the quarantine of the pipeline."""

    def unrouted_rows(self) -> Sequence[UnroutedRow]:
        """Return the rows in the order of objects and of rows in them."""
        ...

    def discard(self, unrouted_rows: Sequence[UnroutedRow]) -> None:
        """Delete rows that an operator discards. Starts no engine."""
        ...


class SourceProbe(Protocol):
    """Inspects a folder that is not configured yet, for `lakeward init`. Starts no engine."""

    def propose(self) -> Proposal | None:
        """Return the proposed settings for the folder; None if its files are not of this kind of source."""
        ...


class SourceCatalogue(Protocol):
    """Describes tables of the source database: columns, types, primary keys and comments."""

    def describe(self, tables: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        """Return descriptions of these tables by the given names. Unknown tables are left out.

        Names are compared without case if no name is exactly equal. Raises CatalogueUnreachable if the catalogue
        does not answer, and ConfigError if its answer cannot be read.
        """
        ...


class Statistics(Protocol):
    """Asks the replication task that writes the files of a source for the status of its full loads."""

    def full_load(self, table: TableName) -> LoadStatus | None:
        """Return the status of the last full load of a table; None if the task tells nothing of it.

        Raises ConfigError or SourceError if the task cannot be asked.
        """
        ...


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry of a listing. `size` is in bytes, None for what is not a file, such as a folder.

    `modified` is in microseconds since 1970. `etag` is the store's own tag of the content.
    """

    name: str
    size: int | None
    modified: int
    etag: str | None = None


class Store(Protocol):
    """A store of files: a disk or a bucket. Paths are absolute, in the form that the engine takes.

    Methods raise OSError for a failure of one file or folder, and LakewardError for a failure of the whole store.
    """

    def resolve(self, folder: str) -> str | None:
        """Return the path of a folder with links resolved; None if it does not exist."""
        ...

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders in a folder."""
        ...

    def list(self, folder: str, start: str | None) -> Iterator[Stored]:
        """Return the entries of a folder, named relative to it. Names that sort before `start` may be left out."""
        ...

    def stat(self, path: str) -> Stored | None:
        """Return the listing entry of a file by its path; None if it does not exist."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a file. Only the requested ranges are read."""
        ...

    def move(self, path: str, target: str) -> None:
        """Move a file to the path `target`, which `free_place` chose.

        At every moment the file exists under at least one of the two names.
        """
        ...
