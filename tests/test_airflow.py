"""The example for Airflow: Airflow imports and runs its DAGs in an environment of its own.

The environment is made once, of `requirements/airflow.txt`, which takes the network; Airflow's database is a file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import venv
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import boto3
import pytest
from buckets import ENVIRONMENT, Buckets
from delta_lake import by_duckdb
from moto.glue.models import FakeJob, FakeJobRun
from pages import codes, sections, tables
from repository import ROOT

from lakeward.adapters.spark.session.jars import fetch, locked
from lakeward.entrypoints.runtime.locks.pipeline_lock import locked as locking

pytestmark = [pytest.mark.spark, pytest.mark.long]

LOCK = ROOT / "requirements/airflow.txt"
SETTINGS = """
[pipeline]
name = "shop"
[source]
kind = "dms"
path = "landing"
[target]
kind = "delta"
warehouse = "lake"
[defaults.quarantine]
max_share = 1.0
[tables."shop.item"]
key = ["id"]
columns = { id = "int", price = "decimal(8,2)" }
"""


@pytest.fixture(scope="module")
def airflow() -> str:
    """Return the Python of an environment with what the lock names, and nothing else."""
    folder = ROOT / "build" / f"airflow-{sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    python = folder / "bin/python"
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*command, "--requirement", LOCK], check=True, env={**os.environ, "PYTHONPATH": ""})
        (folder / "installed").touch()
    return str(python)


@dataclass
class Airflow:
    """Airflow with the example in its folder of DAGs. `environment` is that of its processes."""

    python: str
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    printed: str = ""

    def __call__(self, *names: str) -> Any:
        """Run a DAG, or parse all DAGs, and return what the driver writes."""
        found = self.folder / "found.json"
        driver = str(ROOT / "tests/support/airflow_driver.py")
        command = [self.python, driver, str(found), *names]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        ended = subprocess.run(command, cwd=self.folder, env=self.every, check=False, **output)
        self.printed = ended.stdout
        assert ended.returncode == 0, self.printed[-3000:]
        return json.loads(found.read_text("utf-8"))

    @property
    def every(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def ended(self, dag: str, task: str) -> tuple[str, int]:
        """Run a DAG, and return the state and the try number of its one task."""
        made = self(dag)
        return made["tasks"][task]["state"], made["tasks"][task]["tries"]


@pytest.fixture
def home(airflow: str, tmp_path: Path) -> Airflow:
    folder = tmp_path / "airflow"
    folder.mkdir()
    (tmp_path / "lakeward.toml").write_text(SETTINGS, "utf-8")
    (tmp_path / "conf").mkdir()
    jars = ",".join(str(fetch(jar)) for jar in locked({"delta"}))
    defaults = f"spark.master local[1]\nspark.ui.enabled false\nspark.jars {jars}\n"
    (tmp_path / "conf/spark-defaults.conf").write_text(defaults, "utf-8")
    made = Airflow(
        airflow,
        folder,
        {
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples/airflow"),
            "LAKEWARD_PYTHON": sys.executable,
            "LAKEWARD_SETTINGS": str(tmp_path / "lakeward.toml"),
            "LAKEWARD_POLL": "0.1",
            "SPARK_CONF_DIR": str(tmp_path / "conf"),
        },
    )
    command = [airflow, "-m", "airflow", "db", "migrate"]
    subprocess.run(command, check=True, env=made.every, capture_output=True)
    return made


def put(folder: Path, name: str, content: str) -> Path:
    file = folder / "landing/shop/item" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, "utf-8")
    return file


def test_the_dags_are_imported_without_an_error(home: Airflow) -> None:
    found = home()
    assert found["errors"] == {}
    assert {name: made["tasks"] for name, made in found["dags"].items()} == {
        "lakeward_local": {"run": 3},
        "lakeward_maintain": {"maintain": 3},
        "lakeward_glue": {"run": 3},
    }
    assert {made["runs"] for made in found["dags"].values()} == {1}
    listed, _ = tables(sections("docs/how-to/aws/airflow.md")["The DAGs"])
    assert {codes(row["DAG"])[0] for row in listed} == {*found["dags"]}


def test_a_pipeline_is_run_and_each_exit_code_is_a_state_of_its_task(home: Airflow, tmp_path: Path) -> None:
    put(tmp_path, "LOAD00000001.csv", "1,1.00\n2,2.00\n")
    made = home("lakeward_local")
    run = made["tasks"]["run"]
    assert (made["state"], run) == ("success", {"state": "success", "tries": 1, "returned": {"shop.item": 2}})
    logs = sorted((tmp_path / "lake/shop/item/_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in logs[-1].read_text("utf-8").splitlines()]
    ids = json.loads(next(line["commitInfo"]["userMetadata"] for line in lines if "commitInfo" in line))
    found = [ids[f"lakeward.{name}"] for name in ("correlation_id", "dag_name", "task_id")]
    assert found == [made["id"], "lakeward_local", "run"]
    with locking(tmp_path / "state"):
        assert home.ended("lakeward_local", "run") == ("failed", 2), "75 is tried again"
    assert "lakeward run ended with 75. " in home.printed
    put(tmp_path, "20261121-100000000.csv", "U,1,x\n")
    assert home.ended("lakeward_local", "run") == ("failed", 1), "3 needs a person"
    assert "lakeward run ended with 3. " in home.printed
    wrong = put(tmp_path, "20261122-100000000.csv", "U,1\n")
    assert home.ended("lakeward_local", "run") == ("failed", 1), "4 needs a person"
    assert re.search(r"lakeward run ended with 4\. shop\.item: .*20261122", home.printed)
    wrong.unlink()
    home.environment["LAKEWARD_SETTINGS"] = str(tmp_path / "none.toml")
    assert home.ended("lakeward_local", "run") == ("failed", 1), "1 needs a person"
    assert "none.toml does not exist" in home.printed
    home.environment["LAKEWARD_PYTHON"] = "/bin/false"
    assert home.ended("lakeward_local", "run") == ("failed", 2), "nobody knows what became of it"
    assert "the process ended with 1, and left no report" in home.printed


def test_tables_are_maintained_by_a_dag(home: Airflow, tmp_path: Path) -> None:
    put(tmp_path, "LOAD00000001.csv", "1,1.00\n")
    assert home.ended("lakeward_local", "run") == ("success", 1)
    assert home.ended("lakeward_maintain", "maintain") == ("success", 1)
    assert [row["id"] for row in by_duckdb(str(tmp_path / "lake/shop/item")).to_pylist()] == [1]


@dataclass
class Platform:
    """Runs the script of each Glue job run that moto starts, with its arguments, in a process of its own."""

    environment: dict[str, str]
    vectors: list[list[str]] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)
    processes: list[threading.Thread] = field(default_factory=list)
    is_broken: bool = False

    def start(self, run: str, arguments: dict[str, str]) -> None:
        self.vectors.append([word for pair in arguments.items() for word in pair])
        command = [sys.executable, "-m", "lakeward.entrypoints.glue", *self.vectors[-1], "--JOB_NAME", "shop"]

        def commit_batch() -> None:
            command_or_none = ["/bin/false"] if self.is_broken else command
            ended = subprocess.run(command_or_none, env={**os.environ, **self.environment}, check=False)
            self.codes[run] = ended.returncode

        self.processes.append(threading.Thread(target=commit_batch))
        self.processes[-1].start()

    def state(self, run: str) -> str:
        code = self.codes.get(run)
        return "RUNNING" if code is None else "FAILED" if code else "SUCCEEDED"


@pytest.fixture
def platform(s3: Buckets, home: Airflow, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A Glue service of moto that runs its jobs, with an endpoint that Airflow and the job use."""
    of_aws = {**ENVIRONMENT, "AWS_ACCESS_KEY_ID": "test", "AWS_ENDPOINT_URL": s3.endpoint}
    home.environment |= of_aws
    made = Platform(home.environment)
    usual, shown = FakeJob.start_job_run, FakeJobRun.as_dict

    def start_job_run(self: FakeJob, **arguments: Any) -> Any:
        run = usual(self, **arguments)
        made.start(run, arguments["arguments"])
        return run

    monkeypatch.setattr(FakeJob, "start_job_run", start_job_run)
    monkeypatch.setattr(
        FakeJobRun, "as_dict", lambda self: {**shown(self), "JobRunState": made.state(self.job_run_id)}
    )
    for name, value in of_aws.items():
        monkeypatch.setenv(name, value)
    script = {"Name": "glueetl", "ScriptLocation": "s3://jobs/glue.py"}
    boto3.Session().client("glue").create_job(Name="shop", Role="arn:aws:iam::123456789012:role/g", Command=script)
    return made


def test_a_job_of_glue_is_started_and_ends_its_task_as_its_report_says(
    platform: Platform, home: Airflow, s3: Buckets, tmp_path: Path
) -> None:
    bucket = s3.make()
    home.environment["LAKEWARD_REPORTS"] = f"s3://{bucket}/reports"
    put(tmp_path, "LOAD00000001.csv", "1,1.00\n")
    made = home("lakeward_glue")
    run = made["tasks"]["run"]
    assert (run["state"], run["returned"]) == ("success", {"shop.item": 1}), home.printed[-3000:]
    assert platform.vectors[0][8:10] == ["--dag_name", "lakeward_glue"]
    assert s3.keys(bucket) == [f"reports/lakeward_glue/{made['id']}/run-1.json"]
    put(tmp_path, "20261121-100000000.csv", "U,1,x\n")
    assert home.ended("lakeward_glue", "run") == ("failed", 1), "the job succeeded, and its report says 3"
    assert "lakeward run ended with 3. " in home.printed
    platform.is_broken = True
    assert home.ended("lakeward_glue", "run") == ("failed", 2)
    assert "ended as FAILED, and left no report" in home.printed
    for process in platform.processes:
        process.join()
