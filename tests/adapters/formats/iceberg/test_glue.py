"""Tables in the Glue Data Catalog, by processes of their own: its jar has another SDK than that of S3 alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from buckets import Buckets
from pyiceberg.catalog import Catalog, load_catalog

pytestmark = [pytest.mark.spark, pytest.mark.long]

SETTINGS = """
[pipeline]
name = "shop"
[source]
kind = "dms"
path = "{landing}"
[target]
kind = "iceberg"
catalog = "glue"
warehouse = "s3://{bucket}/tables"
[tables."shop.item"]
key = ["id"]
columns = {{ id = "int", name = "string" }}
"""


class Host:
    """A machine that shares the landing folder and the catalog with others, and no folder `state`."""

    def __init__(self, folder: Path, settings: str) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "lakeward.toml").write_text(settings, "utf-8")

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Run once, at the same time as others; it has ended with the context."""
        command = [sys.executable, "-m", "lakeward.entrypoints.cli", "run", "--once", "--json"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True) as process:
            yield process

    def run(self) -> Any:
        with self.running() as process:
            return ended(process)


def ended(process: subprocess.Popen[str]) -> tuple[int, Any]:
    out, _ = process.communicate()
    (table,) = json.loads(out)["tables"]
    return process.returncode, table


@pytest.fixture
def aws(s3: Buckets, monkeypatch: pytest.MonkeyPatch) -> Buckets:
    """Return AWS, which all processes of a test ask; only S3 takes a key with blanks, which tells tests apart."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    return s3


def glue(aws: Buckets) -> Catalog:
    own = {"s3.endpoint": aws.endpoint, "s3.region": "eu-central-1", "glue.endpoint": aws.endpoint}
    return load_catalog("lake", type="glue", **own)


def test_two_hosts_and_another_writer_commit_through_glue(aws: Buckets, tmp_path: Path) -> None:
    landing = tmp_path / "landing/shop/item"
    landing.mkdir(parents=True)
    settings = SETTINGS.format(landing=tmp_path / "landing", bucket=aws.make())
    hosts = [Host(tmp_path / name, settings) for name in ("one", "two")]
    (landing / "LOAD00000001.csv").write_text("1,a\n2,b\n", "utf-8")
    assert hosts[0].run()[0] == 0
    catalog = glue(aws)
    for batch in range(2, 4):
        rows = "".join(f"I,{100 * batch + row},new\n" for row in range(10))
        (landing / f"2026112{batch}-100000000.csv").write_text(f"{rows}U,1,b{batch}\n", "utf-8")
        with hosts[0].running() as one, hosts[1].running() as two:
            table = catalog.load_table(("shop", "item"))
            with table.transaction() as transaction:
                transaction.set_properties({"of.another": str(batch)})
            codes = {ended(one)[0], ended(two)[0]}
        assert codes <= {0, 75}, "who loses the race may run again"
        assert hosts[1].run()[0] == 0
    table = catalog.load_table(("shop", "item"))
    found = {row["id"]: row["name"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {1: "b3", 2: "b", **{100 * batch + row: "new" for batch in (2, 3) for row in range(10)}}
    assert table.properties["of.another"] == "3"
    told = [json.loads(one.summary["lakeward.progress"] or "") for one in table.snapshots() if one.summary]
    assert [one["batch"] for one in told] == [1, 2, 3]
