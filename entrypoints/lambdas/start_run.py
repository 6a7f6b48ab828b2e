"""Lambda function that starts the state machine of a pipeline for an event, unless an execution runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakeward.adapters.aws.s3.events import read_message
from lakeward.entrypoints.lambdas.environment import STATE_MACHINE, read_variable
from lakeward.entrypoints.lambdas.executions import Executions, open_executions


def handler(event: Mapping[str, Any], context: object) -> dict[str, object]:
    """Return the `execution` that has the pipeline now, and whether it was `started` for this event.

    Several simultaneous events may report that they started it; Step Functions starts only one execution of a
    name. An event of S3, EventBridge, SNS or SQS without a new object starts nothing, and its `execution` is None.
    Anything else starts an execution, such as a schedule or a call by hand.
    """
    if not has_news(event):
        return {"execution": None, "started": False}
    return start_or_join(open_executions(read_variable(STATE_MACHINE)))


def start_or_join(executions: Executions) -> dict[str, object]:
    """Start an execution unless one runs, and return its name; a new one continues where the last one ended."""
    holder = executions.find_holder(executions.new_name())
    if holder.is_running:
        return {"execution": holder.name, "started": False}
    progress = executions.progress_of(holder.predecessor) if holder.predecessor is not None else {}
    return {"execution": holder.name, "started": executions.start(holder.name, progress)}


def has_news(event: Mapping[str, Any]) -> bool:
    """Return False for an event without a new object or table, such as a delete or the test event of S3."""
    contents = [read_message(text) for text in _texts(event)]
    return any(content is None or content.objects or content.tables for content in contents)


def _texts(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield the messages in an event: the records of SQS, SNS and S3, or else the event itself."""
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
