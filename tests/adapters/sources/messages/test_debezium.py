"""Whatever a connector's settings are, what it writes is read back, by one job over many feeds."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest
from captures import ITEM, NAME, TYPES, Capture, Event, draw
from feed_reader import read_feed, rows_of, session
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.sources.dms.paths.file_names import PLACES
from lakeward.adapters.sources.files.event_frame import frame_of as frame_of_files
from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.local.json_lines import SmallLines
from lakeward.adapters.sources.files.local.message_columns.message_form import Lines
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.messages.message import placeholders
from lakeward.adapters.spark.frames.event_frame import SKIPPED
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.core.events import UNSET
from lakeward.core.ledger.objects import SourceObject

Row = Mapping[str, Any]

SETTINGS = 6
FEEDS = 20
"""Feeds of one setting are read together: they are files of one batch."""


def drawn(settings: int) -> Mapping[int, Capture]:
    return {seed: draw(seed, settings) for seed in range(settings * FEEDS + 1, (settings + 1) * FEEDS + 1)}


def frame_of(engine: SparkSession | None, folder: Path, feeds: Mapping[int, Capture], **other: Any) -> Frame:
    """Return the events of feeds of one connector; the number of the object is that of the feed."""
    place = folder / NAME.schema / NAME.table
    place.mkdir(parents=True, exist_ok=True)
    for seed, feed in feeds.items():
        (place / f"{seed}.json").write_text("\n".join(feed.lines) + "\n", "utf-8")
    options, *others = [feed.options.model_copy(update=other) for feed in feeds.values()]
    assert all(one == options for one in others)
    spark = partial(session, engine)
    table = TableFiles(spark=spark, folder=Folder(folder, PLACES), dimension=ITEM, options=options)
    files = [File(SourceObject(f"{seed}.json", seed, 1, 0), "debezium") for seed in feeds]
    if engine is not None:
        return frame_of_files(table, files)
    lines = SmallLines(20_000)
    return LocalFrame(lines.read(table, [*lines.with_versions(table, files, Lines())]), spark)


def read(frames: Sequence[Frame]) -> Sequence[Row]:
    """Return the rows in order; what Spark makes, in one job."""
    in_spark = [frame for frame in frames if isinstance(frame, DataFrame)]
    whole = [reduce(DataFrame.unionByName, in_spark)] if in_spark else frames
    return sorted(
        (row for frame in whole for row in rows_of(frame)), key=lambda row: (row[names.OBJECT], row[names.ROW])
    )


def cell(row: Row, column: str) -> object:
    value = row[column]
    if column in (row[names.UNSET] or ()):
        return UNSET
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray) else value


def events(rows: Sequence[Row], seed: int) -> list[Event]:
    own = [row for row in rows if row[names.OBJECT] == seed and row[names.REASON] != SKIPPED]
    assert {row[names.REASON] for row in own} <= {None}, own
    return [
        Event(row[names.OPERATION], int(row[names.SEQUENCE]), row[names.TIME], tuple(cell(row, c) for c in TYPES))
        for row in own
    ]


def test_feeds_of_any_connector_are_read_back(engine: SparkSession | None, tmp_path: Path) -> None:
    found = [drawn(settings) for settings in range(SETTINGS)]
    rows = read([frame_of(engine, tmp_path, feeds) for feeds in found])
    for seed, feed in ((seed, feed) for feeds in found for seed, feed in feeds.items()):
        assert events(rows, seed) == list(feed.events), (seed, feed.options)
        assert sum(r[names.OBJECT] == seed and r[names.REASON] == SKIPPED for r in rows) == feed.skipped


def test_a_setting_that_is_not_the_connectors_is_found(engine: SparkSession | None, tmp_path: Path) -> None:
    """The law can fail: read by another setting, some feed is not what was written."""
    feeds = drawn(1)
    own = next(iter(feeds.values())).options
    others = ({"unavailable_value": "?"}, {"decimals": _other(own.decimals)}, {"times": "nanoseconds"})
    for other in others:
        rows = read([frame_of(engine, tmp_path, feeds, **other)])

        def differs(seed: int, feed: Capture, rows: Sequence[Row] = rows) -> bool:
            try:
                return events(rows, seed) != list(feed.events)
            except AssertionError:
                return True

        assert any(differs(seed, feed) for seed, feed in feeds.items()), other


def _other(decimals: str) -> str:
    return "string" if decimals == "precise" else "precise"


def test_the_placeholder_of_an_unlogged_value_has_a_form_for_each_type() -> None:
    forms = placeholders("__debezium_unavailable_value")
    assert "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==" in forms
    assert '["__debezium_unavailable_value"]' in forms
    assert "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565" in forms
    lists = (
        "b68a35a7-17ad-35b3-af2a-ae46edb4545a",  # uuid[]: Java's UUID.nameUUIDFromBytes
        "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",  # bytea[]
        "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565",
    )
    assert {f'["{element}"]' for element in lists} <= set(forms)
    assert r'["say \"no\""]' in placeholders('say "no"'), "as JSON writes it"


def test_a_list_of_numbers_has_a_byte_of_the_placeholder_in_each_element() -> None:
    """Java's bytes have a sign; a decimal is a text of digits, its unscaled bytes, or these with their scale."""
    unscaled = [base64.b64encode(byte).decode() for byte in (b"a", b"\xc3", b"\xa9")]
    of_numbers = (
        [97, -61, -87],
        ["97", "-61", "-87"],
        unscaled,
        [{"scale": 0, "value": element} for element in unscaled],
    )
    written = {json.dumps(elements, separators=(",", ":")) for elements in of_numbers}
    assert written <= set(placeholders("aé"))


