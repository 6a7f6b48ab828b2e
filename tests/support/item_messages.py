"""Messages of Debezium about one table of items, and the dimension that reads them."""

from __future__ import annotations

import json
from typing import Final

from lakeward.core.dimension import ORDERED, Dimension, TableName
from lakeward.core.events import Sequences
from lakeward.core.schema import Column, Schema, parse_type

ITEM: Final = Dimension(
    name=TableName("shop", "item"),
    schema=Schema((Column("id", parse_type("bigint")), Column("note", parse_type("string")))),
    key=("id",),
    lateness=ORDERED,
    sequences=Sequences.PLACES,
)


def insert_line(key: object, place: int, note: str = "a") -> str:
    """Return the line of an insert at a place in the log of PostgreSQL."""
    log = {"connector": "postgresql", "name": "live", "db": "shop", "schema": "shop", "table": "item", "lsn": place}
    return json.dumps({"before": None, "after": {"id": key, "note": note}, "source": log, "op": "c"}) + "\n"
