"""An event starts a pipeline, or is left to the execution that runs: never two of one pipeline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from repository import ROOT
from state_machines import StepFunctions, wait_until

from lakeward.core.errors import ConfigError
from lakeward.entrypoints.lambdas import history_check, start_run
from lakeward.entrypoints.lambdas.environment import LEASES, STATE_MACHINE
from lakeward.entrypoints.lambdas.executions import Executions, open_executions

EVENTS = ROOT / "tests" / "adapters" / "aws" / "s3" / "events"
WAITS: Mapping[str, Any] = {
    "StartAt": "Wait",
    "States": {"Wait": {"Type": "Wait", "Seconds": 600, "Next": "Done"}, "Done": {"Type": "Succeed"}},
}
NEWS = json.loads((EVENTS / "eventbridge_created.json").read_text("utf-8"))


@pytest.fixture
def machine(step_functions: StepFunctions, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a state machine that waits, and return its ARN."""
    arn = step_functions.make(WAITS)
    monkeypatch.setenv(STATE_MACHINE, arn)
    return arn


@pytest.fixture
def executions(machine: str) -> Executions:
    return open_executions(machine)


def stop(aws: StepFunctions, machine: str, name: str) -> None:
    arn = f"{machine.replace(':stateMachine:', ':execution:')}:{name}"
    aws.client("stepfunctions").stop_execution(executionArn=arn)
    wait_until(lambda: aws.executions(machine)[name] != "RUNNING")


def test_the_first_event_starts_an_execution_and_the_next_one_joins_it(
    step_functions: StepFunctions, machine: str
) -> None:
    first, second = start_run.handler(NEWS, None), start_run.handler(NEWS, None)
    assert (first["started"], second["started"]) == (True, False)
    assert first["execution"] == second["execution"]
    assert step_functions.executions(machine) == {first["execution"]: "RUNNING"}


@pytest.mark.parametrize("is_first", [True, False], ids=["the first", "behind one that ended"])
def test_events_at_once_start_one_execution(step_functions: StepFunctions, machine: str, is_first: bool) -> None:
    if not is_first:
        stop(step_functions, machine, str(start_run.handler(NEWS, None)["execution"]))
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(start_run.handler, [NEWS] * 8, [None] * 8)]
    assert any(one["started"] for one in answers)
    assert len({one["execution"] for one in answers}) == 1
    states = ["RUNNING"] if is_first else ["ABORTED", "RUNNING"]
    assert sorted(step_functions.executions(machine).values()) == states


def test_an_execution_that_nobody_came_to_start_is_started_by_the_next_event(
    step_functions: StepFunctions, machine: str, executions: Executions
) -> None:
    holder = executions.find_holder("reserved")
    assert start_run.handler(NEWS, None) == {"execution": "reserved", "started": True}
    assert not executions.start(holder.name, {"phase": "changes"})
    assert step_functions.executions(machine) == {"reserved": "RUNNING"}


def test_two_pipelines_do_not_know_each_other(
    step_functions: StepFunctions, machine: str, executions: Executions
) -> None:
    assert start_run.start_or_join(replace(executions, pipeline="other"))["started"]
    assert start_run.start_or_join(executions)["started"]


def test_names_are_such_as_aws_takes(executions: Executions) -> None:
    long = replace(executions, pipeline="shop.of." + "a" * 100)
    names = {long.new_name() for _ in range(20)}
    assert len(names) == 20
    assert all(len(name) <= 80 and name.startswith("shop-of-") for name in names)


def test_where_the_lease_is_not_there_it_is_said_what_to_do(
    step_functions: StepFunctions, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASES, "no-table")
    with pytest.raises(ConfigError, match=r"(?s)no-table.*does not exist.*docs/reference/lease\.md"):
        start_run.handler(NEWS, None)


def test_a_variable_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STATE_MACHINE, raising=False)
    with pytest.raises(ConfigError, match=r"(?s)LAKEWARD_STATE_MACHINE .* is not set.*orchestration\.md"):
        start_run.handler(NEWS, None)


def of_sqs(*bodies: str) -> Mapping[str, Any]:
    return {"Records": [{"eventSource": "aws:sqs", "body": body} for body in bodies]}


