"""The definition of the state machine, looked at and not run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from cfnlint.api import lint_all

from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.job_calls import GlueJob, ServerlessJob
from lakeward.entrypoints.deployment.state_machine import StateMachineNames, state_machine

GLUE = GlueJob(name="${Job}", arguments={"--settings": "s3://shop/lakeward.toml"})
SERVERLESS = ServerlessJob(
    application="${Application}",
    role="${Role}",
    entry_point="s3://shop/lakeward_job.py",
    arguments=["--settings", "s3://shop/lakeward.toml"],
)
NAMES = StateMachineNames(
    pipeline="shop",
    full_load=replace(GLUE, worker_type="G.4X", workers=20),
    changes=GLUE,
    queue_url="${Queue}",
    topic="${Topic}",
    history_check_function="${HistoryCheck}",
    dms_status_function="${DmsStatus}",
)
KINDS = {
    "glue": NAMES,
    "glue without DMS": replace(NAMES, dms_status_function=None),
    "EMR Serverless": replace(NAMES, full_load=SERVERLESS, changes=SERVERLESS),
}
of_each_kind = pytest.mark.parametrize("names", KINDS.values(), ids=KINDS.keys())


def states_of(names: StateMachineNames) -> dict[str, Any]:
    """Return the states of a definition as AWS reads them."""
    found: dict[str, Any] = json.loads(json.dumps(state_machine(names)))["States"]
    return found


def followers(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the states that may follow a state."""
    for part in (state, *state.get("Choices", ()), *state.get("Catch", ())):
        yield from (part[key] for key in ("Next", "Default") if key in part)


def reached(states: Mapping[str, Any], start: str) -> set[str]:
    """Return the states that a state leads to, of those that are there."""
    found, waiting = set[str](), {start} & set(states)
    while waiting:
        found |= waiting
        waiting = {name for one in waiting for name in followers(states[one])} & set(states) - found
    return found


@of_each_kind
def test_all_states_are_reached_and_from_each_the_next_turn_or_an_end_is(names: StateMachineNames) -> None:
    states = states_of(names)
    assert reached(states, "Defaults") == set(states)
    ends = {name for name, state in states.items() if state["Type"] in ("Succeed", "Fail")}
    assert ends == {"WentOver", "AnotherOneRuns", "GaveUp"}
    assert all(reached(states, name) & {"CheckHistory", *ends} for name in states)
    assert all(("Next" in state) == (state["Type"] in ("Pass", "Task", "Wait")) for state in states.values())
    assert all("Default" in state for state in states.values() if state["Type"] == "Choice")


@of_each_kind
def test_each_call_is_repeated_and_its_failure_is_caught(names: StateMachineNames) -> None:
    tasks = {name: state for name, state in states_of(names).items() if state["Type"] == "Task"}
    for state in tasks.values():
        for key in ("Retry", "Catch"):
            assert state[key][-1]["ErrorEquals"] == ["States.ALL"]
        assert state["Retry"][-1]["MaxAttempts"] == names.attempts
        assert state["Retry"][-1]["BackoffRate"] > 1
        awaited = [error for one in state["Catch"][:-1] for error in one["ErrorEquals"]]
        at_once = [error for one in state["Retry"] if not one["MaxAttempts"] for error in one["ErrorEquals"]]
        assert awaited == at_once
        assert state["Next"] not in ("GaveUp", "AnotherOneRuns") or "sns" in state["Resource"]


@of_each_kind
def test_nothing_ends_without_a_notice_or_an_execution_that_goes_on(names: StateMachineNames) -> None:
    states = states_of(names)
    ends = ("WentOver", "AnotherOneRuns", "GaveUp")
    before = [{name for name, state in states.items() if end in followers(state)} for end in ends]
    assert before == [{"StartNewExecution"}, {"Verdict"}, {"TellEnd"}]


@of_each_kind
def test_a_turn_begins_with_the_check_so_that_no_circle_goes_around_it(names: StateMachineNames) -> None:
    states = states_of(names)
    del states["CheckHistory"]
    for name in states:
        behind = set[str]().union(*(reached(states, one) for one in followers(states[name])))
        assert name not in behind


def failures_of(names: StateMachineNames) -> list[Mapping[str, str]]:
    """Return what the states say that are failures."""
    parameters = [state.get("Parameters", {}) for state in states_of(names).values()]
    return [one["failure"] for one in parameters if "failure" in one]


@of_each_kind
def test_a_failure_says_what_is_wrong_what_was_found_and_what_to_do(names: StateMachineNames) -> None:
    said = failures_of(names)
    assert len(said) >= 9
    for one in [*said, *failures_of(replace(names, pipeline="a" * 300))]:
        assert set(one) == {"subject", "pipeline", "what", "reason.$", "todo"}
        assert one["subject"].isascii()
        assert len(one["subject"]) < 100, "as long as SNS takes it"


def test_names_may_be_substitutions_of_cloudformation_and_stay_as_they_are() -> None:
    text = json.dumps(state_machine(NAMES))
    for name in ("Job", "Queue", "Topic", "HistoryCheck", "DmsStatus"):
        assert f'"${{{name}}}"' in text
    assert '"JobName": "${Job}"' in text


def test_both_platforms_have_the_same_states_and_no_pipeline_has_two_of_them() -> None:
    assert set(states_of(KINDS["glue"])) == set(states_of(KINDS["EMR Serverless"]))
    assert [KINDS[kind].platform for kind in KINDS] == ["glue", "glue", "emr-serverless"]
    with pytest.raises(ConfigError, match="different platforms"):
        replace(NAMES, changes=SERVERLESS)


@pytest.mark.parametrize(
    "limits", [{"history_limit": 25_000}, {"history_limit": 0}, {"max_days": 365}, {"max_days": 0}]
)
def test_limits_that_aws_would_be_faster_with_are_refused(limits: Mapping[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"(?s)limits of an execution are wrong.*24,000 events and 360 days"):
        replace(NAMES, **limits)


def test_cfn_lint_reads_the_definitions_and_finds_nothing_wrong() -> None:
    broken = {**state_machine(NAMES), "StartAt": "Nowhere"}
    machines = {"".join(kind.split()): state_machine(names) for kind, names in KINDS.items()} | {"Broken": broken}
    resources = {name: resource(definition) for name, definition in machines.items()}
    template = {"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources}
    found = [match for match in lint_all(json.dumps(template)) if not match.rule.id.startswith("I")]
    assert [(match.rule.id, match.path[1]) for match in found] == [("E3601", "Broken")]


def resource(definition: Mapping[str, object]) -> Mapping[str, object]:
    """Return a state machine as a template has it, which replaces all names."""
    text = json.dumps(definition)
    properties = {
        "RoleArn": "arn:aws:iam::123456789012:role/shop",
        "Definition": json.loads(text),
        "DefinitionSubstitutions": {part.partition("}")[0]: "shop" for part in text.split("${")[1:]},
    }
    return {"Type": "AWS::StepFunctions::StateMachine", "Properties": properties}
