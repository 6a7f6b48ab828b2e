"""The state machine of a pipeline, in Amazon States Language with JSONPath (docs/how-to/aws/orchestration.md).

Five values pass from state to state, and from an execution to the next: the `phase` ("full-load" or "changes"),
the id of the `run` that is awaited ("" for none), the number of `failures` in a row, the number of failed full
load runs (`loads`), and the number of turns in a row with an empty queue (`idle`). Each turn begins with the check
of the history, so that an execution ends between two turns, and the next one continues with the same values.
"""

from __future__ import annotations

from typing import Final

from lakeward.entrypoints.deployment.job_calls import GOES_ON, IS_RUNNING, IS_UNKNOWN, SUCCEEDED, Job
from lakeward.entrypoints.deployment.states import (
    BEGIN,
    CHANGES,
    FULL_LOAD,
    State,
    StateMachineNames,
    call_function,
    catch,
    failure,
    notice,
    notice_parameters,
    pass_on,
    retry,
    state_input,
    task,
)
from lakeward.entrypoints.lambdas.history_check import LEAVE, START_ANEW

__all__ = ["StateMachineNames", "state_machine"]

_CHECK_HISTORY: Final = "CheckHistory"
_ERROR: Final = "States.JsonToString($.error)"

_STARTED_BEFORE: Final = (
    "StepFunctions.ExecutionAlreadyExistsException",
    "StepFunctions.ExecutionAlreadyExists",
)
"""Errors which mean that the execution has already been started."""


def state_machine(names: StateMachineNames) -> dict[str, object]:
    """Return the definition of the state machine of a pipeline. Its type is STANDARD."""
    states = {**_begin(), **_history(names), **_route(names), **_runs(names), **_queue(names), **_failures(names)}
    if names.dms_status_function is not None:
        states |= _dms(names, names.dms_status_function)
    return {
        "Comment": "lakeward: the full load of a pipeline, and then its changes (docs/how-to/aws/orchestration.md)",
        "QueryLanguage": "JSONPath",
        "StartAt": "Defaults",
        "States": states,
    }


def _begin() -> dict[str, State]:
    """Return the states that complete the input of an execution, which may be empty."""
    merged = "States.JsonMerge($.defaults, $$.Execution.Input, false)"
    return {
        "Defaults": {"Type": "Pass", "Result": BEGIN, "ResultPath": "$.defaults", "Next": "Begin"},
        "Begin": {
            "Type": "Pass",
            "Parameters": {"state.$": merged},
            "OutputPath": "$.state",
            "Next": _CHECK_HISTORY,
        },
    }


def _history(names: StateMachineNames) -> dict[str, State]:
    """Return the states that begin a turn, and start a new execution when the limits are reached."""
    payload = {
        "execution.$": "$$.Execution.Id",
        "state_machine.$": "$$.StateMachine.Id",
        "started.$": "$$.Execution.StartTime",
        "history_limit": names.history_limit,
        "max_days": names.max_days,
    }
    answer = ("verdict", "successor")
    successor = {
        "StateMachineArn.$": "$$.StateMachine.Id",
        "Name.$": "$.check.successor",
        "Input": state_input(),
    }
    start = task(names, "states:startExecution", successor, None, "NewExecutionFailed", "WentOver")
    start["Retry"] = [*(retry(names, error, 0) for error in _STARTED_BEFORE), retry(names, "States.ALL")]
    start["Catch"] = [catch("WentOver", _STARTED_BEFORE), catch("NewExecutionFailed")]
    return {
        _CHECK_HISTORY: call_function(
            names, names.history_check_function, payload, answer, "check", "CheckFailed", "Verdict"
        ),
        "Verdict": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.check.verdict", "StringEquals": START_ANEW, "Next": "StartNewExecution"},
                {"Variable": "$.check.verdict", "StringEquals": LEAVE, "Next": "AnotherOneRuns"},
            ],
            "Default": "Route",
        },
        "StartNewExecution": start,
        "WentOver": {"Type": "Succeed"},
        "AnotherOneRuns": {"Type": "Succeed"},
        "CheckFailed": failure(
            names, "the history cannot be checked", _ERROR, f"See the log of {names.history_check_function}."
        ),
        "NewExecutionFailed": failure(
            names, "no new execution begins", _ERROR, "May the state machine start itself?"
        ),
    }


