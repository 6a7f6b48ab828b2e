"""The ledger in DynamoDB, for pipelines that outlive their machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.aws.dynamodb.table_purpose import LEDGER
from lakeward.adapters.ledgers.dynamodb.ledger import DynamoDbLedger
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated


class LedgerOptions(BaseModel):
    """A table of DynamoDB, which outlives machines and may be shared by pipelines; see docs/reference/ledger.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    table: str = Field(
        min_length=3,
        description="The name of the table; its partition key is `ledger`, its sort key `item`, both strings, and "
        "it has the local index `by_state`. The table of a lease has other keys and cannot be used.",
    )


def build(options: Options, runtime: Runtime) -> DynamoDbLedger:
    """Build the ledger; no request is sent before it is read."""
    from lakeward.adapters.aws.dynamodb.client import create_dynamodb_client  # noqa: PLC0415  # it imports boto3

    ledger_options: Mapping[str, Any] = {name: value for name, value in options.items() if name != "state"}
    settings = validated(LedgerOptions, ledger_options, str(runtime.file), within="ledger")
    return DynamoDbLedger(create_dynamodb_client(LEDGER), settings.table, runtime.pipeline)


@hookimpl
def register(registry: Registry) -> None:
    """Register the ledger `dynamodb`."""
    registry.ledgers.add("dynamodb", build)
