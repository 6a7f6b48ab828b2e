"""The state machine of a pipeline, in Amazon States Language with JSONPath (docs/how-to/aws/orchestration.md).

What passes from state to state, and from an execution to the next, is the `phase` ("full-load" or "changes"),
the id of the `run` that is waited for ("" if none is), how many `failures` there were in a row, how many runs
of the full load failed (`loads`), and how many times the queue was found empty in a row (`idle`). Each turn
begins with the check of the history, so that an execution ends between two turns, and a new one goes on with
the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.job_calls import GOES_ON, IS_RUNNING, IS_UNKNOWN, SUCCEEDED, GlueJob, Job
from lakeward.entrypoints.lambdas.executions import PHASES
from lakeward.entrypoints.lambdas.history_check import LEAVE, START_ANEW

State = dict[str, object]

FULL_LOAD, CHANGES = PHASES

_TURN: Final = "CheckHistory"
_BEGIN: Final = {"phase": FULL_LOAD, "run": "", "failures": 0, "loads": 0, "idle": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMachineNames:
    """What the definition refers to; each text may be a substitution of CloudFormation, as `${Topic}`.

    `pipeline` is the name that `[pipeline]` has. `full_load` and `changes` are the same job, or the first one with
    more workers. `queue_url` is that of the queue of the pipeline, `topic` the ARN of a topic of SNS for notices.
    The functions are names or ARNs; `dms_status_function` is None where no task of DMS loads the source.

    A turn waits `poll_seconds`. After `idle_turns` turns with an empty queue a run looks at all tables. After a
    failure nothing is done for `pause_seconds`; a notice is sent at the failures in a row of `notice_at`, and at
    `max_failures`, which end the execution. A refused call is repeated `attempts` times, the first time after
    `retry_seconds`.
    `full_load_attempts` runs of `full_load` may fail before `changes` goes on in its place. A new execution begins
    at `history_limit` events, of 25,000 that AWS allows, and after `max_days`, of 365. `partition` is that of
    the account: `aws`, or `aws-cn`.
    """

    pipeline: str
    full_load: Job
    changes: Job
    queue_url: str
    topic: str
    history_check_function: str
    dms_status_function: str | None = None
    poll_seconds: int = 60
    idle_turns: int = 60
    pause_seconds: int = 300
    notice_at: Sequence[int] = (1, 3, 10, 30, 100)
    max_failures: int = 288
    full_load_attempts: int = 3
    attempts: int = 6
    retry_seconds: int = 5
    history_limit: int = 20_000
    max_days: int = 300
    partition: str = "aws"

    def __post_init__(self) -> None:
        if type(self.full_load) is not type(self.changes):
            raise ConfigError("the full load and the changes are of different platforms", todo="Take one for both.")
        if not 0 < self.history_limit <= _MOST_EVENTS or not 0 < self.max_days <= _MOST_DAYS:
            raise ConfigError(
                "the limits of an execution are wrong",
                found=f"history_limit = {self.history_limit}, max_days = {self.max_days}",
                todo="AWS ends an execution at 25,000 events and after a year: take at most "
                f"{_MOST_EVENTS:,} events and {_MOST_DAYS} days.",
            )

    @property
    def platform(self) -> str:
        """`glue` or `emr-serverless`."""
        return "glue" if isinstance(self.changes, GlueJob) else "emr-serverless"


_MOST_EVENTS: Final = 24_000
"""Events at which a new execution must begin: a turn has less than a thousand, also with all its retries."""

_MOST_DAYS: Final = 360

_MOST_DELAY: Final = 300
"""Seconds that a call is repeated after at most."""

_SUBJECT: Final = 50
"""Characters of the pipeline in the subject of a notice, which has a hundred (docs.aws.amazon.com/sns, Publish)."""

_ERROR: Final = "States.JsonToString($.error)"

_STARTED_BEFORE: Final = (
    "StepFunctions.ExecutionAlreadyExistsException",
    "StepFunctions.ExecutionAlreadyExists",
)
"""The errors that say that somebody else has started the execution by now."""


def state_machine(names: StateMachineNames) -> dict[str, object]:
    """Return the definition of the state machine of a pipeline; it is of the type STANDARD."""
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
        "Defaults": {"Type": "Pass", "Result": _BEGIN, "ResultPath": "$.defaults", "Next": "Begin"},
        "Begin": {
            "Type": "Pass",
            "Parameters": {"state.$": merged},
            "OutputPath": "$.state",
            "Next": _TURN,
        },
    }


def _history(names: StateMachineNames) -> dict[str, State]:
    """Return the states that begin a turn, and go over to a new execution."""
    payload = {
        "execution.$": "$$.Execution.Id",
        "state_machine.$": "$$.StateMachine.Id",
        "started.$": "$$.Execution.StartTime",
        "history_limit": names.history_limit,
        "max_days": names.max_days,
    }
    answer = ("verdict", "successor")
    follow = {
        "StateMachineArn.$": "$$.StateMachine.Id",
        "Name.$": "$.check.successor",
        "Input": _state_input(),
    }
    started = _task(names, "states:startExecution", follow, None, "NewExecutionFailed", "WentOver")
    started["Retry"] = [*(_retry(names, error, 0) for error in _STARTED_BEFORE), _retry(names, "States.ALL")]
    started["Catch"] = [_catch("WentOver", _STARTED_BEFORE), _catch("NewExecutionFailed")]
    return {
        _TURN: _call(names, names.history_check_function, payload, answer, "check", "CheckFailed", "Verdict"),
        "Verdict": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.check.verdict", "StringEquals": START_ANEW, "Next": "StartNewExecution"},
                {"Variable": "$.check.verdict", "StringEquals": LEAVE, "Next": "AnotherOneRuns"},
            ],
            "Default": "Route",
        },
        "StartNewExecution": started,
        "WentOver": {"Type": "Succeed"},
        "AnotherOneRuns": {"Type": "Succeed"},
        "CheckFailed": _failure(
            names, "the history cannot be checked", _ERROR, f"See the log of {names.history_check_function}."
        ),
        "NewExecutionFailed": _failure(
            names, "no new execution begins", _ERROR, "May the state machine start itself?"
        ),
    }


def _route(names: StateMachineNames) -> dict[str, State]:
    """Return the state that decides what a turn does, and the one that ends a turn."""
    of_full_load = "StartFullLoad" if names.dms_status_function is None else "GetDmsStatus"
    return {
        "Route": {
            "Type": "Choice",
            "Choices": [
                {"Not": {"Variable": "$.run", "StringEquals": ""}, "Next": "RouteRun"},
                {"Variable": "$.phase", "StringEquals": FULL_LOAD, "Next": of_full_load},
                {"Variable": "$.phase", "StringEquals": CHANGES, "Next": "GetQueueSize"},
            ],
            "Default": "WrongPhase",
        },
        "WrongPhase": _failure(
            names,
            "the input is wrong",
            "$.phase",
            f"The phase is {FULL_LOAD} or {CHANGES}: start an execution with it, or without input.",
            failures=names.max_failures,
        ),
        "Wait": {"Type": "Wait", "Seconds": names.poll_seconds, "Next": _TURN},
    }


def _dms(names: StateMachineNames, function: str) -> dict[str, State]:
    """Return the states that wait for the full load of DMS."""
    answer = ("is_loaded", "has_failed", "errored", "message")
    is_loaded: State = {"Variable": "$.dms.is_loaded", "BooleanEquals": True}
    has_errors: State = {"Variable": "$.dms.errored", "NumericGreaterThan": 0}
    todo = "Reload these tables in DMS. The others are loaded now."
    failure = _notice_parameters(names, "DMS did not load all tables", "$.dms.message", todo)
    return {
        "GetDmsStatus": _call(names, function, {}, answer, "dms", "DmsUnknown", "DmsState"),
        "DmsState": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.dms.has_failed", "BooleanEquals": True, "Next": "DmsFailed"},
                {"And": [is_loaded, has_errors], "Next": "TablesFailed"},
                {**is_loaded, "Next": "StartFullLoad"},
            ],
            "Default": "DmsLoads",
        },
        "DmsLoads": _pass("Wait", failures=0),
        "TablesFailed": _pass("TellTables", failure=failure),
        "TellTables": _notice(names, "StartFullLoad"),
        "DmsFailed": _failure(names, "DMS loads nothing", "$.dms.message", "Correct the task, and resume it."),
        "DmsUnknown": _failure(names, "DMS cannot be asked", _ERROR, f"See the log of {function}."),
    }


def _queue(names: StateMachineNames) -> dict[str, State]:
    """Return the states that look at the queue, and let a run begin for its messages, or from time to time.

    Messages that are hidden are those of a run that was killed, or of a form that nobody knows: a run would not see
    them, and they come back by themselves.
    """
    size = "ApproximateNumberOfMessages"
    parameters = {"QueueUrl": names.queue_url, "AttributeNames": [size]}
    resource = "aws-sdk:sqs:getQueueAttributes"
    todo = "Is the queue there, and may the state machine read its attributes?"
    return {
        "GetQueueSize": {
            **_task(names, resource, parameters, "queue", "QueueUnknown", "QueueState"),
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
        "Idle": _pass("Wait", idle="States.MathAdd($.idle, 1)"),
        "QueueUnknown": _failure(names, "the queue cannot be asked", _ERROR, todo),
    }


def _runs(names: StateMachineNames) -> dict[str, State]:
    """Return the states that start a run, wait for it, and look how it ended."""
    state, reason = f"$.status.JobRun.{names.changes.state}", f"$.status.JobRun.{names.changes.reason}"
    return {
        "StartFullLoad": _start(names, names.full_load, FULL_LOAD),
        "StartChanges": _start(names, names.changes, CHANGES),
        "Started": _pass("Wait", run="$.started.JobRunId"),
        "StartFailed": _failure(
            names, "no run begins", _ERROR, "Is the job there, may the state machine start it, is a run under way?"
        ),
        "RouteRun": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.phase", "StringEquals": FULL_LOAD, "Next": "GetFullLoad"}],
            "Default": "GetChanges",
        },
        "GetFullLoad": _ask(names, names.full_load),
        "GetChanges": _ask(names, names.changes),
        "RunState": {
            "Type": "Choice",
            "Choices": [
                {"Or": [{"Variable": state, "StringEquals": value} for value in GOES_ON], "Next": "Wait"},
                {"Or": [{"Variable": state, "StringEquals": value} for value in SUCCEEDED], "Next": "RunSucceeded"},
                {"Variable": reason, "IsPresent": True, "Next": "ReasonKnown"},
            ],
            "Default": "ReasonUnknown",
        },
        "RunSucceeded": {"Type": "Pass", "Result": {**_BEGIN, "phase": CHANGES}, "Next": "Wait"},
        "RunUnknown": _pass("Wait", run=""),
        "StatusUnknown": _failure(
            names, "a run cannot be asked after", _ERROR, "May the state machine read the runs of the job?"
        ),
        "ReasonKnown": _pass("RunFailed", reason=f"States.Format('{{}} is {{}}: {{}}', $.run, {state}, {reason})"),
        "ReasonUnknown": _pass("RunFailed", reason=f"States.Format('{{}} is {{}}', $.run, {state})"),
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
    """Return the states behind every failure: a notice, unless there were enough, and a pause or the end."""
    told = [{"Variable": "$.failures", "NumericEquals": count, "Next": "Tell"} for count in names.notice_at]
    return {
        "Failed": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.failures", "NumericGreaterThanEquals": names.max_failures, "Next": "TellEnd"},
                *told,
            ],
            "Default": "Pause",
        },
        "Tell": _notice(names, "Pause"),
        "Pause": {"Type": "Wait", "Seconds": names.pause_seconds, "Next": _TURN},
        "TellEnd": _notice(names, "GaveUp"),
        "GaveUp": {
            "Type": "Fail",
            "Error": "lakeward.GaveUp",
            "Cause": "Too much failed in a row: see the last notice. The next event starts a new execution.",
        },
    }


def _task(
    names: StateMachineNames,
    resource: str,
    parameters: Mapping[str, object],
    result: str | None,
    failed: str,
    following: str,
) -> State:
    """Return a state that calls a service, and calls it again with backoff where it refuses."""
    return {
        "Type": "Task",
        "Resource": f"arn:{names.partition}:states:::{resource}",
        "Parameters": parameters,
        "ResultPath": None if result is None else f"$.{result}",
        "Retry": [_retry(names, "States.ALL")],
        "Catch": [_catch(failed)],
        "Next": following,
    }


def _retry(names: StateMachineNames, error: str, attempts: int | None = None) -> State:
    return {
        "ErrorEquals": [error],
        "IntervalSeconds": names.retry_seconds,
        "MaxAttempts": names.attempts if attempts is None else attempts,
        "BackoffRate": 2,
        "MaxDelaySeconds": max(_MOST_DELAY, names.retry_seconds + 1),
    }


def _catch(following: str, errors: Sequence[str] = ("States.ALL",)) -> State:
    return {"ErrorEquals": [*errors], "ResultPath": "$.error", "Next": following}


def _call(
    names: StateMachineNames,
    function: str,
    payload: Mapping[str, object],
    answer: Sequence[str],
    result: str,
    failed: str,
    following: str,
) -> State:
    """Return a state that calls a function of Lambda, and keeps these keys of its answer."""
    parameters = {"FunctionName": function, "Payload": payload}
    called = _task(names, "lambda:invoke", parameters, result, failed, following)
    return {**called, "ResultSelector": {f"{key}.$": f"$.Payload.{key}" for key in answer}}


def _start(names: StateMachineNames, job: Job, phase: str) -> State:
    call = job.start(phase)
    task = _task(names, call.resource, call.parameters, "started", "StartFailed", "Started")
    running = [_retry(names, error, 2 * names.attempts) for error in IS_RUNNING]
    return {**task, "Retry": [*running, _retry(names, "States.ALL")]}


def _ask(names: StateMachineNames, job: Job) -> State:
    call = job.ask()
    task = _task(names, call.resource, call.parameters, "status", "StatusUnknown", "RunState")
    unknown = [_retry(names, error, 0) for error in IS_UNKNOWN]
    return {
        **task,
        "Retry": [*unknown, _retry(names, "States.ALL")],
        "Catch": [_catch("RunUnknown", IS_UNKNOWN), _catch("StatusUnknown")],
    }


def _state_input(**changed: object) -> State:
    """Return the parameters of a state that hand on what passes from state to state, with changes."""
    kept = {name: f"$.{name}" for name in _BEGIN}
    return _parameters({**kept, **changed})


def _parameters(values: Mapping[str, object]) -> State:
    """Return parameters; a text that begins with `$` or `States.` is a path or a function, but for `${…}`."""
    return {(f"{name}.$" if _is_path(value) else name): value for name, value in values.items()}


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("$.", "$$.", "States."))


def _pass(following: str, **changed: object) -> State:
    return {"Type": "Pass", "Parameters": _state_input(**changed), "Next": following}


def _notice_parameters(names: StateMachineNames, what: str, reason: str, todo: str) -> State:
    """Return the parameters of what a notice says."""
    subject = f"lakeward {names.pipeline}"[:_SUBJECT]
    return _parameters(
        {
            "subject": f"{subject}: {what}",
            "pipeline": names.pipeline,
            "what": what,
            "reason": reason,
            "todo": todo,
        }
    )


def _failure(names: StateMachineNames, what: str, reason: str, todo: str, **changed: object) -> State:
    """Return a state that counts a failure, and says what it is."""
    notice = _notice_parameters(names, what, reason, todo)
    counted = {"failures": "States.MathAdd($.failures, 1)", "failure": notice}
    return _pass("Failed", **{**counted, **changed})


def _run_failure(names: StateMachineNames, job: Job, what: str, phase: str) -> State:
    todo = f"See the log of this run of the {job.title}: its last line says what to do. Other tables go on."
    loads = "States.MathAdd($.loads, 1)" if phase == FULL_LOAD else 0
    return _failure(names, what, "$.reason", todo, run="", phase=phase, loads=loads)


def _notice(names: StateMachineNames, following: str) -> State:
    """Return a state that sends `$.failure` to the topic; what follows is the same where that is refused."""
    words = ("pipeline", "what", "reason", "todo")
    filled = ", ".join(f"$.failure.{word}" for word in words)
    parameters = {
        "TopicArn": names.topic,
        "Subject.$": "$.failure.subject",
        "Message.$": f"States.Format('Pipeline {{}}: {{}}. Found: {{}}. To do: {{}} Execution: {{}}', {filled}, "
        "$$.Execution.Id)",
        "MessageAttributes": {"pipeline": {"DataType": "String", "StringValue": names.pipeline}},
    }
    return _task(names, "sns:publish", parameters, None, following, following)
