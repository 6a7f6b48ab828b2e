"""Conditions of DynamoDB writes, as arguments of `put_item`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def absent_condition(key: str) -> dict[str, Any]:
    """Return the condition that there is no item; `key` is an attribute of the primary key."""
    return {"ConditionExpression": "attribute_not_exists(#key)", "ExpressionAttributeNames": {"#key": key}}


def equality_condition(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the condition that the current item has all these attributes, with values in the form of DynamoDB."""
    return {
        "ConditionExpression": " AND ".join(f"#{name} = :{name}" for name in attributes),
        "ExpressionAttributeNames": {f"#{name}": name for name in attributes},
        "ExpressionAttributeValues": {f":{name}": value for name, value in attributes.items()},
    }
