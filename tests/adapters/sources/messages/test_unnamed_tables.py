"""Messages that do not say of which table they are, where others read their folder: nobody guesses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from feed_reader import FeedContents, read_feed
from pyspark.sql import SparkSession

from lakeward.adapters.sources.messages.decoded import NAMELESS
from lakeward.core.events import Operation
from lakeward.core.merge.change_log import Reason

REFUSED = [(Reason.UNREADABLE.value, NAMELESS)]
"""What becomes of one: the other message of each file, which names its table, is applied."""


def row(key: int) -> Mapping[str, Any]:
    return {"id": key, "note": "a"}


def envelope(key: int, **source: str) -> Mapping[str, Any]:
    block = {**source, "ts_ms": 1_780_000_000_000, "lsn": 7}
    return {"op": "c", "before": None, "after": row(key), "source": block}


def flat(key: int, **named: str) -> Mapping[str, Any]:
    return {**row(key), "__op": "c", "__lsn": 7, **named}


def of_dms(key: int, **named: str) -> Mapping[str, Any]:
    metadata = {
        "record-type": "data",
        "operation": "insert",
        **{f"{part}-name": name for part, name in named.items()},
    }
    return {"data": row(key), "metadata": metadata}


def record(key: int, *, topic: str | None = None) -> Mapping[str, Any]:
    return {"topic": topic, "key": {"id": key}, "value": envelope(key)}


def read(engine: SparkSession | None, folder: Path, messages: Sequence[Any], **options: Any) -> FeedContents:
    (folder / "a.json").write_text("".join(f"{json.dumps(one)}\n" for one in messages))
    options = {"format": "debezium", **options}
    return read_feed(engine, folder, "shop.item", ["id"], {"id": "int", "note": "string"}, **options)


FLAT, DMS, RECORD = {"form": "flattened"}, {"format": "dms-json"}, {"line": "record"}


@pytest.mark.parametrize(
    ("messages", "options", "others", "another"),
    [
        ([envelope(1, schema="shop"), envelope(2, schema="shop", table="item")], {}, [], "shop.order"),
        ([envelope(1, db="shop"), envelope(2, db="shop", collection="item")], {}, [], "shop.order"),
        ([flat(1), flat(2, __table="item")], FLAT, [], "shop.order"),
        ([of_dms(1, schema="shop"), of_dms(2, schema="shop", table="item")], DMS, [], "shop.order"),
        ([record(1), record(2, topic="t.shop.item")], RECORD, [], "shop.order"),
        # A schema must be named where another has a table of that name.
        ([envelope(1, table="item"), envelope(2, db="shop", table="item")], {}, ["shop.order"], "old.ITEM"),
        ([flat(1, __table="item"), flat(2, __table="item", __schema="shop")], FLAT, ["shop.order"], "old.ITEM"),
        ([of_dms(1, table="item"), of_dms(2, table="item", schema="shop")], DMS, ["shop.order"], "old.ITEM"),
        ([record(1, topic="item"), record(2, topic="shop.item")], RECORD, ["shop.order"], "old.ITEM"),
    ],
)
def test_a_row_without_a_table_is_applied_only_if_no_other_table_of_the_folder_may_have_it(
    engine: SparkSession | None,
    tmp_path: Path,
    messages: Sequence[Any],
    options: Mapping[str, str],
    others: Sequence[str],
    another: str,
) -> None:
    assert {*read(engine, tmp_path, messages, others=others, **options).rows} == {(1,), (2,)}
    found = read(engine, tmp_path, messages, others=[another], **options)
    assert ({*found.rows}, found.rejects) == ({(2,)}, REFUSED)


def test_a_tombstone_that_deletes_must_name_its_table_and_what_has_no_row_need_not(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    tombstone, heartbeat = {"key": {"id": 1}, "value": None}, {"key": None, "value": {"ts_ms": 5}}
    messages = [tombstone, {"topic": "shop.item", **tombstone}, heartbeat]
    skipped = read(engine, tmp_path, messages, others=["shop.order"], **RECORD)
    assert (skipped.rejects, skipped.skipped) == ([], 3)
    deletes = {**RECORD, "tombstones": "delete", "places": "arrival"}
    found = read(engine, tmp_path, messages, others=["shop.order"], **deletes)
    assert (found.rejects, len(found.events), found.skipped) == (REFUSED, 1, 1)


@pytest.mark.parametrize(("key", "operation"), [(["id"], Operation.UPDATE), ([], Operation.INSERT)])
def test_a_flattened_row_without_an_operation_is_a_change(
    engine: SparkSession | None, tmp_path: Path, key: list[str], operation: Operation
) -> None:
    """So that what looks for lost changes sees it; a table without a key takes no updates."""
    (tmp_path / "a.json").write_text(json.dumps({**row(1), "__lsn": 7, "__deleted": "false"}) + "\n")
    types = {"id": "int", "note": "string"}
    found = read_feed(engine, tmp_path, "shop.item", key, types, format="debezium", form="flattened")
    assert [event.operation for event in found.events] == [operation]
