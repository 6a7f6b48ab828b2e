"""The items of a DynamoDB table with one partition key: reads by name, prefix and state, and writes.

Every read is consistent: it shows all writes that ended before it began. An item has the number of the `note` that
wrote it. `write_newer` replaces it only by an item of the same or a newer note.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

from lakeward.adapters.aws.dynamodb.conditions import absent_condition, equality_condition
from lakeward.adapters.aws.dynamodb.table_purpose import LEDGER
from lakeward.core.errors import StoreUnreachable

Item: TypeAlias = Mapping[str, Any]
"""An item in the form of DynamoDB: `{"item": {"S": "head"}, "note": {"N": "1"}}`."""

INDEX: Final = "by_state"

_MAX_READ: Final = 100
_MAX_WRITTEN: Final = 100
_MAX_DELETED: Final = 25
"""The largest number of items that DynamoDB accepts in one BatchGetItem, TransactWriteItems, BatchWriteItem."""

_ATTEMPTS: Final = 24
_LONGEST_PAUSE: Final = 2.0
"""Seconds. All pauses together are about half a minute, as long as the SQLite ledger waits for its file."""

_TRANSIENT_REASONS: Final = ("TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded")
"""The reasons for which a transaction is cancelled that may succeed when it is repeated."""

_JITTER: Final = Random()  # noqa: S311  # spreads retries; not for security


def pauses() -> Iterator[float]:
    """Yield the seconds to wait after each attempt: exponential backoff, with jitter to spread retries."""
    for number in range(_ATTEMPTS):
        yield _JITTER.uniform(0.75, 1.25) * min(0.01 * 2**number, _LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class Partition:
    """The items of the `table` whose attribute `ledger` is `name`; their attribute `item` identifies them.

    `client` is one of boto3; `pause` waits for a number of seconds. All methods raise StoreUnreachable if DynamoDB
    does not answer, ConfigError if it refuses.
    """

    client: Any = field(repr=False)
    table: str
    name: str
    pause: Callable[[float], None] = time.sleep

    def read(self, item: str) -> Item | None:
        """Return the item of a name; None if there is none."""
        response = self._request("get_item", TableName=self.table, Key=self._key(item), ConsistentRead=True)
        stored: Item | None = response.get("Item")
        return stored

    def read_each(self, items: Collection[str]) -> Iterator[Item]:
        """Yield the existing items of these names, in any order."""
        names = sorted(items)
        for start in range(0, len(names), _MAX_READ):
            keys = [self._key(item) for item in names[start : start + _MAX_READ]]
            request: Mapping[str, Any] = {self.table: {"Keys": keys, "ConsistentRead": True}}
            for pause in pauses():
                response = self._request("batch_get_item", RequestItems=request)
                yield from response["Responses"].get(self.table, ())
                request = response.get("UnprocessedKeys") or {}
                if not request:
                    break
                self.pause(pause)
            else:
                raise self._busy()

    def read_all(self, prefix: str) -> Iterator[Item]:
        """Yield the items whose names begin with a prefix, in order."""
        return self._query("begins_with(#item, :item)", {"#item": "item"}, {":item": {"S": prefix}})

    def read_state(self, state: str) -> Iterator[Item]:
        """Yield the items whose attribute `state` has this value, in any order, by the index."""
        return self._query("#state = :state", {"#state": "state"}, {":state": {"S": state}}, IndexName=INDEX)

    def names_between(self, first: str, behind: str) -> Iterator[str]:
        """Yield the names of items from `first` up to but without `behind`."""
        # DynamoDB allows only one condition for a key, and BETWEEN includes both ends.
        items = self._query(
            "#item BETWEEN :first AND :behind",
            {"#item": "item"},
            {":first": {"S": first}, ":behind": {"S": behind}},
            ProjectionExpression="#item",
        )
        return (item["item"]["S"] for item in items if item["item"]["S"] != behind)

    def write(self, item: str, attributes: Item) -> None:
        """Write an item, and replace any that exists."""
        self._request("put_item", TableName=self.table, Item={**self._key(item), **attributes})

    def replace(self, item: str, attributes: Item, expected: Item | None) -> bool:
        """Write an item if the stored item has all attributes of `expected`, with None if there is no item.

        Return False, with nothing written, otherwise.
        """
        condition = absent_condition("item") if expected is None else equality_condition(expected)
        replacement = {**self._key(item), **attributes}
        response = self._request(
            "put_item", "ConditionalCheckFailedException", TableName=self.table, Item=replacement, **condition
        )
        return "Error" not in response

    def write_newer(self, note: int, items: Mapping[str, Item]) -> None:
        """Write the items of a note, except those that a newer note has written; `items` are attributes by name."""
        puts = [self._put(note, {**self._key(name), **attributes}) for name, attributes in items.items()]
        for start in range(0, len(puts), _MAX_WRITTEN):
            waiting: Sequence[Mapping[str, Any]] = puts[start : start + _MAX_WRITTEN]
            for pause in pauses():
                waiting = self._write_transaction(waiting)
                if not waiting:
                    break
                self.pause(pause)
            else:
                raise self._busy()

    def delete(self, items: Sequence[str]) -> None:
        """Delete the items of these names."""
        for start in range(0, len(items), _MAX_DELETED):
            deletes = [{"DeleteRequest": {"Key": self._key(item)}} for item in items[start:][:_MAX_DELETED]]
            request: Mapping[str, Any] = {self.table: deletes}
            for pause in pauses():
                request = self._request("batch_write_item", RequestItems=request).get("UnprocessedItems") or {}
                if not request:
                    break
                self.pause(pause)
            else:
                raise self._busy()

    def _write_transaction(self, puts: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Write items, all or none; return those that must be sent again."""
        response = self._request("transact_write_items", "TransactionCanceledException", TransactItems=puts)
        if "Error" not in response:
            return ()
        codes = [reason.get("Code") for reason in response["CancellationReasons"]]
        return [put for put, code in zip(puts, codes, strict=True) if code != "ConditionalCheckFailed"]

    def _put(self, note: int, item: Item) -> Mapping[str, Any]:
        """Return the part of a transaction that writes an item unless a newer note has written it."""
        condition = {
            "ConditionExpression": "attribute_not_exists(#note) OR #note <= :note",
            "ExpressionAttributeNames": {"#note": "note"},
            "ExpressionAttributeValues": {":note": {"N": str(note)}},
        }
        return {"Put": {"TableName": self.table, "Item": {**item, "note": {"N": str(note)}}, **condition}}

    def _query(
        self, condition: str, names: Mapping[str, str], values: Mapping[str, Any], **rest: Any
    ) -> Iterator[Item]:
        request: dict[str, Any] = {
            "TableName": self.table,
            "KeyConditionExpression": f"#ledger = :ledger AND {condition}",
            "ExpressionAttributeNames": {"#ledger": "ledger", **names},
            "ExpressionAttributeValues": {":ledger": {"S": self.name}, **values},
            "ConsistentRead": True,
            **rest,
        }
        while True:
            response = self._request("query", **request)
            yield from response["Items"]
            if "LastEvaluatedKey" not in response:
                return
            request["ExclusiveStartKey"] = response["LastEvaluatedKey"]

    def _key(self, item: str) -> Item:
        return {"ledger": {"S": self.name}, "item": {"S": item}}

    def _request(self, operation: str, expected: str = "", /, **request: Any) -> Mapping[str, Any]:
        """Return the response, or the error response with the code `expected`."""
        from botocore.exceptions import ClientError  # noqa: PLC0415  # boto3 is optional

        from lakeward.adapters.aws.dynamodb.error_messages import explain_dynamodb_errors  # noqa: PLC0415

        with explain_dynamodb_errors(self._what, LEDGER):
            try:
                response: Mapping[str, Any] = getattr(self.client, operation)(**request)
            except ClientError as error:
                response = error.response
                if response["Error"]["Code"] != expected or not _may_succeed_later(response):
                    raise
        return response

    @property
    def _what(self) -> str:
        return f"the DynamoDB table {self.table} in {self.client.meta.region_name}"

    def _busy(self) -> StoreUnreachable:
        return StoreUnreachable(
            f"{self._what} has more to do than it can",
            found=f"it postponed a request for {self.name!r} {_ATTEMPTS} times",
            todo="Nothing is lost: run again. If it persists, give the table more capacity, or "
            "`--billing-mode PAY_PER_REQUEST`.",
        )


def _may_succeed_later(response: Mapping[str, Any]) -> bool:
    """Return True if a transaction was cancelled only by conditions and transient errors."""
    codes = {reason.get("Code", "None") for reason in response.get("CancellationReasons", ())}
    return codes <= {"None", "ConditionalCheckFailed", *_TRANSIENT_REASONS}
