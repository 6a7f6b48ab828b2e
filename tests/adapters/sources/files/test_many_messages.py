"""Arrow reads the messages of a small batch if they are many; its events are those that plain Python reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from feed_reader import rows_of
from item_messages import ITEM, insert_line
from plain_sources import source_of

from lakeward.adapters.sources.files import source
from lakeward.adapters.sources.files.local.message_columns.reader import MessageBatch
from lakeward.core.ledger.selection import ObjectHistory


def write(folder: Path, *ids: object) -> None:
    file = folder / "shop" / "item" / "1.json"
    file.parent.mkdir(parents=True)
    file.write_text("".join(insert_line(id_, place) for place, id_ in enumerate(ids)), "utf-8")


def rows_in(folder: Path, *, small_batch: int = 100) -> Sequence[Mapping[str, Any]]:
    files = source_of(folder, {"format": "debezium"}, small_batch=small_batch)
    return rows_of(files.read(ITEM, files.select_objects(ITEM, ObjectHistory()), 1).frame)


@pytest.mark.parametrize(
    ("ids", "attempts", "events"),
    [
        pytest.param((1, 2), 1, 2, id="messages in their usual form"),
        pytest.param((1, "x"), 1, 1, id="a row for the quarantine, which plain Python reads"),
    ],
)
def test_many_messages_have_the_same_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: Sequence[object], attempts: int, events: int
) -> None:
    read, tried = MessageBatch.read, list[MessageBatch]()
    monkeypatch.setattr(MessageBatch, "read", lambda batch: (tried.append(batch), read(batch))[1])
    write(tmp_path, *ids)
    few = rows_in(tmp_path)
    assert not tried
    monkeypatch.setattr(source, "MANY_MESSAGE_BYTES", 1)
    assert rows_in(tmp_path) == few
    assert len(tried) == attempts
    assert len([row for row in few if row["_lakeward_reason"] is None]) == events
