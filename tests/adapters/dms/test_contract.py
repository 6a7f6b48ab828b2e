"""The source `dms`, held to the kit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from lakeward.adapters import dms
from lakeward.adapters.spark import names
from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.memory import Reason, Reject
from lakeward.core.ports import Source
from lakeward.plugins import Options, Runtime
from lakeward.plugins.testing import Feed, Item, source_contract
from lakeward.plugins.testing.feeds import COLUMNS, EPOCH

pytestmark = pytest.mark.spark

LETTERS = {Operation.INSERT: "I", Operation.UPDATE: "U", Operation.DELETE: "D"}

DMS = {"timestamp_column": "changed"}

NOW = 1_796_083_200_000_000


def feed(
    build: Callable[[Options, Runtime], Source[Any]], options: Mapping[str, Any], spark: SparkSession, folder: Path
) -> Feed:
    """Make a landing folder; a change is a line of CSV with its operation and its time."""
    runtime = Runtime(lambda: spark, folder, state=folder / "state", now=lambda: NOW)
    lines: dict[int, str] = {}

    def put(dimension: Dimension, place: int, items: Sequence[Item]) -> None:
        file = folder / "landing" / dimension.name.schema / dimension.name.table / f"20231114-{place:09}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes("\n".join(["Op,changed,id,a", *map(_line, items), ""]).encode())
        lines.update({item.cells["id"]: _line(item) for item in items if isinstance(item, ChangeEvent)})

    (folder / "landing").mkdir()
    return Feed(
        open=lambda: build({"path": "landing", "formats": {}, **options}, runtime),
        put=put,
        rows=_items,
        texts=lambda frame: {_place(row): row[names.TEXT] or lines[row["id"]] for row in frame.collect()},
    )


def _line(item: Item) -> str:
    at = datetime.fromtimestamp((item.time or 0) / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(item, Reject):
        return f"I,{at},NULL,of nobody"
    return f"{LETTERS[item.operation]},{at},{item.cells['id']},{_field(item.cells['a'])}"


def _field(cell: object) -> str:
    """Return a cell as DMS writes it: a text is quoted where it has to be."""
    if cell is None:
        return "NULL"
    text = str(cell)
    return f'"{text.replace(chr(34), 2 * chr(34))}"' if set(text) & set('",\r\n') else text


def _items(frame: DataFrame) -> Iterable[Item]:
    for row in frame.collect():
        if row[names.REASON] is not None:
            yield Reject(_place(row), Reason(row[names.REASON]), time=row[names.TIME])
            continue
        cells = {name: row[name] for name in COLUMNS.names}
        yield ChangeEvent(
            operation=Operation(row[names.OPERATION]),
            position=_place(row),
            key=() if row["id"] is None else (row["id"],),
            cells=cells,
            time=row[names.TIME],
        )


def _place(row: Row) -> Position:
    """Return a row's place; a frame has no epoch, which is that of its batch (a truncation is of the first)."""
    epoch = 1 if row[names.OPERATION] == "truncate" else EPOCH
    return Position(epoch, int(row[names.SEQUENCE]), row[names.OBJECT], row[names.ROW])


def of_dms(spark: SparkSession, tmp_path: Path) -> Feed:
    """Files of changes as DMS writes them, with a header."""
    return feed(dms.build, DMS, spark, tmp_path)


TestDms = source_contract(of_dms)
