"""What a table says of itself, in the commit that carries its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from lakeward.core.checks.log_steps import LogReached, SnapshotPlace
from lakeward.core.checks.source_clock import Ahead, Backwards
from lakeward.core.dimension import Match
from lakeward.core.events import Mark, Position, Sequences
from lakeward.core.ledger.duplicate_objects import DuplicateObject
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.merge.counts import Counts

_OF_FEW: Final = frozenset(
    {"match", "current", "history", "numbered", "joined", "logs", "partitions", "snapshot", "others", "databases"}
    | {"order_by", "key_form", "header"}
)

_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "high_water": lambda parts: Position(*parts),
    "mark": lambda parts: Mark(*parts),
    "ahead": lambda parts: Ahead(*parts),
    "backwards": lambda parts: Backwards(*parts[:2]),  # older versions wrote a third
    "twin": lambda parts: DuplicateObject(*parts),
    "sequences": Sequences,
    "match": Match,
    "key": tuple,
    "logs": tuple,
    "partitions": lambda found: {int(end): LogReached.of_parts(parts) for end, parts in found.items()},
    "snapshot": lambda parts: SnapshotPlace(*parts),
    "others": OtherTables.of,
    "databases": tuple,
    "header": tuple,
}
"""How a field is read from JSON, where it is not as JSON has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a table is: the truth on restart, whatever a ledger or a queue says.

    `mark` is what the table's lateness has left behind: nothing at or below it may arrive.
    `object` names the last object applied, in the source's own terms; `time` is the
    greatest source time seen, in microseconds since 1970, but for what lay too far `ahead`
    to be believed; the order of the newest batch may run `backwards`, an object of it have a
    `twin`. `sequences` says what that order is made of, `key` by which columns rows are told
    apart (None: nobody wrote it down), `match` by what a change finds its row. `counts` are
    those of the batch, `totals` those of all batches of the epoch. `digest` is that of the
    objects of the batch (None: as before). In a history
    `rows` are versions, of which so many are `current`, and `history` are its options, as
    `core.history.stored_options` writes them (None: it is none); where deletes are soft, so many rows are
    `current`, and `history` says that. `numbered` is the highest surrogate number that was
    given (None: versions have none). In a joined table `joined` says how far it has passed its sources, as
    `core.joined.plan` writes it (None: it is none). `logs` names the logs of the source that its changes came from,
    where messages do, as `core.checks.log_restart.LogName` writes them; `partitions` are how far each partition of
    a topic has come there, by the order behind its objects (None: there are none). `snapshot` is where the highest
    initial snapshot lies there (None: there is none). `others` are the messages of other tables in the objects of
    all batches of the epoch (None: there are none). `databases` are those that the rows of these batches name
    (None: they name none). `order_by` is the column whose values put its events in order, as `Source.order_by`
    returns it, and `key_form` what changes the values of its key, as `Source.key_form` does (None: nobody wrote it
    down). `header` has the columns as the last header of a file had them, where that is another order than was
    declared (None: it is not, or no file had a header).
    """

    batch: int = 0
    epoch: int = 1
    high_water: Position | None = None
    mark: Mark | None = None
    object: str | None = None
    time: int | None = None
    rows: int = 0
    current: int | None = None
    held: int = 0
    inexact_since: str | None = None
    ahead: Ahead | None = None
    backwards: Backwards | None = None
    twin: DuplicateObject | None = None
    sequences: Sequences = Sequences.TIMES
    key: tuple[str, ...] | None = None
    match: Match = Match.KEY
    history: str | None = None
    numbered: int | None = None
    joined: str | None = None
    digest: str | None = None
    logs: tuple[str, ...] | None = None
    partitions: Mapping[int, LogReached] | None = None
    snapshot: SnapshotPlace | None = None
    others: OtherTables | None = None
    databases: tuple[str, ...] | None = None
    order_by: str | None = None
    key_form: str | None = None
    header: tuple[str, ...] | None = None
    counts: Counts = field(default_factory=Counts)
    totals: Counts = field(default_factory=Counts)

    @property
    def has_rows(self) -> bool:
        """Whether the objects of all batches of the epoch had any row of the table."""
        return self.totals.read > self.totals.skipped

    def to_json(self) -> str:
        """Return the progress as one line of JSON, small enough for a commit's properties.

        What only some tables have, as histories, joined tables or those of messages, is absent elsewhere.
        """
        match = None if self.match is Match.KEY else self.match.value
        values = {**asdict(self), "sequences": self.sequences.value, "match": match}
        values["partitions"] = self.partitions and {end: found.parts for end, found in self.partitions.items()}
        told = {name: value for name, value in values.items() if value is not None or name not in _OF_FEW}
        return json.dumps(told, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; names that this version does not know are left out."""
        values = json.loads(text)
        known = {name: values[name] for name in cls.__slots__ if name in values}
        for name, read in _READERS.items():
            if known.get(name) is not None:
                known[name] = read(known[name])
        for name in ("counts", "totals"):
            known[name] = Counts.of(known.get(name, {}))
        return cls(**known)
