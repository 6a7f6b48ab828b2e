"""Changes that are newer by their time than all that came before, and lie below what came of their keys."""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.core.delivery import Delivery
from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.log_steps import LEAST_GAP
from lakeward.core.settling.judging import is_below
from lakeward.core.settling.sorting import Arrived
from lakeward.core.settling.standing import Before


def first_overtaken(before: Before, arrived: Arrived, delivery: Delivery) -> Mapping[int, int]:
    """Return, by object, the row of the first such change of each object that is `doubted`.

    It is compared with what came of its keys, earlier in the delivery or before, and by its time with the newest of
    its object before the delivery as well. Rows of snapshots are none; times that are not believed do not count.
    """
    found: dict[int, int] = {}
    highest: dict[Key, Position] = {}
    latest: dict[Key, int] = {}
    for event in sorted(arrived.fresh, key=lambda event: event.position[2:]) if delivery.doubted else ():
        time, (_, _, order, row) = _believed_time(event, delivery), event.position
        is_change = bool(event.keys) and event.operation is not Operation.READ
        if is_change and order in delivery.doubted and order not in found:
            times = [delivery.doubted[order], *(latest.get(key) for key in event.keys)]
            newest = max((one for one in times if one is not None), default=None)
            is_newer = time is not None and newest is not None and time - newest >= LEAST_GAP
            is_lower = any(key in highest and event.position < highest[key] for key in event.keys)
            if is_newer and (is_lower or is_below(before, event)):
                found[order] = row
        for key in event.keys:
            highest[key] = max(event.position, highest.get(key, event.position))
            if time is not None:
                latest[key] = max(time, latest.get(key, time))
    return found


def _believed_time(event: ChangeEvent, delivery: Delivery) -> int | None:
    """Return the time of an event, None where it tells none or one that is not believed."""
    is_ahead = event.time is not None and delivery.believed is not None and event.time > delivery.believed
    return None if is_ahead else event.time
