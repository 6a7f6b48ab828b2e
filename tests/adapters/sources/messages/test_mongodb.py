"""Messages of Debezium's connector for MongoDB become envelopes with plain rows, or say why they cannot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from lakeward.adapters.sources.messages.mongodb import PLACE, WHY_NOT_READ, MongoMessages

COLUMNS: Final = MongoMessages("columns", ("_id", "name", "tags"))
DOCUMENT: Final = MongoMessages("document", ("_id", "document"))
SOURCE: Final = {"db": "shop", "collection": "item", "ts_ms": 1739321992000, "ord": 28}
OID: Final = "67ab25755c0d5ac87eb8c632"
KEY: Final = json.dumps({"id": json.dumps({"$oid": OID})})
FULL: Final = "let the connector send whole documents: capture.mode=change_streams_update_full"
DELETED: Final = "; or the document was deleted before it was looked up, and its delete follows"


def event(op: str, after: Any = None, before: Any = None, update: Any = None, **source: Any) -> str:
    texts = {
        name: json.dumps(of) if isinstance(of, dict) else of for name, of in (("before", before), ("after", after))
    }
    block = {**SOURCE, **source}
    return json.dumps({**texts, "updateDescription": update, "source": block, "op": op, "ts_ms": 5})


def rewritten(body: str, key: str | None = None, by: MongoMessages = COLUMNS) -> Any:
    return json.loads(by.envelope(body, key) or "null")


def why(body: str, key: str | None = None, by: MongoMessages = COLUMNS) -> str:
    found = rewritten(body, key, by)
    assert (found["before"], found["after"]) == (None, None)
    return str(found["source"][WHY_NOT_READ])


def update(
    fields: Mapping[str, Any] | None = None, removed: Any = None, truncated: Any = None, **more: Any
) -> dict[str, Any]:
    sent = None if fields is None else json.dumps(fields)
    return {"updatedFields": sent, "removedFields": removed, "truncatedArrays": truncated, **more}


def test_a_field_that_a_whole_document_lacks_is_null() -> None:
    """An update that does not have a column did not send it elsewhere; here the field is gone."""
    found = rewritten(event("u", {"_id": {"$oid": OID}, "tags": ["a"], "more": {"$numberLong": "7"}}, {"_id": 1}))
    assert found["after"] == {"_id": OID, "name": None, "tags": ["a"], "more": 7}
    assert found["before"] == {"_id": 1, "name": None, "tags": None}
    assert {name: found[name] for name in ("op", "ts_ms")} == {"op": "u", "ts_ms": 5}
    assert "updateDescription" not in found


def test_a_whole_document_is_one_column_with_its_fields_in_their_order() -> None:
    body = event("c", '{"_id": 1, "z": {"$date": 0}, "a": 1.10}')
    after = rewritten(body, by=DOCUMENT)["after"]
    assert after == {"_id": 1, "document": '{"_id":1,"z":"1970-01-01T00:00:00.000Z","a":1.10}'}


@pytest.mark.parametrize(
    ("described", "after"),
    [
        (update({"name": "b"}), {"_id": OID, "name": "b"}),
        (update({"tags": [{"$numberInt": "1"}]}, []), {"_id": OID, "tags": [1]}),
        (update({}, ["name"]), {"_id": OID, "name": None}),
        (update(None, ["tags"], []), {"_id": OID, "tags": None}),
        (update({"_id": 5, "name": None}), {"_id": OID, "name": None}),
    ],
)
def test_an_update_in_part_sends_what_it_changes_alone(described: Any, after: Any) -> None:
    assert rewritten(event("u", update=described), KEY)["after"] == after


@pytest.mark.parametrize(
    ("described", "words"),
    [
        (update({"address.city": "x"}), f"an update changes a part of a column, address.city: {FULL}{DELETED}"),
        (update({"name": "x"}, ["tags.0"]), f"an update changes a part of a column, tags.0: {FULL}{DELETED}"),
        (
            update({}, [], [{"field": "tags", "newSize": 1}]),
            f"an update cuts an array off, which is a part of a column: {FULL}{DELETED}",
        ),
        (update({}, "name"), "`removedFields` of an update is no list of names"),
        (update({}, [5]), "`removedFields` of an update is no list of names"),
        ({"updatedFields": "[]"}, "`updatedFields` of an update is no object"),
        ({"updatedFields": "{"}, "`updatedFields` of an update cannot be read: it is no JSON"),
        ([], "`updateDescription` is no object"),
    ],
)
def test_an_update_of_a_part_of_a_column_cannot_be_read(described: Any, words: str) -> None:
    assert why(event("u", update=described), KEY) == words


def test_an_update_in_part_needs_a_key_and_columns() -> None:
    body = event("u", update=update({"name": "b"}))
    assert why(body) == f"an update has a part of its document, and no key: {FULL}"
    words = f"an update has a part of its document, which is one column here: {FULL}{DELETED}"
    assert why(body, KEY, DOCUMENT) == words


@pytest.mark.parametrize(
    ("body", "key", "words"),
    [
        (event("c", "{"), KEY, "the document in `after` cannot be read: it is no JSON"),
        (event("c", "[]"), KEY, "the document in `after` is no object"),
        (event("c", 5), KEY, "the document in `after` is no object"),
        (event("d", before='{"a": 1, "a": 2}'), KEY, "the document in `before` cannot be read: a name stands"),
        (event("r", {"a": {"$oid": "x"}}), KEY, "the field a has a `$oid` that is none of extended JSON"),
        (event("d"), '{"id": "dummy"}', "the `id` in the key of the message cannot be read: it is no JSON"),
        (event("d"), '{"id": "{\\"$oid\\": 1}"}', "the `id` in the key of the message cannot be read: the field"),
    ],
)
def test_an_unreadable_message_says_why(body: str, key: str | None, words: str) -> None:
    assert why(body, key).startswith(words)


@pytest.mark.parametrize(
    "body",
    [
        *(None, "", "null", "{}", "[]", "text", '{"ts_ms": 5}', '{"payload": null}', '{"op": "m", "after": "{}"}'),
        *('{"op": null, "after": "{}"}', '{"op": ["c"]}', '{"status": "END", "id": "7"}', '{"op": "c", "op": "u"}'),
    ],
)
def test_a_message_that_is_no_change_of_a_document_is_unchanged(body: str | None) -> None:
    assert COLUMNS.envelope(body, KEY) == body


def test_a_message_with_a_schema_loses_it() -> None:
    body = json.dumps({"schema": {"type": "struct"}, "payload": json.loads(event("c", {"_id": 5}))})
    assert rewritten(body)["after"] == {"_id": 5, "name": None, "tags": None}
    assert "schema" not in rewritten(body)


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (KEY, {"_id": OID}),
        (json.dumps({"id": f'"{OID}"'}), {"_id": OID}),
        ('{"id": "5"}', {"_id": 5}),
        ('{"id": 5}', {"_id": 5}),
        ('{"id": {"$numberLong": "5"}}', {"_id": 5}),
        ('{"schema": {}, "payload": {"id": "5"}}', {"_id": 5}),
        ('{"id": "{\\"$date\\": \\"1970-01-01T00:00:01Z\\"}"}', {"_id": 1000}),
        ('{"id": "{\\"b\\": 1, \\"a\\": {\\"$numberInt\\": \\"2\\"}}"}', {"_id": '{"b":1,"a":2}'}),
    ],
)
def test_a_key_is_the_id_of_its_document(key: str, found: Any) -> None:
    assert json.loads(COLUMNS.key(key) or "") == found
    assert rewritten(event("u", update=update({})), key)["after"] == found


def test_an_id_that_is_a_document_is_one_text_in_key_and_image() -> None:
    found = rewritten(event("c", {"_id": {"b": {"$numberInt": "1"}, "a": 2}}), by=DOCUMENT)["after"]
    assert found == {"_id": '{"b":1,"a":2}', "document": '{"_id":{"b":1,"a":2}}'}


@pytest.mark.parametrize("key", [None, "", "{", "5", "{}", '{"_id": 5}', '{"id": "dummy"}', '{"id": null}'])
def test_another_key_stays_as_it_is(key: str | None) -> None:
    assert COLUMNS.key(key) == key


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ({}, str(1739321992 * 2**32 + 28)),
        ({"ord": 0}, str(1739321992 * 2**32)),
        ({"ord": None}, None),
        ({"ts_ms": 0, "ord": 0}, None),
        ({"ts_ms": None}, None),
        ({"ts_ms": 1739321992500}, "1739321992500 with ord 28"),
        ({"ord": -1}, "1739321992000 with ord -1"),
        ({"ord": 2**32}, f"1739321992000 with ord {2**32}"),
        ({"ord": "x"}, '1739321992000 with ord "x"'),
    ],
)
def test_the_place_is_the_time_of_the_cluster(source: Mapping[str, Any], place: str | None) -> None:
    found = rewritten(event("d", **source), KEY)["source"]
    assert (found.get(PLACE), found.get("txId")) == (place, place)


def test_changes_of_one_transaction_have_its_session_in_common() -> None:
    found = rewritten(event("d", lsid='{"id": 1}', txnNumber=7), KEY)["source"]
    assert found["txId"] == '"{\\"id\\": 1}" 7'


def test_a_message_without_a_source_has_none() -> None:
    assert rewritten('{"op": "d"}')["source"] == {}
