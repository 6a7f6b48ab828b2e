"""CloudWatch alarms on lag, held keys, failures, dead letters and missing runs, and their SNS topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lakeward.entrypoints.deployment.intrinsics import Template, Value, is_given, ref
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline, Dms

_PERIOD: Final = 300
"""The period of an alarm in seconds, of which it takes the maximum or the sum."""

_ON_RUNS: Final[Mapping[str, tuple[str, str, int | str, str]]] = {
    "Lag": ("LagSeconds", "Maximum", "LagAlarmSeconds", "The lag of a table is above its limit."),
    "HeldKeys": (
        "HeldKeys",
        "Maximum",
        1,
        "Keys are held, because rows of them are in quarantine (docs/how-to/held-key.md).",
    ),
    "FailedTables": ("Failures", "Sum", 1, "A table failed, or an alarm stopped it (docs/how-to/an-alarm.md)."),
}
"""Alarms on the metrics of runs, which the settings turn on (docs/reference/metrics.md): the metric of all tables
together, its statistic, the threshold (or its parameter), and the description."""


_SILENT: Final = ("FailedTables",)
"""Alarms that send no notice when they end: a period without a run does not mean that a table works again."""

_NO_RUN: Final = (6, 3600)
"""The number of periods without a run that raise the alarm, and the length of a period in seconds.

The state machine starts a run at least every hour.
"""

_ON_DMS: Final = {
    "DmsSource": ("CDCLatencySource", "DMS is behind the source database, or its task has stopped."),
    "DmsTarget": ("CDCLatencyTarget", "DMS writes its files late, or its task has stopped."),
}
"""Alarms on a replication task: metric and description. A task that has stopped writes no metric."""

_PERIODS_OF_DMS: Final = 3


def parameters(dms_side: Dms) -> Template:
    """Return the parameters: the e-mail address for notices, and the limit of the lag."""
    instance = {
        "ReplicationInstanceName": {
            "Type": "String",
            "Default": "",
            "Description": "The identifier of the instance of the task, for alarms on its latency; empty for none.",
        }
    }
    return {
        **(instance if dms_side == "existing" else {}),
        "NoticeEmail": {
            "Type": "String",
            "Default": "",
            "Description": "An e-mail address for notices; empty for none. AWS asks it to confirm.",
        },
        "LagAlarmSeconds": {
            "Type": "Number",
            "Default": 3600,
            "MinValue": 1,
            "Description": "The greatest lag of a table in seconds before an alarm is raised.",
        },
    }


def conditions() -> Template:
    """Return the condition that an e-mail address is given."""
    return {"HasNoticeEmail": is_given("NoticeEmail")}


def conditions_of_dms(dms_side: Dms) -> Template:
    """Return the condition for alarms on an existing replication task."""
    return {"HasReplicationInstance": is_given("ReplicationInstanceName")} if dms_side == "existing" else {}


def dms_alarms(pipeline: DeployedPipeline, dms_side: Dms, task: Value | None) -> Template:
    """Return the alarms on a replication task, by its ARN; none without a task.

    The lag of tables does not show that a task has stopped: it is measured when an event is applied.
    """
    if task is None:
        return {}
    instance = instance_name(pipeline) if dms_side == "make" else ref("ReplicationInstanceName")
    task_name = {"Fn::Select": [6, {"Fn::Split": [":", task]}]}
    only = {"Condition": "HasReplicationInstance"} if dms_side == "existing" else {}
    alarms = {}
    for title, (metric, description) in _ON_DMS.items():
        dimensions = {"ReplicationInstanceIdentifier": instance, "ReplicationTaskIdentifier": task_name}
        properties = {
            **_metric("AWS/DMS", metric, dimensions, "Maximum"),
            "EvaluationPeriods": _PERIODS_OF_DMS,
            "TreatMissingData": "breaching",
        }
        alarm = _alarm(pipeline, title, description, properties, ref("LagAlarmSeconds"))
        alarms[f"{title}Alarm"] = {**only, **alarm}
    return alarms


def instance_name(pipeline: DeployedPipeline) -> str:
    """Return the name of the replication instance; DMS allows lower-case letters, digits and hyphens."""
    return re.sub("[-_]+", "-", f"lakeward-{pipeline.name.lower()}").strip("-")


def resources(pipeline: DeployedPipeline) -> Template:
    """Return the topic, its policy, and the alarms."""
    alarms: dict[str, Any] = {
        "NoticeTopic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": f"{pipeline.name}-notices"}},
        "NoticeSubscription": {
            "Type": "AWS::SNS::Subscription",
            "Condition": "HasNoticeEmail",
            "Properties": {"TopicArn": ref("NoticeTopic"), "Protocol": "email", "Endpoint": ref("NoticeEmail")},
        },
    }
    dimensions = {"Pipeline": pipeline.name}
    for title, (metric, statistic, threshold, description) in _ON_RUNS.items():
        limit = ref(threshold) if isinstance(threshold, str) else threshold
        properties = dict(_metric(pipeline.metrics, metric, dimensions, statistic))
        if statistic == "Maximum":
            properties["TreatMissingData"] = "ignore"  # between two runs the value does not change
        alarms[f"{title}Alarm"] = _alarm(pipeline, title, description, properties, limit)
    if not pipeline.unmeasured:
        alarms["NoRunsAlarm"] = _no_runs(pipeline, dimensions)
    dead_letters = {"QueueName": pipeline.queue.dead_letters}
    alarms["DeadLettersAlarm"] = _alarm(
        pipeline,
        "DeadLetters",
        "Messages could not be processed (docs/reference/queues.md).",
        _metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", dead_letters, "Maximum"),
        1,
    )
    for title, metric in (("FailedRuns", "ExecutionsFailed"), ("AbortedRuns", "ExecutionsAborted")):
        alarms[f"{title}Alarm"] = _alarm(
            pipeline,
            title,
            "The state machine failed or was aborted.",
            _metric("AWS/States", metric, {"StateMachineArn": ref("StateMachine")}, "Sum"),
            1,
        )
    return alarms


def _no_runs(pipeline: DeployedPipeline, dimensions: Mapping[str, Any]) -> Template:
    periods, seconds = _NO_RUN
    properties = {
        **_metric(pipeline.metrics, "RunSeconds", dimensions, "SampleCount"),
        "Period": seconds,
        "EvaluationPeriods": periods,
        "TreatMissingData": "breaching",
        "ComparisonOperator": "LessThanThreshold",
    }
    return _alarm(pipeline, "NoRuns", f"No run has ended for {periods} hours.", properties, 1)


def _alarm(
    pipeline: DeployedPipeline, title: str, description: str, properties: Mapping[str, Any], threshold: Any
) -> Template:
    return {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": f"{pipeline.name}-{title}",
            "AlarmDescription": description,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "Threshold": threshold,
            "EvaluationPeriods": 1,
            "TreatMissingData": "notBreaching",
            **properties,
            "AlarmActions": [ref("NoticeTopic")],
            **({} if title in _SILENT else {"OKActions": [ref("NoticeTopic")]}),
        },
    }


def _metric(namespace: str, metric: str, dimensions: Mapping[str, Any], statistic: str) -> Template:
    return {
        "Namespace": namespace,
        "MetricName": metric,
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
        "Statistic": statistic,
        "Period": _PERIOD,
    }
