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
"""The name, which no table has, of the ledger entry of the whole pipeline: the messages that notifiers took."""


@dataclass(frozen=True, slots=True)
class SourceObject:
    """A file of a source table, or a range of offsets of a topic.

    `order` is its place among the objects of the table, read from its name. `size` is in bytes, `modified` in
    microseconds since 1970. `etag` identifies its content, where that is known: a tag of the store, or a hash.
    """

    name: str
    order: int
    size: int
    modified: int
    etag: str | None = None

    @property
    def version(self) -> str:
        """Name, size and time of modification in one line: it identifies this version of the object."""
        return f"{self.name} {self.size} {self.modified}"


def digest_of(objects: Iterable[SourceObject]) -> str:
    """Return a digest of these versions of objects, in any order; it is the same in every process."""
    versions = sorted(item.version for item in objects)
    return sha256("\n".join(versions).encode()).hexdigest()[:16]


class ObjectState(Enum):
    """The state of an object in the ledger; `docs/reference/ledger.md` explains each."""

    SEEN = "seen"
    APPLIED = "applied"
    QUARANTINED = "quarantined"
    VANISHED = "vanished"
    REWRITTEN = "rewritten"
    ARCHIVED = "archived"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRecord:
    """The ledger record of an object.

    `first_seen` is in microseconds since 1970, and None where the ledger was lost and rebuilt. `least` and
    `greatest` are bounds of the positions of its rows.
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
    """The ledger entry of a table as a whole.

    `waiting` are objects that were seen and are in no batch yet. `checked` are times of modification, in
    microseconds since 1970, at which applied objects were found to have unchanged content. `listed` is the time of
    the last complete listing, in microseconds since 1970, `batch` the newest batch that the ledger knows. `alarms`
    are those at the end of the last run, and `acknowledged` is what operators acknowledged, by code of alarm.
    `awaited` is the full load that the table waited for, `failure` the error that ended its last run, `verdict` the
    result of its last verification against the source. In the entry of the pipeline, `sent` is what notifiers took.
    """

    waiting: Mapping[str, SourceObject] = field(default_factory=dict)
    checked: Mapping[str, int] = field(default_factory=dict)
    listed: int | None = None
    batch: int = 0
    alarms: tuple[Alarm, ...] = ()
    acknowledged: Mapping[str, frozenset[str]] = field(default_factory=dict)
    awaited: AwaitedLoad | None = None
    failure: Failure | None = None
    verdict: SourceVerdict | None = None
    sent: tuple[SentEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """One atomic change of the ledger of a table; None leaves a value as it is.

    `replaces_all` removes all earlier records. The `first_seen` of a known object stays. `states` are new states of
    known objects, by name; `ledger.writer.may_become` says which change is allowed. With `sets_awaited`, `awaited`
    replaces the full load that the table waits for, also by None. With `has_ended`, a run of the table ended, with
    a `failure` or without one. `verdict` is the result of a verification against the source, `sent` all that
    notifiers took.
    """

    replaces_all: bool = False
    records: Sequence[ObjectRecord] = ()
    states: Mapping[ObjectState, Collection[str]] = field(default_factory=dict)
    checked: Mapping[str, int] = field(default_factory=dict)
    listed: int | None = None
    batch: int | None = None
    alarms: Sequence[Alarm] | None = None
    acknowledged: Mapping[str, frozenset[str]] | None = None
    sets_awaited: bool = False
    awaited: AwaitedLoad | None = None
    has_ended: bool = False
    failure: Failure | None = None
    verdict: SourceVerdict | None = None
    sent: Sequence[SentEntry] | None = None
