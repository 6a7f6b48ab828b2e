"""`lakeward export`, of tables in plain Python: what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commands import Command
from projects import MEMORY, ORDERS, write
from small_history import HISTORY

from lakeward.adapters.memory import MemoryTable, MemoryTarget
from lakeward.core.errors import TableError


def test_the_rows_of_a_mirror_are_written_in_place_of_those_before(
    lakeward: Command, kept_lake: MemoryTarget, tmp_path: Path
) -> None:
    write(tmp_path, MEMORY.replace('[source]\nkind = "memory"', '[source]\nkind = "shop"'), ORDERS)
    lakeward("run", "--once")
    for _ in range(2):
        document = lakeward("export", "shop.orders", "--to", "rows", "--json").document
        assert (document["rows"], document["to"], document["exit_code"]) == (2, f"{tmp_path}/rows", 0)
        assert pq.read_table(tmp_path / "rows")["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["shop.customer", "--to", "rows"], 1, "shop.customer: nothing was applied yet, so there is nothing to"),
        (["shop.customer", "--to", "lakeward.toml"], 1, "lakeward.toml cannot be replaced"),
        (["shop.customer", "--to", "s3://lake/rows"], 1, "s3://lake/rows is not a folder on this machine"),
        (["shop.customer"], 2, "Missing option '--to'"),
    ],
)
def test_what_cannot_be_written_is_said(
    lakeward: Command, kept_lake: MemoryTarget, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    write(tmp_path, MEMORY, HISTORY)
    before = sorted(tmp_path.rglob("*"))
    ended = lakeward("export", *words)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert sorted(tmp_path.rglob("*")) == before


def test_all_versions_of_a_history_are_written_and_stay_where_the_table_cannot_be_read(
    lakeward: Command, kept_history: MemoryTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = lakeward("export", "shop.customer", "--to", "rows")
    assert (ended.code, ended.out) == (0, f"24 rows of shop.customer: {tmp_path}/rows\n")

    def fails(*_: object) -> int:
        raise TableError("shop.customer: the table cannot be read")

    monkeypatch.setattr(MemoryTable, "write", fails)
    ended = lakeward("export", "shop.customer", "--to", "rows")
    assert (ended.code, ended.err) == (1, "error: shop.customer: the table cannot be read\n")
    assert pq.read_table(tmp_path / "rows")["city"].to_pylist() == ["Bonn", "Ulm"] * 12, "all versions"
