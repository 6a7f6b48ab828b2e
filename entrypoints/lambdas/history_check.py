"""Lambda function that decides whether an execution continues, or another one takes over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from time import time as now
from typing import Any, Final

from lakeward.entrypoints.lambdas.executions import Holder, open_executions

GO_ON: Final = "go-on"
"""The execution has the pipeline, and continues."""

START_ANEW: Final = "start-anew"
"""The execution `successor` has the pipeline, and must be started."""

LEAVE: Final = "leave"
"""Another execution has the pipeline, and is running."""

_DAY: Final = 24 * 3600


def handler(event: Mapping[str, Any], context: object) -> dict[str, object]:
    """Return a `verdict`, the name of the `successor`, the `events` of the history so far, and the age in `days`.

    The event has the ARNs `execution` and `state_machine`, when the execution `started`, and the limits
    `history_limit` (events) and `max_days`.
    """
    name = str(event["execution"]).rpartition(":")[2]
    executions = open_executions(event["state_machine"])
    holder = executions.find_holder(name)
    events = executions.count_events(name)
    days = (now() - datetime.fromisoformat(event["started"]).timestamp()) / _DAY
    if holder.name == name and (events >= event["history_limit"] or days >= event["max_days"]):
        holder = executions.hand_over(holder, executions.new_name())
    return {"verdict": _verdict(holder, name), "successor": holder.name, "events": events, "days": round(days, 3)}


def _verdict(holder: Holder, name: str) -> str:
    if holder.name == name:
        return GO_ON
    return LEAVE if holder.is_running else START_ANEW
