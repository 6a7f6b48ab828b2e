"""The lease in DynamoDB, for pipelines that run on several machines."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lakeward.adapters.leases.dynamodb.lease import DynamoDbLease
from lakeward.core.text.durations import check_duration, seconds_of
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated


class LeaseOptions(BaseModel):
    """A table of DynamoDB that all machines of a pipeline use; see docs/reference/lease.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    table: str = Field(min_length=3, description="The name of the table; its partition key is `lease`, a string.")
    ttl: Annotated[str, AfterValidator(partial(check_duration, least="10s", most="1h", example="1m"))] = Field(
        "1m",
        description="How long other processes wait after a crash of the owner, such as `30s` or `5m`, from "
        "`10s` to `1h`. The owner renews its lease after a third of this time.",
    )


def build(options: Options, runtime: Runtime) -> DynamoDbLease:
    """Build the lease; no request is sent before it is taken."""
    from lakeward.adapters.aws.dynamodb.client import create_dynamodb_client  # noqa: PLC0415  # it imports boto3

    settings = validated(LeaseOptions, options, str(runtime.file), within="lease")
    duration = seconds_of(settings.ttl) * 1_000_000
    return DynamoDbLease(create_dynamodb_client(), settings.table, duration, runtime.now)


@hookimpl
def register(registry: Registry) -> None:
    """Register the lease `dynamodb`."""
    registry.leases.add("dynamodb", build)
