"""The progress of a table, which is part of the commit that carries its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from lakeward.core.checks.log_steps import LogReached, SnapshotPlace
from lakeward.core.checks.source_clock import Ahead, Backwards
from lakeward.core.dimension import Match
from lakeward.core.events import Position, Sequences, SourceOrder
from lakeward.core.ledger.duplicate_objects import DuplicateObject
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.merge.counts import Counts

_OF_FEW: Final = frozenset(
    {"match", "current", "history", "numbered", "joined", "logs", "partitions", "snapshot", "others", "databases"}
    | {"order_by", "key_form", "header"}
)

_STORED_NAMES: Final[Mapping[str, str]] = {"high_watermark": "high_water", "low_watermark": "mark"}
"""The names in JSON of attributes that are called otherwise; tables have them, so they stay."""

_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "high_watermark": lambda parts: Position(*parts),
    "low_watermark": lambda parts: SourceOrder(*parts),
    "ahead": lambda parts: Ahead(*parts),
    "backwards": lambda parts: Backwards(*parts[:2]),  # older versions wrote a third
    "twin": lambda parts: DuplicateObject(*parts),
    "sequences": Sequences,
    "match": Match,
    "key": tuple,
    "logs": tuple,
    "partitions": lambda by_end: {int(end): LogReached.of_parts(parts) for end, parts in by_end.items()},
    "snapshot": lambda parts: SnapshotPlace(*parts),
    "others": OtherTables.of,
    "databases": tuple,
    "header": tuple,
}
"""How a field is read from JSON, where its type is not one of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a table is. On restart it is the truth, whatever a ledger or a queue says.

    Its names are stored as JSON (`_STORED_NAMES`). `high_watermark` is the greatest position that was
    applied. At or below `low_watermark` nothing may arrive any more. `object` is the name of the
    last object applied, in the source's own terms. `time` is the greatest source time seen, in microseconds since
    1970, without times too far `ahead` to be believed. `backwards` and `twin` say that the order of the newest
    batch runs backwards, and that an object of it has a duplicate. `sequences` is the kind of order, `key` are the
    key columns (None: not recorded), `match` is how a change finds its row. `counts` are those of the batch,
    `totals` those of all batches of the epoch. `digest` is that of the objects of the batch (None: as before).

    In a history `rows` counts versions, of which `current` are current, and `history` has its options, as
    `core.history.stored_options` writes them (None: no history). Where deletes are soft, `current` rows are not
    deleted, and `history` says that deletes are soft. `numbered` is the highest surrogate number assigned (None:
    versions have none). In a joined table `joined` says how far it has passed its sources, as `core.joined.plan`
    writes it (None: not a joined table).

    `logs` are the logs of the source that its changes came from, where messages name them, as
    `core.checks.log_steps.LogName` writes them. `partitions` is how far each partition of a topic has come there,
    by the order of the end of its objects (None: no partitions). `snapshot` is the place of the highest initial
    snapshot there (None: no snapshot). `others` are the messages of other tables in the objects of all batches of
    the epoch (None: none). `databases` are those that the rows of these batches name (None: none). `order_by` is
    the column that orders the events, as `Source.order_by` returns it, and `key_form` describes what changes the
    values of its key, as `Source.key_form` does (None: not recorded). `header` has the columns in the order of the
    last header of a file, where that differs from the declared order (None: it does not, or no file had a header).
    """

    batch: int = 0
    epoch: int = 1
    high_watermark: Position | None = None
    low_watermark: SourceOrder | None = None
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

        Fields that only some tables have, such as histories, joined tables or those of messages, are left out
        elsewhere.
        """
        match = None if self.match is Match.KEY else self.match.value
        values = {**asdict(self), "sequences": self.sequences.value, "match": match}
        values["partitions"] = self.partitions and {end: reached.parts for end, reached in self.partitions.items()}
        stored = {
            _STORED_NAMES.get(name, name): value
            for name, value in values.items()
            if value is not None or name not in _OF_FEW
        }
        return json.dumps(stored, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the progress that `to_json` wrote; names that this version does not know are ignored."""
        values = json.loads(text)
        stored = {name: _STORED_NAMES.get(name, name) for name in cls.__slots__}
        fields = {name: values[stored_name] for name, stored_name in stored.items() if stored_name in values}
        for name, read in _READERS.items():
            if fields.get(name) is not None:
                fields[name] = read(fields[name])
        for name in ("counts", "totals"):
            fields[name] = Counts.of(fields.get(name, {}))
        return cls(**fields)
