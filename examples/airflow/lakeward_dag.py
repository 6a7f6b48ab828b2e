"""Pipelines of lakeward in Airflow 3, without an operator of their own: tasks call the scripts of its jobs.

`lakeward_local` runs a pipeline in a subprocess, and `lakeward_maintain` takes care of its tables; `lakeward_glue`
starts a job of AWS Glue and waits for it. How each ends follows from the exit code in the report of the job. Copy
the file into the folder of your DAGs, and change what stands at its top; docs/how-to/aws/airflow.md is its page.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import dag, get_current_context, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

PYTHON = os.environ.get("LAKEWARD_PYTHON", "/opt/lakeward/bin/python")
"""The Python of a virtual environment with lakeward: it need not be that of Airflow."""

SETTINGS = os.environ.get("LAKEWARD_SETTINGS", "/opt/shop/lakeward.toml")
"""A file, or an address such as `s3://acme-settings/lakeward.toml`."""

GLUE_JOB = os.environ.get("LAKEWARD_GLUE_JOB", "shop")
REPORTS = os.environ.get("LAKEWARD_REPORTS", "s3://acme-reports/lakeward")
"""Where jobs of Glue leave their reports."""

POLL = float(os.environ.get("LAKEWARD_POLL", "30"))
"""Seconds between two looks at a job of Glue."""

LOOK_TIMEOUT = float(os.environ.get("LAKEWARD_LOOK_TIMEOUT", "900"))
"""Seconds for which looks at a job of Glue may fail in a row, as throttled ones do; then it is stopped."""

RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(minutes=5)}
"""For an exit code of 75, and for what no report tells of: it may be over by then."""

ENDED = ("SUCCEEDED", "FAILED", "STOPPED", "TIMEOUT", "ERROR", "EXPIRED")


def arguments_of_job(command: str, report: str) -> dict[str, str]:
    """Return the arguments of a job; the log, the report and the commits have the ids of the task."""
    instance = get_current_context()["ti"]
    return {
        "--command": command,
        "--settings": SETTINGS,
        "--report": report,
        "--correlation_id": instance.run_id,
        "--dag_name": instance.dag_id,
        "--task_id": instance.task_id,
    }


def settle(report: dict[str, Any] | None, otherwise: str) -> dict[str, int]:
    """Return how many events of each table were applied, or end the task as the exit code asks for.

    0 is success. 75, and a job without a report, is tried again. Nothing else is, since a person must mend
    something: 1 and 2 are wrong settings or arguments, 3 is a held key or an alarm, and 4 a table that failed.
    """
    if report is None:
        raise AirflowException(f"{otherwise}, and left no report")
    tables, code = report.get("tables", []), report["exit_code"]
    failed = [report.get("error"), *(one.get("error") for one in tables + report.get("joined", []))]
    words = [": ".join(filter(None, (error["what"], error["found"]))) for error in failed if error]
    words += [alarm["what"] for one in tables for alarm in one.get("alarms", ())]
    said = f"lakeward {report['command']} ended with {code}. " + ". ".join(words)
    if code == 75:
        raise AirflowException(said)
    if code != 0:
        raise AirflowFailException(said)
    return {one["table"]: one["counts"]["applied"] for one in tables if "counts" in one}


def run_here(command: str) -> dict[str, int]:
    """Carry a command out in a subprocess; where the task is ended, the commit in hand is finished first."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pairs = arguments_of_job(command, str(report))
        words = [word for pair in pairs.items() for word in pair]
        command_line = [PYTHON, "-m", "lakeward.entrypoints.emr", *words]
        with subprocess.Popen(command_line) as process:  # noqa: S603  # no shell
            try:
                status = process.wait()
            except BaseException:
                process.terminate()
                raise
        found = json.loads(report.read_text("utf-8")) if report.exists() else None
    return settle(found, f"the process ended with {status}")


def wait_for_glue(glue: Any, run: str) -> str:
    """Return the state in which a job run ended; raises what its looks fail with once none is answered for long."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    answered = time.monotonic()
    while True:
        try:
            state: str = glue.get_job_run(JobName=GLUE_JOB, RunId=run)["JobRun"]["JobRunState"]
        except (BotoCoreError, ClientError) as error:
            if time.monotonic() - answered >= LOOK_TIMEOUT:
                raise
            print(f"the state of the job run {run} is not known for now: {error}")
        else:
            answered = time.monotonic()
            if state in ENDED:
                return state
        time.sleep(POLL)


def run_on_glue(command: str) -> dict[str, int]:
    """Start a job of Glue, wait until it ends, and read its report; where the task is ended, so is the job."""
    import boto3  # noqa: PLC0415  # a machine that only parses DAGs need not have it
    from botocore.exceptions import ClientError  # noqa: PLC0415

    glue, s3 = boto3.client("glue"), boto3.client("s3")
    instance = get_current_context()["ti"]
    report = f"{REPORTS}/{instance.dag_id}/{instance.run_id}/{instance.task_id}-{instance.try_number}.json"
    arguments = arguments_of_job(command, report)
    run = glue.start_job_run(JobName=GLUE_JOB, Arguments=arguments)["JobRunId"]
    try:
        state = wait_for_glue(glue, run)
    except BaseException:
        glue.batch_stop_job_run(JobName=GLUE_JOB, JobRunIds=[run])
        raise
    bucket, _, key = report.removeprefix("s3://").partition("/")
    try:
        found = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchKey":
            raise
        found = None
    return settle(found, f"the job run {run} ended as {state}")


ONE_AT_A_TIME: dict[str, Any] = {"start_date": datetime(2026, 1, 1), "catchup": False, "max_active_runs": 1}


@dag(dag_id="lakeward_local", schedule="*/15 * * * *", **ONE_AT_A_TIME)
def local() -> None:
    """Run all tables each quarter of an hour, on the machine of the worker."""

    @task(**RETRIES)
    def run() -> dict[str, int]:
        return run_here("run")

    run()


@dag(dag_id="lakeward_maintain", schedule="30 2 * * *", **ONE_AT_A_TIME)
def maintain() -> None:
    """Take care of the tables each night; a run in hand keeps it waiting, which is a retry."""

    @task(task_id="maintain", **RETRIES)
    def take_care() -> dict[str, int]:
        return run_here("maintain")

    take_care()


@dag(dag_id="lakeward_glue", schedule="*/15 * * * *", **ONE_AT_A_TIME)
def on_glue() -> None:
    """Run all tables each quarter of an hour, as a job of AWS Glue."""

    @task(**RETRIES)
    def run() -> dict[str, int]:
        return run_on_glue("run")

    run()


local()
maintain()
on_glue()
