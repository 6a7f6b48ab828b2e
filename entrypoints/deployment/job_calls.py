"""Calls by which a state machine starts and polls jobs of AWS Glue or EMR Serverless."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final


@dataclass(frozen=True, slots=True)
class JobCall:
    """A call of a service by a state machine: its resource, as the end of the ARN, and its parameters."""

    resource: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueJob:
    """A job of Glue, with the arguments and workers of its runs; None means those of the job.

    The keys of `arguments` are those of Glue, such as `--settings`. `state` and `reason` are the keys of Glue's
    answer for the state of a run and the reason of its failure; an answer may have no reason.
    """

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    worker_type: str | None = None
    workers: int | None = None

    state: ClassVar[str] = "JobRunState"
    reason: ClassVar[str] = "ErrorMessage"

    @property
    def title(self) -> str:
        """The name of the job in notices."""
        return f"Glue job {self.name}"

    def start(self, phase: str) -> JobCall:
        """Return the call that starts a run; its answer has the id as `JobRunId`."""
        arguments = {
            **self.arguments,
            "--correlation_id.$": "$$.Execution.Name",
            "--dag_name.$": "$$.StateMachine.Name",
            "--task_id": phase,
        }
        parameters: dict[str, object] = {"JobName": self.name, "Arguments": arguments}
        if self.worker_type is not None:
            parameters["WorkerType"] = self.worker_type
        if self.workers is not None:
            parameters["NumberOfWorkers"] = self.workers
        return JobCall("aws-sdk:glue:startJobRun", parameters)

    def ask(self) -> JobCall:
        """Return the call that reads the state of the run `$.run`."""
        return JobCall("aws-sdk:glue:getJobRun", {"JobName": self.name, "RunId.$": "$.run"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerlessJob:
    """A job run of an application of EMR Serverless, with its arguments for spark-submit.

    `submit_parameters` are options of spark-submit as one text. A run is ended after `timeout_minutes`, which may
    be a substitution of CloudFormation; None is the default of EMR, 12 hours. `state` and `reason` are the keys of
    EMR's answer for the state of a run and its details.
    """

    application: str
    role: str
    entry_point: str
    arguments: Sequence[str] = ()
    submit_parameters: str = ""
    timeout_minutes: int | str | None = None

    state: ClassVar[str] = "State"
    reason: ClassVar[str] = "StateDetails"

    @property
    def title(self) -> str:
        """The name of the job in notices."""
        return f"job of the EMR Serverless application {self.application}"

    def start(self, phase: str) -> JobCall:
        """Return the call that starts a run; its answer has the id as `JobRunId`.

        The run has the name of the execution. A repeated call has the same token, so it starts no second run.
        """
        driver: dict[str, object] = {
            "EntryPoint": self.entry_point,
            "EntryPointArguments": [*self.arguments, "--task_id", phase],
        }
        if self.submit_parameters:
            driver["SparkSubmitParameters"] = self.submit_parameters
        state_entry = "States.Format('{} {}', $$.Execution.Id, $$.State.EnteredTime)"
        parameters: dict[str, object] = {
            "ApplicationId": self.application,
            "ClientToken.$": f"States.Hash({state_entry}, 'SHA-256')",
            "ExecutionRoleArn": self.role,
            "JobDriver": {"SparkSubmit": driver},
            "Name.$": "$$.Execution.Name",
        }
        if isinstance(self.timeout_minutes, str):  # a substitution is a text
            parameters["ExecutionTimeoutMinutes.$"] = f"States.StringToJson('{self.timeout_minutes}')"
        elif self.timeout_minutes is not None:
            parameters["ExecutionTimeoutMinutes"] = self.timeout_minutes
        return JobCall("aws-sdk:emrserverless:startJobRun", parameters)

    def ask(self) -> JobCall:
        """Return the call that reads the state of the run `$.run`."""
        parameters = {"ApplicationId": self.application, "JobRunId.$": "$.run"}
        return JobCall("aws-sdk:emrserverless:getJobRun", parameters)


Job = GlueJob | ServerlessJob

GOES_ON: Final = (
    "STARTING", "RUNNING", "STOPPING", "WAITING",
    "SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "CANCELLING",
)
"""The states of a run of either platform that has not ended."""

SUCCEEDED: Final = ("SUCCEEDED", "SUCCESS")
"""The states of a run of either platform that succeeded; any other final state is a failure."""

IS_RUNNING: Final = ("Glue.ConcurrentRunsExceededException",)
"""The errors that mean that a run of the job is in progress."""

IS_UNKNOWN: Final = ("Glue.EntityNotFoundException", "EmrServerless.ResourceNotFoundException")
"""The errors that mean that the run or the job does not exist any more."""
