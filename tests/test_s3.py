"""A pipeline from a bucket into a bucket. What starts Spark runs in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from buckets import Buckets
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from spark import QUICK

from lakeward.entrypoints.cli import main

SETTINGS = """
[pipeline]
name = "shop"

[source]
kind = "dms"
path = "s3://{bucket}/landing"
timestamp_column = "at"
landing = "archived"
archive = "s3://{bucket}/backup"

[target]
kind = "iceberg"
warehouse = "s3://{bucket}/lake"

[spark]
settings = {{ {quick} }}

[tables."shop.item"]
key = ["id"]
columns = {{ id = "int", name = "string", price = "decimal(8,2)" }}
{more}
"""
LANDING = "landing/shop/item"
MANY = 31
"""The number of files above which Spark lists S3 in parallel."""


@dataclass
class Pipeline:
    """A settings file for a bucket, and the output of commands."""

    folder: Path
    bucket: str
    s3: Buckets
    capsys: pytest.CaptureFixture[str]

    def configure(self, bucket: str = "", more: str = "") -> None:
        text = SETTINGS.format(bucket=bucket or self.bucket, quick=QUICK, more=more)
        (self.folder / "lakeward.toml").write_text(text, "utf-8")

    def put(self, name: str, content: str) -> None:
        self.s3.put(f"s3://{self.bucket}/{LANDING}/{name}", content)

    def call_here(self, *arguments: str) -> tuple[int, Any]:
        self.capsys.readouterr()
        code = main([*arguments, "--json"])
        return code, json.loads(self.capsys.readouterr().out)

    def call(self, *arguments: str, **environment: str) -> tuple[int, Any]:
        self.s3.requests.clear()
        ended = subprocess.run(
            [Path(sys.executable).with_name("lakeward"), *arguments, "--json"],
            cwd=self.folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=800,
        )
        assert ended.stdout, ended.stderr
        return ended.returncode, json.loads(ended.stdout)

    def catalog(self) -> Catalog:
        uri = f"sqlite:///{self.folder}/catalog.db"
        properties = {"s3.endpoint": self.s3.endpoint, "s3.region": "eu-central-1"}
        return load_catalog("lake", type="sql", uri=uri, warehouse=f"s3://{self.bucket}/lake", **properties)

    def table(self) -> Table:
        return self.catalog().load_table("shop.item")

    def rows(self) -> list[tuple[Any, ...]]:
        found = self.table().scan(selected_fields=("id", "name", "price")).to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in found)


@pytest.fixture
def pipeline(
    s3: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Pipeline:
    monkeypatch.delenv("LAKEWARD_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    made = Pipeline(tmp_path, s3.make(), s3, capsys)
    made.configure()
    return made


@pytest.mark.spark
def test_a_feed_in_a_bucket_becomes_a_table_in_a_bucket_and_nothing_is_read_twice(pipeline: Pipeline) -> None:
    pipeline.put("LOAD00000001.csv", "2026-11-21 09:00:00,1,a,1.00\n2026-11-21 09:00:00,2,b,2.00\n")
    pipeline.put("20261121-100000000.csv", "U,2026-11-21 10:00:00,2,Köln,3.00\nI,2026-11-21 10:00:01,3,c,4.00\n")
    for number in range(MANY):
        pipeline.put(f"20261121-1100000{number:02}.csv", f"U,2026-11-21 11:00:{number:02},1,{number},1.00\n")
    code, said = pipeline.call("run", "--once")
    assert code == 0, said
    last = str(MANY - 1)
    assert pipeline.rows() == [(1, last, Decimal("1.00")), (2, "Köln", Decimal("3.00")), (3, "c", Decimal("4.00"))]
    for name in ("LOAD00000001.csv", "20261121-100000000.csv", "20261121-110000007.csv"):
        landed = [r for r in pipeline.s3.requests if r.method == "GET" and r.path.endswith(f"{LANDING}/{name}")]
        assert len(landed) == 2, "its head, and Spark"
    backup = [key for key in pipeline.s3.keys(pipeline.bucket) if key.startswith("backup/")]
    assert [len(backup), backup[0], backup[-1]] == [
        MANY + 2,
        "backup/shop/item/20261121-100000000.csv",
        "backup/shop/item/LOAD00000001.csv",
    ]
    _check_files(pipeline)

    code, said = pipeline.call("run", "--once")
    assert (code, said["tables"][0]["batches"]) == (0, [])
    touched = [request for request in pipeline.s3.requests if "landing" in request.path or "backup" in request.path]
    assert touched == []
    whole = [r for r in pipeline.s3.listings("landing/shop/item/") if r.asked.get("max-keys") != "1"]
    assert len(whole) <= 1
    assert not [r for r in pipeline.s3.requests if r.method not in ("GET", "HEAD")]


def _check_files(pipeline: Pipeline) -> None:
    """Read the data files like any reader of Parquet."""
    host = pipeline.s3.endpoint.removeprefix("http://")
    files = pafs.S3FileSystem(endpoint_override=host, scheme="http", region="eu-central-1")
    paths = [task.file.file_path for task in pipeline.table().scan().plan_files()]
    assert all(path.startswith(f"s3://{pipeline.bucket}/lake/shop/item/data/") for path in paths)
    found = [pq.read_table(path.removeprefix("s3://"), filesystem=files) for path in paths]
    assert sum(map(len, found)) >= 3


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}, 75, "S3 does not answer"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, 4, "there are no credentials"),
    ],
)
def test_the_kind_of_s3_error_decides_the_exit_code(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], code: int, words: str
) -> None:
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    ended, said = pipeline.call_here("run", "--once")
    assert ended == code
    assert words in said["tables"][0]["error"]["what"]


def test_a_missing_bucket_is_reported_and_nothing_is_created(pipeline: Pipeline) -> None:
    pipeline.configure("no-such-bucket")
    code, said = pipeline.call_here("run", "--once")
    assert code == 4
    assert said["tables"][0]["error"]["what"] == "the bucket no-such-bucket does not exist"
    assert not (pipeline.folder / "catalog.db").exists()


def test_a_status_of_a_bucket_starts_no_java(pipeline: Pipeline) -> None:
    code, said = pipeline.call("status", JAVA_HOME="/nowhere")
    assert code == 0, said


def test_init_inspects_a_bucket(pipeline: Pipeline) -> None:
    """It finds tables of DMS and plain ones. An empty folder or a missing bucket is reported."""
    pipeline.put("LOAD00000001.csv", "id,name\n1,one\n")
    pipeline.put("20261121-100000000.csv", "Op,id,name\nU,1,uno\n")
    code, output = pipeline.call_here("init", f"s3://{pipeline.bucket}/landing", "--config", "proposed.toml")
    assert (code, [table["table"] for table in output["tables"]]) == (0, ["shop.item"])
    proposed = tomllib.loads((pipeline.folder / "proposed.toml").read_text("utf-8"))
    assert proposed["source"]["path"] == f"s3://{pipeline.bucket}/landing"
    assert proposed["tables"]["shop.item"]["columns"] == {"id": "bigint", "name": "string"}
    pipeline.s3.put(f"s3://{pipeline.bucket}/export/sales/line/a.jsonl", '{"id": 1}\n')
    code, output = pipeline.call_here("init", f"s3://{pipeline.bucket}/export", "--config", "plain.toml")
    assert (code, [table["table"] for table in output["tables"]]) == (0, ["sales.line"])
    code, output = pipeline.call_here("init", f"s3://{pipeline.bucket}/nothing", "--config", "none.toml")
    assert (code, "has no files of a source" in output["error"]["what"]) == (1, True)
    code, output = pipeline.call_here("init", "s3://no-such-bucket/landing", "--config", "none.toml")
    assert code == 1
    assert "no-such-bucket" in output["error"]["what"] + str(output["error"]["found"])
    assert not (pipeline.folder / "none.toml").exists()


TRANSACTIONS = """
cdc_path = "cdc"
staging = "s3://{bucket}/staging"
"""


@pytest.mark.spark
@pytest.mark.long
def test_rows_of_files_of_transactions_are_staged_in_a_bucket_by_spark(pipeline: Pipeline) -> None:
    """Spark writes and reads them through S3A. Files that every table has applied are gone after the run."""
    settings = SETTINGS.replace('timestamp_column = "at"', TRANSACTIONS)
    other = '[tables."shop.other"]\nkey = ["id"]\ncolumns = { id = "int", name = "string" }\n'
    text = settings.format(bucket=pipeline.bucket, quick=QUICK, more=other)
    (pipeline.folder / "lakeward.toml").write_text(text, "utf-8")
    pipeline.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n")
    pipeline.s3.put(f"s3://{pipeline.bucket}/landing/shop/other/LOAD00000001.csv", "1,x\n")
    rows = "U,item,shop,2,Köln,3.00\nI,other,shop,2,y\nI,item,shop,3,c,4.00\n"
    pipeline.s3.put(f"s3://{pipeline.bucket}/landing/cdc/CDC_TXN-20261121100000000.csv", rows)
    code, said = pipeline.call("run", "--once")
    assert code == 0, said
    assert pipeline.rows() == [(1, "a", Decimal(1)), (2, "Köln", Decimal(3)), (3, "c", Decimal(4))]
    below = f"/{pipeline.bucket}/staging/shop/dms/"
    written = {one.method for one in pipeline.s3.requests if one.path.startswith(below)}
    assert {"PUT", "GET"} <= written
    assert [key for key in pipeline.s3.keys(pipeline.bucket) if key.startswith("staging")] == []
    assert not [*(pipeline.folder / "state" / "staged").glob("*/part=*")]


LOAD = "".join(f"2026-11-21 09:00:00,{key},{name},{key}.00\n" for key, name in ((1, "a"), (2, "b")))


@pytest.mark.spark
@pytest.mark.long
def test_a_history_in_a_bucket_is_read_as_of_a_time(pipeline: Pipeline) -> None:
    pipeline.configure(more='mode = "history"\nlateness = "30d"\n')
    pipeline.put("LOAD00000001.csv", LOAD)
    pipeline.put("20261121-100000000.csv", "U,2026-11-21 10:00:00,2,Köln,3.00\nD,2026-11-21 10:00:01,1,a,1.00\n")
    pipeline.call("run", "--once")
    pipeline.put("20261121-093000000.csv", "U,2026-11-21 09:30:00,2,late,9.00\n")
    code, said = pipeline.call("run", "--once")
    assert code == 0, said
    for clock, expected in (("09:15", {1: "a", 2: "b"}), ("09:45", {1: "a", 2: "late"}), ("10:30", {2: "Köln"})):
        code, output = pipeline.call("as-of", "shop.item", f"2026-11-21T{clock}:00Z")
        assert (code, {row["id"]: row["name"] for row in output["first"]}) == (0, expected)


@pytest.mark.spark
@pytest.mark.long
def test_a_table_of_another_job_in_a_bucket_is_adopted(pipeline: Pipeline) -> None:
    catalog = pipeline.catalog()
    catalog.create_namespace("shop")
    schema = pa.schema([("id", pa.int32()), ("name", pa.string()), ("price", pa.decimal128(8, 2))])
    rows = [{"id": key, "name": name, "price": Decimal(key)} for key, name in ((1, "a"), (2, "b"))]
    catalog.create_table("shop.item", schema).append(pa.Table.from_pylist(rows, schema))
    pipeline.put("LOAD00000001.csv", LOAD)
    pipeline.put("20261121-100000000.csv", "U,2026-11-21 10:00:00,2,Köln,3.00\nI,2026-11-21 10:00:01,3,c,4.00\n")
    code, output = pipeline.call("adopt", "shop.item", "--from", "LOAD00000001.csv")
    assert code == 0, output
    code, said = pipeline.call("run", "--once")
    assert (code, said["tables"][0]["batches"][0]["counts"]["read"]) == (0, 2)
    assert pipeline.rows() == [(1, "a", Decimal(1)), (2, "Köln", Decimal(3)), (3, "c", Decimal(4))]
