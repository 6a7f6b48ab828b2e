"""How the example for Airflow waits for a job of Glue, with fakes of Airflow and Glue."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from repository import ROOT

THROTTLED = ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "GetJobRun")
NOT_CONNECTED = EndpointConnectionError(endpoint_url="https://glue.eu-central-1.amazonaws.com")


@dataclass
class Glue:
    """A fake job of Glue. Each status request gets the next answer, or raises it if it is an error."""

    answers: list[str | Exception]
    stopped: list[str] = field(default_factory=list)

    def start_job_run(self, **_: Any) -> Any:
        return {"JobRunId": "jr_1"}

    def get_job_run(self, **_: Any) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"JobRun": {"JobRunState": answer}}

    def batch_stop_job_run(self, JobRunIds: list[str], **_: Any) -> None:  # noqa: N803  # as boto3 has it
        self.stopped += JobRunIds


class NoReport:
    def get_object(self, **_: Any) -> None:
        raise ClientError({"Error": {"Code": "NoSuchKey", "Message": ""}}, "GetObject")


class Failed(Exception):
    pass


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Glue], None]:
    """Return a function that runs the job of the example. Each wait takes ten minutes of its clock."""
    sdk, exceptions = ModuleType("airflow.sdk"), ModuleType("airflow.sdk.exceptions")
    instance = type("Instance", (), {"run_id": "r", "dag_id": "d", "task_id": "t", "try_number": 1})
    contents: dict[str, Any] = {
        "dag": lambda **_: lambda _function: lambda: None,
        "task": None,
        "get_current_context": lambda: {"ti": instance},
    }
    vars(sdk).update(contents)
    vars(exceptions).update({"AirflowException": Failed, "AirflowFailException": Failed})
    for module in (ModuleType("airflow"), sdk, exceptions):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = importlib.util.spec_from_file_location("lakeward_dag", ROOT / "examples/airflow/lakeward_dag.py")
    assert spec is not None
    assert spec.loader is not None
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    now = [0.0]
    clock = ModuleType("time")
    vars(clock).update({"monotonic": lambda: now[0], "sleep": lambda _: now.append(now.pop() + 600)})
    monkeypatch.setattr(example, "time", clock)

    def commit_batch(glue: Glue) -> None:
        boto3 = ModuleType("boto3")
        vars(boto3)["client"] = {"glue": glue, "s3": NoReport()}.__getitem__
        monkeypatch.setitem(sys.modules, "boto3", boto3)
        example.run_on_glue("run")

    return commit_batch


@pytest.mark.parametrize("error", [THROTTLED, NOT_CONNECTED])
def test_a_failed_status_request_stops_no_job(run: Callable[[Glue], None], error: Exception) -> None:
    glue = Glue([error, "RUNNING", error, "RUNNING", error, "SUCCEEDED"])
    with pytest.raises(Failed, match="the job run jr_1 ended as SUCCEEDED, and left no report"):
        run(glue)
    assert (glue.answers, glue.stopped) == ([], [])


def test_a_job_without_status_for_long_is_stopped(run: Callable[[Glue], None]) -> None:
    glue = Glue(["RUNNING", THROTTLED, THROTTLED, THROTTLED])
    with pytest.raises(ClientError, match="Rate exceeded"):
        run(glue)
    assert (glue.answers, glue.stopped) == ([THROTTLED], ["jr_1"])


def test_a_task_that_is_ended_stops_its_job(run: Callable[[Glue], None]) -> None:
    glue = Glue(["RUNNING", NoAnswer()])
    with pytest.raises(NoAnswer):
        run(glue)
    assert glue.stopped == ["jr_1"]


class NoAnswer(Exception):
    """The error that ends a task."""
