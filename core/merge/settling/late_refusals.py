"""Events that only the fold shows cannot be applied. They go into quarantine and hold their keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lakeward.core.dimension import Dimension
from lakeward.core.errors import RepairError
from lakeward.core.events import ChangeEvent, Key, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.delivery import Delivery
from lakeward.core.merge.settling.arrivals import Arrivals
from lakeward.core.merge.settling.events_by_key import EventsByKey
from lakeward.core.merge.settling.folding import FoldedDelivery
from lakeward.core.merge.settling.hold_filter import FilteredEvents
from lakeward.core.quarantine import repair


def find_refusals(passing: FilteredEvents, outcome: FoldedDelivery) -> list[Reject]:
    """Return as rejects the events that cannot be decided or, where there are none, those that break histories."""
    positions = {position for folded in outcome.folds for position in folded.undecided}
    undecided = first_undecided(passing, positions) if positions else []
    return [Reject.of(event, Reason.KEY_SHIFT) for event in undecided] or find_broken_histories(passing, outcome)


def first_undecided(passing: FilteredEvents, positions: Collection[Position]) -> list[ChangeEvent]:
    """Return the events at these positions that stay undecided even if all earlier ones wait.

    Once one of them is held, later events of its keys wait, and a waiting key change holds its other key, too.
    """
    undecided: list[ChangeEvent] = []
    touched: set[Key] = set()
    for event in passing.passed:
        if not touched.isdisjoint(event.keys):
            touched.update(event.keys)
        elif event.position in positions:
            touched.update(event.keys)
            undecided.append(event)
    return undecided


def find_broken_histories(passing: FilteredEvents, outcome: FoldedDelivery) -> list[Reject]:
    """Return the first event of each key whose versions would break a rule.

    No fold produces such versions: the table was altered by others. A key that only a truncate or a full load
    touches has no event.
    """
    rejects: dict[Position, Reject] = {}
    passed = EventsByKey.of(passing.passed).events if outcome.broken else {}
    for key, detail in outcome.broken.items():
        if key in passed:
            event = passed[key][0]
            rejects.setdefault(event.position, Reject.of(event, Reason.HISTORY, detail))
    return list(rejects.values())


def hold(dimension: Dimension, arrived: Arrivals, rejects: Sequence[Reject], delivery: Delivery) -> Arrivals:
    """Quarantine events and hold their keys.

    Raises RepairError for a repaired row that cannot be applied.
    """
    repaired = {event.position for event in arrived.repaired}
    for reject in rejects:
        if reject.position in repaired:
            raise refuse_repaired(dimension, reject, delivery.object_of(reject.position))
    return arrived.with_held(rejects)


def refuse_repaired(dimension: Dimension, reject: Reject, name: str) -> RepairError:
    """Return the error for a repaired row that cannot be applied; `name` is that of its object."""
    row = reject.position.row
    if reject.reason is Reason.HISTORY:
        return repair.breaks_history(dimension, name, row, reject.detail)
    return repair.undecided(dimension, name, row)
