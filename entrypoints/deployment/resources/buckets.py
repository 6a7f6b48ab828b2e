"""The buckets of a pipeline, created unless they exist: encrypted, private, with lifecycle rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lakeward.entrypoints.deployment.intrinsics import Template, arn, is_yes, ref
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline
from lakeward.entrypoints.deployment.policies import VERSION

_UPLOAD_DAYS: Final = 7
"""Days after which parts of incomplete uploads are removed."""


def titles_of(pipeline: DeployedPipeline) -> Mapping[str, str]:
    """Return the buckets of a pipeline with their titles; a bucket for several purposes has the first one."""
    places = {"Landing": pipeline.landing, "Lake": pipeline.warehouse, "Archive": pipeline.archive}
    titles: dict[str, str] = {}
    for title, place in places.items():
        if place is not None:
            titles.setdefault(place.bucket, title)
    return titles


def parameters(pipeline: DeployedPipeline) -> Template:
    """Return the parameters of the buckets."""
    switches = {
        f"Make{title}Bucket": {
            "Type": "String",
            "Default": "yes",
            "AllowedValues": ["yes", "no"],
            "Description": f"Whether the bucket {bucket} is created. With no it exists already, and sends its "
            "events to EventBridge if files land in it.",
        }
        for bucket, title in titles_of(pipeline).items()
    }
    cold = {
        "Type": "Number",
        "Default": 90,
        "MinValue": 1,
        "Description": "Days after which landed files move to a cheaper storage class that costs more to read "
        "(Glacier Instant Retrieval). Nothing is deleted.",
    }
    return {**switches, "LandingColdAfterDays": cold}


def conditions(pipeline: DeployedPipeline) -> Template:
    """Return the conditions under which buckets are created."""
    return {f"Makes{title}Bucket": is_yes(f"Make{title}Bucket") for title in titles_of(pipeline).values()}


def resources(pipeline: DeployedPipeline) -> Template:
    """Return the buckets and their policies. Deleting the stack keeps the buckets, since they have the data."""
    buckets: dict[str, Any] = {}
    for bucket, title in titles_of(pipeline).items():
        buckets[f"{title}Bucket"] = _bucket(pipeline, bucket, title)
        buckets[f"{title}BucketPolicy"] = _policy(bucket, title)
    return buckets


def _bucket(pipeline: DeployedPipeline, bucket: str, title: str) -> Template:
    properties = {
        "BucketName": bucket,
        "BucketEncryption": {
            "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
        },
        "PublicAccessBlockConfiguration": {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        },
        "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
        "LifecycleConfiguration": {"Rules": [*_rules(pipeline, bucket)]},
    }
    if bucket == pipeline.landing.bucket:
        properties["NotificationConfiguration"] = {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    return {
        "Type": "AWS::S3::Bucket",
        "Condition": f"Makes{title}Bucket",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": properties,
    }


def _rules(pipeline: DeployedPipeline, bucket: str) -> Sequence[Template]:
    """Return the lifecycle rules; files of tables are removed by maintenance only (docs/how-to/maintain.md)."""
    unfinished = {
        "Id": "unfinished-uploads",
        "Status": "Enabled",
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": _UPLOAD_DAYS},
    }
    cold = [
        {
            "Id": f"cold-{name}",
            "Status": "Enabled",
            "Prefix": place.below,
            "Transitions": [{"StorageClass": "GLACIER_IR", "TransitionInDays": ref("LandingColdAfterDays")}],
        }
        for name, place in (("landing", pipeline.landing), ("archive", pipeline.archive))
        if place is not None and place.bucket == bucket
    ]
    return [unfinished, *cold]


def _policy(bucket: str, title: str) -> Template:
    """Return the policy that refuses unencrypted requests."""
    return {
        "Type": "AWS::S3::BucketPolicy",
        "Condition": f"Makes{title}Bucket",
        "Properties": {
            "Bucket": ref(f"{title}Bucket"),
            "PolicyDocument": {
                "Version": VERSION,
                "Statement": [
                    {
                        "Sid": "RefusePlainText",
                        "Effect": "Deny",
                        "Principal": "*",
                        "Action": "s3:*",
                        "Resource": [arn(f"s3:::{bucket}"), arn(f"s3:::{bucket}/*")],
                        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                    }
                ],
            },
        },
    }
