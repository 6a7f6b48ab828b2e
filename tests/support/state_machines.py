"""Step Functions of moto, which call handlers of Lambda as plain functions.

moto differs from AWS: functions only echo, errors of some services have other names, parameters and answers
have the names of boto, and dates in answers are no texts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError
from buckets import ENVIRONMENT, Buckets
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.config import default_user_config
from moto.emrserverless import models as emr_serverless
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_aws_sdk
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_sfn import (
    StateTaskServiceSfn,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.program_state import ProgramRunning
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.asl.utils import boto_client
from moto.stepfunctions.parser.asl.utils.encoding import to_json_str

from lakeward.adapters.aws.dynamodb import client as dynamodb_client
from lakeward.entrypoints.lambdas.environment import LEASES, PIPELINE

NUMBERS = count(1)
PATIENCE = 60.0
"""The seconds within which an execution must reach an awaited state."""

ROLE = f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/of-a-test"

Handler = Callable[[Mapping[str, Any], object], Mapping[str, Any]]


@dataclass
class StepFunctions:
    """Services of AWS for one pipeline, and the functions of its state machine by name."""

    pipeline: str
    handlers: dict[str, Handler] = field(default_factory=dict)
    called: list[str] = field(default_factory=list)
    machines: list[str] = field(default_factory=list)

    def client(self, service: str) -> Any:
        return client_of(service)

    def make(self, definition: Mapping[str, object]) -> str:
        made = self.client("stepfunctions").create_state_machine(
            name=f"{self.pipeline}-machine", definition=json.dumps(definition), roleArn=ROLE
        )
        self.machines.append(str(made["stateMachineArn"]))
        return self.machines[-1]

    def start(self, machine: str, name: str, content: Mapping[str, object] | None = None) -> str:
        started = self.client("stepfunctions").start_execution(
            stateMachineArn=machine, name=name, input=json.dumps(content or {})
        )
        return str(started["executionArn"])

    def executions(self, machine: str) -> dict[str, str]:
        own_executions = self.client("stepfunctions").list_executions(stateMachineArn=machine)["executions"]
        return {one["name"]: one["status"] for one in own_executions}

    def entered(self, execution: str) -> list[tuple[str, Any]]:
        """Return the states that an execution entered, in order, each with its input."""
        events = self.client("stepfunctions").get_execution_history(executionArn=execution)["events"]
        details = [event["stateEnteredEventDetails"] for event in events if "stateEnteredEventDetails" in event]
        return [(one["name"], json.loads(one["input"])) for one in details]

    def states(self, execution: str) -> list[str]:
        return [name for name, _ in self.entered(execution)]

    def invoke(self, name: str, body: str) -> str:
        self.called.append(name)
        return json.dumps(self.handlers[name](json.loads(body), None))

    def stop(self) -> None:
        """Stop running executions, and wait for their end: their threads would call a server that is gone."""
        client = self.client("stepfunctions")
        for machine in self.machines:
            for one in client.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]:
                with suppress(ClientError):  # it has ended by itself
                    client.stop_execution(executionArn=one["executionArn"])
            wait_until(lambda machine=machine: "RUNNING" not in self.executions(machine).values())


@cache
def client_of(service: str) -> Any:
    """Return a client for all tests, because making one is slow."""
    return boto3.Session().client(service)


@cache
def moto_client(service: str, region: str, endpoint: str) -> Any:
    """Return a client for moto, which would make one for each task."""
    return boto3.Session("ak", "sk", region_name=region).client(service, endpoint_url=endpoint)


parsed = cache(AmazonStateLanguageParser.parse)
"""Definitions that moto has parsed: it parses one for the machine and once more for each execution."""


def wait_until(has_come: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Wait until a function returns a true value, and return it."""
    until = time.monotonic() + patience
    while not (result := has_come()):
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.02)  # an execution whose states take no time works while it is waited for
    return result


