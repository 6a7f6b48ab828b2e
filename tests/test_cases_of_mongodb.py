"""Published messages of Debezium's connector for MongoDB: decoded, and folded by the model.

The case has keys and values on alternating lines; here each pair is a record, as topics have them.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import outside
import pytest
from feed_reader import FeedContents, read_feed
from pyspark.sql import SparkSession

from lakeward.adapters.sources.messages.json.extended_json import parse, plain_of
from lakeward.adapters.sources.messages.json.variant_values import text_in

CASE: Final = "debezium-mongodb-events"
TABLE: Final = "bigdata_test.sync_test_table"
ID: Final = "67ab25755c0d5ac87eb8c632"
SETTINGS: Final = {"format": "debezium", "line": "record"}

COLUMNS: Final = {
    "_id": "string",
    "created_at": "bigint",
    "created_by": "string",
    "tags": "list<string>",
    "updated_at": "timestamp",
}
ROW: Final = {
    "_id": ID,
    "created_at": 1736207571013,
    "created_by": "peter",
    "tags": ["pending"],
    "updated_at": datetime(2025, 2, 13, 14, 1, 37, 970_000, UTC),
}
LATER: Final = {**ROW, "tags": ["succeed"], "updated_at": datetime(2025, 2, 13, 14, 3, 17, 970_000, UTC)}

NOT_ALIKE: Final = {"double_zero": ("0", "0.0")}
"""Texts that differ here: the digits of a double are kept."""


def pairs(name: str) -> list[tuple[str, str]]:
    lines = (outside.case(CASE) / "input" / f"{name}.jsonl").read_text("utf-8").splitlines()
    lines = [line for line in lines if line]
    return list(zip(lines[::2], lines[1::2], strict=True))


def read(
    engine: SparkSession | None,
    folder: Path,
    columns: dict[str, str],
    records: list[tuple[str, str]],
    documents: str = "columns",
) -> FeedContents:
    lines = [json.dumps({"key": key, "value": value}) for key, value in records]
    (folder / "0.json").write_text("\n".join(lines) + "\n", "utf-8")
    return read_feed(engine, folder, TABLE, ["_id"], columns, documents=documents, **SETTINGS)


def utc(cells: dict[str, Any]) -> dict[str, Any]:
    return {n: c.replace(tzinfo=UTC) if isinstance(c, datetime) else c for n, c in cells.items()}


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["event-insert"], ROW),
        (["event-insert", "event-update"], LATER),
        (["event-insert", "event-update", "event-delete"], None),
        (["event-delete", "event-insert"], ROW),
    ],
)
def test_a_document_is_inserted_changed_and_deleted(
    engine: SparkSession | None, tmp_path: Path, names: list[str], wanted: dict[str, Any] | None
) -> None:
    found = read(engine, tmp_path, COLUMNS, [pair for name in names for pair in pairs(name)])
    assert found.rejects == []
    assert [utc(dict(row)) for row in found.rows.values()] == ([] if wanted is None else [wanted])
    assert {event.position.sequence for event in found.events} == {1739321992 * 2**32 + 28}


def test_whole_documents_are_one_column(engine: SparkSession | None, tmp_path: Path) -> None:
    records = [*pairs("event-insert"), *pairs("event-update")]
    found = read(engine, tmp_path, {"_id": "string", "document": "string"}, records, "document")
    (row,) = found.rows.values()
    wanted = {**LATER, "updated_at": "2025-02-13T14:03:17.970Z"}
    assert (row["_id"], json.loads(str(row["document"]))) == (ID, wanted)


def test_all_types_of_a_document_have_their_published_texts() -> None:
    """In columns of texts. Spark reads such a row, because a parser may round its numbers."""
    [(_, document)], [(_, texts)] = pairs("event-bson"), pairs("event-json")
    wanted = json.loads(texts)
    own = {name: text_in(value) for name, value in plain_of(parse(document)).items()}
    assert json.loads(str(own.pop("context"))) == json.loads(wanted.pop("context"))
    assert own.keys() == wanted.keys()
    assert {name: (own[name], text) for name, text in wanted.items() if own[name] != text} == NOT_ALIKE
