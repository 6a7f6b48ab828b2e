"""What somebody must be told: lag, held keys, failed tables and runs, dead letters; by a topic of SNS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.entrypoints.deployment.intrinsics import Template, is_given, ref
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline

_PERIOD: Final = 300
"""Seconds of which an alarm takes the largest value, or the sum."""

_OF_RUNS: Final[Mapping[str, tuple[str, str, int | str, str]]] = {
    "Lag": ("LagSeconds", "Maximum", "LagAlarmSeconds", "A table is further behind its source than it may be."),
    "HeldKeys": ("HeldKeys", "Maximum", 1, "Keys are held: rows of theirs are in quarantine (docs/held-key.md)."),
    "FailedTables": ("Failures", "Sum", 1, "A table failed, or an alarm stopped it (docs/an-alarm.md)."),
}
"""Alarms on the metrics of runs, which the settings turn on (docs/metrics.md): metric of all tables together,
statistic, least value that alarms (or its parameter), words."""


def parameters() -> Template:
    """Return who is told, and from which lag on."""
    return {
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
    """Return whether somebody is mailed."""
    return {"HasNoticeEmail": is_given("NoticeEmail")}


def resources(pipeline: DeployedPipeline) -> Template:
    """Return the topic, who may write to it, and the alarms."""
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
        measured = _metric(pipeline.metrics, metric, of_pipeline, statistic)
        found[f"{title}Alarm"] = _alarm(pipeline, title, words, measured, least)
    dead = {"QueueName": pipeline.queue.dead_letters}
    found["DeadLettersAlarm"] = _alarm(
        pipeline,
        "DeadLetters",
        "Messages could not be worked on (docs/queues.md).",
        _metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", dead, "Maximum"),
        1,
    )
    for title, metric in (("FailedRuns", "ExecutionsFailed"), ("TimedOutRuns", "ExecutionsTimedOut")):
        found[f"{title}Alarm"] = _alarm(
            pipeline,
            title,
            "The state machine ended without its work being done.",
            _metric("AWS/States", metric, {"StateMachineArn": ref("StateMachine")}, "Sum"),
            1,
        )
    return found


def _alarm(
    pipeline: DeployedPipeline, title: str, words: str, measured: Mapping[str, Any], threshold: Any
) -> Template:
    return {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": f"{pipeline.name}-{title}",
            "AlarmDescription": words,
            **measured,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "Threshold": threshold,
            "EvaluationPeriods": 1,
            "TreatMissingData": "notBreaching",
            "AlarmActions": [ref("NoticeTopic")],
            "OKActions": [ref("NoticeTopic")],
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
