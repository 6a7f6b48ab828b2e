"""Classify the events of a delivery before any row is folded: new, of another epoch, too late, or tied."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakeward.core.dimension import Ties
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Hold, Reason, Reject
from lakeward.core.merge.counts import Verdict
from lakeward.core.merge.delivery import Delivery
from lakeward.core.merge.settling.duplicates import without_copies
from lakeward.core.merge.settling.effective_times import date_repaired
from lakeward.core.merge.settling.table_before import TableBefore
from lakeward.core.merge.ties import Tie, refuse_tie, tie_detail, ties_with


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The events of a delivery by their kind.

    `fresh` events may be folded; `staged` ones belong to an epoch whose load is not complete. `closed` has the
    quarantined events that were repaired or discarded, `repaired` those of them that may be folded. `holds` are all
    holds after the delivery. `verdicts` are those that need no row; an event to fold has `WAITING` until it is
    folded.
    """

    batch: int
    read: int
    duplicates: int
    fresh: Sequence[ChangeEvent]
    staged: Sequence[ChangeEvent]
    holds: Mapping[Position, Hold]
    rejects: Sequence[Reject]
    verdicts: Mapping[Position, Verdict]
    repaired: Sequence[ChangeEvent] = ()
    closed: dict[Position, ChangeEvent | None]

    def with_held(self, rejects: Collection[Reject]) -> Arrivals:
        """Return the same with these events in quarantine and their keys held."""
        positions = {reject.position for reject in rejects}
        return replace(
            self,
            fresh=[event for event in self.fresh if event.position not in positions],
            staged=[event for event in self.staged if event.position not in positions],
            holds={**self.holds, **{reject.position: Hold.of(reject, self.batch) for reject in rejects}},
            rejects=[*self.rejects, *rejects],
            verdicts={
                p: Verdict.QUARANTINED if p in positions else verdict for p, verdict in self.verdicts.items()
            },
        )


def sort_delivery(before: TableBefore, delivery: Delivery) -> Arrivals:
    """Classify the events of a delivery: copies, other epochs, ties, late events, and events to fold."""
    arrived = classify_events(before, delivery)
    if before.dimension.ties is not Ties.ARRIVAL:
        arrived = hold_ties(before, arrived, delivery)
    return with_repaired(before, arrived, delivery)


def classify_events(before: TableBefore, delivery: Delivery) -> Arrivals:
    """Return the events that come for the first time: to fold, staged, of a past epoch, or too late."""
    events, refused, copies = without_copies(before, delivery)
    verdicts = {event.position: first_verdict(before, event.position) for event in events}
    late = [event for event in events if verdicts[event.position] is Verdict.QUARANTINED]
    open_ = [event for event in events if verdicts[event.position] is Verdict.WAITING]
    rejects = [Reject(event.position, Reason.TOO_LATE, event.keys, time=event.time) for event in late]
    rejects += [without_late_hold(before, reject) for reject in refused]
    closed = {resolution.position: resolution.repaired for resolution in delivery.resolutions}
    return Arrivals(
        batch=delivery.number,
        read=len(delivery.events) + len(delivery.rejects),
        duplicates=copies,
        fresh=[event for event in open_ if event.position.epoch == before.epoch],
        staged=[event for event in open_ if event.position.epoch > before.epoch],
        holds=stored_holds(before, closed) | holds_of(before, rejects, delivery.number),
        rejects=rejects,
        verdicts=verdicts | {reject.position: Verdict.QUARANTINED for reject in refused},
        closed=closed,
    )


def first_verdict(before: TableBefore, position: Position) -> Verdict:
    """Return the verdict of an event by its position alone. `WAITING` means that it is to be folded."""
    if position.epoch < before.epoch:
        return Verdict.STALE
    return Verdict.QUARANTINED if before.is_late(position) else Verdict.WAITING


def without_late_hold(before: TableBefore, reject: Reject) -> Reject:
    """Return a reject. One that comes too late gets the reason `too_late`, which holds no key."""
    is_late = reject.holds and reject.has_place and before.is_late(reject.position)
    return replace(reject, reason=Reason.TOO_LATE) if is_late else reject


def stored_holds(before: TableBefore, closed: Collection[Position]) -> dict[Position, Hold]:
    """Return the holds from before, without those that are closed now."""
    holds = before.memory.holds.items()
    return {position: hold for position, hold in holds if position.epoch >= before.epoch and position not in closed}


def holds_of(before: TableBefore, rejects: Iterable[Reject], batch: int) -> dict[Position, Hold]:
    """Return the holds that the rejects of a batch add."""
    holding = [reject for reject in rejects if reject.holds and reject.position.epoch >= before.epoch]
    return {reject.position: Hold.of(reject, batch) for reject in holding}


def hold_ties(before: TableBefore, arrived: Arrivals, delivery: Delivery) -> Arrivals:
    """Hold the events that tie with a known one, or raise SourceError, as the policy of the table says.

    Ties are found when an event first arrives: neither a repaired nor a released event is checked again.
    """
    ties = find_ties(before, arrived)
    if ties and before.dimension.ties is Ties.FAIL:
        event_name, other_name = (
            _place_words(position, delivery) for position in (ties[0].event.position, ties[0].other)
        )
        raise refuse_tie(before.dimension, event_name, other_name)
    return arrived.with_held(
        [Reject.of(tie.event, Reason.TIE, tie_detail(_place_words(tie.other, delivery))) for tie in ties]
    )


def find_ties(before: TableBefore, arrived: Arrivals) -> list[Tie]:
    """Return the ties among the events of the delivery and the remembered ones.

    An `ordered` table remembers only waiting events and deletes; for others its rows are compared. An object
    delivered to it again ties with nothing, because its events were compared the first time.
    """
    events = [*arrived.fresh, *arrived.staged]
    changes = before.memory.changes.values()
    if not before.is_ordered:
        return ties_with(events, (change.event for change in changes), {})
    events = [event for event in events if not before.memory.has_object(event.position)]
    remembered = [c.event for c in changes if c.waiting or c.event.operation is Operation.DELETE]
    return ties_with(events, remembered, before.rows, before.first_value_columns)


def with_repaired(before: TableBefore, arrived: Arrivals, delivery: Delivery) -> Arrivals:
    """Return the arrivals with the repaired events, which are folded once their epoch is that of the table."""
    closed = {
        position: None if event is None else date_repaired(before.dimension, event, delivery)
        for position, event in arrived.closed.items()
    }
    repaired = [event for event in closed.values() if event is not None]
    return replace(
        arrived,
        closed=closed,
        repaired=[event for event in repaired if event.position.epoch == before.epoch],
        staged=[*arrived.staged, *(event for event in repaired if event.position.epoch > before.epoch)],
    )


def _place_words(position: Position, delivery: Delivery) -> str:
    return f"{delivery.object_of(position)}:{position.row}"
