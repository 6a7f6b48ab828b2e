"""The objects of a source, and what the ledger has of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import Final

from lakeward.core.events import Position
from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.failures import Failure
from lakeward.core.reporting.notices import SentEntry
from lakeward.core.verification.source_verification import SourceVerdict

PIPELINE: Final = "*"
"""Under this name, which no table has, the ledger keeps what is of the pipeline as a whole: what was told."""


@dataclass(frozen=True, slots=True)
class SourceObject:
    """A file of a source table.

    `order` is its place among the table's objects, read from its name; `size` is in
    bytes, `modified` in microseconds since 1970. `etag` tells its content from another,
    where that is known: a store's own tag, or a hash.
    """

    name: str
    order: int
    size: int
    modified: int
    etag: str | None = None

    @property
    def version(self) -> str:
        """What the object is as it was listed, in one line."""
        return f"{self.name} {self.size} {self.modified}"


def digest_of(objects: Iterable[SourceObject]) -> str:
    """Return what these versions of objects, in any order, are known by: the same in every process."""
    versions = sorted(item.version for item in objects)
    return sha256("\n".join(versions).encode()).hexdigest()[:16]


class ObjectState(Enum):
    """What became of an object; `docs/reference/ledger.md` explains each."""

    SEEN = "seen"
    APPLIED = "applied"
    QUARANTINED = "quarantined"
    VANISHED = "vanished"
    REWRITTEN = "rewritten"
    ARCHIVED = "archived"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRecord:
    """What the ledger has of an object.

    `first_seen` is in microseconds since 1970, and None where only a lost ledger knew it.
    `least` and `greatest` are positions below and above all of its rows.
    """

    object: SourceObject
    state: ObjectState
    first_seen: int | None = None
    batch: int | None = None
    rows: int | None = None
    least: Position | None = None
    greatest: Position | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the ledger says of a table as a whole.

    `waiting` are objects that were seen and are in no batch yet; `checked` are times of
    modification at which applied objects were found to have the content that was applied.
    `listed` is when all objects were listed last, in microseconds since 1970, `batch` the
    newest batch that the ledger knows. `alarms` stood at the end of the last run, and
    `acked` is what operators let pass, by the code of the alarm. `awaited` is the full load
    that the table waited for, `failure` the error that ended its last run, `verdict` what its last verification
    against its source found. Of the pipeline as a whole, `sent` is what notifiers took.
    """

    waiting: Mapping[str, SourceObject] = field(default_factory=dict)
    checked: Mapping[str, int] = field(default_factory=dict)
    listed: int | None = None
    batch: int = 0
    alarms: tuple[Alarm, ...] = ()
    acked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    awaited: AwaitedLoad | None = None
    failure: Failure | None = None
    verdict: SourceVerdict | None = None
    sent: tuple[SentEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What is to be written into the ledger of a table, at once; None leaves a thing as it is.

    `anew` forgets all that was there before. Of an object that is known the time when it was
    first seen stays. `states` are new states by name, of objects that are known: only what is
    applied or waits can vanish. With `looked`, the table waits for what is `awaited` now, or for
    nothing. With `has_ended`, a run of the table ended with a `failure`, or without one. `verdict` is that of a
    verification against the source, `sent` all that notifiers are known to have taken.
    """

    anew: bool = False
    records: Sequence[ObjectRecord] = ()
    states: Mapping[ObjectState, Collection[str]] = field(default_factory=dict)
    checked: Mapping[str, int] = field(default_factory=dict)
    listed: int | None = None
    batch: int | None = None
    alarms: Sequence[Alarm] | None = None
    acked: Mapping[str, frozenset[str]] | None = None
    looked: bool = False
    awaited: AwaitedLoad | None = None
    has_ended: bool = False
    failure: Failure | None = None
    verdict: SourceVerdict | None = None
    sent: Sequence[SentEntry] | None = None
