"""Files in a landing folder as a feed of the kit: written objects, and rows of the read frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from feed_reader import rows_of
from pyspark.sql import SparkSession

from lakeward.adapters.spark.frames.event_frame import SKIPPED
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, Snapshots
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.ports import Source
from lakeward.core.schema import Column
from lakeward.plugins import Options, Runtime
from lakeward.plugins.testing import Feed, Item
from lakeward.plugins.testing.feeds import COLUMNS, EPOCH

LETTERS: Final = {Operation.READ: "I", Operation.INSERT: "I", Operation.UPDATE: "U", Operation.DELETE: "D"}

NOW: Final = 1_796_083_200_000_000

Line = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Form:
    """The form of files: their names by place, a row as a line, and lines as a file.

    Files of a full load have the names `load`, if they differ, and lack the column `lacks`. With
    `snapshots` the table has these. It has columns `beside` those of the kit, each with its
    text in a row. With `has_log` the sequence of a row is its log position.
    """

    name: Callable[[int], str]
    line: Callable[[Item], Line]
    write: Callable[[Sequence[Line]], bytes]
    load: Callable[[int], str] | None = None
    lacks: str | None = None
    snapshots: Snapshots | None = None
    beside: Mapping[Column, Callable[[Item], str]] = field(default_factory=dict)
    has_log: bool = False


def feed(
    build: Callable[[Options, Runtime], Source[Any]],
    options: Mapping[str, Any],
    form: Form,
    spark: SparkSession,
    folder: Path,
) -> Feed:
    """Make a landing folder without files."""
    runtime = Runtime(lambda: spark, folder, state=folder / "state", now=lambda: NOW)

    def write(dimension: Dimension, name: str, lines: Sequence[Line]) -> None:
        file = folder / "landing" / dimension.name.schema / dimension.name.table / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(form.write(lines))

    def put(dimension: Dimension, place: int, items: Sequence[Item]) -> None:
        write(dimension, form.name(place), [form.line(item) for item in items])

    def put_load(dimension: Dimension, place: int, items: Sequence[Item]) -> None:
        lines = [{name: cell for name, cell in form.line(i).items() if name != form.lacks} for i in items]
        write(dimension, (form.load or form.name)(place), lines)

    def put_named(dimension: Dimension, place: int, items: Sequence[Item], names: Mapping[str, str]) -> None:
        write(dimension, form.name(place), [_named(form.line(item), names) for item in items])

    (folder / "landing").mkdir()
    return Feed(
        open=lambda: build({"path": "landing", "formats": {}, **options}, runtime),
        put=put,
        rows=_items,
        texts=lambda frame: {_place(row): row[names.TEXT] for row in rows_of(frame)},
        beside=form.beside,
        put_load=put_load,
        put_named=put_named,
        snapshots=form.snapshots,
        has_log=form.has_log,
    )


def _named(line: Line, names: Mapping[str, str]) -> Line:
    """Return a row with other names of the kit's columns, in another order after those of the form."""
    extra_cells = {name: cell for name, cell in line.items() if name not in COLUMNS.names}
    return {**extra_cells, **{name: line[own] for name, own in names.items()}}


def letter(item: Item) -> str:
    """Return the operation of a row. One without a key is an insert."""
    return "I" if isinstance(item, Reject) else LETTERS[item.operation]


def own(item: Item) -> Line:
    if isinstance(item, Reject):
        return {"id": None, "a": "of nobody"}
    return {name: item.cells[name] for name in COLUMNS.names}


def moment(item: Item) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=item.time or 0)


def written(item: Item) -> str:
    """Return the time of a row as a text, in UTC."""
    return moment(item).strftime("%Y-%m-%d %H:%M:%S.%f")


def csv(lines: Sequence[Line], null: str, quotes: Callable[[str], bool]) -> bytes:
    """Return a file of CSV with a header, in which those texts are quoted."""

    def cell(value: object) -> str:
        text = null if value is None else str(value)
        return f'"{text.replace(chr(34), 2 * chr(34))}"' if value is not None and quotes(text) else text

    rows = [",".join(map(cell, line.values())) for line in lines]
    return "\n".join([",".join(lines[0]), *rows, ""]).encode()


def parquet(lines: Sequence[Line], types: Mapping[str, pa.DataType]) -> bytes:
    file = pa.BufferOutputStream()
    schema = pa.schema([(name, types.get(name, pa.string())) for name in lines[0]])
    pq.write_table(pa.Table.from_pylist([*lines], schema), file)
    return bytes(file.getvalue())


def _items(frame: Frame) -> Iterable[Item]:
    for row in rows_of(frame):
        if row[names.REASON] == SKIPPED:
            continue
        if row[names.REASON] is not None:
            yield Reject(_place(row), Reason(row[names.REASON]), time=row[names.TIME])
            continue
        yield ChangeEvent(
            operation=Operation(row[names.OPERATION]),
            position=_place(row),
            key=() if row["id"] is None else (row["id"],),
            cells={name: row[name] for name in COLUMNS.names},
            time=row[names.TIME],
        )


def _place(row: Mapping[str, Any]) -> Position:
    """Return the position of a row. A frame has no epoch: it is that of its batch, or 1 for a truncation."""
    epoch = 1 if row[names.OPERATION] == "truncate" else EPOCH
    return Position(epoch, int(row[names.SEQUENCE]), row[names.OBJECT], row[names.ROW])