def _route(names: StateMachineNames) -> dict[str, State]:
    """Return the state that decides what a turn does, and the one that ends a turn."""
    load_state = "StartFullLoad" if names.dms_status_function is None else "GetDmsStatus"
    return {
        "Route": {
            "Type": "Choice",
            "Choices": [
                {"Not": {"Variable": "$.run", "StringEquals": ""}, "Next": "RouteRun"},
                {"Variable": "$.phase", "StringEquals": FULL_LOAD, "Next": load_state},
                {"Variable": "$.phase", "StringEquals": CHANGES, "Next": "GetQueueSize"},
            ],
            "Default": "WrongPhase",
        },
        "WrongPhase": failure(
            names,
            "the input is wrong",
            "$.phase",
            f"The phase is {FULL_LOAD} or {CHANGES}: start an execution with it, or without input.",
            failures=names.max_failures,
        ),
        "Wait": {"Type": "Wait", "Seconds": names.poll_seconds, "Next": _CHECK_HISTORY},
    }


def _dms(names: StateMachineNames, function: str) -> dict[str, State]:
    """Return the states that wait for the full load of DMS."""
    answer = ("is_loaded", "has_failed", "errored", "message")
    is_loaded: State = {"Variable": "$.dms.is_loaded", "BooleanEquals": True}
    has_errors: State = {"Variable": "$.dms.errored", "NumericGreaterThan": 0}
    todo = "Reload these tables in DMS. The others are loaded now."
    errored_tables = notice_parameters(names, "DMS did not load all tables", "$.dms.message", todo)
    return {
        "GetDmsStatus": call_function(names, function, {}, answer, "dms", "DmsUnknown", "DmsState"),
        "DmsState": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.dms.has_failed", "BooleanEquals": True, "Next": "DmsFailed"},
                {"And": [is_loaded, has_errors], "Next": "TablesFailed"},
                {**is_loaded, "Next": "StartFullLoad"},
            ],
            "Default": "DmsLoads",
        },
        "DmsLoads": pass_on("Wait", failures=0),
        "TablesFailed": pass_on("TellTables", failure=errored_tables),
        "TellTables": notice(names, "StartFullLoad"),
        "DmsFailed": failure(names, "DMS loads nothing", "$.dms.message", "Correct the task, and resume it."),
        "DmsUnknown": failure(names, "DMS cannot be asked", _ERROR, f"See the log of {function}."),
    }


def _queue(names: StateMachineNames) -> dict[str, State]:
    """Return the states that read the size of the queue, and start a run for its messages, or after `idle_turns`.

    Hidden messages are not counted: they belong to a run that was killed, or have an unknown form. A run would not
    see them, and they become visible again by themselves.
    """
    size = "ApproximateNumberOfMessages"
    parameters = {"QueueUrl": names.queue_url, "AttributeNames": [size]}
    resource = "aws-sdk:sqs:getQueueAttributes"
    todo = "Is the queue there, and may the state machine read its attributes?"
    return {
        "GetQueueSize": {
            **task(names, resource, parameters, "queue", "QueueUnknown", "QueueState"),
            "ResultSelector": {"size.$": f"$.Attributes.{size}"},
        },
        "QueueState": {
            "Type": "Choice",
            "Choices": [
                {"Not": {"Variable": "$.queue.size", "StringEquals": "0"}, "Next": "StartChanges"},
                {"Variable": "$.idle", "NumericGreaterThanEquals": names.idle_turns, "Next": "StartChanges"},
            ],
            "Default": "Idle",
        },
        "Idle": pass_on("Wait", idle="States.MathAdd($.idle, 1)"),
        "QueueUnknown": failure(names, "the queue cannot be asked", _ERROR, todo),
    }


def _runs(names: StateMachineNames) -> dict[str, State]:
    """Return the states that start a run, wait for it, and route by its result."""
    return {
        "StartFullLoad": _start(names, names.full_load, FULL_LOAD),
        "StartChanges": _start(names, names.changes, CHANGES),
        "Started": pass_on("Wait", run="$.started.JobRunId"),
        "StartFailed": failure(
            names, "no run begins", _ERROR, "Is the job there, may the state machine start it, is a run under way?"
        ),
        "RouteRun": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.phase", "StringEquals": FULL_LOAD, "Next": "GetFullLoad"}],
            "Default": "GetChanges",
        },
        "GetFullLoad": _poll(names, names.full_load),
        "GetChanges": _poll(names, names.changes),
        **_run_results(names),
        **_run_failures(names),
    }


