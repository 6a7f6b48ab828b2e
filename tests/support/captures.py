"""Random feeds of Debezium, written as a connector with random settings does, and their expected rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import UNSET, Sequences
from lakeward.core.schema import Column, Schema, parse_type

NAME = TableName("shop", "item")
TYPES = {
    "id": "int",
    "code": "string",
    "note": "string",
    "price": "decimal(38,4)",
    "seen": "timestamp",
    "due": "date",
    "data": "binary",
}
ITEM = Dimension(
    name=NAME,
    schema=Schema(tuple(Column(name, parse_type(text)) for name, text in TYPES.items())),
    key=("id",),
    sequences=Sequences.PLACES,
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PLACEHOLDER = "__debezium_unavailable_value"
_UNITS = {"connect": 1_000, "microseconds": 1, "nanoseconds": 1}


@dataclass(frozen=True)
class Event:
    """The expected event: operation, position, time and row, or for a deleted row its key alone."""

    operation: str
    sequence: int
    time: int | None
    row: tuple[object, ...]


@dataclass(frozen=True)
class Capture:
    """The lines of a file, their options, and the expected events."""

    lines: Sequence[str]
    options: FilesOptions
    events: Sequence[Event]
    skipped: int


def draw(seed: int, settings: int) -> Capture:
    """Write a feed by a connector with random settings, which have their own seed."""
    random = Random(seed)
    options = FilesOptions.model_validate(_settings(Random(settings)))
    connector = random.choice(["postgresql", "mysql", "sqlserver", "oracle"])
    writer = _Writer(random, options, connector, has_schema=random.random() < 0.5)
    lines: list[str] = []
    events: list[Event] = []
    skipped = 0
    for number in range(1, random.randrange(3, 9)):
        event = _event(random, number)
        lines.append(writer.message(event, number))
        events.append(writer.said(event, number))
        if random.random() < 0.3:
            lines.append(writer.marker())
            skipped += 1
        if random.random() < 0.2:
            lines.append(writer.message(event, number, TableName("shop", "other")))
            skipped += 1
    return Capture(lines, options, events, skipped)


def _settings(random: Random) -> dict[str, Any]:
    return {
        "path": "landing",
        "format": "debezium",
        "line": random.choice(["value", "record"]),
        "form": random.choice(["envelope", "flattened"]),
        "decimals": random.choice(["precise", "string", "numeric"]),
        "times": random.choice(["connect", "isostring", "microseconds", "nanoseconds"]),
        "binary": random.choice(["bytes", "base64-url-safe", "hex"]),
        "unavailable_value": random.choice([PLACEHOLDER, 'it\'s "gone"']),
    }


def _event(random: Random, number: int) -> Event:
    operation = random.choice(["read", "insert", "update", "update", "delete", "truncate"])
    price = Decimal(random.choice(["0", "-0.0001", "1234567890123456789012345678901234.5678", "-99.5", "0.0100"]))
    seen = EPOCH + timedelta(milliseconds=random.choice([0, -1, 1_796_083_200_123]))
    row: list[object] = [
        random.randrange(1000),
        random.choice(["a", "é雷", "NULL", 'say "so"', "back\\slash", "{}", "[1]", "", " 1 ", "true"]),
        random.choice([None, "line\nfeed", "\t\u0001", "a" * 50]),
        random.choice([None, price]),
        random.choice([None, seen]),
        random.choice([None, date(2024, 2, 29), date(1969, 12, 31)]),
        random.choice([None, b"", b"\x00\xff\xfe", b"plain"]),
    ]
    if operation == "update":
        for place in random.sample(range(1, len(row)), random.randrange(3)):
            row[place] = UNSET
    return Event(operation, 0, 1_796_083_200_000_000 + number * 1000, tuple(row))


@dataclass
class _Writer:
    """A connector and its converter."""

    random: Random
    options: FilesOptions
    connector: str
    has_schema: bool

    def said(self, event: Event, number: int) -> Event:
        """Return the expected event."""
        row = event.row
        if event.operation == "delete":
            row = (row[0], *(None for _ in row[1:]))
        if event.operation == "truncate":
            row = tuple(None for _ in row)
        return replace(event, row=row, sequence=self._place(number)[1])

    def message(self, event: Event, number: int, table: TableName = NAME) -> str:
        flat = self.options.form == "flattened"
        key = {"id": event.row[0]}
        value = self._flat(event, number, table) if flat else self._enveloped(event, number, table)
        return self._line(None if event.operation == "truncate" else key, value)

    def marker(self) -> str:
        """Return a message without a row."""
        others: list[Any] = [None, {}]
        if self.options.form == "envelope":
            others += [{"ts_ms": 5}, {"status": "BEGIN", "id": "7", "event_count": None, "data_collections": None}]
        message = self.random.choice(others)
        return self._line({"id": 1}, message)

    def _line(self, key: Any, value: Any) -> str:
        if self.has_schema and value:
            value = self._shuffled({"schema": {"type": "struct", "fields": [{"field": "op"}]}, "payload": value})
            key = None if key is None else {"schema": {"type": "struct"}, "payload": key}
        if self.options.line == "record":
            return _json(self._shuffled({"key": key, "value": value, "offset": 7}))
        return _json(value)

    def _enveloped(self, event: Event, number: int, table: TableName) -> dict[str, Any]:
        after = None if event.operation in ("delete", "truncate") else self._row(event)
        before = {"id": event.row[0], "code": "", "price": 0} if event.operation == "delete" else None
        source = {**self._place(number)[0], "ts_us": event.time, "schema": table.schema, "table": table.table}
        letter = {"read": "r", "insert": "c"}.get(event.operation, event.operation[0])
        value = {"before": before, "after": after, "source": self._shuffled(source), "op": letter, "ts_ms": 99}
        return self._shuffled({**value, "transaction": None})

    def _flat(self, event: Event, number: int, table: TableName) -> dict[str, Any]:
        letter = {"read": "r", "insert": "c"}.get(event.operation, event.operation[0])
        row = {} if event.operation == "truncate" else self._row(event)
        prefix = self.random.choice(["__", "__source_"])
        place = {prefix + name: value for name, value in self._place(number)[0].items()}
        fields = {"__op": letter, "__schema": table.schema, "__table": table.table, "__source_ts_us": event.time}
        return self._shuffled({**row, **fields, **place, "__deleted": str(letter == "d").lower()})

    def _place(self, number: int) -> tuple[dict[str, Any], int]:
        """Return a position as the connector writes it, and its number."""
        match self.connector:
            case "postgresql":
                lsn = number + 40
                last = "null" if number == 1 else f'"{lsn - 1}"'
                place = {"sequence": f'[{last},"{lsn}"]', "lsn": lsn}
                return place, (lsn if number == 1 else lsn - 1) * 10**19 + lsn
            case "mysql":
                place = {"file": "mysql-bin.000003", "pos": 154 + number, "row": number % 2}
                return place, ((3 * 10**16 + 154 + number) * 10**7) + number % 2
            case "sqlserver":
                return {"commit_lsn": f"0000002b:00000d08:{number:04x}"}, (0x2B << 48) + (0xD08 << 16) + number
            case _:
                return {"commit_scn": str(900 + number), "scn": "800"}, (900 + number) * 10**19 + 800

    def _row(self, event: Event) -> dict[str, Any]:
        cells = {}
        for (name, type_), value in zip(TYPES.items(), event.row, strict=True):
            if value is not UNSET:
                cells[name] = self._cell(value, type_)
            elif name in ("code", "note", "data") and self.random.random() < 0.7:
                cells[name] = self._unavailable(type_)
        return self._shuffled(cells)

    def _unavailable(self, type_: str) -> str:
        word = self.options.unavailable_value
        return self._cell(word.encode(), type_) if type_ == "binary" else word  # type: ignore[no-any-return]

    def _cell(self, value: Any, type_: str) -> Any:
        match value:
            case Decimal():
                return self._decimal(value)
            case datetime():
                return self._moment(value)
            case date():
                return f"{value}Z" if self.options.times == "isostring" else (value - EPOCH.date()).days
            case bytes():
                return self._bytes(value)
            case _:
                return value

    def _decimal(self, value: Decimal) -> Any:
        if self.options.decimals != "precise":
            return str(value) if self.options.decimals == "string" else _Number(str(value))
        unscaled = (
            int(value.scaleb(4).to_integral_value()) if abs(value) < 10**20 else int(str(value).replace(".", ""))
        )
        data = unscaled.to_bytes((unscaled.bit_length() // 8) + 1, "big", signed=True)
        text = base64.b64encode(data).decode()
        return {"scale": 4, "value": text} if self.random.random() < 0.3 else text

    def _moment(self, value: datetime) -> Any:
        micros = (value - EPOCH) // timedelta(microseconds=1)
        match self.options.times:
            case "isostring":
                return value.isoformat().replace("+00:00", "Z")
            case "nanoseconds":
                return micros * 1000
            case "connect":
                return micros // 1000
            case _:
                return micros

    def _bytes(self, value: bytes) -> str:
        match self.options.binary:
            case "hex":
                return value.hex()
            case "base64-url-safe":
                return base64.urlsafe_b64encode(value).decode()
            case _:
                return base64.b64encode(value).decode()

    def _shuffled(self, fields: dict[str, Any]) -> dict[str, Any]:
        return dict(self.random.sample(list(fields.items()), len(fields)))


class _Number(str):
    """A number that is written digit by digit, because no float holds it."""

    __slots__ = ()


def _json(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(name)}:{_json(item)}" for name, item in value.items()) + "}"
        case _Number():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)
