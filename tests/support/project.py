"""A project: landing folder, settings and lake. Commands run in the Spark session of the tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import outside
import pytest
from commands import Ended
from delta_lake import by_duckdb
from hudi_lake import by_hudi_rs
from pyspark.sql import SparkSession

from lakeward.entrypoints import container
from lakeward.entrypoints.cli import main

SETTINGS = """
[pipeline]
name = "shop"

[source]
kind = "{source_kind}"
path = "landing"
{source}

[target]
kind = "{kind}"
warehouse = "lake"
{target}

[defaults.quarantine]
max_share = 1.0

{tables}
"""
"""Files of tests are small, so even a file whose rows are all refused goes into quarantine."""

ITEM = """
[tables."shop.item"]
key = ["id"]
columns = { id = "int", name = "string", price = "decimal(8,2)" }
"""


NOW = 1_796_083_200_000_000
"""The clock of a project, 2026-12-01 in microseconds, which is after nearly all commit times of the tests."""


@dataclass
class Project:
    """A folder with settings, and the output of commands in it."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    kind: str = "iceberg"

    def configure(
        self, tables: str = ITEM, source: str = "", target: str = "", *, source_kind: str = "dms"
    ) -> None:
        text = SETTINGS.format(kind=self.kind, tables=tables, source=source, target=target, source_kind=source_kind)
        (self.folder / "lakeward.toml").write_text(text, "utf-8")
        (self.folder / "landing").mkdir(exist_ok=True)

    def put(self, name: str, content: str | bytes, table: str = "shop/item") -> Path:
        file = self.folder / "landing" / table / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def call(self, *arguments: str) -> Ended:
        self.capsys.readouterr()
        code = main(arguments)
        printed = self.capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    def run(self, code: int = 0) -> dict[str, Any]:
        """Run once, and return the result of each table."""
        ended = self.call("run", "--once", "--json")
        assert ended.code == code, ended.out + ended.err
        return {table["table"]: table for table in ended.document["tables"]}

    def fails(self, table: str = "shop.item", code: int = 4) -> str:
        """Run once, and return the error of the table, which must say what to do."""
        error = self.run(code)[table]["error"]
        assert error["todo"]
        return f"{error['what']} | {error['found']} | {error['todo']}"

    def rows(self, table: str = "item", namespace: str = "shop", columns: tuple[str, ...] = ()) -> list[Any]:
        """Return the rows that a reader other than Spark finds, sorted."""
        return sorted(self.read(table, namespace, columns))

    def read(self, table: str, namespace: str, columns: tuple[str, ...] = ()) -> list[Any]:
        """Return the rows unsorted, because some values cannot be compared."""
        names = columns or ("id", "name", "price")
        lake = self.folder / "lake"
        if self.kind == "delta":
            rows = by_duckdb(str(lake / namespace / table)).to_pylist()
        elif self.kind == "hudi":
            rows = by_hudi_rs(lake / namespace / table).to_pylist()
        else:
            rows = outside.by_pyiceberg(lake, namespace, table, names).to_pylist()
        return [tuple(row[name] for name in names) for row in rows]

    def entries(self) -> list[Any]:
        return list(self.call("quarantine", "list", "--json").document["entries"])


any_kind = pytest.mark.parametrize(
    "project",
    [
        "iceberg",
        pytest.param("delta", marks=pytest.mark.long),
        pytest.param("hudi", marks=[pytest.mark.long, pytest.mark.hudi]),
    ],
    indirect=True,
)
"""On Iceberg in the gate, and long on the others: for tests of code that formats share."""


iceberg_and_delta = pytest.mark.parametrize(
    "project", ["iceberg", pytest.param("delta", marks=pytest.mark.long)], indirect=True
)
"""On Iceberg in the gate, and long on Delta Lake: for tests of sources."""


@pytest.fixture
def project(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Project:
    """Return a project in an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEWARD_CONFIG", raising=False)
    monkeypatch.setattr(container, "clock", lambda: NOW)
    made = Project(tmp_path, capsys, getattr(request, "param", "iceberg"))
    made.configure()
    return made
