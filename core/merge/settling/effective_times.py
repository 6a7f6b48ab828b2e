"""Date the events of a delivery: the instant from which each counts in a history.

It is decided once, before all else.
"""

from __future__ import annotations

from dataclasses import replace

from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent
from lakeward.core.history.instants import instant_of, undated_detail
from lakeward.core.history.options import History
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.delivery import Delivery
from lakeward.core.quarantine import repair


def date_event(event: ChangeEvent, history: History | None, delivery: Delivery) -> ChangeEvent:
    """Return an event with the instant from which it counts in a history."""
    if history is None or event.instant is not None:
        return event
    return replace(event, instant=instant_of(event, history, delivery.ran, is_first=delivery.is_first))


def date_delivery(dimension: Dimension, delivery: Delivery) -> Delivery:
    """Return a delivery with dated events. In a history, events without a usable instant become rejects."""
    events: list[ChangeEvent] = []
    rejects = [*delivery.rejects]
    for undated in delivery.events:
        event = date_event(undated, dimension.history, delivery)
        detail = _undated_detail(event, dimension.history)
        if detail is None:
            events.append(event)
        else:
            rejects.append(Reject.of(event, Reason.UNDATED, detail))
    return replace(delivery, events=events, rejects=rejects)


def date_repaired(dimension: Dimension, event: ChangeEvent, delivery: Delivery) -> ChangeEvent:
    """Return a repaired event with its instant; raises RepairError where it has none."""
    dated = date_event(event, dimension.history, delivery)
    if (detail := _undated_detail(dated, dimension.history)) is not None:
        raise repair.is_undated(dimension, delivery.object_of(event.position), event.position.row, detail)
    return dated


def _undated_detail(event: ChangeEvent, history: History | None) -> str | None:
    """Return why an event has no usable instant, or None where it has one or needs none."""
    return None if history is None else undated_detail(event, history)
