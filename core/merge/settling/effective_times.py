"""From when what a delivery brings counts in a history: said once and for all, before anything else."""

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
    """Return an event that says from when it counts, in a history, where this delivery brings or settles it."""
    if history is None or event.instant is not None:
        return event
    return replace(event, instant=instant_of(event, history, delivery.ran, is_first=delivery.is_first))


def date_delivery(dimension: Dimension, delivery: Delivery) -> Delivery:
    """Return a delivery whose events have their instants; of a history it rejects those that do not say theirs."""
    events: list[ChangeEvent] = []
    rejects = [*delivery.rejects]
    for one in delivery.events:
        event = date_event(one, dimension.history, delivery)
        detail = _undated(event, dimension.history)
        if detail is None:
            events.append(event)
        else:
            rejects.append(Reject.of(event, Reason.UNDATED, detail))
    return replace(delivery, events=events, rejects=rejects)


def date_repaired(dimension: Dimension, event: ChangeEvent, delivery: Delivery) -> ChangeEvent:
    """Return what a person mended, with its instant; it must say that."""
    found = date_event(event, dimension.history, delivery)
    if (detail := _undated(found, dimension.history)) is not None:
        raise repair.is_undated(dimension, delivery.object_of(event.position), event.position.row, detail)
    return found


def _undated(event: ChangeEvent, history: History | None) -> str | None:
    """Return in words why an event does not say from when it counts, or None where it need not, or does."""
    return None if history is None else undated_detail(event, history)
