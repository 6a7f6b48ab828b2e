"""What is said of the full load of a task of DMS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from state_machines import StepFunctions

from lakeward.core.errors import ConfigError
from lakeward.entrypoints.lambdas import dms_status
from lakeward.entrypoints.lambdas.environment import DMS_TASK

ARN = "arn:aws:dms:eu-central-1:123456789012:task:shop"


def task(status: str, percent: int, **more: Any) -> Mapping[str, Any]:
    counts = {name: more.pop(name) for name in [*more] if name.startswith("Tables")}
    return {"Status": status, "ReplicationTaskStats": {"FullLoadProgressPercent": percent, **counts}, **more}


def test_a_task_is_asked_for_by_its_arn(step_functions: StepFunctions, monkeypatch: pytest.MonkeyPatch) -> None:
    client = step_functions.client("dms")
    made = client.create_replication_task(
        ReplicationTaskIdentifier=f"{step_functions.pipeline}-status",
        SourceEndpointArn="arn:aws:dms:eu-central-1:123456789012:endpoint:source",
        TargetEndpointArn="arn:aws:dms:eu-central-1:123456789012:endpoint:target",
        ReplicationInstanceArn="arn:aws:dms:eu-central-1:123456789012:rep:shop",
        MigrationType="full-load-and-cdc",
        TableMappings="{}",
    )["ReplicationTask"]["ReplicationTaskArn"]
    client.start_replication_task(ReplicationTaskArn=made, StartReplicationTaskType="start-replication")
    monkeypatch.setenv(DMS_TASK, made)
    load = {"percent": 100, "is_loaded": True, "has_failed": False, "loaded": 1, "errored": 0, "queued": 0}
    message = f"The task {made} is running, its full load is at 100 %"
    assert dms_status.handler({}, None) == {"status": "running", **load, "message": message}
    monkeypatch.setenv(DMS_TASK, ARN)
    with pytest.raises(ConfigError, match=f"replication task {ARN}"):
        dms_status.handler({}, None)


@pytest.mark.parametrize(
    ("content", "is_loaded", "has_failed"),
    [
        (task("running", 100, TablesLoaded=3), True, False),
        (task("running", 99, TablesLoading=1), False, False),
        (task("running", 100, TablesQueued=1), False, False),
        (task("running", 100, TablesLoading=1), False, False),
        (task("stopped", 100), True, False),
        (task("stopped", 40), False, True),
        (task("failed", 40), False, True),
        (task("creating", 0), False, False),
        (task("ready", 0), False, False),
        ({"Status": "creating"}, False, False),
    ],
)
def test_a_full_load_is_over_at_100_percent_and_fails_where_the_task_rests(
    content: Mapping[str, Any], is_loaded: bool, has_failed: bool
) -> None:
    found = dms_status.describe(content, ARN)
    assert (found["is_loaded"], found["has_failed"]) == (is_loaded, has_failed)


def test_the_message_has_what_dms_says() -> None:
    failed = task("failed", 40, TablesErrored=2, StopReason="RECOVERABLE_ERROR", LastFailureMessage="no answer")
    said = "is failed, its full load is at 40 %. 2 tables ended with an error. RECOVERABLE_ERROR. no answer"
    assert dms_status.describe(failed, ARN)["message"] == f"The task {ARN} {said}"
