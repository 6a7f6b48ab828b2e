"""Lambda function that returns the progress of the full load of a DMS replication task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.adapters.aws.service_clients import create_client, explain_errors
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.lambdas.environment import DMS_TASK, read_variable
from lakeward.entrypoints.lambdas.executions import PAGE

_INACTIVE: Final = frozenset({"deleting", "failed", "failed-move", "stopped", "stopping"})
"""States in which a task loads nothing until an operator acts (docs.aws.amazon.com/dms, status of a task)."""


def handler(event: Mapping[str, Any], context: object) -> dict[str, object]:
    """Return the `status` of the task, and the `percent` of its full load.

    `is_loaded` is True at 100 %, with no table loading or queued. `has_failed` is True if the load will not
    complete by itself. `loaded`, `errored` and `queued` are numbers of tables. `message` is a text with the errors
    of DMS.
    """
    arn = read_variable(DMS_TASK)
    return describe(_find_task(arn), arn)


def _find_task(arn: str) -> Mapping[str, Any]:
    with explain_errors(f"the replication task {arn}", PAGE):
        client = create_client("dms")
        filters = [{"Name": "replication-task-arn", "Values": [arn]}]
        tasks = client.describe_replication_tasks(Filters=filters, WithoutSettings=True)["ReplicationTasks"]
    if not tasks:
        raise ConfigError(
            f"there is no replication task {arn}",
            todo=f"Correct the variable {DMS_TASK} of the function, or the region.",
        )
    task: Mapping[str, Any] = tasks[0]
    return task


def describe(task: Mapping[str, Any], arn: str) -> dict[str, object]:
    """Return the answer of `handler` for a task as DMS describes it."""
    counts = task.get("ReplicationTaskStats", {})
    percent, status = int(counts.get("FullLoadProgressPercent", 0)), str(task.get("Status", "unknown"))
    loaded, errored, queued, loading = (
        int(counts.get(f"Tables{state}", 0)) for state in ("Loaded", "Errored", "Queued", "Loading")
    )
    is_loaded = percent >= 100 and not queued and not loading
    parts = [f"The task {arn} is {status}, its full load is at {percent} %"]
    parts += [f"{errored} {'table' if errored == 1 else 'tables'} ended with an error"] if errored else []
    parts += [str(task[key]) for key in ("StopReason", "LastFailureMessage") if task.get(key)]
    return {
        "status": status,
        "percent": percent,
        "is_loaded": is_loaded,
        "has_failed": status in _INACTIVE and not is_loaded,
        "loaded": loaded,
        "errored": errored,
        "queued": queued,
        "message": ". ".join(parts),
    }