def _run_results(names: StateMachineNames) -> dict[str, State]:
    """Return the states that follow the answer about a run."""
    state, reason = f"$.status.JobRun.{names.changes.state}", f"$.status.JobRun.{names.changes.reason}"
    return {
        "RunState": {
            "Type": "Choice",
            "Choices": [
                {"Or": [{"Variable": state, "StringEquals": value} for value in GOES_ON], "Next": "Wait"},
                {"Or": [{"Variable": state, "StringEquals": value} for value in SUCCEEDED], "Next": "RunSucceeded"},
                {"Variable": reason, "IsPresent": True, "Next": "ReasonKnown"},
            ],
            "Default": "ReasonUnknown",
        },
        "RunSucceeded": {"Type": "Pass", "Result": {**BEGIN, "phase": CHANGES}, "Next": "Wait"},
        "RunUnknown": pass_on("Wait", run=""),
        "StatusUnknown": failure(
            names, "a run cannot be asked after", _ERROR, "May the state machine read the runs of the job?"
        ),
        "ReasonKnown": pass_on(
            "RunFailed", reason=f"States.Format('{{}} is {{}}: {{}}', $.run, {state}, {reason})"
        ),
        "ReasonUnknown": pass_on("RunFailed", reason=f"States.Format('{{}} is {{}}', $.run, {state})"),
    }


def _run_failures(names: StateMachineNames) -> dict[str, State]:
    """Return the states that decide what follows a failed run."""
    return {
        "RunFailed": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.phase", "StringEquals": CHANGES, "Next": "ChangesFailed"},
                {
                    "Variable": "$.loads",
                    "NumericGreaterThanEquals": names.full_load_attempts - 1,
                    "Next": "LastFullLoadFailed",
                },
            ],
            "Default": "FullLoadFailed",
        },
        "ChangesFailed": _run_failure(names, names.changes, "a run failed", CHANGES),
        "FullLoadFailed": _run_failure(names, names.full_load, "the full load failed", FULL_LOAD),
        "LastFullLoadFailed": _run_failure(names, names.full_load, "the full load is left to usual runs", CHANGES),
    }


def _failures(names: StateMachineNames) -> dict[str, State]:
    """Return the states that follow every failure: a notice at some of them, and a pause or the end."""
    choices = [{"Variable": "$.failures", "NumericEquals": count, "Next": "Tell"} for count in names.notice_at]
    return {
        "Failed": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.failures", "NumericGreaterThanEquals": names.max_failures, "Next": "TellEnd"},
                *choices,
            ],
            "Default": "Pause",
        },
        "Tell": notice(names, "Pause"),
        "Pause": {"Type": "Wait", "Seconds": names.pause_seconds, "Next": _CHECK_HISTORY},
        "TellEnd": notice(names, "GaveUp"),
        "GaveUp": {
            "Type": "Fail",
            "Error": "lakeward.GaveUp",
            "Cause": "Too much failed in a row: see the last notice. The next event starts a new execution.",
        },
    }


def _start(names: StateMachineNames, job: Job, phase: str) -> State:
    call = job.start(phase)
    start = task(names, call.resource, call.parameters, "started", "StartFailed", "Started")
    running = [retry(names, error, 2 * names.attempts) for error in IS_RUNNING]
    return {**start, "Retry": [*running, retry(names, "States.ALL")]}


def _poll(names: StateMachineNames, job: Job) -> State:
    call = job.ask()
    poll = task(names, call.resource, call.parameters, "status", "StatusUnknown", "RunState")
    unknown = [retry(names, error, 0) for error in IS_UNKNOWN]
    return {
        **poll,
        "Retry": [*unknown, retry(names, "States.ALL")],
        "Catch": [catch("RunUnknown", IS_UNKNOWN), catch("StatusUnknown")],
    }


def _run_failure(names: StateMachineNames, job: Job, what: str, phase: str) -> State:
    todo = f"See the log of this run of the {job.title}: its last line says what to do. Other tables go on."
    loads = "States.MathAdd($.loads, 1)" if phase == FULL_LOAD else 0
    return failure(names, what, "$.reason", todo, run="", phase=phase, loads=loads)
