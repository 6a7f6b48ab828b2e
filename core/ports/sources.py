"""Where changes come from: the changes themselves, and what is known of them without reading them."""

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
    """Where changes come from."""

    @property
    def lateness(self) -> Lateness:
        """The lateness of tables whose settings say nothing of it."""
        ...

    @property
    def sequences(self) -> Sequences:
        """What the order of its events is made of."""
        ...

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the column whose values put the events of a table in order, "" where the order of objects does.

        Where times in it may be written without a zone, it is the text of an `OrderBy`, which has that zone, too.
        None where no setting can change that. A table with rows whose column becomes another is stopped.
        """
        ...

    def key_form(self, dimension: Dimension) -> str | None:
        """Return what of the settings changes the values of a key, as `core.checks.key_form.key_form` words it.

        None where no setting does. A table with rows for which it becomes another is stopped.
        """
        ...

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Return the objects of the next batch; raises AlarmRaised where order or content is in doubt."""
        ...

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[F]:
        """Read the objects whole. Those that changed meanwhile, and all after them, are left out."""
        ...

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return the names of applied objects that cannot be read again.

        Raises ConfigError or SourceError, with the reason, where a table cannot be read again from before them.
        """
        ...

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> F:
        """Return a frame of one truncate, which the source did not write down, and its source time, if known."""
        ...

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied objects into the archive; return those that are there now (none, where they are kept)."""
        ...

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension with the columns and the key that rows have at the source, mended ones too."""
        ...

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return how rules make columns of the row that stands; `may_need` says what its events may call for."""
        ...

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return a row in quarantine as it was written, column by column; what cannot be told is left out."""
        ...

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> F:
        """Return mended rows as a frame of events; one that is not mended is read as it was written.

        Raises MendError for what does not fit its column.
        """
        ...


@runtime_checkable
class StagingArea(Protocol):
    """What a source stages for its tables in a place that outlives a run; a source that has such a place has it."""

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        """Remove what ended runs have left of a table there, and that no run needs, or (`is_dry`) only name it.

        Raises StoreUnreachable where the place does not answer.
        """
        ...


class Landing(Protocol):
    """What a source says of its tables without reading them, and without an engine."""

    def tables(self) -> Sequence[TableName]:
        """Return the tables that there are, configured or not."""
        ...

    def warnings(self, tables: Collection[TableName]) -> Sequence[str]:
        """Return what a person should know of what is there for no table; `tables` are those configured."""
        ...

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return what a person should know of a configured table, whatever its next batch is."""
        ...

    def match_objects(self, tables: Collection[TableName]) -> Callable[[str], Collection[TableName]]:
        """Return what tells which of these tables read an object, by its URL, as `s3://bucket/key`.

        It may tell of a table too many; of one whose objects lie in no bucket it tells nothing.
        """
        ...


class Backlog(Protocol):
    """How much waits at a source whose objects are made of a log, without reading it, and without an engine."""

    def waiting(self, table: TableName, applied: Collection[str]) -> int | None:
        """Return how many messages wait for a table that applied the objects of these names.

        None where that cannot be told. Raises StoreUnreachable where the source does not answer.
        """
        ...

    def consistent_as_of(self, applied: Sequence[tuple[TableName, Collection[SourceObject]]]) -> int | None:
        """Return up to when all transactions of the source are in all of these tables of it, by their objects.

        It is the time of such a transaction, in microseconds since 1970; None where that cannot be told. Raises
        StoreUnreachable where the source does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class UnroutedRow:
    """A row that does not say of which table it is: from where, why not, its text, and known since when."""

    object: str
    row: int
    why: str
    text: str
    since: int


class UnroutedRows(Protocol):
    """Where rows of no table wait for a person: the quarantine of a pipeline as a whole."""

    def unrouted_rows(self) -> Sequence[UnroutedRow]:
        """Return them, in the order of objects and rows."""
        ...

    def discard(self, unrouted_rows: Sequence[UnroutedRow]) -> None:
        """Forget rows that a person gave up; no engine is started."""
        ...


class SourceProbe(Protocol):
    """Looks at files that nobody configured yet, without an engine."""

    def look(self) -> Proposal | None:
        """Return what a source of its kind would make of them, or None where they are not of its kind."""
        ...


class SourceCatalogue(Protocol):
    """What a source's database says of its tables: columns, types, primary keys, comments."""

    def describe(self, tables: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        """Return what it says of these tables, by the names given; those that it lacks are left out.

        Names are compared without case where none is exactly that. Raises CatalogueUnreachable
        where it does not answer, and ConfigError where what it says cannot be read.
        """
        ...


class Statistics(Protocol):
    """What the task that writes a source's files says of its full loads, as DMS does of a replication task."""

    def full_load(self, table: TableName) -> LoadStatus | None:
        """Return what it says of the last full load of a table, or None where it says nothing.

        Raises ConfigError or SourceError where it cannot be asked.
        """
        ...


@dataclass(frozen=True, slots=True)
class Stored:
    """What a listing has of a file; without a size it is none, but a folder or the like.

    `modified` is in microseconds since 1970, `etag` the store's own tag of the content.
    """

    name: str
    size: int | None
    modified: int
    etag: str | None = None


class Store(Protocol):
    """Where files lie: a disk, a bucket. Paths are whole ones, as the engine takes them.

    Raises OSError for what is so of one file or folder, and LakewardError for what is so of all.
    """

    def real(self, folder: str) -> str | None:
        """Return the path of a folder without links, or None where nothing is there."""
        ...

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders within a folder."""
        ...

    def list(self, folder: str, start: str | None) -> Iterator[Stored]:
        """Return what is in a folder, names as seen from there; what sorts before `start` may be left out."""
        ...

    def find(self, path: str) -> Stored | None:
        """Return a file as a listing has it, but by its path, or None where there is none."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a file; only what is asked for is read."""
        ...

    def move(self, path: str, target: str) -> None:
        """Move a file to where `free_place` says; it is never under neither name."""
        ...
