"""DAGs of Airflow 3 that run lakeward, without an operator package: tasks call the scripts of lakeward's jobs.

`lakeward_local` runs a pipeline in a subprocess, `lakeward_maintain` maintains its tables, and `lakeward_glue`
starts a job of AWS Glue and waits for it. The exit code in the report of the job decides whether a task succeeds,
fails, or is retried. Copy this file into the folder of your DAGs, and change the constants at its top
(docs/how-to/aws/airflow.md).
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
"""The Python of a virtual environment with lakeward, which may be another one than that of Airflow."""

SETTINGS = os.environ.get("LAKEWARD_SETTINGS", "/opt/shop/lakeward.toml")
"""The settings: a file, or an address such as `s3://acme-settings/lakeward.toml`."""

GLUE_JOB = os.environ.get("LAKEWARD_GLUE_JOB", "shop")
REPORTS = os.environ.get("LAKEWARD_REPORTS", "s3://acme-reports/lakeward")
"""The prefix for the reports of jobs of Glue."""

POLL = float(os.environ.get("LAKEWARD_POLL", "30"))
"""Seconds between two polls of a job of Glue."""

LOOK_TIMEOUT = float(os.environ.get("LAKEWARD_LOOK_TIMEOUT", "900"))
"""Seconds for which polls of a job of Glue may fail in a row, for example by throttling, before it is stopped."""

RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(minutes=5)}
"""The retries after exit code 75, and after a job without a report: the cause may be temporary."""

ENDED = ("SUCCEEDED", "FAILED", "STOPPED", "TIMEOUT", "ERROR", "EXPIRED")


def arguments_of_job(command: str, report: str) -> dict[str, str]:
    """Return the arguments of a job, with the ids of the task for its log, report and commits."""
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
    """Return the number of applied events by table, or fail the task according to the exit code.

    Exit code 0 is success. 75, or no report, is retried. All others need an operator and are not retried: 1 and 2
    are wrong settings or arguments, 3 is a held key or an alarm, and 4 a failed table.
    """
    if report is None:
        raise AirflowException(f"{otherwise}, and left no report")
    tables, code = report.get("tables", []), report["exit_code"]
    errors = [report.get("error"), *(table.get("error") for table in tables + report.get("joined", []))]
    causes = [": ".join(filter(None, (error["what"], error["found"]))) for error in errors if error]
    causes += [alarm["what"] for table in tables for alarm in table.get("alarms", ())]
    message = f"lakeward {report['command']} ended with {code}. " + ". ".join(causes)
    if code == 75:
        raise AirflowException(message)
    if code != 0:
        raise AirflowFailException(message)
    return {table["table"]: table["counts"]["applied"] for table in tables if "counts" in table}


def run_here(command: str) -> dict[str, int]:
    """Run a command in a subprocess; if the task is ended, the process ends after its current commit."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        pairs = arguments_of_job(command, str(file))
        words = [word for pair in pairs.items() for word in pair]
        command_line = [PYTHON, "-m", "lakeward.entrypoints.emr", *words]
        with subprocess.Popen(command_line) as process:  # noqa: S603  # no shell
            try:
                status = process.wait()
            except BaseException:
                process.terminate()
                raise
        report = json.loads(file.read_text("utf-8")) if file.exists() else None
    return settle(report, f"the process ended with {status}")


def wait_for_glue(glue: Any, run: str) -> str:
    """Return the final state of a job run; raises the error of a poll after `LOOK_TIMEOUT` seconds of errors."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    last_answer = time.monotonic()
    while True:
        try:
            state: str = glue.get_job_run(JobName=GLUE_JOB, RunId=run)["JobRun"]["JobRunState"]
        except (BotoCoreError, ClientError) as error:
            if time.monotonic() - last_answer >= LOOK_TIMEOUT:
                raise
            print(f"the state of the job run {run} is unknown for now: {error}")
        else:
            last_answer = time.monotonic()
            if state in ENDED:
                return state
        time.sleep(POLL)


def run_on_glue(command: str) -> dict[str, int]:
    """Start a job of Glue, wait until it ends, and read its report; ending the task stops the job."""
    import boto3  # noqa: PLC0415  # a machine that only parses DAGs need not have it
    from botocore.exceptions import ClientError  # noqa: PLC0415

    glue, s3 = boto3.client("glue"), boto3.client("s3")
    instance = get_current_context()["ti"]
    url = f"{REPORTS}/{instance.dag_id}/{instance.run_id}/{instance.task_id}-{instance.try_number}.json"
    arguments = arguments_of_job(command, url)
    run = glue.start_job_run(JobName=GLUE_JOB, Arguments=arguments)["JobRunId"]
    try:
        state = wait_for_glue(glue, run)
    except BaseException:
        glue.batch_stop_job_run(JobName=GLUE_JOB, JobRunIds=[run])
        raise
    bucket, _, key = url.removeprefix("s3://").partition("/")
    try:
        report = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchKey":
            raise
        report = None
    return settle(report, f"the job run {run} ended as {state}")


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
    """Maintain the tables each night. While a run is in progress the task is retried."""

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
