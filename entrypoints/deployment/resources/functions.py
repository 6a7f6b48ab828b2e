"""The Lambda functions of a pipeline, with their environment and permissions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeward.entrypoints.deployment.intrinsics import Template, Value, arn_here, attribute, ref, sub
from lakeward.entrypoints.deployment.lambda_package import HANDLERS, RUNTIME, lambda_files
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline
from lakeward.entrypoints.deployment.policies import allow, keys_of, role
from lakeward.entrypoints.lambdas.environment import DMS_TASK, LEASES, PIPELINE, STATE_MACHINE

_SECONDS: Final = 60
_MEMORY: Final = 256
_LOG_DAYS: Final = 30
_LEASE: Final = ("dynamodb:GetItem", "dynamodb:PutItem")
_WATCH: Final = ("states:DescribeExecution", "states:GetExecutionHistory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function: its name among HANDLERS, its title in the template, what it is told and may do."""

    name: str
    title: str
    about: str
    variables: Mapping[str, Value]
    statements: Sequence[Template]


def functions_of(pipeline: DeployedPipeline, task: Value | None) -> Sequence[Function]:
    """Return the functions of a pipeline; `task` is the ARN of its replication task, where it has one."""
    known = {PIPELINE: pipeline.name, LEASES: pipeline.lease}
    machine = arn_here("states", f"stateMachine:{pipeline.name}")
    table = arn_here("dynamodb", f"table/{pipeline.lease}")
    lease = allow("TakeLease", _LEASE, [table], keys_of(pipeline.name))
    observe = allow("WatchExecutions", _WATCH, [arn_here("states", f"execution:{pipeline.name}:*")])
    start = allow("StartExecution", ["states:StartExecution"], [machine])
    found = [
        Function(
            name="start-run",
            title="StartRun",
            about="starts its state machine, unless an execution runs",
            variables={**known, STATE_MACHINE: machine},
            statements=[lease, observe, start],
        ),
        Function(
            name="history-check",
            title="HistoryCheck",
            about="lets a new execution follow one that is long or old",
            variables=known,
            statements=[lease, observe],
        ),
    ]
    if task is not None:
        look = allow("LookAtTask", ["dms:DescribeReplicationTasks"], ["*"])  # it knows no resources
        status = Function(
            name="dms-status",
            title="DmsStatus",
            about="tells how far the full load is",
            variables={DMS_TASK: task},
            statements=[look],
        )
        found.append(status)
    return found


def resources(pipeline: DeployedPipeline, functions: Sequence[Function]) -> Template:
    """Return the functions with their roles and logs, whose code lies beside the package of the job."""
    code = {"S3Bucket": ref("PackageBucket"), "S3Key": sub(f"${{PackagePrefix}}/{name_of_archive()}")}
    found: dict[str, Any] = {}
    for function in functions:
        name = name_of(pipeline, function)
        logs = f"{function.title}Logs"
        found[logs] = {
            "Type": "AWS::Logs::LogGroup",
            "DeletionPolicy": "Delete",
            "UpdateReplacePolicy": "Delete",
            "Properties": {"LogGroupName": f"/aws/lambda/{name}", "RetentionInDays": _LOG_DAYS},
        }
        written = allow(
            "WriteLogs",
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            [arn_here("logs", f"log-group:/aws/lambda/{name}:*")],
        )
        found[f"{function.title}Role"] = role("lambda", function.name, [*function.statements, written])
        found[f"{function.title}Function"] = {
            "Type": "AWS::Lambda::Function",
            "DependsOn": [logs],
            "Properties": {
                "FunctionName": name,
                "Description": f"lakeward: {function.about}",
                "Handler": HANDLERS[function.name],
                "Runtime": RUNTIME,
                "Role": attribute(f"{function.title}Role"),
                "Code": code,
                "Timeout": _SECONDS,
                "MemorySize": _MEMORY,
                "Environment": {"Variables": dict(function.variables)},
            },
        }
    return found


def name_of_archive() -> str:
    """Return the name of the code, which tells what is in it: Lambda takes a new one for another name alone."""
    said = hashlib.sha256()
    for name, content in lambda_files().items():
        said.update(f"{name} {len(content)}\n".encode() + content)
    return f"functions-{said.hexdigest()[:16]}.zip"


def name_of(pipeline: DeployedPipeline, function: Function) -> str:
    """Return what a function is called in the account."""
    return f"{pipeline.name}-{function.name}"
