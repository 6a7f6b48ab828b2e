"""A lease as an item of a table: who changes it says what he found there, and loses where it is another by now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

from lakeward.core.errors import ConfigError
from lakeward.core.ports import LeaseGrant

APART: Final = 5_000_000
"""Microseconds that the clock of a machine may differ from that of DynamoDB."""

_GRACE: Final = 2 * APART
"""Microseconds for which nobody takes what is over: the clock of its owner may be behind, and one's own ahead."""

_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class DynamoDbLease:
    """Leases in a table, each for `lasts` microseconds of the clock `now`.

    An item has what a `LeaseGrant` has, under the same names; one that is given back has no owner, and keeps its
    fence.
    """

    client: Any = field(repr=False)
    table: str
    lasts: int
    now: Callable[[], int]

    def take(self, lease: str, owner: str) -> LeaseGrant:
        """Return a term of this owner, or that of another who has it.

        Raises ConfigError, with nothing written, where the clock of this machine is wrong.
        """
        found = self._read(lease)
        while True:
            now = self.now()
            is_free = found is None or found.owner == "" or now >= found.until + _GRACE
            if found is not None and not is_free and found.owner != owner:
                return found
            fence = 1 if found is None else found.fence + is_free
            mine = LeaseGrant(lease=lease, owner=owner, until=now + self.lasts, fence=fence)
            lost = self._write(mine, found)
            if lost is None:
                return mine
            if (lost.owner, lost.fence) == (owner, fence):  # an answer was lost on its way, and it was asked again
                return lost
            found = lost if lost.fence else None

    def renew(self, term: LeaseGrant) -> LeaseGrant:
        """Return the term made longer, or the one that stands."""
        longer = replace(term, until=self.now() + self.lasts)
        return self._write(longer, term, at=False) or longer

    def give_back(self, term: LeaseGrant) -> None:
        """End it now."""
        self._write(replace(term, owner="", until=0), term, at=False)

    def _read(self, lease: str) -> LeaseGrant | None:
        answer = self._asked(
            self.client.get_item, TableName=self.table, Key={"lease": {"S": lease}}, ConsistentRead=True
        )
        return _term(answer["Item"]) if "Item" in answer else None

    def _write(self, term: LeaseGrant, found: LeaseGrant | None, *, at: bool = True) -> LeaseGrant | None:
        """Write a term in the place of what was found, `at` its very time; return what is there if it is another.

        Where nothing is there any more, that is a term of nobody.
        """
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(lease)"}
        if found is not None:
            known = {name: value for name, value in _item(found).items() if at or name != "until"}
            condition = {
                "ConditionExpression": " AND ".join(f"#{name} = :{name}" for name in known),
                "ExpressionAttributeNames": {f"#{name}": name for name in known},
                "ExpressionAttributeValues": {f":{name}": value for name, value in known.items()},
            }
        answer = self._asked(
            self.client.put_item,
            TableName=self.table,
            Item=_item(term),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **condition,
        )
        if answer.get("Error", {}).get("Code") != "ConditionalCheckFailedException":
            return None
        return _term(answer["Item"]) if "Item" in answer else replace(term, owner="", until=0, fence=0)

    def _asked(self, ask: Callable[..., Mapping[str, Any]], **request: Any) -> Mapping[str, Any]:
        """Return the answer; that a condition does not hold is one, and each shows what time it is there."""
        from botocore.exceptions import ClientError  # noqa: PLC0415  # who has a client has it

        from lakeward.adapters.aws.dynamodb.error_messages import told  # noqa: PLC0415

        before = self.now()
        with told(f"the DynamoDB table {self.table} in {self.client.meta.region_name}"):
            try:
                answer = ask(**request)
            except ClientError as error:
                answer = error.response
                if answer["Error"]["Code"] != "ConditionalCheckFailedException":
                    raise
        self._check_clock(before, answer)
        return answer

    def _check_clock(self, before: int, answer: Mapping[str, Any]) -> None:
        """Refuse a clock that is wrong: by it a term would seem over that is not, or the other way round.

        What DynamoDB says is cut off at the second, and it said it at some time while it was asked.
        """
        said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if said is None:
            return
        there = round(parsedate_to_datetime(said).timestamp()) * _SECOND
        ahead, behind = before - (there + _SECOND), there - self.now()
        if max(ahead, behind) > APART:
            off, way = (ahead, "ahead of") if ahead > behind else (behind, "behind")
            raise ConfigError(
                f"the clock of this machine is {off // _SECOND} s {way} that of DynamoDB",
                found=f"DynamoDB answers at {said}; a lease needs clocks that differ by no more than "
                f"{APART // _SECOND} s",
                todo="Set the clock, and let the system keep it right (NTP: chrony, systemd-timesyncd). Run again.",
            )


def _item(term: LeaseGrant) -> Mapping[str, Mapping[str, str]]:
    """Return a term as DynamoDB writes it."""
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
