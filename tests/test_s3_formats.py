"""Delta and Hudi tables in a bucket, from a landing folder there, read by other readers than Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from buckets import Buckets
from command_process import CommandProcess, answer, start_process

pytestmark = pytest.mark.spark

SETTINGS = """
[pipeline]
name = "shop"

[source]
kind = "dms"
path = "s3://{bucket}/landing"
timestamp_column = "at"

[target]
kind = "{kind}"
warehouse = "s3://{bucket}/lake"

[tables."shop.item"]
key = ["id"]
columns = {{ id = "int", name = "string", price = "decimal(8,2)" }}
{more}
"""
D = Decimal
LOAD = "2026-11-21 09:00:00,1,a,1.00\n2026-11-21 09:00:00,2,b,2.00\n2026-11-21 09:00:00,3,c,3.00\n"
CHANGES = "U,2026-11-21 10:00:00,2,Köln,3.00\nD,2026-11-21 10:00:01,3,c,3.00\nI,2026-11-21 10:00:02,4,d,4.00\n"
LATE = "U,2026-11-21 09:30:00,2,late,9.00\nU,2026-11-21 09:30:00,1,late,1.50\nU,2026-11-21 09:30:00,3,late,9.00\n"
AFTER = [(1, "late", D("1.50")), (2, "Köln", D("3.00")), (4, "d", D("4.00"))]

Rows = list[tuple[Any, ...]]


@dataclass
class Shop:
    """A settings file for a bucket, its files, and its tables."""

    folder: Path
    bucket: str
    s3: Buckets
    kind: str

    def configure(self, more: str = "") -> None:
        text = SETTINGS.format(bucket=self.bucket, kind=self.kind, more=more)
        (self.folder / "lakeward.toml").write_text(text, "utf-8")

    def put(self, name: str, content: str) -> None:
        self.s3.put(f"s3://{self.bucket}/landing/shop/item/{name}", content)

    def batches(self, process: CommandProcess) -> Sequence[Mapping[str, Any]]:
        """Run once, and return the batches of the table."""
        (table,) = answer(process.call("run", "--once", "--json"))["tables"]
        found: Sequence[Mapping[str, Any]] = table["batches"]
        return found

    def rows(self, process: CommandProcess) -> Rows:
        """Return the rows that a reader other than Spark finds."""
        found = process.read(f"s3://{self.bucket}/lake/shop/item", ("id", "name", "price"))
        return sorted((row[0], row[1], D(row[2])) for row in found)


def shop_of(kind: str, s3: Buckets, folder: Path) -> Shop:
    made = Shop(folder, s3.make(), s3, kind)
    made.configure()
    return made


def lap(shop: Shop, process: CommandProcess) -> None:
    """Run with a full load, changes, and a late file."""
    shop.put("LOAD00000001.csv", LOAD)
    shop.batches(process)
    shop.put("20261121-100000000.csv", CHANGES)
    shop.batches(process)
    shop.put("20261121-093000000.csv", LATE)
    (late,) = shop.batches(process)
    assert late["counts"]["read"] == 3
    assert shop.rows(process) == AFTER


def way_back(shop: Shop, process: CommandProcess) -> None:
    """Show the status, roll back to the first batch, and apply everything again."""
    (status,) = answer(process.call("status", "--json"))["tables"]
    assert status["batch"] == 3
    assert shop.batches(process) == []
    versions = answer(process.call("rollback", "shop.item", "--json"))["versions"]
    first = next(str(version["name"]) for version in versions if version["batch"] == 1)
    answer(process.call("rollback", "shop.item", "--to", first, "--json"))
    assert [row[0] for row in shop.rows(process)] == [1, 2, 3]
    shop.batches(process)
    assert shop.rows(process) == AFTER


def everything_else(shop: Shop, process: CommandProcess) -> None:
    """Hold a row, and run each command that reads, maintains or exports a table."""
    shop.put("20261121-110000000.csv", "U,2026-11-21 11:00:00,4,odd,much\nU,2026-11-21 11:00:00,1,one,1.00\n")
    (planned,) = answer(process.call("plan", "--json"))["tables"]
    assert planned["files"] == ["20261121-110000000.csv"]
    answer(process.call("run", "--once", "--json"), 3)
    (held,) = answer(process.call("quarantine", "list", "--json"), 3)["entries"]
    assert held["key"] == ["4"]
    told = answer(process.call("explain", "shop.item", "2", "--json"))
    assert "Köln" in json.dumps(told, ensure_ascii=False)
    answer(process.call("export", "shop.item", "--to", "out", "--json"))
    assert sorted(pq.read_table(shop.folder / "out")["id"].to_pylist()) == [1, 2, 4]
    answer(process.call("maintain", "--dry-run", "--json"))
    answer(process.call("maintain", "--json"))
    answer(process.call("quarantine", "discard", "shop.item", "4", "--json"))
    shop.batches(process)
    assert shop.rows(process) == [(1, "one", D("1.00")), *AFTER[1:]]


WRITES = """
import sys
from decimal import Decimal

