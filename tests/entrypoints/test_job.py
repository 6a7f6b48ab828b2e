"""What a job of a platform is asked for: its arguments, in the forms in which platforms hand them on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from buckets import Buckets
from projects import DMS, ORDERS, write

from lakeward.core.errors import ConfigError
from lakeward.entrypoints import emr, glue, job
from lakeward.entrypoints.job import JobFailed, read_arguments, tables_that_read
from lakeward.entrypoints.startup.context import open_settings

OF_GLUE = [
    *("--job-bookmark-option", "job-bookmark-disable", "--TempDir", "s3://tmp/", "--enable-metrics"),
    *("--datalake-formats", "delta,iceberg", "--JOB_ID", "j_1", "--JOB_RUN_ID", "jr_1", "--JOB_NAME", "shop"),
    *("--enable-s3-parquet-optimized-committer", "true", "--enable-lakeformation-fine-grained-access", "true"),
    *("--enable-continuous-cloudwatch-log=true", "--settings", "s3://shop/lakeward.toml"),
    *("--python-modules-installer-option", "--no-index --no-deps"),
    *("--tables", "shop.item,shop.order", "--correlation_id=7f", "--max-minutes", "9.5"),
]


def test_arguments_are_read_as_platforms_write_them() -> None:
    conf = ["--conf", "spark.a=1 --conf spark.b=2"]
    request = read_arguments([*OF_GLUE, *conf], glue.RESERVED)
    expected = ("s3://shop/lakeward.toml", ["shop.item", "shop.order"], 9.5)
    assert (request.settings, request.tables, request.max_minutes) == expected
    assert (request.formats, request.run_ids) == ({"delta", "iceberg"}, {"correlation_id": "7f"})
    pip = ["--python-modules-installer-option", "--no-index"]
    assert read_arguments([*pip, "--JOB_NAME", "shop", "--settings=a.toml"], glue.RESERVED).settings == "a.toml"
    with pytest.raises(ConfigError, match="unknown argument --no-deps"):
        read_arguments([*pip, "--no-deps", "--settings=a.toml"], glue.RESERVED)
    named = read_arguments(["--settings=a.toml", "--dag_name", "d", "--task_id", "t", "--report", "r.json"])
    assert (named.settings, named.report, named.formats) == ("a.toml", "r.json", None)
    assert named.run_ids == {"dag_name": "d", "task_id": "t"}
    assert read_arguments(["--settings=a.toml", "--object=s3://a/b"]).object == "s3://a/b"


OF_A_BUCKET = """
[pipeline]
name = "shop"
[source]
kind = "dms"
path = "s3://shop-landing/dms"
[target]
kind = "memory"
[tables."shop.item"]
key = ["id"]
columns = { id = "int" }
[tables."shop.kept"]
reads = "shop.item"
mode = "history"
key = ["id"]
columns = { id = "int" }
[tables."shop.order"]
key = ["id"]
columns = { id = "int" }
"""


def test_an_object_names_the_tables_that_read_it(s3: Buckets, tmp_path: Path) -> None:
    file = tmp_path / "lakeward.toml"
    file.write_text(OF_A_BUCKET, "utf-8")
    configured = open_settings(file)
    changes = "s3://shop-landing/dms/shop/item/20261121-100000000.csv"
    assert tables_that_read(configured, changes) == ["shop.item", "shop.kept"]
    for other in (changes.replace("item", "lines"), changes.replace("shop-landing", "else"), "a"):
        with pytest.raises(ConfigError, match=f"no table reads {other}"):
            tables_that_read(configured, other)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--setting", "a.toml"], "required: --settings"),
        (["--settings", "a.toml", "--table", "shop.item"], "unknown argument --table"),
        (["--settings", "a.toml", "--max-minutes", "soon"], "--max-minutes: 'soon' is not a number of minutes"),
        (["--settings", "a.toml", "--JOB_NAME", "shop"], "unknown argument --JOB_NAME"),
        (["--settings"], "expected one argument"),
        (["--settings", "a.toml", "--tables", "shop.item", "shop.other"], "unknown argument shop.other"),
        (["--settings", "a.toml", "--python-modules-installer-option", "-r"], "argument --python"),
        (["--settings", "a.toml", "-x"], "unknown argument -x"),
        (["--settings", "a.toml", "--object", "s3://a/b", "--tables", "shop.item"], "do not go together"),
        (["--settings", "a.toml", "--max-minutes", "nan"], "'nan' is not a number of minutes above 0"),
        (["--settings", "a.toml", "--max-minutes", "0"], "'0' is not a number of minutes above 0"),
        (["--settings", "a.toml", "--command", "statsu"], "there is no job for the command 'statsu'"),
        (["--settings", "a.toml", "--command", "demo"], "there is no job for the command 'demo'"),
        (["--settings", "a.toml", "--command", "status", "--max-minutes", "3"], "unknown argument --max-minutes"),
        (["--settings", "a.toml", "--command", "status", "--object", "s3://a/b"], "unknown argument --object"),
        (["--settings", "a.toml", "--command", "ack", "--table", "shop.a"], "required: --alarm"),
        (["--settings", "a.toml", "--command", "maintain", "--dry-run", "perhaps"], "neither true nor false"),
        (["--settings", "a.toml", "--command", "maintain", "--config", "b.toml"], "unknown argument --config"),
        (["--settings", "a.toml", "--dry-run"], "unknown argument --dry-run"),
    ],
)
def test_an_argument_that_is_not_known_is_refused_by_name(arguments: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_arguments(arguments)


@pytest.mark.parametrize("script", [glue, emr])
def test_a_job_that_cannot_begin_fails_with_what_to_do_and_writes_its_report(
    script: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report, settings = tmp_path / "reports/run.json", tmp_path / "none.toml"
    arguments = ["--settings", str(settings), "--report", str(report), "--task_id", "t"]
    monkeypatch.setattr("sys.argv", ["main.py", *arguments])
    with pytest.raises(JobFailed, match=r"none\.toml does not exist\. Write one"):
        script.main()  # type: ignore[attr-defined]
    document = json.loads(report.read_text("utf-8"))
    assert (document["command"], document["exit_code"], document["error"]["kind"]) == ("run", 1, "ConfigError")
    assert document["error"]["todo"].endswith("with --settings in a job.")
    last = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (last["event"], last["task_id"], last["exit_code"], last["tables"]) == ("ended", "t", 1, {})
    assert last["errors"][0].startswith(document["error"]["what"])


def test_a_job_whose_arguments_are_wrong_writes_its_report(tmp_path: Path) -> None:
    report = tmp_path / "run.json"
    with pytest.raises(JobFailed, match="unknown argument --comand"):
        job.run(["--settings", "a.toml", "--comand", "x", "--report", str(report)])
    assert json.loads(report.read_text("utf-8"))["exit_code"] == 1
    with pytest.raises(JobFailed, match="expected one argument"):
        job.run(["--settings", "a.toml", "--report"])


def test_a_report_that_cannot_be_written_hides_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JobFailed, match=r"(?s)does not exist.*The report .*could not be written") as failed:
        job.run(["--settings", str(tmp_path / "none.toml"), "--report", str(tmp_path / "file/report.json")])
    last = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (last["event"], last["errors"]) == ("ended", str(failed.value).split("\n"))
    with pytest.raises(JobFailed, match="unknown argument"):
        job.run(["--settings", "a.toml", "--what"])
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["exit_code"] == 1


# Other commands.


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("status", [], []),
        ("status", ["--tables", "shop.a, shop.b", "--schema"], ["--schema", "--", "shop.a", "shop.b"]),
        ("maintain", ["--tables=shop.a", "--dry-run", "true"], ["--dry-run", "--", "shop.a"]),
        ("maintain", ["--dry-run", "false"], []),
        ("maintain", ["--dry-run"], ["--dry-run"]),
        (
            "verify",
            ["--against", "source", "--wait=10m", "--keys", "TRUE"],
            ["--against=source", "--keys", "--wait=10m"],
        ),
        (
            "ack",
            ["--alarm", "LEDGER-003", "--reason=it is, as it is", "--table", "shop.a"],
            ["--reason=it is, as it is", "--", "shop.a", "LEDGER-003"],
        ),
        ("load-complete", ["--table", "shop.a", "--by", "me"], ["--by=me", "--", "shop.a"]),
        ("reload", ["--table", "shop.a", "--withdraw", "yes"], ["--withdraw", "--", "shop.a"]),
    ],
)
def test_a_command_takes_what_the_command_line_does(command: str, arguments: list[str], words: list[str]) -> None:
    of_glue = ["--JOB_NAME", "shop", "--TempDir", "s3://tmp/", "--enable-metrics"]
    every = [*of_glue, "--command", command, "--settings", "a.toml", *arguments, "--JOB_ID", "j_1"]
    request = read_arguments(every, glue.RESERVED)
    assert (request.command, request.words, request.settings) == (command, words, "a.toml")


@dataclass
class Jobs:
    """Jobs of a platform in a folder with a landing of DMS, by the vector that the platform hands on."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    report: Any = field(default=None)

    def __call__(self, script: ModuleType, **arguments: str) -> Any:
        """Start a job and return its report."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        pairs = {"settings": str(self.folder / "lakeward.toml"), "report": str(report), **arguments}
        added = ["--JOB_NAME", "shop", "--TempDir", "s3://tmp/"] if script is glue else []
        words = [word for key, value in pairs.items() for word in (f"--{key}", value)]
        self.monkeypatch.setattr("sys.argv", ["main.py", *added, *words])
        try:
            script.main()  # type: ignore[attr-defined]
        finally:
            self.report = json.loads(report.read_text("utf-8")) if report.exists() else None
        return self.report


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """A landing with a full load that has a gap; no session of Spark is there, and none is needed."""
    write(tmp_path, DMS, ORDERS)
    for number in (1, 3):
        file = tmp_path / f"landing/shop/orders/LOAD0000000{number}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n", "utf-8")
    monkeypatch.setattr(job, "_session", lambda _: None)
    return Jobs(tmp_path, monkeypatch)


@pytest.mark.parametrize("script", [glue, emr])
def test_an_alarm_is_answered_by_jobs_alone(
    script: ModuleType, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(JobFailed, match="LOAD00000003"):
        jobs(script)
    status = jobs(script, command="status", correlation_id="7f")
    assert (status["command"], status["exit_code"], status["correlation_id"]) == ("status", 3, "7f")
    assert [alarm["code"] for alarm in status["tables"][0]["alarms"]] == ["LEDGER-004"]
    with pytest.raises(JobFailed, match="LEDGER-005"):
        jobs(script, command="ack", table="shop.orders", alarm="LEDGER-005", reason="no")
    acked = jobs(script, command="ack", table="shop.orders", alarm="LEDGER-004", reason="there is none", by="me")
    assert (acked["command"], acked["exit_code"], acked["by"]) == ("ack", 0, "me")
    capsys.readouterr()
    assert jobs(script, command="status", tables="shop.orders", task_id="t")["exit_code"] == 0
    (line,) = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (line["event"], line["exit_code"], line["task_id"]) == ("ended", 0, "t")


def test_each_command_ends_as_on_the_command_line(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    for command, arguments, said in (
        ("load-complete", {"table": "shop.orders"}, "shop.orders"),
        ("reload", {"table": "shop.none"}, "shop.none is not configured"),
        ("verify", {}, "give either --history or --against source"),
        ("verify", {"history": "true", "wait": "1m"}, "--keys and --wait are for --against source"),
    ):
        with pytest.raises(JobFailed, match=said):
            jobs(glue, command=command, **arguments)
        assert (jobs.report["command"], jobs.report["exit_code"]) == (command, 1)
        assert json.loads(capsys.readouterr().err.splitlines()[-1])["event"] == "ended"
    for file in (jobs.folder / "landing/shop/orders").iterdir():
        file.write_text("1\n", "utf-8")
    maintained = jobs(glue, command="maintain", **{"dry-run": "true"})
    assert (maintained["command"], maintained["done"], maintained["exit_code"]) == ("maintain", False, 0)
    assert [table["table"] for table in maintained["tables"]] == ["shop.orders"]


def test_what_verify_finds_fails_its_job(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    for code, tables, said in (
        (3, [{"table": "shop.orders", "error": None}], r"`lakeward verify` ended with 3: the report"),
        (75, [], r"`lakeward verify` ended with 75"),
        (4, [{"table": "a.b", "error": {"what": "it is gone", "found": None, "todo": "look"}}], "it is gone. look"),
    ):
        found = {"tables": tables, "exit_code": code}
        monkeypatch.setattr(job, "run_command", lambda *_, found=found: found)
        with pytest.raises(JobFailed, match=said):
            jobs(glue, command="verify", history="true")
    monkeypatch.setattr(job, "run_command", lambda *_: {"tables": [], "exit_code": 3})
    assert jobs(glue, command="status")["exit_code"] == 3
    monkeypatch.setattr(job, "run_command", lambda *_: {"tables": [], "exit_code": 0})
    assert jobs(glue, command="verify", history="true")["exit_code"] == 0


def test_a_command_that_needs_no_spark_is_given_none(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(job, "_session", fails)
    assert jobs(glue, command="status")["exit_code"] == 0
    with pytest.raises(AssertionError, match="Spark is started"):
        jobs(glue, command="maintain")


def test_a_platform_that_was_started_with_another_format_is_told(tmp_path: Path) -> None:
    settings = tmp_path / "lakeward.toml"
    settings.write_text(
        '[pipeline]\nname = "shop"\n[source]\nkind = "dms"\npath = "landing"\n[target]\nkind = "hudi"\n'
        'warehouse = "lake"\n[tables."shop.item"]\nkey = ["id"]\ncolumns = { id = "int" }\n',
        "utf-8",
    )
    with pytest.raises(JobFailed, match=r"--datalake-formats is delta, iceberg\. Start the job with .* hudi"):
        job.run(["--settings", str(settings), "--datalake-formats", "iceberg,delta"])
