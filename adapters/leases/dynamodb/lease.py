"""A lease as an item of a DynamoDB table, changed by conditional writes that fail if the item has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

from lakeward.core.errors import ConfigError
from lakeward.core.ports import LeaseGrant

APART: Final = 5_000_000
"""Microseconds by which the clock of a machine may differ from that of DynamoDB."""

_GRACE: Final = 2 * APART
"""Microseconds for which nobody takes an expired lease: the owner's clock may be behind, and one's own ahead."""

_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class DynamoDbLease:
    """Leases in a table, each for `lasts` microseconds of the clock `now`.

    An item has the fields of a `LeaseGrant` under the same names. A lease that was given back has no owner, and
    keeps its fence.
    """

    client: Any = field(repr=False)
    table: str
    lasts: int
    now: Callable[[], int]

    def take(self, lease: str, owner: str) -> LeaseGrant:
        """Return a grant of this owner, or that of the current owner.

        Raises ConfigError, and writes nothing, if the clock of this machine is wrong.
        """
        current = self._read(lease)
        while True:
            now = self.now()
            is_free = current is None or current.owner == "" or now >= current.until + _GRACE
            if current is not None and not is_free and current.owner != owner:
                return current
            fence = 1 if current is None else current.fence + is_free
            mine = LeaseGrant(lease=lease, owner=owner, until=now + self.lasts, fence=fence)
            other = self._write(mine, current)
            if other is None:
                return mine
            if (other.owner, other.fence) == (owner, fence):  # the response was lost and the request repeated
                return other
            current = other if other.fence else None

    def renew(self, grant: LeaseGrant) -> LeaseGrant:
        """Return the extended grant, or the current one of another owner."""
        longer = replace(grant, until=self.now() + self.lasts)
        return self._write(longer, grant, at=False) or longer

    def give_back(self, grant: LeaseGrant) -> None:
        """End a grant now."""
        self._write(replace(grant, owner="", until=0), grant, at=False)

    def _read(self, lease: str) -> LeaseGrant | None:
        answer = self._request(
            self.client.get_item, TableName=self.table, Key={"lease": {"S": lease}}, ConsistentRead=True
        )
        return _term(answer["Item"]) if "Item" in answer else None

    def _write(self, term: LeaseGrant, found: LeaseGrant | None, *, at: bool = True) -> LeaseGrant | None:
        """Replace the found grant by another; return None, or the grant that is there instead.

        With `at` the end of the found grant must match too. If there is no item, the returned grant has no owner.
        """
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(lease)"}
        if found is not None:
            known = {name: value for name, value in _item(found).items() if at or name != "until"}
            condition = {
                "ConditionExpression": " AND ".join(f"#{name} = :{name}" for name in known),
                "ExpressionAttributeNames": {f"#{name}": name for name in known},
                "ExpressionAttributeValues": {f":{name}": value for name, value in known.items()},
            }
        answer = self._request(
            self.client.put_item,
            TableName=self.table,
            Item=_item(term),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **condition,
        )
        if answer.get("Error", {}).get("Code") != "ConditionalCheckFailedException":
            return None
        return _term(answer["Item"]) if "Item" in answer else replace(term, owner="", until=0, fence=0)

    def _request(self, ask: Callable[..., Mapping[str, Any]], **request: Any) -> Mapping[str, Any]:
        """Return the response, also if a condition failed, and check the clock by its date."""
        from botocore.exceptions import ClientError  # noqa: PLC0415  # boto3 is optional

        from lakeward.adapters.aws.dynamodb.error_messages import explain_dynamodb_errors  # noqa: PLC0415

        before = self.now()
        with explain_dynamodb_errors(f"the DynamoDB table {self.table} in {self.client.meta.region_name}"):
            try:
                answer = ask(**request)
            except ClientError as error:
                answer = error.response
                if answer["Error"]["Code"] != "ConditionalCheckFailedException":
                    raise
        self._check_clock(before, answer)
        return answer

    def _check_clock(self, before: int, answer: Mapping[str, Any]) -> None:
        """Raise ConfigError if the clock is wrong: a grant would seem expired while it is not, or the reverse.

        The date of a response is truncated to seconds and lies between request and response.
        """
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date is None:
            return
        server_time = round(parsedate_to_datetime(date).timestamp()) * _SECOND
        ahead, behind = before - (server_time + _SECOND), server_time - self.now()
        if max(ahead, behind) > APART:
            off, way = (ahead, "ahead of") if ahead > behind else (behind, "behind")
            raise ConfigError(
                f"the clock of this machine is {off // _SECOND} s {way} that of DynamoDB",
                found=f"DynamoDB answers at {date}; a lease needs clocks that differ by no more than "
                f"{APART // _SECOND} s",
                todo="Set the clock, and let the system keep it right (NTP: chrony, systemd-timesyncd). Run again.",
            )


def _item(term: LeaseGrant) -> Mapping[str, Mapping[str, str]]:
    """Return a grant as a DynamoDB item."""
    return {
        "lease": {"S": term.lease},
        "owner": {"S": term.owner},
        "until": {"N": str(term.until)},
        "fence": {"N": str(term.fence)},
    }


def _term(item: Mapping[str, Any]) -> LeaseGrant:
    try:
        until, fence = int(item["until"]["N"]), int(item["fence"]["N"])
        return LeaseGrant(lease=item["lease"]["S"], owner=item["owner"]["S"], until=until, fence=fence)
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"the item {item['lease']['S']!r} of the DynamoDB table is no lease",
            found=f"it has {', '.join(sorted(item))}, and a lease has lease, owner, until and fence",
            todo="Is the table used for something else, too? Give leases one of their own, or delete the item.",
        ) from error
