"""Which execution of its state machine has a pipeline: one at a time, by a lease that Step Functions ends.

The owner of the lease is the name of an execution. The lease lasts longer than an execution can, and passes to
another name once Step Functions says that its owner has ended. An owner that is not there yet is about to be
started: anybody may start it, since Step Functions starts one execution of a name.
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

from lakeward.adapters.aws.dynamodb.access import find_client
from lakeward.adapters.aws.service_clients import client_of, translate_errors
from lakeward.adapters.leases.dynamodb.lease import DynamoDbLease
from lakeward.core.ports.running import LeaseGrant
from lakeward.entrypoints.lambdas.environment import LEASES, PIPELINE, read_variable

PAGE: Final = "docs/how-to/aws/orchestration.md"

PHASES: Final = ("full-load", "changes")
"""The phase of a pipeline: its full load, or the changes after it."""

_LASTS: Final = 366 * 24 * 3600 * 1_000_000
"""Microseconds of a lease: an execution lasts a year at most (docs.aws.amazon.com/step-functions, quotas)."""

_EVENTS: Final = 100
"""Last events of an execution among which the state that it entered last is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The execution that has the pipeline: the owner of `term`.

    `is_running` is None where it was not asked, since the name is the caller's own, and False for an execution that
    is not there yet. `ended` is the one before, if it lost the lease just now.
    """

    term: LeaseGrant
    is_running: bool | None = None
    ended: str | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.term.owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Executions:
    """The executions of the state machine of a pipeline, by its ARN."""

    pipeline: str
    machine: str
    client: Any = field(repr=False)
    lease: DynamoDbLease

    def new_name(self) -> str:
        """Return a name of an execution that no other has: at most 80 characters that AWS takes."""
        begin = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(8)}"
        return f"{re.sub('[^A-Za-z0-9_-]', '-', self.pipeline)[:40]}-{begin}"

    def find_holder(self, name: str) -> Holder:
        """Return the execution that has the pipeline: `name`, unless another one runs or is about to be started."""
        ended = None
        while True:
            term = self.lease.take(f"{self.pipeline}/execution", name)
            if term.owner == name:
                return Holder(term=term, ended=ended)
            status = self._status(term.owner)
            if status in (None, "RUNNING"):
                return Holder(term=term, is_running=status is not None, ended=ended)
            ended = term.owner
            self.lease.give_back(term)

    def hand_over(self, holder: Holder, name: str) -> Holder:
        """Give the pipeline to the execution `name`, and return who has it then: another one may be faster."""
        self.lease.give_back(holder.term)
        return self.find_holder(name)

    def start(self, name: str, content: Mapping[str, object]) -> bool:
        """Start the execution of a name; return False where it was started with another input before."""
        with self._asking(f"the execution {name}"):
            try:
                self.client.start_execution(stateMachineArn=self.machine, name=name, input=json.dumps(content))
            except self.client.exceptions.ExecutionAlreadyExists:
                return False
        return True

    def progress_of(self, name: str) -> Mapping[str, str]:
        """Return where an execution that has ended was: its `phase`, and the id of the `run` that it waited for.

        It is empty where the execution entered no state, or its phase is none that there is.
        """
        for event in self._last_events(name, _EVENTS):
            entered = event.get("stateEnteredEventDetails", {}).get("input", "{}")
            content = json.loads(entered)
            if isinstance(content, dict) and "phase" in content:
                if content["phase"] not in PHASES:
                    return {}
                return {key: str(content[key]) for key in ("phase", "run") if key in content}
        return {}

    def count_events(self, name: str) -> int:
        """Return how many events the history of an execution has: they are numbered from 1."""
        return max((event["id"] for event in self._last_events(name, 1)), default=0)

    def _last_events(self, name: str, count: int) -> Iterator[Mapping[str, Any]]:
        """Yield events of an execution, the last first."""
        with self._asking(f"the history of the execution {name}"):
            answer = self.client.get_execution_history(
                executionArn=self._arn(name), maxResults=count, reverseOrder=True
            )
        yield from sorted(answer["events"], key=lambda event: -event["id"])

    def _status(self, name: str) -> str | None:
        """Return the description of an execution; None if there is none of this name."""
        with self._asking(f"the execution {name}"):
            try:
                status: str = self.client.describe_execution(executionArn=self._arn(name))["status"]
            except self.client.exceptions.ExecutionDoesNotExist:
                return None
        return status

    def _arn(self, name: str) -> str:
        return f"{self.machine.replace(':stateMachine:', ':execution:', 1)}:{name}"

    def _asking(self, what: str) -> AbstractContextManager[None]:
        return translate_errors(f"{what} of {self.machine}", PAGE)


def open_executions(machine: str) -> Executions:
    """Return the executions of a state machine, of the pipeline that the environment names."""
    return _open(machine, read_variable(PIPELINE), read_variable(LEASES))


@cache
def _open(machine: str, pipeline: str, table: str) -> Executions:
    """Create the clients once: a function is called often, and has little processor time."""
    with translate_errors("Step Functions", PAGE):
        client = client_of("stepfunctions")
    lease = DynamoDbLease(find_client(), table, _LASTS, lambda: time.time_ns() // 1000)
    return Executions(pipeline=pipeline, machine=machine, client=client, lease=lease)
