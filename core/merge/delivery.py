"""A delivery, which is one batch as it arrives at a table, and the result of settling it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakeward.core.checks.source_clock import latest
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Key, Operation, Position
from lakeward.core.merge.change_log import BaseRow, Change, ChangeLogContents, Hold, Record, Reject
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.fold import Row


@dataclass(frozen=True, slots=True)
class Resolution:
    """An operator's decision on a quarantined event: the repaired event, or None where it is discarded."""

    position: Position
    repaired: ChangeEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A batch as it arrives: events and rejects in any order, and the operator's resolutions.

    `loaded` is the epoch whose full load is complete with this delivery. `believed` is the latest source time that
    may raise the watermarks (None: any may). `ran` is when the batch was begun, in microseconds since 1970; in a
    history it dates events that have no time. A delivery that is `by_hand` has no object of the source: an operator
    made it. `own_times` is that of `BatchFacts`; `is_first` and `suspect_objects` are those of the plan.
    `object_names` has the names of source objects by their order, for messages; an object that it lacks is named by
    its order.
    """

    number: int
    events: Sequence[ChangeEvent] = ()
    rejects: Sequence[Reject] = ()
    resolutions: Sequence[Resolution] = ()
    loaded: int | None = None
    believed: int | None = None
    ran: int = 0
    by_hand: bool = False
    own_times: bool = False
    is_first: bool = False
    suspect_objects: frozenset[int] = frozenset()
    object_names: Mapping[int, str] = field(default_factory=dict)

    def object_of(self, place: Position) -> str:
        """Return the name of the object of a position, for messages."""
        return self.object_names.get(place.object, str(place.object))


@dataclass(slots=True, kw_only=True)
class DeliveryResult:
    """The effect of a delivery on a table and its change log, computed and not yet committed.

    `rows` has for each touched key its new row, or None where it is removed; in a history the row has all versions
    of its key. `replaces` says that everything of earlier epochs is removed as well: the change log and, except in
    a history, the rows. `log_regressions` is that of `MergeResult`.
    """

    rows: dict[Key, Row | None]
    changes: list[Change]
    bases: list[BaseRow]
    holds: list[Hold]
    closed: dict[Position, ChangeEvent | None]
    rejects: list[Reject]
    record: Record | None
    counts: Counts
    epoch: int
    loaded: int
    replaces: bool
    log_regressions: Mapping[int, int] = field(default_factory=dict)


def without_known_objects(
    memory: ChangeLogContents, delivery: Delivery
) -> tuple[list[ChangeEvent], list[Reject], int]:
    """Return the events and rejects of objects that come for the first time, and the number of all others."""
    events = [event for event in delivery.events if not memory.has_object(event.position)]
    rejects = [reject for reject in delivery.rejects if not memory.has_object(reject.position)]
    return events, rejects, len(delivery.events) + len(delivery.rejects) - len(events) - len(rejects)


def record_of(delivery: Delivery) -> Record | None:
    """Return the batch record of a delivery, or None where it is empty. A delivery by hand raises no watermark."""
    arrived = [(event.position, event.time) for event in delivery.events]
    arrived += [(reject.position, reject.time) for reject in delivery.rejects]
    if not arrived:
        return None
    placed = [event.position for event in delivery.events]
    placed += [reject.position for reject in delivery.rejects if reject.has_place]
    bounds = placed or [position for position, _ in arrived]
    loads = frozenset(position.epoch for position in placed if position.sequence == LOAD_SEQUENCE)
    of_source = () if delivery.by_hand else arrived
    return Record(
        delivery.number,
        frozenset(position.object for position, _ in of_source),
        min(bounds),
        max(bounds),
        latest((time for _, time in of_source), delivery.believed),
        loads,
        truncates=tuple(e.position for e in delivery.events if e.operation is Operation.TRUNCATE),
    )
