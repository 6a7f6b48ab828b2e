"""The lease in DynamoDB, for pipelines that run on several machines."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lakeward.adapters.leases.dynamodb.lease import DynamoDbLease
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_LEAST, _MOST = 10, 3600


def _seconds(text: str) -> int:
    return int(text[:-1]) * _UNITS[text[-1]]


def _time_to_live(text: str) -> str:
    if not re.fullmatch(r"\d{1,6}[smh]", text) or not _LEAST <= _seconds(text) <= _MOST:
        raise ValueError('must be a duration from "10s" to "1h", as "1m"')
    return text


class LeaseOptions(BaseModel):
    """A table of DynamoDB that all machines have in common; see docs/reference/lease.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    table: str = Field(min_length=3, description="The name of the table; its partition key is `lease`, a string.")
    ttl: Annotated[str, AfterValidator(_time_to_live)] = Field(
        "1m",
        description="How long a process that has crashed keeps others out, as `30s` or `5m`, from `10s` to `1h`. "
        "One that lives renews its lease after a third of that.",
    )


def build(options: Options, runtime: Runtime) -> DynamoDbLease:
    """Build the lease; no request is sent before it is taken."""
    from lakeward.adapters.aws.dynamodb.access import find_client  # noqa: PLC0415  # it imports boto3

    settings = validated(LeaseOptions, options, str(runtime.file), within="lease")
    return DynamoDbLease(find_client(), settings.table, _seconds(settings.ttl) * 1_000_000, runtime.now)


@hookimpl
def register(registry: Registry) -> None:
    """Register the lease `dynamodb`."""
    registry.leases.add("dynamodb", build)
