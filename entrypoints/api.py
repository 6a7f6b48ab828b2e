"""lakeward within a program, such as a notebook: `from lakeward import plan, run, status`.

Each returns what its command prints with `--json` (docs/how-to/python.md), as values of Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lakeward.entrypoints.commands import plan as planning
from lakeward.entrypoints.commands import run as running
from lakeward.entrypoints.commands import status as reading
from lakeward.entrypoints.runtime.join_run import select_tables
from lakeward.entrypoints.settings.configuration import FILE, Configuration, from_content
from lakeward.entrypoints.startup.context import AT_END, complete, open_settings, start_logging
from lakeward.entrypoints.views import documents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Given: TypeAlias = str | Path | Mapping[str, Any]
"""A settings file, the address of a settings store, or the content of a file.

Where it is no file, paths begin in the current folder.
"""

Log: TypeAlias = Literal["auto", "text", "json", "off"]


def run(
    settings: Given = FILE, tables: Sequence[str] = (), *, spark: SparkSession | None = None, log: Log = "auto"
) -> dict[str, Any]:
    """Apply waiting changes, batch by batch, until none wait, as `lakeward run --once`.

    `tables` are names as "schema.table"; without any, all are run. `spark` is a session that is there: it is used
    as it is, and goes on afterwards. Without it lakeward takes the one that runs, or starts and stops its own.
    `log` is what goes to standard error.

    A table that fails stops no other: its `error` says why, and `exit_code` of the whole is 4 or 75. Raises
    LakewardError where nothing can be run at all: ConfigError for settings, SetupError for what is missing.
    """
    with _prepare_process(spark, log) as run_id:
        configured = _open(settings, asks=True)
        result = running.run_once(configured, select_tables(configured, tables))
        return documents.json_values("run", {"run": run_id, **running.document(result)})


def plan(
    settings: Given = FILE, tables: Sequence[str] = (), *, spark: SparkSession | None = None, log: Log = "auto"
) -> dict[str, Any]:
    """Return the plans of the next batch of each table, as `lakeward plan`, without changes.

    The arguments, and what it raises, are those of `run`.
    """
    with _prepare_process(spark, log):
        return documents.json_values("plan", planning.plan_tables(_open(settings, asks=True), tables).document)


def status(settings: Given = FILE, tables: Sequence[str] = ()) -> dict[str, Any]:
    """Return the status of each table, as `lakeward status`. It needs no Spark."""
    return documents.json_values("status", reading.read_status(_open(settings), tables).document)


@contextmanager
def _prepare_process(spark: SparkSession | None, log: Log) -> Iterator[str]:
    """Configure logging and use the active Spark session within the context; yields the id of the run."""
    with _using(spark):
        try:
            yield start_logging(log, debug=False)
        finally:
            AT_END.close()


def _using(spark: SparkSession | None) -> AbstractContextManager[None]:
    if spark is None and "pyspark.sql" not in sys.modules:
        return nullcontext()
    from lakeward.adapters.spark.session.spark_session import using_session  # noqa: PLC0415  # slow to import

    return using_session(spark)


def _open(settings: Given, *, asks: bool = False) -> Configuration:
    if isinstance(settings, Mapping):
        return complete(from_content(settings, Path("settings")), asks=asks)
    return open_settings(settings, asks=asks)