@pytest.fixture
def step_functions(s3_server: Buckets, monkeypatch: pytest.MonkeyPatch) -> Iterator[StepFunctions]:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    of_services = {"AWS_ENDPOINT_URL": s3_server.endpoint, "AWS_ACCESS_KEY_ID": "of-a-test"}
    for name, value in {**ENVIRONMENT, **of_services}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(dynamodb_client, "_TIMEOUT", 60)  # the machine may be slow
    monkeypatch.setenv("MOTO_PORT", str(urlsplit(s3_server.endpoint).port))
    monkeypatch.setitem(default_user_config, "stepfunctions", {"execute_state_machine": True})
    monkeypatch.setitem(default_user_config, "lambda", {"use_docker": False})
    monkeypatch.setattr(emr_serverless, "JOB_STATUS", "RUNNING")  # else a job has ended when it begins
    service = StepFunctions(f"shop-{next(NUMBERS)}")
    _play_functions(service, monkeypatch)
    _answer_as_aws(monkeypatch)
    _let_stop(monkeypatch)
    monkeypatch.setattr(AmazonStateLanguageParser, "parse", staticmethod(parsed))
    monkeypatch.setenv(PIPELINE, service.pipeline)
    monkeypatch.setenv(LEASES, f"{service.pipeline}-leases")
    service.client("dynamodb").create_table(
        TableName=f"{service.pipeline}-leases",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "lease", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "lease", "KeyType": "HASH"}],
    )
    yield service
    service.stop()


def _play_functions(service: StepFunctions, monkeypatch: pytest.MonkeyPatch) -> None:
    def invoke(
        self: object, function_name: str, qualifier: object, body: Any, headers: object, response_headers: Any
    ) -> bytes:
        try:
            return service.invoke(function_name.rpartition(":")[2], body or "{}").encode()
        except Exception as error:  # noqa: BLE001  # as Lambda does
            response_headers["x-amz-function-error"] = "Unhandled"
            return json.dumps({"errorType": type(error).__name__, "errorMessage": str(error)}).encode()

    monkeypatch.setattr(LambdaSimpleBackend, "invoke", invoke)


def _answer_as_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    task: Any = state_task_service_aws_sdk.StateTaskServiceAwsSdk
    evaluate = task._eval_service_task

    def client(**named: Any) -> Any:
        return moto_client(named["service_name"], named["region_name"], named["endpoint_url"])

    monkeypatch.setattr(boto_client, "boto3", SimpleNamespace(client=client))

    def evaluate_as_json(self: Any, env: Any, *arguments: Any, **named: Any) -> None:
        evaluate(self, env, *arguments, **named)
        env.stack.append(json.loads(to_json_str(env.stack.pop())))

    monkeypatch.setattr(task, "_eval_service_task", evaluate_as_json)
    for one in (task, StateTaskServiceSfn):
        monkeypatch.setattr(one, "_normalise_parameters", _with_names_of_boto)
        monkeypatch.setattr(one, "_normalise_response", _with_names_of_step_functions)
    monkeypatch.setitem(task._SERVICE_NAME_SFN_TO_BOTO_OVERRIDES, "emrserverless", "emr-serverless")
    for service, name in {"glue": "Glue", "emrserverless": "EmrServerless", "sqs": "Sqs"}.items():
        monkeypatch.setitem(state_task_service_aws_sdk._SERVICE_ERROR_NAMES, service, name)


def _let_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """End an execution that is stopped between two states: moto ends its thread, and reports it as running."""
    for name in ("next_state_name", "next_field_name"):
        monkeypatch.setattr(Environment, name, _unless_stopped(getattr(Environment, name)))


def _unless_stopped(following: Any) -> Any:
    def set_following(env: Any, name: str) -> None:
        if env._program_state is None or isinstance(env._program_state, ProgramRunning):
            following.fset(env, name)

    return property(following.fget, set_following)


def _operation(task: Any) -> Any:
    client = client_of(task._get_boto_service_name())
    return client.meta.service_model.operation_model(
        client.meta.method_to_api_mapping[task._get_boto_service_action()]
    )


def _with_names_of_boto(task: Any, parameters: Any, *_: object) -> None:
    """Return the parameters of a call with boto's names: `applicationId` for `ApplicationId`."""
    task._to_boto_request(parameters, _operation(task).input_shape)


def _with_names_of_step_functions(task: Any, answer: Any, *_: object) -> None:
    if (shape := _operation(task).output_shape) is not None:
        task._from_boto_response(answer, shape)