def of_sns(text: str) -> Mapping[str, Any]:
    return {"Records": [{"EventSource": "aws:sns", "Sns": {"Message": text}}]}


def text_of(file: str) -> str:
    return (EVENTS / file).read_text("utf-8")


@pytest.mark.parametrize(
    ("event", "starts"),
    [
        (NEWS, True),
        (json.loads(text_of("s3_put.json")), True),
        (of_sqs(text_of("s3_delete.json"), text_of("s3_put.json")), True),
        (of_sqs(text_of("sns_eventbridge_created.json")), True),
        (of_sqs('{"table": "shop.orders"}'), True),
        (of_sns(text_of("s3_put.json")), True),
        ({"source": "aws.scheduler", "detail-type": "Scheduled Event"}, True),
        ({}, True),
        (json.loads(text_of("s3_delete.json")), False),
        (json.loads(text_of("eventbridge_deleted.json")), False),
        (of_sqs(text_of("s3_delete.json"), text_of("s3_test_event.json")), False),
        (of_sns(text_of("s3_test_event.json")), False),
    ],
)
def test_what_has_news_and_what_nobody_knows_starts_a_run(event: Mapping[str, Any], starts: bool) -> None:
    assert start_run.has_news(event) is starts
    assert starts or start_run.handler(event, None) == {"execution": None, "started": False}


# The check of the history.


def check(machine: str, name: str, **changed: Any) -> dict[str, object]:
    event = {
        "execution": f"{machine.replace(':stateMachine:', ':execution:')}:{name}",
        "state_machine": machine,
        "started": "2026-11-01T00:00:00.000Z",
        "history_limit": 1000,
        "max_days": 300_000,
    }
    return history_check.handler({**event, **changed}, None)


def test_an_execution_goes_on_below_the_limits(step_functions: StepFunctions, machine: str) -> None:
    name = str(start_run.handler(NEWS, None)["execution"])
    found = wait_until(lambda: (answer := check(machine, name))["events"] == 2 and answer)
    assert (found["verdict"], found["successor"]) == ("go-on", name)


@pytest.mark.parametrize("limit", [{"history_limit": 2}, {"max_days": 0}])
def test_at_a_limit_the_pipeline_is_handed_over_once(
    step_functions: StepFunctions, machine: str, limit: Mapping[str, Any]
) -> None:
    name = str(start_run.handler(NEWS, None)["execution"])
    wait_until(lambda: check(machine, name)["events"] == 2)
    found, again = (check(machine, name, **limit) for _ in range(2))
    assert found["verdict"] == again["verdict"] == "start-anew"
    assert found["successor"] == again["successor"] != name
    assert start_run.handler(NEWS, None) == {"execution": found["successor"], "started": True}
    assert check(machine, name)["verdict"] == "leave"
    assert check(machine, str(found["successor"]))["verdict"] == "go-on"


def test_an_execution_that_was_started_otherwise_leaves_the_pipeline_to_the_first_one(
    step_functions: StepFunctions, machine: str
) -> None:
    first = str(start_run.handler(NEWS, None)["execution"])
    step_functions.start(machine, "by-hand")
    assert check(machine, "by-hand")["verdict"] == "leave"
    stop(step_functions, machine, first)
    assert check(machine, "by-hand")["verdict"] == "go-on"
    assert start_run.handler(NEWS, None) == {"execution": "by-hand", "started": False}


def test_where_an_execution_was_is_read_from_the_last_state_that_it_entered(executions: Executions) -> None:
    entered = [json.dumps({"phase": phase, "run": "jr_1", "idle": 3}) for phase in ("full-load", "changes")]
    details = [{}, *({"stateEnteredEventDetails": {"input": text}} for text in [*entered, "[]"])]
    events = [{"id": number, **detail} for number, detail in enumerate(details, 1)]

    class Client:
        @staticmethod
        def get_execution_history(**asked: Any) -> Mapping[str, Any]:
            assert asked["reverseOrder"]
            return {"events": events[::-1]}

    known = replace(executions, client=Client())
    assert known.progress_of("one") == {"phase": "changes", "run": "jr_1"}
    events[:] = []
    assert known.progress_of("one") == {}
