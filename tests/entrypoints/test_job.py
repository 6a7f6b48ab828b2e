"""What a job of a platform is asked for: its arguments, in the forms in which platforms hand them on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from buckets import Buckets

from lakeward.core.errors import ConfigError
from lakeward.entrypoints import emr, glue, job
from lakeward.entrypoints.context import open_settings
from lakeward.entrypoints.job import JobFailed, read_arguments, tables_that_read

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
    assert (request.settings, request.tables, request.max_minutes) == (
        "s3://shop/lakeward.toml",
        ["shop.item", "shop.order"],
        9.5,
    )
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
        (["--settings", "a.toml", "--max-minutes", "soon"], "--max-minutes: 'soon' is no number of minutes"),
        (["--settings", "a.toml", "--JOB_NAME", "shop"], "unknown argument --JOB_NAME"),
        (["--settings"], "expected one argument"),
        (["--settings", "a.toml", "--tables", "shop.item", "shop.other"], "unknown argument shop.other"),
        (["--settings", "a.toml", "--python-modules-installer-option", "-r"], "argument --python"),
        (["--settings", "a.toml", "-x"], "unknown argument -x"),
        (["--settings", "a.toml", "--object", "s3://a/b", "--tables", "shop.item"], "do not go together"),
        (["--settings", "a.toml", "--max-minutes", "nan"], "'nan' is no number of minutes above 0"),
        (["--settings", "a.toml", "--max-minutes", "0"], "'0' is no number of minutes above 0"),
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
    last = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (last["event"], last["task_id"], last["exit_code"], last["tables"]) == ("ended", "t", 1, {})
    assert last["errors"][0].startswith(document["error"]["what"])


def test_a_report_that_cannot_be_written_hides_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JobFailed, match=r"(?s)does not exist.*The report .*could not be written") as failed:
        job.run(["--settings", str(tmp_path / "none.toml"), "--report", str(tmp_path / "file/report.json")])
    last = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (last["event"], last["errors"]) == ("ended", str(failed.value).split("\n"))
    with pytest.raises(JobFailed, match="unknown argument"):
        job.run(["--settings", "a.toml", "--what"])
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["exit_code"] == 1


def test_a_platform_that_was_started_with_another_format_is_told(tmp_path: Path) -> None:
    settings = tmp_path / "lakeward.toml"
    settings.write_text(
        '[pipeline]\nname = "shop"\n[source]\nkind = "dms"\npath = "landing"\n[target]\nkind = "hudi"\n'
        'warehouse = "lake"\n[tables."shop.item"]\nkey = ["id"]\ncolumns = { id = "int" }\n',
        "utf-8",
    )
    with pytest.raises(JobFailed, match=r"--datalake-formats is delta, iceberg\. Start the job with .* hudi"):
        job.run(["--settings", str(settings), "--datalake-formats", "iceberg,delta"])
