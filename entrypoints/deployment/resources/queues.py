"""The queue of notices, its dead-letter queue, and the EventBridge rules that write to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.entrypoints.deployment.intrinsics import Template, attribute, ref
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline
from lakeward.entrypoints.deployment.policies import VERSION

_FORTNIGHT: Final = 14 * 24 * 3600
"""The retention of messages in seconds: the longest of SQS, so that there is time to fix a failure."""

_RECEIVED: Final = 5
"""The number of times that a message is received before it becomes a dead letter."""

_MOST_RULES: Final = 100
"""The greatest number of rules of a pipeline: an account has 300 in a region."""


def resources(pipeline: DeployedPipeline) -> Template:
    """Return the queue, its dead-letter queue, the rules, and the policy that lets the rules write."""
    rules = {
        f"LandingRule{number or ''}": _rule(pipeline, prefix, group)
        for number, (prefix, group) in enumerate(_groups(pipeline).items())
    }
    redrive = {"deadLetterTargetArn": attribute("DeadLetters"), "maxReceiveCount": _RECEIVED}
    own = {"VisibilityTimeout": pipeline.queue.visibility, "RedrivePolicy": redrive}
    return {
        "DeadLetters": _queue(pipeline, pipeline.queue.dead_letters, {}),
        "Queue": _queue(pipeline, pipeline.queue.name, own),
        "QueuePolicy": _policy([*rules]),
        **rules,
    }


def _queue(pipeline: DeployedPipeline, name: str, own: Mapping[str, Any]) -> Template:
    fifo = {"FifoQueue": True, "ContentBasedDeduplication": True} if pipeline.queue.is_fifo else {}
    properties = {"MessageRetentionPeriod": _FORTNIGHT, "SqsManagedSseEnabled": True}
    return {
        "Type": "AWS::SQS::Queue",
        "Properties": {"QueueName": name, **fifo, **properties, **own},
    }


def _policy(rules: Sequence[str]) -> Template:
    statement = {
        "Sid": "LetRulesWrite",
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": attribute("Queue"),
        "Condition": {"ArnEquals": {"aws:SourceArn": [attribute(rule) for rule in rules]}},
    }
    return {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {"Queues": [ref("Queue")], "PolicyDocument": {"Version": VERSION, "Statement": [statement]}},
    }


def _rule(pipeline: DeployedPipeline, prefix: str, group: str) -> Template:
    """Return a rule that writes the events of S3 about new objects below a prefix to the queue."""
    objects = {"bucket": {"name": [pipeline.landing.bucket]}, "object": {"key": [{"prefix": prefix}]}}
    detail = objects if prefix else {"bucket": objects["bucket"]}
    fifo = {"SqsParameters": {"MessageGroupId": group}} if pipeline.queue.is_fifo else {}
    return {
        "Type": "AWS::Events::Rule",
        "Properties": {
            "Description": f"New files of the pipeline {pipeline.name}",
            "EventPattern": {"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": detail},
            "Targets": [{"Id": "queue", "Arn": attribute("Queue"), **fifo}],
        },
    }


def _groups(pipeline: DeployedPipeline) -> Mapping[str, str]:
    """Return the prefixes to watch, each with the message group of a FIFO queue.

    SQS delivers at most ten messages of a group until these are deleted. So each table has a group of its own, and
    a rule for each of its folders if these are known. Otherwise one rule writes all messages, in one group.
    """
    default_group = {pipeline.landing.below: pipeline.name}
    source = pipeline.source
    if not (pipeline.queue.is_fifo and isinstance(source, DmsOptions)) or pipeline.patterns:
        return default_group
    groups = [
        (f"{pipeline.landing.below}{folder}/" if folder else "", f"table-{number}")
        for number, name in enumerate(pipeline.tables, 1)
        for folder in pipeline.folders.get(name, [""])
    ]
    prefixes = sorted(prefix for prefix, _ in groups)
    is_within = any(inner.startswith(outer) for outer, inner in pairwise(prefixes))
    if source.cdc_path is not None or len(groups) > _MOST_RULES or is_within or "" in prefixes:
        return default_group
    return dict(groups)
