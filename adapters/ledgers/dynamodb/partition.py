"""The items of a DynamoDB table with one partition key: reads by name, prefix and state, and writes.

Every read is consistent: it shows all writes that ended before it began. An item has the number of the `note` that
wrote it. It is replaced by items of the same or a newer note, never of an older one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

from lakeward.adapters.aws.dynamodb.table_purpose import LEDGER
from lakeward.core.errors import StoreUnreachable

Item: TypeAlias = Mapping[str, Any]
"""An item in the form of DynamoDB: `{"item": {"S": "head"}, "note": {"N": "1"}}`."""

INDEX: Final = "by_state"

_READ_AT_ONCE: Final = 100
_WRITTEN_AT_ONCE: Final = 100
_DELETED_AT_ONCE: Final = 25
"""The largest number of items that DynamoDB accepts in one BatchGetItem, TransactWriteItems, BatchWriteItem."""

_TRIES: Final = 24
_LONGEST_PAUSE: Final = 2.0
"""Seconds. All pauses together are about half a minute, the time for which a SQLite file is waited for."""

_IN_VAIN: Final = ("TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded")
"""The reasons for a cancelled transaction that may succeed when it is repeated."""

_JITTER: Final = Random()  # noqa: S311  # spreads retries; not for security


def pauses() -> Iterator[float]:
    """Yield the seconds to wait after each attempt: exponential backoff, with jitter against joint retries."""
    for number in range(_TRIES):
        yield _JITTER.uniform(0.75, 1.25) * min(0.01 * 2**number, _LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class Partition:
    """The items of the `table` whose attribute `ledger` is `name`; their attribute `item` identifies them.

    Raises StoreUnreachable if DynamoDB does not answer, ConfigError if it refuses.
    """

    client: Any = field(repr=False)
    table: str
    name: str
    pause: Callable[[float], None] = time.sleep

    def read(self, item: str) -> Item | None:
        """Return an item, or None."""
        answer = self._request("get_item", TableName=self.table, Key=self._key(item), ConsistentRead=True)
        item_found: Item | None = answer.get("Item")
        return item_found

    def read_each(self, items: Collection[str]) -> Iterator[Item]:
        """Yield those of the items that exist, in any order; each is requested once."""
        wanted = sorted(items)
        for start in range(0, len(wanted), _READ_AT_ONCE):
            keys = [self._key(item) for item in wanted[start : start + _READ_AT_ONCE]]
            request: Mapping[str, Any] = {self.table: {"Keys": keys, "ConsistentRead": True}}
            for pause in pauses():
                answer = self._request("batch_get_item", RequestItems=request)
                yield from answer["Responses"].get(self.table, ())
                request = answer.get("UnprocessedKeys") or {}
                if not request:
                    break
                self.pause(pause)
            else:
                raise self._busy()

    def read_all(self, prefix: str) -> Iterator[Item]:
        """Yield the items whose names begin with a prefix, in order."""
        return self._query("begins_with(#item, :item)", {"#item": "item"}, {":item": {"S": prefix}})

    def read_state(self, state: str) -> Iterator[Item]:
        """Yield the items whose attribute `state` has this value, in any order; only these are read."""
        return self._query("#state = :state", {"#state": "state"}, {":state": {"S": state}}, IndexName=INDEX)

    def names_between(self, first: str, behind: str) -> Iterator[str]:
        """Yield the names of items from `first` up to but without `behind`."""
        # DynamoDB allows only one condition for a key, and BETWEEN includes both ends.
        found = self._query(
            "#item BETWEEN :first AND :behind",
            {"#item": "item"},
            {":first": {"S": first}, ":behind": {"S": behind}},
            ProjectionExpression="#item",
        )
        return (item["item"]["S"] for item in found if item["item"]["S"] != behind)

    def write(self, item: str, attributes: Item) -> None:
        """Write an item, and replace any that exists."""
        self._request("put_item", TableName=self.table, Item={**self._key(item), **attributes})

    def replace(self, item: str, attributes: Item, found: Item | None) -> bool:
        """Write an item if the current item has all attributes of `found`, or with None if there is none.

        Return False, with nothing written, otherwise.
        """
        condition: dict[str, Any] = {
            "ConditionExpression": "attribute_not_exists(#item)",
            "ExpressionAttributeNames": {"#item": "item"},
        }
        if found is not None:
            condition = {
                "ConditionExpression": " AND ".join(f"#{name} = :{name}" for name in found),
                "ExpressionAttributeNames": {f"#{name}": name for name in found},
                "ExpressionAttributeValues": {f":{name}": value for name, value in found.items()},
            }
        whole = {**self._key(item), **attributes}
        answer = self._request(
            "put_item", "ConditionalCheckFailedException", TableName=self.table, Item=whole, **condition
        )
        return "Error" not in answer

    def write_newer(self, note: int, items: Mapping[str, Item]) -> None:
        """Write the items of a note, by name, except those that a newer note has written."""
        puts = [self._put(note, {**self._key(name), **attributes}) for name, attributes in items.items()]
        for start in range(0, len(puts), _WRITTEN_AT_ONCE):
            waiting: Sequence[Mapping[str, Any]] = puts[start : start + _WRITTEN_AT_ONCE]
            for pause in pauses():
                waiting = self._write_at_once(waiting)
                if not waiting:
                    break
                self.pause(pause)
            else:
                raise self._busy()

    def delete(self, items: Sequence[str]) -> None:
        """Delete items."""
        for start in range(0, len(items), _DELETED_AT_ONCE):
            deletes = [{"DeleteRequest": {"Key": self._key(item)}} for item in items[start:][:_DELETED_AT_ONCE]]
            request: Mapping[str, Any] = {self.table: deletes}
            for pause in pauses():
                request = self._request("batch_write_item", RequestItems=request).get("UnprocessedItems") or {}
                if not request:
                    break
                self.pause(pause)
            else:
                raise self._busy()

    def _write_at_once(self, puts: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Write items, all or none; return those that must be sent again."""
        answer = self._request("transact_write_items", "TransactionCanceledException", TransactItems=puts)
        if "Error" not in answer:
            return ()
        codes = [reason.get("Code") for reason in answer["CancellationReasons"]]
        return [put for put, code in zip(puts, codes, strict=True) if code != "ConditionalCheckFailed"]

    def _put(self, note: int, item: Item) -> Mapping[str, Any]:
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
            answer = self._request("query", **request)
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _key(self, item: str) -> Item:
        return {"ledger": {"S": self.name}, "item": {"S": item}}

    def _request(self, operation: str, expected: str = "", /, **request: Any) -> Mapping[str, Any]:
        """Return the response, or the error response with the code `expected`."""
        from botocore.exceptions import ClientError  # noqa: PLC0415  # boto3 is optional

        from lakeward.adapters.aws.dynamodb.error_messages import explain_dynamodb_errors  # noqa: PLC0415

        with explain_dynamodb_errors(self._what, LEDGER):
            try:
                answer: Mapping[str, Any] = getattr(self.client, operation)(**request)
            except ClientError as error:
                answer = error.response
                if answer["Error"]["Code"] != expected or not _may_pass(answer):
                    raise
        return answer

    @property
    def _what(self) -> str:
        return f"the DynamoDB table {self.table} in {self.client.meta.region_name}"

    def _busy(self) -> StoreUnreachable:
        return StoreUnreachable(
            f"{self._what} has more to do than it can",
            found=f"it puts off what is asked of {self.name!r}, and did so {_TRIES} times",
            todo="Nothing is lost: run again. If that goes on, give the table more capacity, or "
            "`--billing-mode PAY_PER_REQUEST`.",
        )


def _may_pass(answer: Mapping[str, Any]) -> bool:
    """Return whether a transaction was cancelled only by conditions and transient errors."""
    codes = {reason.get("Code", "None") for reason in answer.get("CancellationReasons", ())}
    return codes <= {"None", "ConditionalCheckFailed", *_IN_VAIN}
