"""Leases and ledgers in DynamoDB, for pipelines that run on more than one machine, or outlive theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lakeward.adapters.dynamodb.lease import DynamoDbLease
from lakeward.adapters.dynamodb.ledger import DynamoDbLedger
from lakeward.adapters.dynamodb.purpose import LEDGER
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


class _TableOptions(BaseModel):
    """A table of DynamoDB; region, endpoint and credentials are those of the AWS command line."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    table: str = Field(min_length=3, description="The name of the table; its partition key is `lease`, a string.")


class LeaseOptions(_TableOptions):
    """A table of DynamoDB that all machines have in common; see docs/reference/lease.md."""

    ttl: Annotated[str, AfterValidator(_time_to_live)] = Field(
        "1m",
        description="How long a process that has crashed keeps others out, as `30s` or `5m`, from `10s` to `1h`. "
        "One that lives renews its lease after a third of that.",
    )


class LedgerOptions(_TableOptions):
    """A table of DynamoDB that outlives machines, for all pipelines; see docs/reference/ledger.md."""

    table: str = Field(
        min_length=3,
        description="The name of the table; its partition key is `ledger`, its sort key `item`, both strings, and "
        "it has the local index `by_state`. It is another one than that of a lease.",
    )


def build(options: Options, runtime: Runtime) -> DynamoDbLease:
    """Make the lease; DynamoDB is not asked before somebody takes it."""
    from lakeward.adapters.dynamodb.access import find_client  # noqa: PLC0415  # who has no lease there needs no boto3

    settings = validated(LeaseOptions, options, str(runtime.file), within="lease")
    return DynamoDbLease(find_client(), settings.table, _seconds(settings.ttl) * 1_000_000, runtime.now)


def build_ledger(options: Options, runtime: Runtime) -> DynamoDbLedger:
    """Make the ledger; DynamoDB is not asked before somebody reads it."""
    from lakeward.adapters.dynamodb.access import find_client  # noqa: PLC0415  # who has no ledger there needs no boto3

    own: Mapping[str, Any] = {name: value for name, value in options.items() if name != "state"}
    settings = validated(LedgerOptions, own, str(runtime.file), within="ledger")
    return DynamoDbLedger(find_client(LEDGER), settings.table, runtime.pipeline)


@hookimpl
def register(registry: Registry) -> None:
    """Register the lease and the ledger `dynamodb`."""
    registry.leases.add("dynamodb", build)
    registry.ledgers.add("dynamodb", build_ledger)
