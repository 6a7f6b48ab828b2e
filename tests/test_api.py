"""lakeward as a library: what `plan`, `run` and `status` return, also in a Spark session of the program."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from project import Project
from pyspark.sql import SparkSession
from repository import ROOT

import lakeward
from lakeward.adapters.spark.session.jars import CLASSES, locked
from lakeward.adapters.spark.session.spark_session import Sessions
from lakeward.core.errors import ConfigError, SetupError

pytestmark = pytest.mark.spark

LOAD, CDC = "LOAD00000001.csv", "20261121-100000000.csv"
SETTINGS: dict[str, Any] = {
    "pipeline": {"name": "shop"},
    "source": {"kind": "dms", "path": "landing"},
    "target": {"kind": "iceberg", "warehouse": "lake"},
    "tables": {"shop.item": {"key": ["id"], "columns": {"id": "int", "name": "string", "price": "decimal(8,2)"}}},
}


def test_a_program_gets_what_commands_print(project: Project, spark: SparkSession, active: SparkSession) -> None:
    """With settings as values or as a file, in any thread. The session does not change."""
    project.put(LOAD, "1,a,1.00\n")
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert lakeward.plan(SETTINGS, spark=spark, log="off") == project.call("plan", "--json").document
    with ThreadPoolExecutor(1) as thread:
        ran = thread.submit(lakeward.run, SETTINGS, spark=spark, log="off").result()
    assert (ran["exit_code"], ran["tables"][0]["counts"]["applied"]) == (0, 1)
    assert json.loads(json.dumps(ran)) == ran
    assert lakeward.status(SETTINGS) == project.call("status", "--json").document
    project.put(CDC, "U,1,b,2.00\n")
    assert active._jvm is not None
    active._jvm.SparkSession.setActiveSession(active._jsparkSession)  # a command leaves its own
    ran = lakeward.run(tables=["shop.item"], spark=spark, log="off")
    assert active._jvm.SparkSession.getActiveSession().get().equals(active._jsparkSession)
    printed = project.call("run", "--json").document
    assert ran.keys() == printed.keys()
    assert ran["tables"][0].keys() == printed["tables"][0].keys()
    assert project.rows(columns=("id", "name")) == [(1, "b")]
    assert (spark.conf.get("spark.sql.session.timeZone"), spark.range(3).count()) == (zone, 3)


def test_an_error_that_an_operator_must_fix_is_raised(project: Project, spark: SparkSession) -> None:
    """An error that stops one table is reported for that table."""
    with pytest.raises(ConfigError, match=r"shop\.items"):
        lakeward.run(SETTINGS, ["shop.items"], spark=spark)
    with pytest.raises(ConfigError, match=r"other\.toml does not exist"):
        lakeward.status("other.toml")
    with pytest.raises(SetupError, match="Spark Connect"):
        lakeward.plan(SETTINGS, spark=cast("SparkSession", SimpleNamespace()))
    with pytest.raises(AttributeError, match="'follow'"):
        lakeward.follow  # type: ignore[attr-defined]  # noqa: B018
    project.put(LOAD, "1,a\n")
    failed = lakeward.run(SETTINGS, spark=spark, log="off")
    assert (failed["exit_code"], failed["tables"][0]["error"]["kind"]) == (4, "SchemaConflict")


def test_a_spark_without_a_needed_part_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Sessions({"iceberg", "sqlite", "group:artifact:1@0"}, {}, tmp_path / "log")().range(1).count() == 1
    monkeypatch.setitem(cast("dict[str, str]", CLASSES), "sqlite", "org.nobody.Driver")
    with pytest.raises(SetupError, match="Spark was started without sqlite") as lacking:
        Sessions({"iceberg", "sqlite"}, {}, tmp_path / "log")()
    assert lacking.value.found == "its class path lacks org.nobody.Driver"
    monkeypatch.setitem(cast("dict[str, str]", CLASSES), "mariadb", "org.nobody.Driver")
    driver = next(jar.request for jar in locked() if jar.needed_by == "mariadb")
    with pytest.raises(SetupError, match="Spark was started without mariadb"):
        Sessions({"iceberg", driver}, {}, tmp_path / "log")()


@pytest.mark.lines
def test_the_notebook_runs_in_an_existing_session(project: Project, spark: SparkSession) -> None:
    namespace: dict[str, Any] = {"spark": spark}
    run_cells(namespace)
    assert namespace["planned"]["tables"][0]["written"] == 1
    assert namespace["rows"] == [{"id": 2, "name": "Bob", "city": "Oslo"}]
    assert spark.range(1).count() == 1


def run_cells(namespace: dict[str, Any]) -> None:
    """Run the cells of the notebook like its kernel: one after the other, in one namespace."""
    notebook = json.loads((ROOT / "docs/start/notebook.ipynb").read_text("utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), namespace)  # noqa: S102  # our own example
