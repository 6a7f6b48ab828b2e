"""Endpoints of DMS as they may be set: drawn at random, with a feed that is written by them and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from lakeward.adapters.dms import options as model
from lakeward.adapters.dms.dates import FORMS
from lakeward.adapters.dms.writer import Change, DmsWriter, Row, Style
from lakeward.adapters.landed.csv import Dialect
from lakeward.adapters.landed.folder import Folder
from lakeward.adapters.landed.places import Places
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import UNSET, Operation
from lakeward.core.schema import Column, Schema, parse_type

NAME = TableName("shop", "item")
TYPES = {
    "id": "int",
    "code": "string",
    "note": "string",
    "price": "decimal(8,2)",
    "seen": "timestamp",
    "op_is": "string",
}
ITEM = Dimension(
    name=NAME, schema=Schema(tuple(Column(name, parse_type(text)) for name, text in TYPES.items())), key=("id",)
)
AT = datetime(2026, 10, 31, 23, 59, 58, tzinfo=UTC)
"""Close to midnight, and to a new month."""

SEGMENTS = ("", "SEGMENT1_", "SEGMENT12_", "p2026/", "part 100%/", "a/b/", "20261121/", "north/SEGMENT2_")


@dataclass(frozen=True)
class Event:
    """What must be read: the operation, the commit time as a number, and the row."""

    operation: str
    time: int | None
    row: Row
    is_load: bool


@dataclass(frozen=True)
class Endpoint:
    """A landing folder, the settings that belong to it, and what is in it, in order; loads in no order."""

    landing: Path
    options: model.DmsOptions
    style: Style
    events: Sequence[Event]

    @property
    def folder(self) -> Folder:
        return Folder(self.landing, Places(model.place(self.options)))


def draw(seed: int, landing: Path) -> Endpoint:
    """Write a feed by an endpoint whose settings are drawn; every combination of them is a legal one."""
    random = Random(seed)
    landing.mkdir(parents=True, exist_ok=True)
    style, settings = _style(random)
    changed = replace(style, format=random.choice([style.format, "csv", "parquet"]))
    events = _write_load(random, DmsWriter(landing, NAME, ITEM.schema, style), style)
    events += _write_changes(random, DmsWriter(landing, NAME, ITEM.schema, changed), changed, settings)
    return Endpoint(landing, model.DmsOptions.model_validate({"path": str(landing), **settings}), style, events)


def _style(random: Random) -> tuple[Style, dict[str, Any]]:
    """Return how the endpoint writes, and the settings of lakeward that say the same."""
    quote = random.choice(['"', '"', "'", ""])
    ends = ["\n", "\n", "\n", "\r\n", "\x1e", "|\n", "~~"]
    dialect = Dialect(
        delimiter=random.choice([",", ";", "\t", "^"]),
        quote=quote,
        null_text=random.choice(["NULL", "", "\\N", "?"]),
        no_sup_text=random.choice([None, None, "0", "a", "~"]),
        row_end=random.choice(ends),
    )
    operations = random.choice(["all", "all", "all", "inserts", "inserts_and_updates"])
    style = Style(
        format=random.choice(["csv", "csv", "csv", "parquet"]),
        dialect=dialect,
        row_end=dialect.row_end,
        has_header=random.random() < 0.3,
        is_gzip=random.random() < 0.3,
        has_op_in_load=random.random() < 0.5,
        has_op_in_changes=operations == "all" or random.random() < 0.5,
        op_column=random.choice(["Op", "OP_TYPE"]),
        timestamp_column=random.choice([None, "ts", "ts"]),
        time_digits=random.choice([0, 3, 6]),
        padding=random.choice([0, 0, 12]),
        load_folder=random.choice(["{schema}/{table}", "full/{schema}/{table}"]),
        changes_folder=random.choice(["{schema}/{table}", "cdc/{schema}.{table}"]),
        date_folders=random.choice([None, *FORMS]),
    )
    settings = {
        "delimiter": dialect.delimiter,
        "quote": quote,
        "null_text": dialect.null_text,
        "no_sup_value": dialect.no_sup_text,
        "row_delimiter": dialect.row_end,
        "trim_padding": style.padding > 0,
        "operations": operations,
        "op_column": style.op_column,
        "timestamp_column": style.timestamp_column,
        "load": style.load_folder,
        "changes": style.changes_folder,
    }
    if dialect.row_end == "\r\n" and random.random() < 0.5:
        settings["row_delimiter"] = "\n"  # it is seen from the file
    if style.date_folders is not None and random.random() < 0.5:
        settings["date_folders"] = style.date_folders
    if operations == "all" and random.random() < 0.3:
        settings |= {"operation_indicator": "op_is", "operation_indicator_values": ["X", "Y", "Z"]}
    return style, settings


def _row(random: Random, style: Style) -> list[object]:
    """Return a row; without quotes, or where blanks are cut off, there are texts that no endpoint can write."""
    pieces = ["a", "é雷", "NULL", "?", "0", "I", "D", "it's", 'say "so"', "a\\b"]
    if style.format == "parquet" or style.dialect.quote:
        pieces += [",", ";", "\n", "\r\n", "\t", "^", "|", "~~", "\x1e"]
    texts: list[str | None] = []
    for _ in range(2):
        text = "".join(random.choice(pieces) for _ in range(random.randrange(1, 4)))
        texts.append(None if random.random() < 0.2 else _writable(text, style) or "a")
    price = random.choice([None, Decimal("0.10"), Decimal("-123456.78")])
    seen = random.choice([None, AT, datetime(1970, 1, 1, 0, 0, 0, 1, UTC)])
    return [random.randrange(1000), *texts, price, seen, None]


def _writable(text: str, style: Style) -> str:
    if style.format == "csv" and not style.dialect.quote:
        for sign in (style.dialect.delimiter, *style.dialect.row_end):
            text = text.replace(sign, "")
    if style.row_end == "\r\n":
        text = text.replace("\r", "")
    meanings = (style.dialect.null_text, style.dialect.no_sup_text)
    is_bare = style.format == "csv" and not style.dialect.quote
    return text + "b" if is_bare and text in meanings else text


def _write_load(random: Random, writer: DmsWriter, style: Style) -> list[Event]:
    found = []
    for segment in random.sample(SEGMENTS, random.randrange(4)):
        rows = [_row(random, style) for _ in range(random.randrange(1, 5))]
        writer.load(rows, AT, random.choice([None, 1, 2]), segment)
        time = _micros(AT, style)
        found += [Event("read", time, row, is_load=True) for row in rows]
    return found


def _write_changes(random: Random, writer: DmsWriter, style: Style, settings: dict[str, Any]) -> list[Event]:
    events: list[Event] = []
    moment = written = AT
    for _ in range(random.randrange(4)):
        changes = []
        for _ in range(random.randrange(1, 5)):
            moment += timedelta(microseconds=random.choice([0, 1, 1_000, 700_000, 90_000_000]))
            operation = random.choice(_LETTERS[settings["operations"]])
            changes.append(Change(operation, _row(random, style), moment))
        written = max(written, moment) + timedelta(
            milliseconds=random.choice([0 if style.date_folders is None else 1, 1, 60_000])
        )
        events += [_event(random, change, style, settings) for change in changes]
        if style.date_folders is None:
            writer.changes(changes, written)
        else:
            writer.dated_changes(changes, written)
    return events


_LETTERS = {
    "all": (Operation.INSERT, Operation.UPDATE, Operation.DELETE),
    "inserts": (Operation.INSERT,),
    "inserts_and_updates": (Operation.INSERT, Operation.UPDATE),
}


def _event(random: Random, change: Change, style: Style, settings: dict[str, Any]) -> Event:
    operation, row = change.operation.value, change.row
    is_part = (
        change.operation is Operation.UPDATE and style.format == "csv" and style.dialect.no_sup_text is not None
    )
    if is_part and random.random() < 0.5:
        row[random.choice([1, 3])] = UNSET  # type: ignore[index]
    if "operation_indicator" in settings and random.random() < 0.7:
        operation, value = random.choice([("delete", "X"), ("update", "Y"), ("insert", "Z")])
        change.row[-1] = value  # type: ignore[index]
    elif not style.has_op_in_changes:
        operation = "insert" if settings["operations"] == "inserts" else "update" if UNSET in row else "read"
    return Event(operation, _micros(change.time, style), row, is_load=False)


def _micros(moment: datetime | None, style: Style) -> int | None:
    """Return a commit time in the precision that the endpoint writes."""
    if moment is None or style.timestamp_column is None:
        return None
    step = 10 ** (6 - style.time_digits)
    micros = round((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
    return micros // step * step


def plain(events: Sequence[Event]) -> list[tuple[object, ...]]:
    """Return events as they are compared: loads first, in no order of their own."""
    listed = [(e.operation, e.time, *e.row) for e in events]
    load = sorted((row for row, event in zip(listed, events, strict=True) if event.is_load), key=repr)
    return load + [row for row, event in zip(listed, events, strict=True) if not event.is_load]
