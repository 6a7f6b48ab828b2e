"""Start the state machine of a pipeline for an event, or leave it to the execution that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakeward.adapters.aws.s3.events import read_message
from lakeward.entrypoints.lambdas.environment import STATE_MACHINE, read_variable
from lakeward.entrypoints.lambdas.executions import Executions, open_executions


def handler(event: Mapping[str, Any], context: object) -> dict[str, object]:
    """Return the `execution` that has the pipeline now, and whether it was `started` for this event.

    Of events that come at once several may find that it was to be started; Step Functions starts one of that name.
    An event of S3, EventBridge, SNS or SQS that tells of no new object starts nothing, and its `execution` is None.
    Anything else starts one: a schedule, a call by hand.
    """
    if not tells_news(event):
        return {"execution": None, "started": False}
    return start_or_join(open_executions(read_variable(STATE_MACHINE)))


def start_or_join(executions: Executions) -> dict[str, object]:
    """Let one execution run, and return its name; a new one begins where the last one was."""
    holder = executions.find_holder(executions.new_name())
    if holder.is_running:
        return {"execution": holder.name, "started": False}
    progress = executions.progress_of(holder.ended) if holder.ended is not None else {}
    return {"execution": holder.name, "started": executions.start(holder.name, progress)}


def tells_news(event: Mapping[str, Any]) -> bool:
    """Return False for an event that tells of no new object and no table: a delete, the test of a queue."""
    contents = [read_message(text) for text in _texts(event)]
    return any(content is None or content.objects or content.tables for content in contents)


def _texts(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield the messages that an event brings: those of SQS and SNS are in its records, and else it is one."""
    records = event.get("Records")
    for record in records if isinstance(records, list) else []:
        if "body" in record:
            yield record["body"]
        elif "Sns" in record:
            yield record["Sns"]["Message"]
        else:
            yield json.dumps({"Records": [record]})
    if not isinstance(records, list):
        yield json.dumps(event)
