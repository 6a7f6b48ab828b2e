"""Random endpoints of DMS with legal settings, a feed that they write, and its expected rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.dms import options as model
from lakeward.adapters.sources.dms.paths.date_folders import FORMS
from lakeward.adapters.sources.dms.writer import Change, DmsWriter, Row, Style
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Places
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
ZONES = ("UTC", "Asia/Tokyo", "America/Los_Angeles", "Pacific/Kiritimati")
ENDS = ("\n", "\n", "\n", "\r\n", "\x1e", "|\n", "~~")


@dataclass(frozen=True)
class Event:
    """The expected event: operation, commit time and sequence as numbers, row, and old key."""

    operation: str
    time: int | None
    row: Row
    is_load: bool
    sequence: int | None = None
    old: object = None


@dataclass(frozen=True)
class Endpoint:
    """A landing folder, its settings, and its expected events in order; those of loads in any order."""

    landing: Path
    options: model.DmsOptions
    style: Style
    events: Sequence[Event]

    @property
    def folder(self) -> Folder:
        return Folder(self.landing, Places(model.place(self.options)))


class Rules(NamedTuple):
    """The columns that transformation rules of the task add after those of the table."""

    place: Column | None
    before: Column | None

    @property
    def schema(self) -> Schema:
        return Schema((*ITEM.schema, *[column for column in self if column is not None]))

    def with_added(self, row: Row, place: str | int | None, before: object) -> Row:
        added = ((self.place, place), (self.before, before))
        return [*row, *[cell for column, cell in added if column is not None]]


def draw(seed: int, landing: Path) -> Endpoint:
    """Write a feed by an endpoint with random legal settings."""
    random = Random(seed)
    landing.mkdir(parents=True, exist_ok=True)
    style, settings = _style(random)
    changed = replace(style, format=random.choice([style.format, "csv", "parquet"]))
    rules = _rules(random, settings)
    events = _Load(random, style, rules).write(DmsWriter(landing, NAME, rules.schema, style))
    events += _Changes(random, changed, rules, settings).write(DmsWriter(landing, NAME, rules.schema, changed))
    return Endpoint(landing, model.DmsOptions.model_validate({"path": str(landing), **settings}), style, events)


# Settings.


def _style(random: Random) -> tuple[Style, dict[str, Any]]:
    """Return the style of the endpoint, and the settings of lakeward for it."""
    end = random.choice(ENDS)
    dialect = Dialect(
        delimiter=random.choice([sign for sign in (",", ",", ";", "\t", "^", "|", "\x01") if sign not in end]),
        quote=random.choice(['"', '"', '"', "'", ""]),
        null_text=random.choice(["NULL", "NULL", "", "\\N", "?"]),
        no_sup_text=random.choice([None, None, "0", "a", "~"]),
        row_end=end,
    )
    operations = random.choice(["all", "all", "all", "inserts", "inserts_and_updates"])
    has_op_in_load = random.random() < 0.5
    style = Style(
        format=random.choice(["csv", "csv", "csv", "parquet"]),
        dialect=dialect,
        row_end=end,
        has_header=random.random() < 0.3,
        is_gzip=random.random() < 0.3,
        has_op_in_load=has_op_in_load,
        has_op_in_changes=_has_op(random, operations, has_op_in_load=has_op_in_load),
        op_column=random.choice(["Op", "OP_TYPE"]),
        timestamp_column=random.choice([None, "ts", "ts"]),
        time_digits=random.choice([0, 3, 6, random.randrange(7)]),
        padding=random.choice([0, 0, 12]),
        load_folder=random.choice(["{schema}/{table}", "full/{schema}/{table}"]),
        changes_folder=random.choice(["{schema}/{table}", "cdc/{schema}.{table}"]),
        date_folders=random.choice([None, *FORMS]),
        date_zone=ZoneInfo(random.choice(ZONES)),
        load_digits=random.choice([8, 8, 5]),
        is_parquet_2=random.random() < 0.5,
        has_millis=random.random() < 0.3,
    )
    return style, _settings(random, style, operations)


def _has_op(random: Random, operations: str, *, has_op_in_load: bool) -> bool:
    """Return True if changes have an Op. Of inserts and updates the guide says both (docs/reference/dms-csv.md)."""
    if operations == "all" or has_op_in_load:
        return True
    return operations == "inserts_and_updates" and random.random() < 0.5


def _settings(random: Random, style: Style, operations: str) -> dict[str, Any]:
    dialect = style.dialect
    settings: dict[str, Any] = {
        "delimiter": dialect.delimiter,
        "quote": dialect.quote,
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
    return settings


def _rules(random: Random, settings: dict[str, Any]) -> Rules:
    place = before = None
    if random.random() < 0.4:
        kind = random.choice(["$AR_H_CHANGE_SEQ", "$AR_H_STREAM_POSITION"])
        type_ = "string" if kind == "$AR_H_CHANGE_SEQ" else random.choice(["string", "bigint"])
        place = Column("change_seq", parse_type(type_))
        settings |= {"sequence_column": place.name, "sequence_kind": kind}
    if random.random() < 0.4:
        before = Column("BI_id", parse_type(TYPES["id"]))
        settings["before_image_prefix"] = "BI_"
    return Rules(place, before)


# Rows.


def _row(random: Random, style: Style) -> list[object]:
    """Return a row. Without quotes, or with trimmed blanks, an endpoint cannot write some texts."""
    pieces = ["a", "é雷", "NULL", "?", "0", "I", "D", "it's", 'say "so"', "a\\b", " a", "\ufeff", ""]
    if style.format == "parquet" or style.dialect.quote:
        pieces += [",", ";", "\n", "\r\n", "\t", "^", "|", "~~", "\x1e", "\x01"]
    texts: list[str | None] = []
    for _ in range(2):
        text = "".join(random.choice(pieces) for _ in range(random.randrange(4)))
        texts.append(None if random.random() < 0.2 else _writable(text, style))
    price = random.choice([None, Decimal("0.10"), Decimal("-123456.78")])
    seen = random.choice([None, AT, datetime(1970, 1, 1, 0, 0, 0, 1001, UTC)])
    if seen is not None and style.has_millis and style.format == "parquet":
        seen = seen.replace(microsecond=seen.microsecond // 1000 * 1000)
    return [random.randrange(1, 1000), *texts, price, seen, None]


def _writable(text: str, style: Style) -> str:
    dialect = style.dialect
    is_bare = style.format == "csv" and not dialect.quote
    if is_bare:
        for sign in (dialect.delimiter, *dialect.row_end, "\r", "\n", "\ufeff"):
            text = text.replace(sign, "")
    if style.row_end == "\r\n":
        text = text.replace("\r", "")
    return text + "b" if is_bare and text in (dialect.null_text, dialect.no_sup_text) else text


@dataclass(frozen=True)
class _Load:
    """Files of a full load, in segments."""

    random: Random
    style: Style
    rules: Rules

    def write(self, writer: DmsWriter) -> list[Event]:
        random, events, at = self.random, list[Event](), AT
        is_task_start = random.random() < 0.5
        for segment in random.sample(SEGMENTS, random.randrange(4)):
            rows = [_row(random, self.style) for _ in range(random.randrange(1, 5))]
            place = self._place()
            writer.load([self.rules.with_added(row, place, None) for row in rows], at, self._size(), segment)
            events += [Event("read", _micros(at, self.style), row, is_load=True) for row in rows]
            at += timedelta(0 if is_task_start else 0.001)
        return events

    def _size(self) -> int | None:
        return self.random.choice([None, 1, 2])

    def _place(self) -> str | None:
        """Return the sequence of a full load: an empty one, in one of two forms."""
        is_text = self.rules.place is not None and self.rules.place.type.name == "string"
        can_be_empty = self.style.format == "parquet" or bool(self.style.dialect.quote)
        return self.random.choice(["", None]) if is_text and can_be_empty else None


@dataclass
class _Changes:
    """Files of changes, in order."""

    random: Random
    style: Style
    rules: Rules
    settings: dict[str, Any]
    place: int = 0

    def write(self, writer: DmsWriter) -> list[Event]:
        random, events = self.random, list[Event]()
        moment = written = AT
        for _ in range(random.randrange(4)):
            changes = []
            for _ in range(random.randrange(1, 5)):
                moment += timedelta(microseconds=random.choice([0, 1, 1_000, 700_000, 90_000_000, 4_000_000_000]))
                change, event = self._change(moment)
                changes.append(change)
                events.append(event)
            written = max(written, moment) + timedelta(
                milliseconds=random.choice([0 if self.style.date_folders is None else 1, 1, 60_000])
            )
            if self.style.date_folders is None:
                writer.changes(changes, written)
            else:
                writer.dated_changes(changes, written)
        return events

    def _change(self, moment: datetime) -> tuple[Change, Event]:
        written = self.random.choice(_LETTERS[self.settings["operations"]])
        row = _row(self.random, self.style)
        operation = self._with_what_is_not_sent(written, row)
        self.place += self.random.choice([1, 1, 10**12])
        before = self._before(written, row[0])
        is_move = operation == "update" and self.style.has_op_in_changes and before not in (None, row[0])
        event = Event(
            operation=operation,
            time=_micros(moment, self.style),
            row=row,
            is_load=False,
            sequence=self.place if self.rules.place is not None else None,
            old=before if is_move and self.rules.before is not None else None,
        )
        return Change(written, self.rules.with_added(row, self._place(), before), moment), event

    def _with_what_is_not_sent(self, written: Operation, row: list[object]) -> str:
        """Remove unlogged cells, and write the operation into a column. Returns the operation."""
        is_part = (
            written is Operation.UPDATE
            and self.style.format == "csv"
            and self.style.dialect.no_sup_text is not None
        )
        if is_part and self.random.random() < 0.5:
            row[self.random.choice([1, 3])] = UNSET
        if "operation_indicator" in self.settings and self.random.random() < 0.7:
            operation, row[-1] = self.random.choice([("delete", "X"), ("update", "Y"), ("insert", "Z")])
            return operation
        if self.style.has_op_in_changes:
            return written.value
        return "insert" if self.settings["operations"] == "inserts" else "update" if UNSET in row else "read"

    def _before(self, written: Operation, now: object) -> object:
        if written is Operation.UPDATE:
            return self.random.choice([now, now, self.random.randrange(1, 1000), None])
        return None if written is Operation.INSERT else self.random.choice([now, None])

    def _place(self) -> str | int | None:
        if self.rules.place is None or self.rules.place.type.name != "string":
            return self.place
        is_padded = self.settings["sequence_kind"] == "$AR_H_CHANGE_SEQ"
        return f"{self.place:035}" if is_padded else str(self.place)


_LETTERS = {
    "all": (Operation.INSERT, Operation.UPDATE, Operation.DELETE),
    "inserts": (Operation.INSERT,),
    "inserts_and_updates": (Operation.INSERT, Operation.UPDATE),
}


def _micros(moment: datetime | None, style: Style) -> int | None:
    """Return a commit time in the precision that the endpoint writes."""
    if moment is None or style.timestamp_column is None:
        return None
    step = 10 ** (6 - style.time_digits)
    micros = round((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
    return micros // step * step


def plain(events: Sequence[Event]) -> list[tuple[object, ...]]:
    """Return events for comparison: loads first, sorted."""
    listed = [(e.operation, e.time, e.sequence, e.old, *e.row) for e in events]
    load = sorted((row for row, event in zip(listed, events, strict=True) if event.is_load), key=repr)
    return load + [row for row, event in zip(listed, events, strict=True) if not event.is_load]
