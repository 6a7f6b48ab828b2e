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

    The state machine looks every `poll` seconds whether anything waits. Raises ConfigError for what does not go
    together.
    """
    if packaged.format != pipeline.format:
        raise ConfigError(
            f"the package is for tables of the kind {packaged.format!r}",
            found=f"the settings have {pipeline.format!r}",
            todo=f"Package again with --format {pipeline.format}.",
        )
    if dms_side == "make":
        dms.check(pipeline)
    tasks: dict[str, Value] = {"make": ref("ReplicationTask"), "existing": ref("ReplicationTaskArn")}
    called = functions.functions_of(pipeline, tasks.get(dms_side))
    flow = workflow.Workflow(pipeline=pipeline, packaged=packaged, functions=called, poll=poll)
    made_dms = dms_side == "make"
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"lakeward: the pipeline {pipeline.name} on {_TITLES[packaged.platform]}",
        "Parameters": {
            **job_definitions.parameters(packaged),
            **workflow.parameters(),
            **buckets.parameters(pipeline),
            **stores.parameters(pipeline),
            **alarms.parameters(dms_side),
            **(dms.parameters() if made_dms else _TASK if dms_side == "existing" else {}),
        },
        **({"Rules": dms.rules()} if made_dms else {}),
        "Conditions": {
            **buckets.conditions(pipeline),
            **stores.conditions(),
            **alarms.conditions(),
            **alarms.conditions_of_dms(dms_side),
            **(dms.conditions() if made_dms else {}),
        },
        "Resources": {
            **buckets.resources(pipeline),
            **queues.resources(pipeline),
            **stores.resources(pipeline),
            "JobRole": job_role(pipeline, packaged.platform),
            **job_definitions.resources(pipeline, packaged),
            **functions.resources(pipeline, called),
            **flow.resources(),
            **alarms.resources(pipeline),
            **alarms.of_dms(pipeline, dms_side, tasks.get(dms_side)),
            **(dms.resources(pipeline) if made_dms else {}),
        },
        "Outputs": _outputs(made_dms=made_dms),
    }


_TITLES: Final = {"glue": "AWS Glue", "emr-serverless": "EMR Serverless"}


def _outputs(*, made_dms: bool) -> Template:
    found = {
        "QueueUrl": {"Description": "The `url` that the settings must have under [queue].", "Value": ref("Queue")},
        "StateMachineArn": {"Description": "The state machine of the pipeline.", "Value": ref("StateMachine")},
        "StartFunction": {"Description": "What starts it, unless it runs.", "Value": ref("StartRunFunction")},
        "NoticeTopicArn": {"Description": "The topic of notices.", "Value": ref("NoticeTopic")},
    }
    task = {"Description": "The replication task, which is started by hand.", "Value": ref("ReplicationTask")}
    return {**found, "ReplicationTaskArn": task} if made_dms else found


def text_of(made: Template) -> str:
    """Return a template as it is written to a file."""
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"
