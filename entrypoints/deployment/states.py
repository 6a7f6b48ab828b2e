"""Parameters of a state machine, and builders of its single states in Amazon States Language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.job_calls import GlueJob, Job
from lakeward.entrypoints.lambdas.executions import PHASES

State = dict[str, object]

FULL_LOAD, CHANGES = PHASES

BEGIN: Final = {"phase": FULL_LOAD, "run": "", "failures": 0, "loads": 0, "idle": 0}
"""The state of a new pipeline."""

_MOST_EVENTS: Final = 24_000
"""The greatest `history_limit`: a turn has fewer than a thousand events, with all its retries."""

_MOST_DAYS: Final = 360

_MOST_DELAY: Final = 300
"""The greatest delay before a call is repeated, in seconds."""

_SUBJECT: Final = 50
"""The number of characters of the pipeline in the subject of a notice, which may have 100 (SNS, Publish)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMachineNames:
    """The names and limits in the definition of a state machine.

    Each text may be a substitution of CloudFormation, such as `${Topic}`. `pipeline` is the name in `[pipeline]`.
    `full_load` and `changes` are the same job, or `full_load` has more workers. `queue_url` is the URL of the
    pipeline's queue, and `topic` the ARN of the SNS topic for notices. Functions are names or ARNs;
    `dms_status_function` is None if no DMS task loads the source. `partition` is that of the account: `aws` or
    `aws-cn`.

    Each turn waits `poll_seconds`. After `idle_turns` turns with an empty queue, a run examines all tables. After
    a failure the state machine waits `pause_seconds`. A notice is sent when the number of failures in a row is in
    `notice_at`, and at `max_failures`, which ends the execution. A refused call is repeated `attempts` times,
    first after `retry_seconds`. After `full_load_attempts` failed runs of `full_load`, `changes` continues in its
    place. A new execution begins at `history_limit` events (AWS allows 25,000), and after `max_days` (AWS allows
    365).

    Raises ConfigError for jobs of different platforms, and for limits beyond those of AWS.
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
            raise ConfigError("the full load and the changes are of different platforms", todo="Use one for both.")
        if not 0 < self.history_limit <= _MOST_EVENTS or not 0 < self.max_days <= _MOST_DAYS:
            raise ConfigError(
                "the limits of an execution are wrong",
                found=f"history_limit = {self.history_limit}, max_days = {self.max_days}",
                todo="AWS ends an execution at 25,000 events and after a year: set at most "
                f"{_MOST_EVENTS:,} events and {_MOST_DAYS} days.",
            )

    @property
    def platform(self) -> str:
        """`glue` or `emr-serverless`."""
        return "glue" if isinstance(self.changes, GlueJob) else "emr-serverless"


def task(
    names: StateMachineNames,
    resource: str,
    parameters: Mapping[str, object],
    result: str | None,
    failed: str,
    following: str,
) -> State:
    """Return a state that calls a service, and repeats a refused call with backoff.

    `result` is the key for the answer (None drops it), `failed` the state after the last refused call.
    """
    return {
        "Type": "Task",
        "Resource": f"arn:{names.partition}:states:::{resource}",
        "Parameters": parameters,
        "ResultPath": None if result is None else f"$.{result}",
        "Retry": [retry(names, "States.ALL")],
        "Catch": [catch(failed)],
        "Next": following,
    }


def retry(names: StateMachineNames, error: str, attempts: int | None = None) -> State:
    """Return the retry rule of a task for an error; `attempts` defaults to that of the state machine."""
    return {
        "ErrorEquals": [error],
        "IntervalSeconds": names.retry_seconds,
        "MaxAttempts": names.attempts if attempts is None else attempts,
        "BackoffRate": 2,
        "MaxDelaySeconds": max(_MOST_DELAY, names.retry_seconds + 1),
    }


def catch(following: str, errors: Sequence[str] = ("States.ALL",)) -> State:
    """Return the rule that goes to the state `following` after an error of a task."""
    return {"ErrorEquals": [*errors], "ResultPath": "$.error", "Next": following}


def call_function(
    names: StateMachineNames,
    function: str,
    payload: Mapping[str, object],
    answer: Sequence[str],
    result: str,
    failed: str,
    following: str,
) -> State:
    """Return a state that calls a Lambda function, and keeps the keys `answer` of its answer."""
    parameters = {"FunctionName": function, "Payload": payload}
    call = task(names, "lambda:invoke", parameters, result, failed, following)
    return {**call, "ResultSelector": {f"{key}.$": f"$.Payload.{key}" for key in answer}}


def state_input(**changes: object) -> State:
    """Return the parameters that pass the state of the pipeline to the next state, with changes."""
    current = {name: f"$.{name}" for name in BEGIN}
    return _parameters({**current, **changes})


def _parameters(values: Mapping[str, object]) -> State:
    """Return parameters; a text that begins with `$.`, `$$.` or `States.` is a path or an intrinsic function."""
    return {(f"{name}.$" if _is_path(value) else name): value for name, value in values.items()}


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("$.", "$$.", "States."))


def pass_on(following: str, **changes: object) -> State:
    """Return a state that changes the state of the pipeline."""
    return {"Type": "Pass", "Parameters": state_input(**changes), "Next": following}


def notice_parameters(names: StateMachineNames, what: str, reason: str, todo: str) -> State:
    """Return the parameters with the text of a notice."""
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


def failure(names: StateMachineNames, what: str, reason: str, todo: str, **changes: object) -> State:
    """Return a state that counts a failure, and prepares its notice."""
    text = notice_parameters(names, what, reason, todo)
    count = {"failures": "States.MathAdd($.failures, 1)", "failure": text}
    return pass_on("Failed", **{**count, **changes})


def notice(names: StateMachineNames, following: str) -> State:
    """Return a state that sends `$.failure` to the topic; a refused notice is ignored."""
    fields = ", ".join(f"$.failure.{field}" for field in ("pipeline", "what", "reason", "todo"))
    parameters = {
        "TopicArn": names.topic,
        "Subject.$": "$.failure.subject",
        "Message.$": f"States.Format('Pipeline {{}}: {{}}. Found: {{}}. To do: {{}} Execution: {{}}', {fields}, "
        "$$.Execution.Id)",
        "MessageAttributes": {"pipeline": {"DataType": "String", "StringValue": names.pipeline}},
    }
    return task(names, "sns:publish", parameters, None, following, following)
