"""The DynamoDB tables of ledger and lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.entrypoints.deployment.intrinsics import Template, is_yes
from lakeward.entrypoints.deployment.pipeline import DeployedPipeline


def parameters(pipeline: DeployedPipeline) -> Template:
    """Return the parameters that say whether the tables are created: one of each serves all pipelines."""
    tables = {"Ledger": pipeline.ledger, "Lease": pipeline.lease}
    return {
        f"Make{title}Table": {
            "Type": "String",
            "Default": "yes",
            "AllowedValues": ["yes", "no"],
            "Description": f"Whether the DynamoDB table {name} is created. It serves all pipelines: set no if "
            "it exists already.",
        }
        for title, name in tables.items()
    }


def conditions() -> Template:
    """Return the conditions under which the tables are created."""
    return {f"Makes{title}Table": is_yes(f"Make{title}Table") for title in ("Ledger", "Lease")}


def resources(pipeline: DeployedPipeline) -> Template:
    """Return the tables, with the keys of docs/reference/ledger.md and docs/reference/lease.md."""
    by_state = {
        "IndexName": "by_state",
        "KeySchema": _key("ledger", "state"),
        "Projection": {"ProjectionType": "ALL"},
    }
    return {
        "LedgerTable": _table(
            "Ledger",
            pipeline.ledger,
            ["ledger", "item", "state"],
            {"KeySchema": _key("ledger", "item"), "LocalSecondaryIndexes": [by_state]},
        ),
        "LeaseTable": _table("Lease", pipeline.lease, ["lease"], {"KeySchema": _key("lease")}),
    }


def _key(*names: str) -> Sequence[Template]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)]


def _table(title: str, name: str, attributes: Sequence[str], keys: Mapping[str, Any]) -> Template:
    return {
        "Type": "AWS::DynamoDB::Table",
        "Condition": f"Makes{title}Table",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": {
            "TableName": name,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [
                {"AttributeName": attribute, "AttributeType": "S"} for attribute in attributes
            ],
            **keys,
        },
    }
