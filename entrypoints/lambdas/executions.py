"""Executions of the state machine of a pipeline, of which a lease allows one at a time.

The owner of the lease is the name of an execution. The lease lasts longer than an execution can, and passes to
another name when Step Functions reports that its owner has ended. An owner that does not exist yet is about to be
started. Any caller may start it, since Step Functions starts only one execution of a name.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from lakeward.adapters.aws.dynamodb.client import create_dynamodb_client
from lakeward.adapters.aws.service_clients import create_client, explain_errors
from lakeward.adapters.leases.dynamodb.lease import DynamoDbLease
from lakeward.core.ports.running import LeaseGrant
from lakeward.entrypoints.lambdas.environment import LEASES, PIPELINE, read_variable

PAGE: Final = "docs/how-to/aws/orchestration.md"

PHASES: Final = ("full-load", "changes")
"""The phase of a pipeline: its full load, or the changes after it."""

_LASTS: Final = 366 * 24 * 3600 * 1_000_000
"""The length of a lease in microseconds; an execution lasts at most a year (AWS Step Functions, quotas)."""

_EVENTS: Final = 100
"""The number of last events of an execution that are searched for the state that it entered last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The execution that has the pipeline: the owner of the lease grant.

    `is_running` is False for an execution that does not exist yet, and None if it was not checked because the name
    is the caller's own. `predecessor` is the ended execution that has just lost the lease, if there is one.
    """

    grant: LeaseGrant
    is_running: bool | None = None
    predecessor: str | None = None

    @property
    def name(self) -> str:
        """The name of the execution."""
        return self.grant.owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Executions:
    """The executions of a state machine; `machine` is its ARN."""

    pipeline: str
    machine: str
    client: Any = field(repr=False)
    lease: DynamoDbLease

    def new_name(self) -> str:
        """Return a unique name for an execution, of at most 80 characters that AWS allows."""
        suffix = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(8)}"
        return f"{re.sub('[^A-Za-z0-9_-]', '-', self.pipeline)[:40]}-{suffix}"

    def find_holder(self, name: str) -> Holder:
        """Return the execution that has the pipeline: `name`, unless another one runs or is about to be started."""
        predecessor = None
        while True:
            grant = self.lease.take(f"{self.pipeline}/execution", name)
            if grant.owner == name:
                return Holder(grant=grant, predecessor=predecessor)
            status = self._status(grant.owner)
            if status in (None, "RUNNING"):
                return Holder(grant=grant, is_running=status is not None, predecessor=predecessor)
            predecessor = grant.owner
            self.lease.give_back(grant)

    def hand_over(self, holder: Holder, name: str) -> Holder:
        """Give the pipeline to the execution `name`; return its holder then, since another one may be faster."""
        self.lease.give_back(holder.grant)
        return self.find_holder(name)

    def start(self, name: str, content: Mapping[str, object]) -> bool:
        """Start the execution of a name; return False if it was started before with another input."""
        with self._asking(f"the execution {name}"):
            try:
                self.client.start_execution(stateMachineArn=self.machine, name=name, input=json.dumps(content))
            except self.client.exceptions.ExecutionAlreadyExists:
                return False
        return True

    def progress_of(self, name: str) -> Mapping[str, str]:
        """Return the `phase` of an ended execution, and the id of the `run` that it waited for.

        The result is empty if the execution entered no state, or if its phase is unknown.
        """
        for event in self._last_events(name, _EVENTS):
            state_input = event.get("stateEnteredEventDetails", {}).get("input", "{}")
            content = json.loads(state_input)
            if isinstance(content, dict) and "phase" in content:
                if content["phase"] not in PHASES:
                    return {}
                return {key: str(content[key]) for key in ("phase", "run") if key in content}
        return {}

    def count_events(self, name: str) -> int:
        """Return the number of events in the history of an execution; events are numbered from 1."""
        return max((event["id"] for event in self._last_events(name, 1)), default=0)

    def _last_events(self, name: str, count: int) -> Iterator[Mapping[str, Any]]:
        """Yield events of an execution, the last first."""
        with self._asking(f"the history of the execution {name}"):
            answer = self.client.get_execution_history(
                executionArn=self._arn(name), maxResults=count, reverseOrder=True
            )
        yield from sorted(answer["events"], key=lambda event: -event["id"])

    def _status(self, name: str) -> str | None:
        """Return the status of an execution; None if it does not exist."""
        with self._asking(f"the execution {name}"):
            try:
                status: str = self.client.describe_execution(executionArn=self._arn(name))["status"]
            except self.client.exceptions.ExecutionDoesNotExist:
                return None
        return status

    def _arn(self, name: str) -> str:
        return f"{self.machine.replace(':stateMachine:', ':execution:', 1)}:{name}"

    def _asking(self, what: str) -> AbstractContextManager[None]:
        return explain_errors(f"{what} of {self.machine}", PAGE)


def open_executions(machine: str) -> Executions:
    """Return the executions of a state machine, for the pipeline that the environment names."""
    return _open(machine, read_variable(PIPELINE), read_variable(LEASES))


@cache
def _open(machine: str, pipeline: str, table: str) -> Executions:
    """Create the clients once: the function is called often, and has little processor time."""
    with explain_errors("Step Functions", PAGE):
        client = create_client("stepfunctions")
    lease = DynamoDbLease(create_dynamodb_client(), table, _LASTS, lambda: time.time_ns() // 1000)
    return Executions(pipeline=pipeline, machine=machine, client=client, lease=lease)
