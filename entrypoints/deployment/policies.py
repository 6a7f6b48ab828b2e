"""Roles and their policies: each statement names the actions of a part of the code, and what they act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakeward.entrypoints.deployment.intrinsics import Template, Value, arn, ref, sub
from lakeward.entrypoints.deployment.pipeline import Place

VERSION = "2012-10-17"


def allow(
    name: str, actions: Iterable[str], resources: Sequence[Value], condition: Mapping[str, Any] | None = None
) -> Template:
    """Return a statement that allows actions on resources; `name` says what it is for."""
    found = {"Sid": name, "Effect": "Allow", "Action": sorted(actions), "Resource": list(resources)}
    return found if condition is None else {**found, "Condition": condition}


def list_bucket(name: str, place: Place) -> Template:
    """Return a statement that allows to list a bucket, whatever the prefix.

    A condition on the prefix would refuse more than listings: S3 says that a key is not there (404) to those alone
    who may list the bucket, and refuses all others (403), and a request for a key has no prefix.
    """
    return allow(name, ["s3:ListBucket"], [arn(f"s3:::{place.bucket}")])


def objects_below(place: Place) -> Template:
    """Return the ARN of all objects of a prefix."""
    return arn(f"s3:::{place.bucket}/{place.below}*")


def keys_of(pipeline: str) -> Template:
    """Return the condition that items of DynamoDB are those of a pipeline, which their partition key begins with.

    Tables of ledgers and leases serve all pipelines of an account; the name of one has no `*` and no `?`.
    """
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [pipeline, f"{pipeline}/*"]}}


def role(service: str, policy: str, statements: Sequence[Template], *, regional: bool = False) -> Template:
    """Return a role that a service of this account takes on, with one policy.

    The condition keeps out the service when it acts for another account ("confused deputy" in the guide of IAM).
    """
    principal: Value = sub(f"{service}.${{AWS::Region}}.amazonaws.com") if regional else f"{service}.amazonaws.com"
    trusted = {
        "Effect": "Allow",
        "Principal": {"Service": principal},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"aws:SourceAccount": ref("AWS::AccountId")}},
    }
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {"Version": VERSION, "Statement": [trusted]},
            "Policies": [
                {"PolicyName": policy, "PolicyDocument": {"Version": VERSION, "Statement": list(statements)}}
            ],
        },
    }
