"""What the core asks of the world: small protocols, generic in the frame.

A frame is the data of a batch in whatever form the adapters share (a Spark DataFrame, a
list of events); the core passes it on and never looks inside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Generic, Protocol, TypeAlias, TypeVar

from lakeward.core.catalogue import SourceTable
from lakeward.core.counts import Counts
from lakeward.core.dimension import Dimension, Lateness, TableName
from lakeward.core.events import Cell, Key, Operation, Position, Sequences, Unset
from lakeward.core.evolution import Recorded, SchemaChange
from lakeward.core.facts import BatchFacts, Capability
from lakeward.core.history.check import Checked
from lakeward.core.known import Known
from lakeward.core.ledger import Account, Notes, ObjectRecord, ObjectState, Past, SourceObject, Taken
from lakeward.core.loads import Reload, Told, Whole, reload_of
from lakeward.core.memory import HOLDING, Hold, Reason, Record
from lakeward.core.plan import MergePlan
from lakeward.core.progress import Progress
from lakeward.core.proposals import Proposal
from lakeward.core.remaking import Remaking
from lakeward.core.schema import Schema
from lakeward.core.secrets import Secret

F = TypeVar("F")
F_contra = TypeVar("F_contra", contravariant=True)

Written: TypeAlias = str | Unset | None
"""A cell as the source writes it: a text, None for NULL, `UNSET` where it was not sent."""


@dataclass(frozen=True, slots=True)
class Batch(Generic[F]):
    """A frame of changes and what the core may know of it. `close` frees what it holds."""

    frame: F
    facts: BatchFacts
    close: Callable[[], None] = lambda: None


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

    def take(self, dimension: Dimension, past: Past) -> Taken:
        """Return the objects of the next batch; raises AlarmRaised where order or content is in doubt."""
        ...

    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[F]:
        """Read the objects whole. Those that changed meanwhile, and all after them, are left out."""
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

    def remaking(self, dimension: Dimension, may_need: frozenset[Capability]) -> Remaking:
        """Return how rules make columns of the row that stands; `may_need` says what its events may call for."""
        ...

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return a row in quarantine as it was written, column by column; what cannot be told is left out."""
        ...

    def mend(self, dimension: Dimension, entries: Sequence[Entry]) -> F:
        """Return mended rows as a frame of events; one that is not mended is read as it was written.

        Raises MendError for what does not fit its column.
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


@dataclass(frozen=True, slots=True)
class Stray:
    """A row that does not say of which table it is: from where, why not, its text, and known since when."""

    object: str
    row: int
    why: str
    text: str
    since: int


class Strays(Protocol):
    """Where rows of no table wait for a person: the quarantine of a pipeline as a whole."""

    def strays(self) -> Sequence[Stray]:
        """Return them, in the order of objects and rows."""
        ...

    def discard(self, strays: Sequence[Stray]) -> None:
        """Forget rows that a person gave up; no engine is started."""
        ...


class Scout(Protocol):
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

    def full_load(self, table: TableName) -> Told | None:
        """Return what it says of the last full load of a table, or None where it says nothing.

        Raises ConfigError or SourceError where it cannot be asked.
        """
        ...


class Secrets(Protocol):
    """Where secrets are: the environment, files, a store of a platform."""

    def read(self, name: str) -> Secret:
        """Return a secret by its name there; raises ConfigError where it is not, and never shows one."""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """A table as it stands: its progress, its columns (None where it does not exist), its last commit.

    `committed` is when that was, in microseconds since 1970.
    """

    progress: Progress
    schema: Schema | None
    committed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What carrying out a plan would do, worked out but not done.

    `written` and `removed` are the rows that the commit must add and take away; of a history they
    are versions, `current` says how many more of them are current afterwards than before, and `numbered`
    how many get a surrogate number that is new. `held` are the keys that wait afterwards; `rejects` the
    rows of the batch that go into quarantine, by reason, those that only the table refuses included.
    `detail` belongs to the adapter.
    """

    counts: Counts
    written: int
    removed: int
    current: int = 0
    numbered: int = 0
    held: int = 0
    rejects: Mapping[Reason, int] = field(default_factory=dict)
    detail: Any = None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that was made: its name in the table's own terms, and the rows it added and removed."""

    name: str
    written: int
    removed: int


