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
    """A Lambda function: name in HANDLERS, title in the template, description, environment and permissions."""

    name: str
    title: str
    description: str
    variables: Mapping[str, Value]
    statements: Sequence[Template]


def functions_of(pipeline: DeployedPipeline, task: Value | None) -> Sequence[Function]:
    """Return the functions of a pipeline; `task` is the ARN of its replication task, if there is one."""
    variables = {PIPELINE: pipeline.name, LEASES: pipeline.lease}
    machine = arn_here("states", f"stateMachine:{pipeline.name}")
    table = arn_here("dynamodb", f"table/{pipeline.lease}")
    lease = allow("TakeLease", _LEASE, [table], keys_of(pipeline.name))
    observe = allow("WatchExecutions", _WATCH, [arn_here("states", f"execution:{pipeline.name}:*")])
    start = allow("StartExecution", ["states:StartExecution"], [machine])
    functions = [
        Function(
            name="start-run",
            title="StartRun",
            description="starts its state machine, unless an execution runs",
            variables={**variables, STATE_MACHINE: machine},
            statements=[lease, observe, start],
        ),
        Function(
            name="history-check",
            title="HistoryCheck",
            description="starts a new execution in place of one that is long or old",
            variables=variables,
            statements=[lease, observe],
        ),
    ]
    if task is not None:
        status_permission = allow("LookAtTask", ["dms:DescribeReplicationTasks"], ["*"])  # has no resources
        status = Function(
            name="dms-status",
            title="DmsStatus",
            description="returns the state of the full load",
            variables={DMS_TASK: task},
            statements=[status_permission],
        )
        functions.append(status)
    return functions


def resources(pipeline: DeployedPipeline, functions: Sequence[Function]) -> Template:
    """Return the functions with their roles and logs. Their code is in the folder of the job's package."""
    code = {"S3Bucket": ref("PackageBucket"), "S3Key": sub(f"${{PackagePrefix}}/{name_of_archive()}")}
    content: dict[str, Any] = {}
    for function in functions:
        name = name_of(pipeline, function)
        logs = f"{function.title}Logs"
        content[logs] = {
            "Type": "AWS::Logs::LogGroup",
            "DeletionPolicy": "Delete",
            "UpdateReplacePolicy": "Delete",
            "Properties": {"LogGroupName": f"/aws/lambda/{name}", "RetentionInDays": _LOG_DAYS},
        }
        write_logs = allow(
            "WriteLogs",
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            [arn_here("logs", f"log-group:/aws/lambda/{name}:*")],
        )
        content[f"{function.title}Role"] = role("lambda", function.name, [*function.statements, write_logs])
        content[f"{function.title}Function"] = {
            "Type": "AWS::Lambda::Function",
            "DependsOn": [logs],
            "Properties": {
                "FunctionName": name,
                "Description": f"lakeward: {function.description}",
                "Handler": HANDLERS[function.name],
                "Runtime": RUNTIME,
                "Role": attribute(f"{function.title}Role"),
                "Code": code,
                "Timeout": _SECONDS,
                "MemorySize": _MEMORY,
                "Environment": {"Variables": dict(function.variables)},
            },
        }
    return content


def name_of_archive() -> str:
    """Return the name of the code archive, with a digest: CloudFormation updates a function only for a new name."""
    digest = hashlib.sha256()
    for name, content in lambda_files().items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return f"functions-{digest.hexdigest()[:16]}.zip"


def name_of(pipeline: DeployedPipeline, function: Function) -> str:
    """Return the name of a function in the account."""
    return f"{pipeline.name}-{function.name}"
