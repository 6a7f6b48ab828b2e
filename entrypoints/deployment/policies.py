"""IAM roles and the statements of their policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakeward.entrypoints.deployment.intrinsics import Template, Value, arn, ref, sub
from lakeward.entrypoints.deployment.pipeline import Place

VERSION = "2012-10-17"


def allow(
    name: str, actions: Iterable[str], resources: Sequence[Value], condition: Mapping[str, Any] | None = None
) -> Template:
    """Return a statement that allows actions on resources; `name` is its purpose."""
    statement = {"Sid": name, "Effect": "Allow", "Action": sorted(actions), "Resource": list(resources)}
    return statement if condition is None else {**statement, "Condition": condition}


def list_bucket(name: str, place: Place) -> Template:
    """Return a statement that allows to list a bucket, with any prefix.

    There is no condition on the prefix: S3 reports a missing key as 404 only to those who may list the bucket, and
    as 403 to others, and a request for a key has no prefix.
    """
    return allow(name, ["s3:ListBucket"], [arn(f"s3:::{place.bucket}")])


def objects_below(place: Place) -> Template:
    """Return the ARN of all objects of a prefix."""
    return arn(f"s3:::{place.bucket}/{place.below}*")


def keys_of(pipeline: str) -> Template:
    """Return the condition that the partition key of DynamoDB items begins with the name of a pipeline.

    Tables of ledgers and leases serve all pipelines of an account. Names of pipelines have no `*` and no `?`.
    """
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [pipeline, f"{pipeline}/*"]}}


def role(service: str, policy: str, statements: Sequence[Template], *, regional: bool = False) -> Template:
    """Return a role with one policy, which a service assumes for this account.

    The condition refuses the service when it acts for another account ("confused deputy" in the guide of IAM).
    """
    principal: Value = sub(f"{service}.${{AWS::Region}}.amazonaws.com") if regional else f"{service}.amazonaws.com"
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": principal},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"aws:SourceAccount": ref("AWS::AccountId")}},
    }
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {"Version": VERSION, "Statement": [trust]},
            "Policies": [
                {"PolicyName": policy, "PolicyDocument": {"Version": VERSION, "Statement": list(statements)}}
            ],
        },
    }
