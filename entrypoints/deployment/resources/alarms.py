"""What somebody must be told, by a topic of SNS: lag, held keys, failed tables and runs, dead letters, silence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lakeward.entrypoints.deployment.intrinsics import Template, Value, is_given, ref
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline, Dms

_PERIOD: Final = 300
"""Seconds of which an alarm takes the largest value, or the sum."""

_OF_RUNS: Final[Mapping[str, tuple[str, str, int | str, str]]] = {
    "Lag": ("LagSeconds", "Maximum", "LagAlarmSeconds", "A table is further behind its source than it may be."),
    "HeldKeys": (
        "HeldKeys",
        "Maximum",
        1,
        "Keys are held: rows of theirs are in quarantine (docs/how-to/held-key.md).",
    ),
    "FailedTables": ("Failures", "Sum", 1, "A table failed, or an alarm stopped it (docs/how-to/an-alarm.md)."),
}
"""Alarms on the metrics of runs, which the settings turn on (docs/reference/metrics.md): metric of all tables
together, statistic, least value that alarms (or its parameter), words."""


_SILENT: Final = ("FailedTables",)
"""Alarms that do not say when they end: a table that failed has no better run behind it, where none was made."""

_NO_RUN: Final = (6, 3600)
"""Hours without a run that alarm, and the seconds of one: the state machine makes one each hour."""

_OF_DMS: Final = {
    "DmsSource": ("CDCLatencySource", "DMS is behind the source database, or its task stands still."),
    "DmsTarget": ("CDCLatencyTarget", "DMS writes its files late, or its task stands still."),
}
"""Alarms on a replication task: metric, words. A task that has stopped measures nothing."""

_PERIODS_OF_DMS: Final = 3


def parameters(dms_side: Dms) -> Template:
    """Return the parameters: the address to notify, and the limit of the lag."""
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
            "Description": "An address that notices are mailed to; empty for none. AWS asks it to confirm.",
        },
        "LagAlarmSeconds": {
            "Type": "Number",
            "Default": 3600,
            "MinValue": 1,
            "Description": "Seconds that a table may be behind its source.",
        },
    }


def conditions() -> Template:
    """Return the condition that an e-mail address is given."""
    return {"HasNoticeEmail": is_given("NoticeEmail")}


def conditions_of_dms(dms_side: Dms) -> Template:
    """Return whether there are alarms on a task that was there before."""
    return {"HasReplicationInstance": is_given("ReplicationInstanceName")} if dms_side == "existing" else {}


def of_dms(pipeline: DeployedPipeline, dms_side: Dms, task: Value | None) -> Template:
    """Return the alarms on a replication task, by its ARN; none without one.

    The lag of tables does not tell of a task that has stopped: it is that of the newest event when it came.
    """
    if task is None:
        return {}
    instance = instance_name(pipeline) if dms_side == "make" else ref("ReplicationInstanceName")
    named = {"Fn::Select": [6, {"Fn::Split": [":", task]}]}
    only = {"Condition": "HasReplicationInstance"} if dms_side == "existing" else {}
    found = {}
    for title, (metric, words) in _OF_DMS.items():
        dimensions = {"ReplicationInstanceIdentifier": instance, "ReplicationTaskIdentifier": named}
        measured = {
            **_metric("AWS/DMS", metric, dimensions, "Maximum"),
            "EvaluationPeriods": _PERIODS_OF_DMS,
            "TreatMissingData": "breaching",
        }
        found[f"{title}Alarm"] = {**only, **_alarm(pipeline, title, words, measured, ref("LagAlarmSeconds"))}
    return found


def instance_name(pipeline: DeployedPipeline) -> str:
    """Return what the replication instance of a template is called: DMS takes small letters, digits and hyphens."""
    return re.sub("[-_]+", "-", f"lakeward-{pipeline.name.lower()}").strip("-")


def resources(pipeline: DeployedPipeline) -> Template:
    """Return the topic, its policy, and the alarms."""
    found: dict[str, Any] = {
        "NoticeTopic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": f"{pipeline.name}-notices"}},
        "NoticeSubscription": {
            "Type": "AWS::SNS::Subscription",
            "Condition": "HasNoticeEmail",
            "Properties": {"TopicArn": ref("NoticeTopic"), "Protocol": "email", "Endpoint": ref("NoticeEmail")},
        },
    }
    of_pipeline = {"Pipeline": pipeline.name}
    for title, (metric, statistic, threshold, words) in _OF_RUNS.items():
        least = ref(threshold) if isinstance(threshold, str) else threshold
        measured = dict(_metric(pipeline.metrics, metric, of_pipeline, statistic))
        if statistic == "Maximum":
            measured["TreatMissingData"] = "ignore"  # between two runs it is as it was
        found[f"{title}Alarm"] = _alarm(pipeline, title, words, measured, least)
    if not pipeline.unmeasured:
        found["NoRunsAlarm"] = _no_runs(pipeline, of_pipeline)
    dead = {"QueueName": pipeline.queue.dead_letters}
    found["DeadLettersAlarm"] = _alarm(
        pipeline,
        "DeadLetters",
        "Messages could not be worked on (docs/reference/queues.md).",
        _metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", dead, "Maximum"),
        1,
    )
    for title, metric in (("FailedRuns", "ExecutionsFailed"), ("AbortedRuns", "ExecutionsAborted")):
        found[f"{title}Alarm"] = _alarm(
            pipeline,
            title,
            "The state machine ended without its work being done.",
            _metric("AWS/States", metric, {"StateMachineArn": ref("StateMachine")}, "Sum"),
            1,
        )
    return found


def _no_runs(pipeline: DeployedPipeline, of_pipeline: Mapping[str, Any]) -> Template:
    periods, seconds = _NO_RUN
    measured = {
        **_metric(pipeline.metrics, "RunSeconds", of_pipeline, "SampleCount"),
        "Period": seconds,
        "EvaluationPeriods": periods,
        "TreatMissingData": "breaching",
        "ComparisonOperator": "LessThanThreshold",
    }
    return _alarm(pipeline, "NoRuns", f"No run has ended for {periods} hours.", measured, 1)


def _alarm(
    pipeline: DeployedPipeline, title: str, words: str, measured: Mapping[str, Any], threshold: Any
) -> Template:
    return {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": f"{pipeline.name}-{title}",
            "AlarmDescription": words,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "Threshold": threshold,
            "EvaluationPeriods": 1,
            "TreatMissingData": "notBreaching",
            **measured,
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
