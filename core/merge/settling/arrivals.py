"""What each event of a delivery is, before any row is folded: new, of another epoch, too late, or tied."""

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
    """What a delivery brought, sorted out.

    `fresh` events may be folded, `staged` ones are of an epoch whose load is not complete. What a person mended or
    gave up is `closed`; `repaired` is what may be folded of that. `holds` are all that stand now. The `verdicts`
    are those that need no row: what may be folded waits.
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
        """Return the same with events in quarantine, and their keys held."""
        places = {reject.position for reject in rejects}
        return replace(
            self,
            fresh=[event for event in self.fresh if event.position not in places],
            staged=[event for event in self.staged if event.position not in places],
            holds={**self.holds, **{reject.position: Hold.of(reject, self.batch) for reject in rejects}},
            rejects=[*self.rejects, *rejects],
            verdicts={p: Verdict.QUARANTINED if p in places else verdict for p, verdict in self.verdicts.items()},
        )


def sort_delivery(before: TableBefore, delivery: Delivery) -> Arrivals:
    """Tell copies, other epochs, ties and what comes too late from the events to fold."""
    arrived = classify_events(before, delivery)
    if before.dimension.ties is not Ties.ARRIVAL:
        arrived = hold_ties(before, arrived, delivery)
    return with_repaired(before, arrived, delivery)


def classify_events(before: TableBefore, delivery: Delivery) -> Arrivals:
    """Return what came for the first time, by its place: fresh, staged for an epoch to come, past or too late."""
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
    """Return what becomes of an event for its place alone; what is neither past nor too late waits to be folded."""
    if position.epoch < before.epoch:
        return Verdict.STALE
    return Verdict.QUARANTINED if before.is_late(position) else Verdict.WAITING


def without_late_hold(before: TableBefore, reject: Reject) -> Reject:
    """Return a reject; one that comes too late holds no key."""
    is_late = reject.holds and reject.has_place and before.is_late(reject.position)
    return replace(reject, reason=Reason.TOO_LATE) if is_late else reject


def stored_holds(before: TableBefore, closed: Collection[Position]) -> dict[Position, Hold]:
    """Return the holds that stood before, but for what is closed now."""
    holds = before.memory.holds.items()
    return {place: hold for place, hold in holds if place.epoch >= before.epoch and place not in closed}


def holds_of(before: TableBefore, rejects: Iterable[Reject], batch: int) -> dict[Position, Hold]:
    """Return the holds that come with the rejects of a batch."""
    holding = [reject for reject in rejects if reject.holds and reject.position.epoch >= before.epoch]
    return {reject.position: Hold.of(reject, batch) for reject in holding}


def hold_ties(before: TableBefore, arrived: Arrivals, delivery: Delivery) -> Arrivals:
    """Hold the events that tie with one that stands, or refuse the delivery for them, as the table has it.

    It is judged once: neither what was mended nor what waited ties with anything when it is let through.
    """
    ties = find_ties(before, arrived)
    if ties and before.dimension.ties is Ties.FAIL:
        one, other = (_named(place, delivery) for place in (ties[0].event.position, ties[0].other))
        raise refuse_tie(before.dimension, one, other)
    return arrived.with_held(
        [Reject.of(tie.event, Reason.TIE, tie_detail(_named(tie.other, delivery))) for tie in ties]
    )


def find_ties(before: TableBefore, arrived: Arrivals) -> list[Tie]:
    """Return the ties among what came and what is remembered.

    Of an `ordered` table that is what waits, and deletes; else the rows tell. What is delivered to it again has
    met them, and ties with none.
    """
    came = [*arrived.fresh, *arrived.staged]
    changes = before.memory.changes.values()
    if not before.is_ordered:
        return ties_with(came, (change.event for change in changes), {})
    came = [event for event in came if not before.memory.has_object(event.position)]
    known = [c.event for c in changes if c.waiting or c.event.operation is Operation.DELETE]
    return ties_with(came, known, before.rows, before.kept)


def with_repaired(before: TableBefore, arrived: Arrivals, delivery: Delivery) -> Arrivals:
    """Return what came with what a person mended beside it, which is folded once its epoch is that of the table."""
    closed = {
        place: None if event is None else date_repaired(before.dimension, event, delivery)
        for place, event in arrived.closed.items()
    }
    repaired = [event for event in closed.values() if event is not None]
    return replace(
        arrived,
        closed=closed,
        repaired=[event for event in repaired if event.position.epoch == before.epoch],
        staged=[*arrived.staged, *(event for event in repaired if event.position.epoch > before.epoch)],
    )


def _named(position: Position, delivery: Delivery) -> str:
    return f"{delivery.object_of(position)}:{position.row}"
