"""Messages in Debezium's usual form, with all simple types, and some with one odd thing."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

TYPES: Final = {
    "id": "bigint",
    "part": "int",
    "note": "string",
    "price": "decimal(10,2)",
    "exact": "decimal(38,10)",
    "small": "decimal(18,8)",
    "share": "double",
    "rate": "float",
    "paid": "boolean",
    "day": "date",
    "seen": "timestamp",
    "wall": "timestamp_ntz",
    "raw": "binary",
    "schema": "string",
    "größe": "string",
}
"""The columns of the table with their types. One has the name of a field of the source."""

KEY: Final = ("id", "part")

_ODD_SHARE: Final = 1 / 16
_TEXTS: Final = (
    *("a", "", "Köln", 'say \\"no\\"', "two\\nlines", "\\u00e9", "1.0E7"),
    *("12.50", "true", 'x\\":null', "😀", "}null"),
)
_ODD_CELLS: Final = (
    *("1.0", "1e2", '"5"', "-0", "9999999999", "99999999999999999999", "true", '"true"', "null", "1.505"),
    *('"1.505"', '"+5"', '".5"', '"5."', '" 5"', '"1e1"', '"1_0"', '"0x1f"', "NaN", '"NaN"', "Infinity"),
    *("1e-400", "1e400", "0e0", "12345678901234567890.123456789012345678901", '"\\ud800"', '"\\ud83d\\ude00"'),
    *("[]", "{}", '{"a":1}', '""', '"__debezium_unavailable_value"', '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="'),
    *('"2026-01-05"', "20000", "-5", '"2026-02-30"', '"2026-02-01T12:00:00Z"', '"2026-02-01 12:00:00.5"'),
    *("1700000000000000", '"a\tb"', '"\\u0000"', "1e-50", "1.0E-46", "1.0E-5", "1.2345678E7", "0.00000001"),
    *("1e22", "1.5e-07", "3.4e38"),
)
_ODD_FIELDS: Final = (
    *(("schema", '"other"'), ("table", '"other"'), ("schema", "null"), ("table", "null"), ("db", "null")),
    *(("lsn", "null"), ("lsn", '"5"'), ("sequence", '"[]"'), ("sequence", '"no"'), ("ts_us", "0")),
    *(("ts_us", "-5"), ("ts_ms", "9223372036854775807"), ("ts_ms", "null"), ("ts_ns", "-1500")),
    *(("snapshot", "true"), ("extra", "1"), ("txId", "null"), ("name", '""'), ("scn", '"17"')),
    *(("file", '"binlog.000003"'), ("txId", '"0a00"'), ("redo_thread", "1"), ("ts_ms", "-9223372036854775808")),
)
_ODD_PARTS: Final = (
    *(("op", '"t"'), ("op", '"m"'), ("op", "null"), ("op", '"x"'), ("source", "null"), ("after", "null")),
    *(("before", "5"), ("after", "[]"), ("transaction", '"x"'), ("more", "1"), ("payload", "null")),
)
_ODD_TEXTS: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: text + " ",
    lambda text: f" {text}",
    lambda text: text + "null",
    lambda text: text + text,
    lambda text: text[:-1],
    lambda text: f'{{"payload":{text}}}',
    lambda text: f'{{"schema":{{"type":"struct"}},"payload":{text}}}',
    lambda _: "null",
    lambda _: "",
    lambda _: "{}",
    lambda text: text.replace('":', '": '),
    lambda text: text.replace("null", " null"),
    lambda text: f"[{text}]",
    json.dumps,
)


@dataclass(slots=True)
class _Draft:
    """A message before it is written: JSON texts by name. `end` changes the whole text."""

    cells: dict[str, str]
    before: dict[str, str]
    source: dict[str, str]
    parts: dict[str, str] = field(default_factory=dict)
    end: Callable[[str], str] = str

    def written(self, op: str, *, has_before: bool) -> str:
        after = _object(self.cells) if op != "d" else "null"
        before = _object(self.before) if op == "d" or has_before else "null"
        usual = {"before": before, "after": after, "source": _object(self.source), "op": f'"{op}"'}
        return self.end(_object({**usual, "ts_ms": "1767225600000", **self.parts}))


def message(random: Random, *, is_record: bool = False) -> str:
    """Return a message as a line, most in the usual form, others with one odd thing."""
    draft = _Draft(_cells(random), _cells(random), _source(random))
    if random.random() < 0.2:
        draft.parts["transaction"] = '{"id":"752:26711768","total_order":1,"data_collection_order":1}'
    if random.random() < _ODD_SHARE:
        _make_odd(random, draft)
    op = random.choice("crudu")
    text = draft.written(op, has_before=op == "u" and random.random() < 0.5)
    return _record(random, text, draft.cells) if is_record else text


def _make_odd(random: Random, draft: _Draft) -> None:
    """Make one thing of a message odd."""
    row = random.choice((draft.cells, draft.before))
    match random.choice(("cell", "cell", "cell", "absent", "unknown", "twice", "field", "part", "text")):
        case "cell":
            row[random.choice([*TYPES])] = random.choice(_ODD_CELLS)
        case "absent":
            del row[random.choice([*TYPES])]
        case "unknown":
            row[random.choice(("colour", "NOTE"))] = random.choice(('"red"', "null"))
        case "twice":
            row["note"] = '"a","note":"b"'
        case "field":
            draft.source.update([random.choice(_ODD_FIELDS)])
            if random.random() < 0.3:
                draft.source.pop("lsn", None)
        case "part":
            draft.parts.update([random.choice(_ODD_PARTS)])
        case "text":
            draft.end = random.choice(_ODD_TEXTS)


def _cells(random: Random) -> dict[str, str]:
    usual = {
        "note": f'"{random.choice(_TEXTS)}"',
        "price": f"{random.randint(-(10**9), 10**9) / 100:.2f}",
        "small": random.choice(("0", "0.0", "-0", "1.5", "-0.25", "100000.00000001", "2")),
        "exact": f'"{random.randint(-(10**20), 10**20)}.{random.randint(0, 10**10 - 1):010}"',
        "share": repr(random.choice((0.0, -0.0, 0.1, 123456789.125, round(random.random(), 17)))),
        "rate": random.choice(("0.1", "16777217", "0.10000000149011612", "-2.5")),
        "paid": random.choice(("true", "false")),
        "day": str(random.choice((0, 20000, -1, 10957))),
        "seen": str(random.choice((0, 1767225600000000, -1, 1700000000123456))),
        "wall": str(random.choice((0, 1767225600000000, 999999))),
        "raw": json.dumps(base64.b64encode(random.randbytes(random.randint(0, 5))).decode()),
        "größe": '"XL"',
    }
    cells = {name: "null" if random.random() < 0.15 else text for name, text in usual.items()}
    fields = {"id": str(random.randint(1, 9)), "part": str(random.randint(0, 2)), "schema": '"x"', **cells}
    return {name: fields[name] for name in TYPES}


def _source(random: Random) -> dict[str, str]:
    lsn = random.randint(1, 10**12)
    source = {
        "version": '"3.6.3.Final"',
        "connector": '"postgresql"',
        "name": '"live"',
        "ts_ms": "1767225600123",
        "snapshot": random.choice(('"false"', '"true"', '"incremental"')),
        "db": '"Shop"',
        "sequence": random.choice((f'"[\\"{lsn - 5}\\",\\"{lsn}\\"]"', f'"[null,\\"{lsn}\\"]"', "null")),
        "schema": random.choice(('"shop"', '"shop"', '"SHOP"')),
        "table": '"item"',
        "txId": str(random.randint(1, 5)),
        "lsn": str(lsn),
        "xmin": "null",
    }
    return source | ({"ts_us": "1767225600123456", "ts_ns": "1767225600123456789"} if random.random() < 0.5 else {})


def _object(parts: Mapping[str, str]) -> str:
    return "{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}"


def _record(random: Random, text: str, cells: Mapping[str, str]) -> str:
    key, value = _object({name: cells.get(name, "null") for name in KEY}), json.dumps(text, ensure_ascii=False)
    other_keys = map(json.dumps, (_object({"id": "7"}), '{"other":1}', '{"payload":null}'))
    headers = ('[["trace","1"]]', '[["__debezium.newkey","{\\"id\\": 6}"]]', "null", '{"a":"b"}', '[["a",null]]')
    record = {
        "topic": _usual(random, '"live.shop.item"', "null", '"item"', '"live.shop.other"', '"live.SHOP.Item"'),
        "partition": "0",
        "offset": str(random.randint(0, 10**6)),
        "timestamp": random.choice(("1767225600123", "null")),
        "key": _usual(random, json.dumps(key), "null", key, *other_keys),
        "value": _usual(random, value, "null", "null", text, '""'),
        "headers": _usual(random, "[]", *headers),
    }
    if random.random() < _ODD_SHARE / 4:
        del record["value"]
    return _object(record)


def _usual(random: Random, usual: str, *odd: str) -> str:
    return random.choice(odd) if random.random() < _ODD_SHARE else usual
