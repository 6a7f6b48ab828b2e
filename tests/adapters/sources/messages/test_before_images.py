"""The row as it was before a change, where messages tell all of it: of tables whose rows are found by that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from feed_reader import FeedContents, read_feed
from pyspark.sql import SparkSession

from lakeward.adapters.sources.messages.message import UNAVAILABLE
from lakeward.core.dimension import Match
from lakeward.core.errors import ConfigError

COLUMNS = {"id": "int", "note": "string", "size": "double"}
IMAGE = {"id": 1, "note": None, "size": 0.5}
AFTER = {"id": 1, "note": "n", "size": 2.5}


def read(engine: SparkSession | None, folder: Path, messages: list[dict[str, Any]], **said: Any) -> FeedContents:
    (folder / "0.json").write_text("".join(json.dumps(message) + "\n" for message in messages), "utf-8")
    return read_feed(engine, folder, "shop.item", [], COLUMNS, match=Match.IMAGE, **said)


def debezium(op: str, before: dict[str, Any] | None) -> dict[str, Any]:
    source = {"lsn": 7, "txId": 7, "ts_us": 7, "schema": "shop", "table": "item"}
    return {"before": before, "after": None if op == "d" else AFTER, "source": source, "op": op}


def dms(operation: str, data: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    metadata = {"operation": operation, "schema-name": "shop", "table-name": "item", "record-type": "data"}
    image = {} if before is None else {"before-image": before}
    return {"data": data, "metadata": {**metadata, "commit-timestamp": "2026-11-21T10:00:00Z"}, **image}


def test_debezium_has_the_row_before_an_update_and_a_delete(engine: SparkSession | None, tmp_path: Path) -> None:
    """If it has each column with its value: an image with a missing or unlogged column is none."""
    images = [IMAGE, {"id": 1, "note": None}, {**IMAGE, "note": UNAVAILABLE}, None]
    messages = [debezium(op, image) for op in "ud" for image in images]
    found = read(engine, tmp_path, messages, format="debezium", before_images="whole")
    assert [event.before for event in found.events] == [IMAGE, None, None, None] * 2


def test_dms_has_the_row_before_in_its_image_or_as_a_deleted_row(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    """A missing column may be NULL or filtered out, so that there is no image."""
    messages = [
        dms("update", AFTER, IMAGE),
        dms("update", AFTER, {"id": 1}),
        dms("update", AFTER, None),
        dms("delete", IMAGE, None),
        dms("delete", {"id": 1}, IMAGE),
        dms("delete", {"id": 1}, None),
    ]
    found = read(engine, tmp_path, messages, format="dms-json")
    assert [event.before for event in found.events] == [IMAGE, None, None, IMAGE, IMAGE, None]


@pytest.mark.parametrize(
    "said",
    [
        {"format": "debezium"},
        {"format": "debezium", "form": "flattened", "before_images": "whole"},
        {"format": "json"},
    ],
    ids=["of the key alone", "flattened", "plain rows"],
)
def test_files_that_tell_no_images_are_refused(
    engine: SparkSession | None, tmp_path: Path, said: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="its files do not have it"):
        read(engine, tmp_path, [debezium("u", IMAGE)], **said)


@pytest.mark.parametrize("image", ['{"id": 1}', [{"id": 1}], 5])
def test_an_image_before_that_is_no_object_makes_the_message_unreadable(tmp_path: Path, image: Any) -> None:
    """Else a key change would leave the row of the old key where it is."""
    found = read(None, tmp_path, [dms("insert", AFTER, None), dms("update", AFTER, image)], format="dms-json")
    assert [words for _, words in found.rejects] == ["its before-image is no object"]


def test_a_message_that_is_neither_data_nor_control_is_unreadable(tmp_path: Path) -> None:
    message = dms("insert", AFTER, None)
    message["metadata"]["record-type"] = "rows"
    found = read(None, tmp_path, [dms("insert", AFTER, None), message], format="dms-json")
    assert [words for _, words in found.rejects] == ["its record-type is neither data nor control"]
