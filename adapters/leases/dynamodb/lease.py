"""A lease as an item of a DynamoDB table, changed by conditional writes that fail if the item has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

from lakeward.adapters.aws.dynamodb.conditions import absent_condition, equality_condition
from lakeward.core.errors import ConfigError
from lakeward.core.ports import LeaseGrant

MAX_CLOCK_ERROR: Final = 5_000_000
"""Microseconds by which the clock of a machine may differ from that of DynamoDB."""

_GRACE: Final = 2 * MAX_CLOCK_ERROR
"""Microseconds for which no other process takes an expired lease: the clock of its owner may be behind, and the
clock of the other process ahead.
"""

_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class DynamoDbLease:
    """Leases in the DynamoDB table `table`, each for `duration` microseconds of the clock `now`.

    `client` is one of boto3. An item has the fields of a `LeaseGrant` under the same names. A lease that was given
    back has an empty owner, and keeps its fence.
    """

    client: Any = field(repr=False)
    table: str
    duration: int
    now: Callable[[], int]

    def take(self, lease: str, owner: str) -> LeaseGrant:
        """Take a lease if it is free or expired; return the grant of this owner, or that of the current owner.

        Raises StoreUnreachable if DynamoDB does not answer. Raises ConfigError if it refuses, or, with nothing
        written, if the clock of this machine is wrong.
        """
        current = self._read(lease)
        while True:
            now = self.now()
            is_free = current is None or current.owner == "" or now >= current.until + _GRACE
            if current is not None and not is_free and current.owner != owner:
                return current
            fence = 1 if current is None else current.fence + is_free
            grant = LeaseGrant(lease=lease, owner=owner, until=now + self.duration, fence=fence)
            stored = self._replace(current, grant)
            if stored is None:
                return grant
            if (stored.owner, stored.fence) == (owner, fence):  # the response was lost and the request repeated
                return stored
            current = stored if stored.fence else None

    def renew(self, grant: LeaseGrant) -> LeaseGrant:
        """Return the extended grant, or the grant that has replaced it."""
        extended = replace(grant, until=self.now() + self.duration)
        return self._replace(grant, extended, compare_end=False) or extended

    def give_back(self, grant: LeaseGrant) -> None:
        """End a grant now; do nothing if another one has replaced it."""
        self._replace(grant, replace(grant, owner="", until=0), compare_end=False)

    def _read(self, lease: str) -> LeaseGrant | None:
        response = self._request(
            self.client.get_item, TableName=self.table, Key={"lease": {"S": lease}}, ConsistentRead=True
        )
        return _grant_of(response["Item"]) if "Item" in response else None

    def _replace(
        self, current: LeaseGrant | None, grant: LeaseGrant, *, compare_end: bool = True
    ) -> LeaseGrant | None:
        """Replace the current grant, None if there is no item, by another one.

        Return None, or the stored grant if it is not the current one; without an item, a grant of no owner and of
        fence 0. With `compare_end` the end of the current grant must be equal, too.
        """
        condition = absent_condition("lease")
        if current is not None:
            item = _item_of(current)
            condition = equality_condition(
                {name: value for name, value in item.items() if compare_end or name != "until"}
            )
        response = self._request(
            self.client.put_item,
            TableName=self.table,
            Item=_item_of(grant),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **condition,
        )
        if response.get("Error", {}).get("Code") != "ConditionalCheckFailedException":
            return None
        return _grant_of(response["Item"]) if "Item" in response else replace(grant, owner="", until=0, fence=0)

    def _request(self, operation: Callable[..., Mapping[str, Any]], **request: Any) -> Mapping[str, Any]:
        """Return the response, also if a condition failed, and check the clock by its date."""
        from botocore.exceptions import ClientError  # noqa: PLC0415  # boto3 is optional

        from lakeward.adapters.aws.dynamodb.error_messages import explain_dynamodb_errors  # noqa: PLC0415

        before = self.now()
        with explain_dynamodb_errors(f"the DynamoDB table {self.table} in {self.client.meta.region_name}"):
            try:
                response = operation(**request)
            except ClientError as error:
                response = error.response
                if response["Error"]["Code"] != "ConditionalCheckFailedException":
                    raise
        self._check_clock(before, response)
        return response

    def _check_clock(self, before: int, response: Mapping[str, Any]) -> None:
        """Raise ConfigError if the clock is wrong: a valid grant could seem expired, or an expired one valid.

        `before` is the time of the request. The date of a response is truncated to seconds and lies between request
        and response.
        """
        date = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date is None:
            return
        server_time = round(parsedate_to_datetime(date).timestamp()) * _SECOND
        ahead, behind = before - (server_time + _SECOND), server_time - self.now()
        if max(ahead, behind) > MAX_CLOCK_ERROR:
            difference, direction = (ahead, "ahead of") if ahead > behind else (behind, "behind")
            raise ConfigError(
                f"the clock of this machine is {difference // _SECOND} s {direction} that of DynamoDB",
                found=f"DynamoDB answered at {date}, and for a lease the clocks may differ by at most "
                f"{MAX_CLOCK_ERROR // _SECOND} s",
                todo="Set the clock, and let the system keep it right (NTP: chrony, systemd-timesyncd). Run again.",
            )


def _item_of(grant: LeaseGrant) -> Mapping[str, Mapping[str, str]]:
    """Return a grant as a DynamoDB item."""
    return {
        "lease": {"S": grant.lease},
        "owner": {"S": grant.owner},
        "until": {"N": str(grant.until)},
        "fence": {"N": str(grant.fence)},
    }


def _grant_of(item: Mapping[str, Any]) -> LeaseGrant:
    """Return the grant of a DynamoDB item; raises ConfigError for an item that is no lease."""
    try:
        until, fence = int(item["until"]["N"]), int(item["fence"]["N"])
        return LeaseGrant(lease=item["lease"]["S"], owner=item["owner"]["S"], until=until, fence=fence)
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"the item {item['lease']['S']!r} of the DynamoDB table is no lease",
            found=f"it has {', '.join(sorted(item))}, and a lease has lease, owner, until and fence",
            todo="Delete the item, or set another `table` under [lease] if other programs use this one.",
        ) from error