import pyarrow as pa
from deltalake import write_deltalake

from lakeward.adapters.aws.s3.access import find_access, split

schema = pa.schema([("id", pa.int32()), ("name", pa.string()), ("price", pa.decimal128(8, 2))])
rows = [{"id": key, "name": name, "price": Decimal(key)} for key, name in ((1, "a"), (2, "b"), (3, "c"))]
options = dict(find_access().object_store_options(split(sys.argv[1])[0]))
write_deltalake(sys.argv[1], pa.Table.from_pylist(rows, schema), storage_options=options)
"""
"""Writes the rows of the full load as another job does, in a process of its own."""


def logs_and_settings(shop: Shop) -> str:
    """Return the logs and settings of the project."""
    files = [file for file in shop.folder.rglob("*") if file.is_file() and file.suffix in (".log", ".toml")]
    return "".join(file.read_text("utf-8", "replace") for file in files)


@pytest.mark.parametrize("kind", ["delta", pytest.param("hudi", marks=[pytest.mark.hudi, pytest.mark.long])])
def test_a_table_in_a_bucket_is_exact(s3: Buckets, tmp_path: Path, kind: str) -> None:
    shop = shop_of(kind, s3, tmp_path)
    with start_process(tmp_path, kind) as process:
        lap(shop, process)
    assert "secret word" not in logs_and_settings(shop)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", [pytest.param("delta", marks=pytest.mark.lines), pytest.param("hudi", marks=pytest.mark.hudi)]
)
def test_all_commands_work_on_a_table_in_a_bucket(s3: Buckets, tmp_path: Path, kind: str) -> None:
    shop = shop_of(kind, s3, tmp_path)
    with start_process(tmp_path, kind) as process:
        lap(shop, process)
        way_back(shop, process)
        everything_else(shop, process)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["delta", pytest.param("hudi", marks=pytest.mark.hudi)])
def test_a_history_in_a_bucket_is_read_as_of_a_time(s3: Buckets, tmp_path: Path, kind: str) -> None:
    """A late change is spliced in, and the table as of a time has the rows of that time."""
    shop = shop_of(kind, s3, tmp_path)
    shop.configure('mode = "history"\nlateness = "30d"\n')
    every = [(key, "late", price) for key, price in ((1, D("1.50")), (2, D("9.00")), (3, D("9.00")))]
    with start_process(tmp_path, kind) as process:
        for name, content in (
            ("LOAD00000001", LOAD),
            ("20261121-100000000", CHANGES),
            ("20261121-093000000", LATE),
        ):
            shop.put(f"{name}.csv", content)
            shop.batches(process)
        for clock, expected in (("09:45", every), ("10:30", AFTER)):
            found = answer(process.call("as-of", "shop.item", f"2026-11-21T{clock}:00Z", "--json"))["first"]
            assert sorted((row["id"], row["name"], D(row["price"])) for row in found) == expected


@pytest.mark.long
def test_a_delta_table_of_another_job_in_a_bucket_is_adopted(s3: Buckets, tmp_path: Path) -> None:
    shop = shop_of("delta", s3, tmp_path)
    subprocess.run([sys.executable, "-c", WRITES, f"s3://{shop.bucket}/lake/shop/item"], check=True)
    shop.put("LOAD00000001.csv", LOAD)
    shop.put("20261121-100000000.csv", CHANGES)
    with start_process(tmp_path, "delta") as process:
        answer(process.call("adopt", "shop.item", "--from", "LOAD00000001.csv", "--json"))
        assert [row[0] for row in shop.rows(process)] == [1, 2, 3]
        (batch,) = shop.batches(process)
        assert batch["counts"]["read"] == 3
        assert shop.rows(process) == [(1, "a", D("1.00")), *AFTER[1:]]
