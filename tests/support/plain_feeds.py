"""Random histories of many keys in plain files.

Columns of a row have its operation and its revision. Files and lines come in any order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

FORMATS: Final = ("csv", "json", "parquet")
COLUMNS: Final = {"id": "int", "name": "string", "price": "decimal(8,2)", "rev": "bigint"}
MOMENTS: Final = {**COLUMNS, "rev": "timestamp"}
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ARROW: Final = {
    "id": pa.int32(),
    "name": pa.string(),
    "price": pa.decimal128(8, 2),
    "rev": pa.int64(),
    "what": pa.string(),
}

Line = dict[str, Any]


@dataclass(frozen=True)
class Words:
    """The names of operations in a feed. With `strict` each kind has a name."""

    insert: str
    update: str
    delete: str
    strict: bool

    @property
    def operation(self) -> dict[str, Any]:
        named = {"insert": [self.insert], "update": [self.update]} if self.strict else {}
        return {"column": "what", "delete": [self.delete], **named}


@dataclass(frozen=True)
class PlainFeed:
    """Files of rows in the order of their names, and the rows at the end by key."""

    format: str
    words: Words
    files: Sequence[Sequence[Line]]
    final: Mapping[int, Line]

    @property
    def columns(self) -> Mapping[str, str]:
        return MOMENTS if self.format == "csv" else COLUMNS

    @property
    def options(self) -> dict[str, Any]:
        return {"order_by": "rev", "operation": self.words.operation, "null_text": r"\N"}


def draw(seed: int, format_: str, keys: int = 3) -> PlainFeed:
    """Draw the histories of some keys."""
    random = Random(seed)
    words = random.choice([Words("I", "U", "D", True), Words("new", "", "gone", False), Words("1", "2", "0", True)])
    lines = [line for key in range(1, keys + 1) for line in _history(random, key, words)]
    random.shuffle(lines)
    cuts = sorted(random.sample(range(len(lines) + 1), 2))
    files = [part for part in (lines[: cuts[0]], lines[cuts[0] : cuts[1]], lines[cuts[1] :]) if part]
    return PlainFeed(format_, words, files, _final(files, words))


def _history(random: Random, key: int, words: Words) -> list[Line]:
    events = []
    for step in range(random.randrange(1, 7)):
        what = random.choice([words.insert, words.update, words.update, words.delete])
        revision = random.choice([step, step, random.randrange(6)])
        name = random.choice(["a", "", "é雷", 'say "so"', "a,b", "NULL", " x ", "two\nlines", None])
        price = random.choice([None, Decimal("0.00"), Decimal("-1.25"), Decimal("999999.99")])
        events.append({"id": key, "name": name, "price": price, "rev": revision, "what": what})
    return events


def _final(files: Sequence[Sequence[Line]], words: Words) -> Mapping[int, Line]:
    """Return the newest row of each key, also deleted ones. Of equal revisions the later counts."""
    newest: dict[int, Line] = {}
    for line in (line for lines in files for line in lines):
        if line["id"] not in newest or newest[line["id"]]["rev"] <= line["rev"]:
            newest[line["id"]] = line
    return {key: line for key, line in newest.items() if line["what"] != words.delete}


def row_of(line: Line) -> dict[str, Any]:
    return {name: line[name] for name in COLUMNS}


def moment(revision: int) -> datetime:
    return _EPOCH + timedelta(hours=revision)


def write(feed: PlainFeed, folder: Path, prefix: str = "") -> None:
    for number, lines in enumerate(feed.files):
        file = folder / f"{prefix}{number}.{feed.format}"
        match feed.format:
            case "csv":
                _write_csv(file, lines)
            case "json":
                file.write_text("".join(_json(line) + "\n" for line in lines), "utf-8")
            case _:
                types = pa.schema(list(_ARROW.items()))
                pq.write_table(pa.Table.from_pylist(list(lines), types), file)


def _write_csv(file: Path, lines: Sequence[Line]) -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        opened.write(",".join(_ARROW) + "\n")
        for line in lines:
            texts = {**line, "rev": moment(line["rev"]).isoformat(sep=" ")}
            cells = [
                r"\N" if texts[name] is None else '"' + str(texts[name]).replace('"', '""') + '"' for name in _ARROW
            ]
            opened.write(",".join(cells) + "\n")


def _json(line: Line) -> str:
    cells = {name: str(value) if isinstance(value, Decimal) else value for name, value in line.items()}
    return json.dumps({name: value for name, value in cells.items() if value is not None})
