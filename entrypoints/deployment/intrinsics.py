"""The functions of CloudFormation that a template calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Value: TypeAlias = Any
"""A value of a template: a text, a number, a list, a map, or the call of a function."""

Template: TypeAlias = Mapping[str, Value]
"""A part of a template."""

NO_VALUE: Final = {"Ref": "AWS::NoValue"}
"""The pseudo value that removes a property of a template."""


def ref(name: str) -> Template:
    """Return the value of a parameter, or the name of a resource.

    >>> ref("NoticeTopic")
    {'Ref': 'NoticeTopic'}
    """
    return {"Ref": name}


def sub(text: str) -> Template:
    """Return a text with the values of its `${…}`."""
    return {"Fn::Sub": text}


def arn(text: str) -> Template:
    """Return an ARN in the partition of the stack, such as `aws` or `aws-cn`.

    >>> arn("s3:::shop-lake/*")
    {'Fn::Sub': 'arn:${AWS::Partition}:s3:::shop-lake/*'}
    """
    return sub("arn:${AWS::Partition}:" + text)


def arn_here(service: str, resource: str) -> Template:
    """Return the ARN of a resource of the region and the account of the stack.

    >>> arn_here("sqs", "shop")["Fn::Sub"]
    'arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:shop'
    """
    return arn(service + ":${AWS::Region}:${AWS::AccountId}:" + resource)


def attribute(name: str, of: str = "Arn") -> Template:
    """Return an attribute of a resource."""
    return {"Fn::GetAtt": [name, of]}


def either(condition: str, then: Value, otherwise: Value = NO_VALUE) -> Template:
    """Return one of two values, by a condition of the template."""
    return {"Fn::If": [condition, then, otherwise]}


def is_yes(parameter: str) -> Template:
    """Return the condition that a parameter is `yes`."""
    return {"Fn::Equals": [ref(parameter), "yes"]}


def is_given(parameter: str) -> Template:
    """Return the condition that a parameter is not empty."""
    return {"Fn::Not": [{"Fn::Equals": [ref(parameter), ""]}]}