def test_a_place_that_was_not_logged_keeps_what_it_has(engine: SparkSession | None, tmp_path: Path) -> None:
    """The connector for PostgreSQL has constants for it, and not the word of its settings."""
    wkb = "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ=="
    far = -99999999.0
    values = {
        "shape": {"wkb": wkb, "srid": 4326},
        "spot": {"x": far, "y": far, "wkb": "AQEAAAAAAAD8g9eXwQAAAPyD15fB", "srid": None},
        "other": {"wkb": wkb, "srid": 25832},
    }
    source = {"schema": "shop", "table": "item", "lsn": 1, "sequence": '["1","1"]'}
    line = json.dumps({"op": "u", "before": None, "after": {"id": 1, **values}, "source": source})
    (tmp_path / "1.json").write_text(line.replace(str(far), "-9.9999999E7") + "\n", "utf-8")
    types = {"id": "int", "shape": "string", "spot": "string", "other": "string"}
    read = read_feed(engine, tmp_path, "shop.item", ["id"], types, format="debezium")
    (event,) = read.events
    assert {name for name, cell in event.cells.items() if cell is UNSET} == {"shape", "spot"}


def test_a_key_that_was_not_logged_is_that_of_the_message_or_none(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    """It is no row of another key: what stands for the value is none."""
    unlogged = {"id": "__debezium_unavailable_value", "note": "n"}
    source = {"schema": "shop", "table": "item", "lsn": 1, "sequence": '["1","1"]'}
    update = {"op": "u", "before": None, "after": unlogged, "source": source}
    records = [{"key": {"id": "a"}, "value": update}, {"value": update}]
    (tmp_path / "1.json").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    types = {"id": "string", "note": "string"}
    read = read_feed(engine, tmp_path, "shop.item", ["id"], types, format="debezium", line="record")
    assert [event.cells for event in read.events] == [{"id": "a", "note": "n"}]
    assert [reason for reason, _ in read.rejects] == ["null_key"]


@pytest.mark.spark
def test_a_number_that_becomes_0_as_a_double_does_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    """Of any type of numbers: JSON's parser has 0 for it."""
    source = {"schema": "shop", "table": "item", "lsn": 1, "sequence": '["1","1"]'}
    types = {"id": "int", "large": "bigint", "price": "decimal(8,2)", "share": "double", "of": "list<decimal(8,2)>"}
    names = [*types][1:]
    rows = [{"id": key, names[key // 2]: 0.5 if key < 6 else [0.5]} for key in range(8)]
    messages = [json.dumps({"op": "c", "before": None, "after": row, "source": source}) for row in rows]
    lines = [line.replace("0.5", ("1e-400", "0e-400")[key % 2]) for key, line in enumerate(messages)]
    (tmp_path / "1.json").write_text("\n".join(lines) + "\n", "utf-8")
    read = read_feed(spark, tmp_path, "shop.item", ["id"], types, format="debezium")
    assert sorted(key for (key,) in read.rows) == [1, 3, 5, 7]
    assert [reason for reason, _ in read.rejects] == ["cast"] * 4


def test_a_decimal_that_is_a_number_of_json_is_no_base64(engine: SparkSession | None, tmp_path: Path) -> None:
    """A BIGINT UNSIGNED is one in the connector's mode `long`; digits in a text may be base64."""
    source = {"schema": "shop", "table": "item", "lsn": 1, "sequence": '["1","1"]'}
    rows = [{"id": 12345678, "price": -1.5}, {"id": "ALxhTw==", "price": "AJY="}, {"id": 3, "price": "-1.5"}]
    lines = [json.dumps({"op": "c", "before": None, "after": row, "source": source}) for row in rows]
    (tmp_path / "1.json").write_text("\n".join(lines) + "\n", "utf-8")
    types = {"id": "decimal(20,0)", "price": "decimal(12,2)"}
    read = read_feed(engine, tmp_path, "shop.item", ["id"], types, format="debezium")
    assert [tuple(map(str, row.values())) for row in read.rows.values()] == [
        ("12345678", "-1.50"),
        ("12345679", "1.50"),
    ]
    assert [reason for reason, _ in read.rejects] == ["cast"]
