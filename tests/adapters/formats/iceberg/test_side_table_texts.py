"""What stands beside a table takes whatever text a source has: of texts it keeps no bounds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from sparkless import no_spark

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.adapters.formats.iceberg.side_tables.side_table import IcebergSideTable
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import TableName
from lakeward.core.schema import Type

COLUMNS = {names.BATCH: Type("bigint"), "name": Type("string")}
EDGES = ["\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "\x7f", "\xff"]


@pytest.fixture
def side_table(tmp_path: Path) -> IcebergSideTable:
    catalog = IcebergCatalog(IcebergOptions(warehouse="lake"), tmp_path)
    return IcebergSideTable(catalog, TableName("shop", "item"), no_spark, "__quarantine", {}, tuple)


def add(side_table: IcebergSideTable, batch: int, *texts: str) -> None:
    rows = pa.table({names.BATCH: [batch] * len(texts), "name": list(texts)})
    side_table.add(COLUMNS, [], rows, count=len(texts))


def found(side_table: IcebergSideTable) -> list[str]:
    return sorted(row["name"] for row in side_table.rows(f"{names.BATCH} > 0", ["name"]).to_pylist())


@pytest.mark.parametrize("edge", EDGES, ids=[f"U+{ord(edge):04X}" for edge in EDGES])
@pytest.mark.parametrize("before", [0, 15])
def test_a_text_may_be_cut_off_at_any_character(side_table: IcebergSideTable, edge: str, before: int) -> None:
    texts = ["a" * before + edge * (16 - before) + rest for rest in ("", "x")]
    add(side_table, 1, *texts)
    assert found(side_table) == sorted(texts)


def test_a_file_says_still_of_which_batches_its_rows_are(side_table: IcebergSideTable) -> None:
    add(side_table, 1, "a")
    add(side_table, 2, "b")
    table = side_table.load()
    assert table is not None
    assert len(list(table.scan(row_filter=f"{names.BATCH} > 1").plan_files())) == 1


def test_so_does_a_table_of_an_older_lakeward(
    side_table: IcebergSideTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr("lakeward.adapters.formats.iceberg.side_tables.side_table.PROPERTIES", {})
        add(side_table, 1, "a")
    add(side_table, 2, "\ud7ff" * 17)
    assert found(side_table) == ["a", "\ud7ff" * 17]


def test_what_it_has_is_not_given_again(side_table: IcebergSideTable) -> None:
    """Each commit of its metadata takes time of a batch."""
    for batch in (1, 2, 3):
        add(side_table, batch, "a")
    table = side_table.load()
    assert table is not None
    assert len(table.metadata.metadata_log) == 3, "it was made, and written to three times"
