"""Runs in the Python of Airflow: parses the DAGs or runs one, and writes the result as JSON."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any


def parse() -> Any:
    from airflow.configuration import conf  # noqa: PLC0415  # it is not installed where tests are collected
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415

    return DagBag(conf.get("core", "dags_folder"))


def describe(bag: Any) -> dict[str, Any]:
    """Return import errors, and for each DAG its concurrent runs and the retries of its tasks."""
    dags = {
        name: {"runs": made.max_active_runs, "tasks": {one.task_id: one.retries for one in made.tasks}}
        for name, made in bag.dags.items()
    }
    return {"errors": dict(bag.import_errors), "dags": dags}


def commit_batch(bag: Any, name: str) -> dict[str, Any]:
    """Run a DAG once, with one immediate retry."""
    made = bag.dags[name]
    for one in made.tasks:
        one.retries, one.retry_delay = 1, timedelta(0)
    run = made.test()
    tasks = {
        one.task_id: {"state": str(one.state), "tries": one.try_number, "returned": one.xcom_pull(one.task_id)}
        for one in run.get_task_instances()
    }
    return {"state": str(run.state), "id": run.run_id, "tasks": tasks}


if __name__ == "__main__":
    place, *names = sys.argv[1:]
    found = parse()
    Path(place).write_text(json.dumps(commit_batch(found, *names) if names else describe(found)), "utf-8")
