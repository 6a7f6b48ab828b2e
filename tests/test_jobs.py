"""Runs as jobs of AWS Glue and EMR: their arguments, settings and reports in S3, and how they end."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from altering import opened
from buckets import Buckets
from law_sets import on_the_other_line
from project import ITEM, Project
from pyspark.sql import SparkSession
from spark import INTERPRETED, QUICKLY_COMPILED

from lakeward.adapters.spark.session.jars import fetch, locked
from lakeward.entrypoints import glue, job
from lakeward.entrypoints.job import JobFailed

pytestmark = pytest.mark.spark

LOAD, CDC = "LOAD00000001.csv", "20261121-100000000.csv"
OTHER = ITEM.replace("shop.item", "shop.other")


@pytest.mark.usefixtures("active")
def test_a_job_reads_its_settings_from_a_bucket_and_leaves_its_report_there(
    project: Project, s3: Buckets, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed table fails the job by name once all others are done. The state is lost between runs."""
    project.configure(ITEM + OTHER)
    settings = project.folder / "lakeward.toml"
    bucket = s3.make()
    s3.put(f"s3://{bucket}/shop/lakeward.toml", settings.read_bytes())
    settings.unlink()
    project.put(LOAD, "1,a,1.00\n")
    project.put(LOAD, "1,a\n", "shop/other")
    report = f"s3://{bucket}/reports/1.json"
    argv = ["main.py", "--settings", f"s3://{bucket}/shop/lakeward.toml", "--report", report, "--JOB_NAME", "shop"]
    monkeypatch.setattr("sys.argv", [*argv, "--datalake-formats", "iceberg"])
    with pytest.raises(JobFailed, match=r"^shop\.other: .*Nothing of this batch was applied"):
        glue.main()
    found = json.loads(s3.client.get_object(Bucket=bucket, Key="reports/1.json")["Body"].read())
    assert (found["exit_code"], [bool(table["error"]) for table in found["tables"]]) == (4, [False, True])
    (project.folder / "landing/shop/other" / LOAD).unlink()
    for number in range(2):
        for file in (project.folder / "state").glob("ledger*"):
            file.unlink()
        project.put(f"2026112{number}-100000000.csv", f"U,1,b{number},2.00\n")
        ended = job.run([*argv[1:-2], "--correlation_id", f"7f{number}", "--task_id=load"])
        assert (ended["exit_code"], ended["tables"][0]["counts"]["applied"]) == (0, 1)
    assert job.run([*argv[1:-2], "--tables", "shop.item"])["tables"][0]["batch_count"] == 0
    with opened(project, "shop", "item") as table:
        said = [one.summary for one in table.snapshots() if one.summary is not None]
    ids = [(one["lakeward.correlation_id"], one["lakeward.task_id"]) for one in said]
    assert ids == [(None, None), ("7f0", "load"), ("7f1", "load")]
    assert spark.range(1).count() == 1


DEFAULTS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "Asia/Kathmandu",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    **QUICKLY_COMPILED,
    **INTERPRETED,
}
"""Settings with which a platform may start Spark. None of them changes a row."""

LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = info
appender.console.layout.pattern = %X{mdc.dag_name} %c{1} %m%n
"""
"""Shows the ids of the run in the log of Spark. The gateway sets its level in Python."""


@pytest.mark.lines
@on_the_other_line
@pytest.mark.parametrize("project", ["delta"], indirect=True)
def test_a_job_runs_in_a_spark_of_a_platform(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs a process of its own, because Delta's extension and defaults are read when Spark starts."""
    columns = '{ id = "int", name = "string", at = "timestamp", price = "decimal(8,2)" }'
    table = f'[spark]\nsmall_batch = 0\n[tables."shop.item"]\nkey = ["id"]\ncolumns = {columns}\n'
    project.configure(table)
    project.put(LOAD, "1,a,2026-11-01 10:00:00,1.00\n2,b,2026-11-01 10:00:00,0.10\n3,c,2026-11-01 10:00:00,x\n")
    project.put(CDC, "U,1,b,2026-11-02 10:00:00,2.50\n")
    jars = ",".join(str(fetch(jar)) for jar in locked({"delta"}))
    defaults = "".join(f"{name} {value}\n" for name, value in {**DEFAULTS, "spark.jars": jars}.items())
    (project.folder / "conf").mkdir()
    (project.folder / "conf/spark-defaults.conf").write_text(defaults, "utf-8")
    (project.folder / "conf/log4j2.properties").write_text(LOGGING, "utf-8")
    arguments = ["--settings", "lakeward.toml", "--report", "report.json", "--datalake-formats", "delta"]
    ours = ["--JOB_NAME", "shop", "--dag_name", "nightly"]
    command = [sys.executable, "-m", "lakeward.entrypoints.glue", *arguments, *ours]
    monkeypatch.setenv("SPARK_CONF_DIR", str(project.folder / "conf"))
    ended = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "\nnightly Executor Running task" in ended.stderr
    log = project.folder / "lake/shop/item/_delta_log/00000000000000000001.json"
    said = json.loads(log.read_text("utf-8").splitlines()[0])["commitInfo"]["userMetadata"]
    assert json.loads(said)["lakeward.dag_name"] == "nightly"
    report = json.loads((project.folder / "report.json").read_text("utf-8"))
    assert (report["exit_code"], report["tables"][0]["counts"]["quarantined"]) == (3, 1)
    rows = [(i, n, at.isoformat(), str(p)) for i, n, at, p in project.rows(columns=("id", "name", "at", "price"))]
    assert rows == [(1, "b", "2026-11-02T10:00:00+00:00", "2.50"), (2, "b", "2026-11-01T10:00:00+00:00", "0.10")]