class Table(Protocol[F_contra]):
    """Where rows end up. Its commit carries rows and progress at once, or neither."""

    capabilities: frozenset[Capability]

    def standing(self) -> Standing:
        """Return what the table's last commit of ours says."""
        ...

    def resolve(self, plan: MergePlan, frame: F_contra) -> Resolved:
        """Work out what the plan does to the rows; nothing that a reader sees changes."""
        ...

    def commit(self, plan: MergePlan, resolved: Resolved, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit; raises CommitConflict where it lost a race."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """An alarm that an operator let pass: what of it, who, why, when (microseconds since 1970), in which epoch."""

    code: str
    about: tuple[str, ...]
    by: str
    reason: str | None
    at: int
    epoch: int = 1


Word: TypeAlias = Ack | Reload | Whole
"""What an operator said of a table, kept beside it."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a table remembers, as of its last commit.

    `objects` are those of its epoch, `left` the versions of those of epochs before. `records` are those of all
    its batches; `in_part` says that some event that is remembered
    may have been sent in part, or change its key. `words` are what operators said, in order,
    `shown` the changes of columns whose rows went into quarantine, by batch.
    """

    objects: Mapping[str, SourceObject] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()
    records: Sequence[Record] = ()
    in_part: bool = False
    words: Sequence[Word] = ()
    shown: Mapping[int, Sequence[SchemaChange]] = field(default_factory=dict)
    left: frozenset[str] = frozenset()

    @property
    def acks(self) -> Sequence[Ack]:
        """The alarms that were let pass."""
        return [word for word in self.words if isinstance(word, Ack)]

    @property
    def reloads(self) -> Sequence[Reload]:
        """The reloads that were asked for."""
        return [word for word in self.words if isinstance(word, Reload)]

    @property
    def wholes(self) -> Sequence[Whole]:
        """The full loads that were said to be complete."""
        return [word for word in self.words if isinstance(word, Whole)]

    def cut(self, epoch: int) -> int | None:
        """Return the order at or below which changes are of the epochs before, if an operator began it."""
        word = reload_of(self.reloads, epoch)
        return None if word is None else word.cut

    def acked(self, epoch: int) -> Mapping[str, frozenset[str]]:
        """What was let pass in an epoch, by the code of the alarm: names come again in the next."""
        found: dict[str, frozenset[str]] = {}
        for ack in self.acks:
            if ack.epoch == epoch:
                found[ack.code] = found.get(ack.code, frozenset()).union(ack.about)
        return found


class Companion(Protocol):
    """What a table remembers beside its rows, stamped with the batch that it belongs to.

    What is stamped above the table's own batch was left by a crash and does not exist.
    """

    def recall(self, progress: Progress) -> Recalled:
        """Return what is remembered up to the table's batch."""
        ...

    def remember(self, plan: MergePlan, resolved: Resolved) -> None:
        """Write the batch record and what the batch leaves to remember."""
        ...

    def trim(self, progress: Progress) -> None:
        """Forget what can no longer matter to a table that stands there."""
        ...

    def write_down(self, progress: Progress, word: Word) -> None:
        """Write down what an operator said; the table need not exist yet."""
        ...

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of the batches behind `after`, up to the table's batch."""
        ...


@dataclass(frozen=True, slots=True)
class Cells:
    """A row as its source wrote it, by column; of a key change also the key `before` it."""

    after: Mapping[str, Written] = field(default_factory=dict)
    before: Mapping[str, Written] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """What a person made of a row in quarantine: its cells by column, as the source writes them.

    `time` is the commit time, as a text, of a row that had none, and `sequence` its sequence where
    that is no time. `old_key` is the key that the row had before, where it changes, by column.
    """

    operation: Operation
    cells: Mapping[str, Written]
    time: str | None = None
    sequence: str | None = None
    old_key: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row in quarantine, and how many events wait behind it; a key change has another key as well.

    `time` is its source time in microseconds since 1970. One that is `mended` waits to be replayed.
    What waits behind it may be key changes, which hold their other keys, too: it `also_holds` those.
    One that `is_waiting` is not in quarantine: it sends a part of a row, and waits for the rest.
    """

    key: str | None
    reason: str
    detail: str
    object: str
    row: int
    operation: str | None
    epoch: int
    sequence: int
    order: int
    batch: int
    since: int
    text: str
    time: int | None = None
    waits: int = 0
    mended: Mended | None = None
    other_key: str | None = None
    also_holds: tuple[str, ...] = ()
    is_waiting: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that the row is about."""
        return tuple(key for key in (self.key, self.other_key) if key is not None)

    @property
    def held_keys(self) -> tuple[str, ...]:
        """The keys that wait behind it: none behind a row that holds nothing."""
        return (*self.keys, *self.also_holds) if self.is_held else ()

    @property
    def position(self) -> Position:
        """The place of the event."""
        return Position(self.epoch, self.sequence, self.order, self.row)

    @property
    def is_held(self) -> bool:
        """Whether later events of its key wait behind it."""
        return self.key is not None and Reason(self.reason) in HOLDING and not self.is_waiting


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


class Quarantine(Protocol[F]):
    """Where events that cannot be applied wait for a person."""

    def refuse(self, plan: MergePlan, batch: Batch[F]) -> Batch[F]:
        """Return a batch with the rows as rejects that show the changes of columns which the plan sends here.

        The others lack nothing without the columns of those changes, and come without them.
        """
        ...

    def hold(self, plan: MergePlan, resolved: Resolved) -> None:
        """Write what the batch could not apply, and what a person gave up."""
        ...

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return what is in quarantine as of the table's batch, oldest first."""
        ...

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        """Return the events that send a part of a row and wait for the rest, oldest first; no engine is started."""
        ...

    def mend(self, progress: Progress, entries: Sequence[Entry], events: F) -> None:
        """Write down what a person mended, until it is replayed; raises MendError where a key is another."""
        ...

    def waiting(self, progress: Progress, resolved: Sequence[Entry], mended: F | None) -> Batch[F]:
        """Return the events that these entries hold no more, and those that were mended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A commit that a table can be taken back to: its name in the table's own terms, and what it says.

    `committed` is when it was made, in microseconds since 1970, where that is known.
    """

    name: str
    progress: Progress
    committed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What a table forgets that is taken back to a version.

    `objects` are those of so many `batches` behind it; `by_hand` of these batches have none: a person made
    them. `words` are what operators said since.
    """

    version: Version
    objects: Sequence[ObjectRecord] = ()
    batches: int = 0
    by_hand: int = 0
    words: Sequence[Word] = ()


class Versions(Protocol):
    """What a table keeps of how it stood, for a person who takes it back; one that declares `rollback` has it."""

    def versions(self) -> Sequence[Version]:
        """Return the commits that it can be taken back to, newest first."""
        ...

    def behind(self, name: str) -> Undone:
        """Return what taking it back to a commit undoes.

        Raises ConfigError or TableError, with the reason, where it cannot be taken back to that.
        """
        ...

    def roll_back(self, undone: Undone) -> None:
        """Take rows and progress back in one commit, and then forget what is stamped above them.

        Where a crash came in between, the table refuses batches until it is asked again. Raises CommitConflict.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How a table is kept in shape; what is None is left alone. Ages are in microseconds, sizes in bytes.

    A data file of whose rows this share is `deleted` is written anew, and so are so many `small` files that
    lie together, into files of about `file_size`. Snapshots older than `keep` expire, but the last
    `keep_last`. Files that no snapshot names are removed once they are older than `orphans`.
    """

    deleted: float | None = None
    small: int | None = None
    file_size: int = 128 * 1024 * 1024
    keep: int | None = None
    keep_last: int = 1
    orphans: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cared:
    """What care did, or would do: data files written anew, their bytes, snapshots expired, files removed.

    `layout` is what it changed of how the table is made.
    """

    files: int = 0
    bytes: int = 0
    snapshots: int = 0
    orphans: Sequence[str] = ()
    layout: Sequence[LayoutChange] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChange:
    """An option of how a table is made that the table has otherwise than its settings say.

    `how` says what making it so means for a table that has rows. Where the format cannot, `refused` says why, and
    `todo` what to do instead.
    """

    option: str
    before: str
    after: str
    how: str = ""
    refused: str | None = None
    todo: str | None = None

    def __str__(self) -> str:
        return f"{self.option} is {self.before}, and the settings say {self.after}"


class Layout(Protocol):
    """How a table with rows is made, against what its settings say of it; they change no row."""

    def differences(self) -> Sequence[LayoutChange]:
        """Return what the settings name and the table has otherwise; no engine is started.

        What they do not name is as the table has it. Nothing differs in a table that is not there.
        """
        ...

    def change(self, changes: Sequence[LayoutChange]) -> None:
        """Make the table as the settings say, in commits that change no row; none of the changes is refused.

        Raises ConfigError, before anything is changed, for what names no column or property of it, and
        CommitConflict where another writer was there first.
        """
        ...


class Maintenance(Protocol):
    """What keeps a table in shape, and changes no row of it; one that declares `maintain` has it."""

    def maintain(self, care: Care, *, is_dry: bool) -> Cared:
        """Carry it out, or only tell what it would do; the commit that says how far the table is must stay.

        Raises CommitConflict where another writer was there first.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A table that another engine wrote: its state, named in the table's own terms, columns, and rows.

    So many of the rows have NULL in the key, and so many keys stand `twice` or more, one of them for `example`.
    `refused` says in words what it has that lakeward cannot write.
    """

    state: str
    schema: Schema
    rows: int
    null_keys: int = 0
    twice: int = 0
    example: str | None = None
    refused: Sequence[str] = ()


class Adoption(Protocol):
    """What takes over a table that another engine wrote; a format that can has it."""

    def look(self) -> Foreign:
        """Look at the table whole, changing nothing.

        Raises ConfigError where there is none, or it is one of ours, and TableError where it cannot be read.
        """
        ...

    def adopt(self, foreign: Foreign, plan: MergePlan, progress: Progress) -> Commit:
        """Write the record of the plan beside the table, then give it our columns and the progress in one commit.

        Its rows stay as they are, with NULL in our columns: they are older than every change. Raises CommitConflict
        where the table is not in the state that was looked at.
        """
        ...


class Verification(Protocol):
    """What looks at a table whole, as anybody may have written to it, and changes nothing."""

    def check_history(self, examples: int) -> Checked:
        """Hold all versions of a history against its rules; of each rule that is broken, name so many keys at most.

        The options of the history are those that its versions were made with. Raises TableError where the table
        cannot be read.
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


@dataclass(frozen=True, slots=True)
class Opened(Generic[F]):
    """One table of a target by its name there, with what it remembers and what it could not apply.

    `versions` and `maintenance` are there where its format can take it back, and keep it in shape; `adoption`
    where it can take over a table of another engine, `layout` where it can change how a table with rows is made,
    `verification` and `reading` where it can look at a table whole, and read it.
    """

    name: str
    table: Table[F]
    companion: Companion
    quarantine: Quarantine[F]
    versions: Versions | None = None
    maintenance: Maintenance | None = None
    adoption: Adoption | None = None
    layout: Layout | None = None
    verification: Verification | None = None
    reading: Reading | None = None


class Target(Protocol[F]):
    """A lake: tables of one format under one catalog."""

    def standing(self, dimension: Dimension) -> Standing:
        """Return how far a table is; it is not opened, and no engine is started."""
        ...

    def schema_changes(self, dimension: Dimension) -> Sequence[Recorded]:
        """Return how the columns of a table changed, in order; no engine is started."""
        ...

    def known(self, dimension: Dimension, key: Key) -> Known:
        """Return all that is known of one key, as of the table's last commit; no engine is started."""
        ...

    def open(self, dimension: Dimension) -> Opened[F]:
        """Return the table that keeps this dimension; it need not exist yet."""
        ...


@dataclass(frozen=True, slots=True)
class Notice:
    """Word that a table may have something new; `receipt` is the queue's own."""

    table: str
    receipt: str = ""


class Queue(Protocol):
    """Work that waits. A notice is acknowledged after the commit that contains its changes."""

    def receive(self) -> Sequence[Notice]:
        """Return the notices that wait."""
        ...

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Forget notices whose changes are committed."""
        ...


class Ledger(Protocol):
    """What is known of every object of a pipeline's tables. It is not the truth: a table can do without."""

    def account(self, table: str) -> Account:
        """Return what is known of a table as a whole; nothing is written."""
        ...

    def objects(
        self, table: str, *states: ObjectState, names: Collection[str] | None = None
    ) -> Iterator[ObjectRecord]:
        """Return the objects of a table in these states, or in any, in order; nothing is written.

        With `names` they are those of these names alone, at the cost of these.
        """
        ...

    def write(self, table: str, notes: Notes) -> None:
        """Write notes of a table, all or none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """For how long somebody has a lease: until a time of his own clock, in microseconds since 1970.

    `owner` is a text that is nobody else's; where the lease was taken away by hand it is empty. `fence` is
    greater than that of every term that another had before, and stays while the term is made longer.
    """

    lease: str
    owner: str
    until: int
    fence: int


class Lease(Protocol):
    """Whose turn it is, on whatever machine: one owner at a time, until his term is over or given back.

    It spares work and is no fence: who was stopped for longer than his term finds out by the commit.
    Raises ConfigError where it cannot be asked as it is, StoreUnreachable where it does not answer.
    """

    def take(self, lease: str, owner: str) -> Term:
        """Return a term of this owner, or that of another who has it: his clock may say that it is not over."""
        ...

    def renew(self, term: Term) -> Term:
        """Return the term made longer; one with another fence where somebody has taken it since."""
        ...

    def give_back(self, term: Term) -> None:
        """Let others have it at once; a term that somebody has taken since is left alone."""
        ...
