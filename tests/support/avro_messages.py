"""Messages of Debezium in Avro, for the table that is fed from a broker in memory."""

from __future__ import annotations

import json
from typing import Final

from connect_records import to_avro

ROW: Final = {
    "type": "record",
    "name": "Value",
    "namespace": "shop.shop.orders",
    "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "a", "type": ["null", "string"]}],
}
_SOURCE: Final = [
    ("schema", "string"),
    ("table", "string"),
    ("ts_us", "long"),
    ("lsn", "long"),
    ("sequence", "string"),
]
ENVELOPE: Final = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "shop.shop.orders.Value"]},
        {
            "name": "source",
            "type": {"type": "record", "name": "S", "fields": [{"name": n, "type": t} for n, t in _SOURCE]},
        },
        {"name": "op", "type": "string"},
    ],
}
KEY: Final = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
FLAT: Final = {
    **ROW,
    "fields": [*ROW["fields"], {"name": "after", "type": "long"}, {"name": "__op", "type": "string"}],
}


def envelope(number: int, text: str | None = "x") -> bytes:
    """Return a message that inserts a row, without the header of a registry."""
    source = {"schema": "shop", "table": "orders", "ts_us": 1_700_000_000_000_000 + number, "lsn": number}
    source["sequence"] = json.dumps([str(number), str(number)])
    return to_avro(ENVELOPE, {"before": None, "after": {"id": number, "a": text}, "source": source, "op": "c"})


def framed(id_: int, data: bytes) -> bytes:
    """Return bytes after the id of their schema, in Confluent's form."""
    return b"\0" + id_.to_bytes(4) + data
