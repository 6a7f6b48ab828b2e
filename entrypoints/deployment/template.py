"""The CloudFormation template of a pipeline, assembled from its resources."""

from __future__ import annotations

import json
from typing import Any, Final

from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.intrinsics import Template, Value, ref
from lakeward.entrypoints.deployment.packaged_job import PackagedJob
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline, Dms
from lakeward.entrypoints.deployment.resources import (
    alarms,
    buckets,
    dms,
    functions,
    job_definitions,
    queues,
    stores,
    workflow,
)
from lakeward.entrypoints.deployment.resources.job_role import job_role

_TASK: Final = {
    "ReplicationTaskArn": {
        "Type": "String",
        "AllowedPattern": "arn:aws[a-z-]*:dms:.*:task:.*",
        "Description": "The replication task of DMS that writes the files.",
    }
}


def template(
    pipeline: DeployedPipeline, packaged: PackagedJob, dms_side: Dms, poll: int = 60
) -> dict[str, Any]:
    """Return the CloudFormation template of a pipeline; the same arguments give the same template.

    The state machine polls every `poll` seconds. Raises ConfigError if the package or the DMS side does not fit the
    settings.
    """
    if packaged.format != pipeline.format:
        raise ConfigError(
            f"the package is for tables of the kind {packaged.format!r}",
            found=f"the settings have {pipeline.format!r}",
            todo=f"Package again with --format {pipeline.format}.",
        )
    if dms_side == "make":
        dms.check(pipeline)
    creates_dms = dms_side == "make"
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"lakeward: the pipeline {pipeline.name} on {_TITLES[packaged.platform]}",
        "Parameters": _parameters(pipeline, packaged, dms_side),
        **({"Rules": dms.rules()} if creates_dms else {}),
        "Conditions": {
            **buckets.conditions(pipeline),
            **stores.conditions(),
            **alarms.conditions(),
            **alarms.conditions_of_dms(dms_side),
            **(dms.conditions() if creates_dms else {}),
        },
        "Resources": _resources(pipeline, packaged, dms_side, poll),
        "Outputs": _outputs(creates_dms=creates_dms),
    }


_TITLES: Final = {"glue": "AWS Glue", "emr-serverless": "EMR Serverless"}


def _parameters(pipeline: DeployedPipeline, packaged: PackagedJob, dms_side: Dms) -> Template:
    dms_parameters = {"make": dms.parameters(), "existing": _TASK, "none": {}}
    return {
        **job_definitions.parameters(packaged),
        **workflow.parameters(),
        **buckets.parameters(pipeline),
        **stores.parameters(pipeline),
        **alarms.parameters(dms_side),
        **dms_parameters[dms_side],
    }


def _resources(pipeline: DeployedPipeline, packaged: PackagedJob, dms_side: Dms, poll: int) -> Template:
    tasks: dict[str, Value] = {"make": ref("ReplicationTask"), "existing": ref("ReplicationTaskArn")}
    task = tasks.get(dms_side)
    lambdas = functions.functions_of(pipeline, task)
    flow = workflow.Workflow(pipeline=pipeline, packaged=packaged, functions=lambdas, poll=poll)
    return {
        **buckets.resources(pipeline),
        **queues.resources(pipeline),
        **stores.resources(pipeline),
        "JobRole": job_role(pipeline, packaged.platform),
        **job_definitions.resources(pipeline, packaged),
        **functions.resources(pipeline, lambdas),
        **flow.resources(),
        **alarms.resources(pipeline),
        **alarms.dms_alarms(pipeline, dms_side, task),
        **(dms.resources(pipeline) if dms_side == "make" else {}),
    }


def _outputs(*, creates_dms: bool) -> Template:
    outputs = {
        "QueueUrl": {"Description": "The `url` that the settings must have under [queue].", "Value": ref("Queue")},
        "StateMachineArn": {"Description": "The state machine of the pipeline.", "Value": ref("StateMachine")},
        "StartFunction": {
            "Description": "The function that starts it, unless it runs.",
            "Value": ref("StartRunFunction"),
        },
        "NoticeTopicArn": {"Description": "The topic of notices.", "Value": ref("NoticeTopic")},
    }
    task = {"Description": "The replication task, which is started by hand.", "Value": ref("ReplicationTask")}
    return {**outputs, "ReplicationTaskArn": task} if creates_dms else outputs


def text_of(content: Template) -> str:
    """Return the text of a template file."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
