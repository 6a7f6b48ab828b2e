"""What a recall reads of the quarantine: keys that are held, and neither texts nor what is settled; no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from explained_lake import ExplainedLake, place
from pyspark.sql import SparkSession

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.adapters.formats.iceberg.side_tables.side_table import IcebergSideTable
from lakeward.adapters.formats.shared.side_tables import quarantine
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Position
from lakeward.core.merge.change_log import Hold, Reason
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type

ORDERS = Dimension(name=TableName("shop", "orders"), schema=Schema((Column("id", Type("bigint")),)), key=("id",))


def row(state: str, number: int, batch: int = 1, key: str | None = None, reason: str = "cast") -> dict[str, Any]:
    since = {quarantine.SINCE: datetime.now(UTC), quarantine.STATE: state, names.TEXT: "x", names.REASON: reason}
    return {**since, quarantine.KEY: key, **place(at(number), batch)}


def at(number: int) -> Position:
    return Position(1, number, number, 1)


def kept_in(folder: Path) -> quarantine.QuarantineTable:
    def no_spark() -> SparkSession:
        pytest.fail("Spark is not needed")

    catalog = IcebergCatalog(IcebergOptions(warehouse="lake"), folder)
    return quarantine.QuarantineTable(ORDERS, partial(IcebergSideTable, catalog, ORDERS.name, no_spark), no_spark)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Sequence[str], int]]:
    """Return the columns and the number of rows of each look at the quarantine."""
    found: list[tuple[Sequence[str], int]] = []
    rows = IcebergSideTable.rows

    def noting(self: IcebergSideTable, condition: str, wanted: Sequence[str]) -> pa.Table:
        given = rows(self, condition, wanted)
        found.append((wanted, given.num_rows))
        return given

    monkeypatch.setattr(IcebergSideTable, "rows", noting)
    return found


def test_only_what_holds_is_read_and_no_text_of_it(tmp_path: Path, read: list[tuple[Sequence[str], int]]) -> None:
    ExplainedLake(tmp_path).quarantine(
        [
            row(quarantine.HELD, 1, key='["1"]'),
            row(quarantine.HELD, 2, key='["2"]'),
            row(quarantine.GIVEN_UP, 2, 2),
            row(quarantine.HELD, 3, key='["3"]'),
            row(quarantine.REPLAYED, 3, 2),
            row(quarantine.HELD, 4, key='["5"]'),
            row(quarantine.HELD_OTHER_KEY, 4, key='["4"]'),
            row(quarantine.REPAIRED, 1, 2),
            *[row(quarantine.FINAL, number, key='["9"]', reason="too_late") for number in range(10, 60)],
            row(quarantine.HELD, 5, 9, key='["6"]'),
        ]
    )
    kept = kept_in(tmp_path)
    assert kept.holds(Progress(batch=2, held=3)) == (
        Hold(at(1), (('["1"]',),), Reason.CAST, 1),
        Hold(at(4), (('["5"]',), ('["4"]',)), Reason.CAST, 1),
    )
    ((wanted, number),) = read
    assert names.TEXT not in wanted
    assert names.DETAIL not in wanted
    assert number == 7


def test_where_no_key_is_held_nothing_is_read(tmp_path: Path, read: list[tuple[Sequence[str], int]]) -> None:
    ExplainedLake(tmp_path).quarantine([row(quarantine.HELD, 1, key='["1"]'), row(quarantine.GIVEN_UP, 1, 2)])
    kept = kept_in(tmp_path)
    assert kept.holds(Progress(batch=2, held=0)) == ()
    assert read == []
