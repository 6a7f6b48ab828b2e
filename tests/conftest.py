"""What all tests share: fixtures of more than one folder, and which examples hypothesis draws.

The gate draws the same examples each time; `LAKEWARD_EXAMPLES=new` draws others, to look
for what was not found yet. What is `long` is for `make test-all`, which sets `LAKEWARD_LONG`. Of what needs Spark
`make test` runs what is marked `lap`, though it be long: it sets `LAKEWARD_LAP`.
On another line of Spark than the default one, what is marked `lines` runs, and `hudi` where that is.
"""

from __future__ import annotations

import gc
import os
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import structlog
from hypothesis import settings
from structlog.dev import ConsoleRenderer, plain_traceback

from lakeward.adapters.spark.session.compatibility import LINES, line

pytest_plugins = ["spark", "project", "brokers", "buckets", "registries", "connect", "databases", "installed"]
pytest_plugins += ["tenancies", "ledger_tables", "small_history", "fake_index", "queues_of_aws", "webhooks"]
pytest_plugins += ["glue_catalog", "state_machines", "service_models"]

# The same draws find the same each time: fewer do for the gate, and more are drawn where others are.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("new", deadline=None)
settings.load_profile(os.environ.get("LAKEWARD_EXAMPLES", "same"))


@pytest.fixture(autouse=True)
def logging_as_at_first() -> None:
    """Let no test see what a command before it set up of logging.

    Tracebacks are plain: with the values of all names of a test, one takes seconds to format.
    """
    structlog.reset_defaults()
    ConsoleRenderer.get_active().exception_formatter = plain_traceback


_OF_SPARK: Final = re.compile(r"\bmark\.spark\b|\bengine\b")
"""What the text of a module with tests on Spark has: the marker, or the fixture that gives it to a test."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m spark`, import no module without a test on Spark: two thirds of all, and half a minute.

    Paths of the command line are not asked for.
    """
    is_asked = config.option.markexpr == "spark" and collection_path.match("test_*.py")
    return True if is_asked and not _has_spark(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not of this line of Spark, and what is long, unless it is asked for or named.

    Raises UsageError if `pytest_ignore_collect` would miss a test on Spark.
    """
    missed = {item.path for item in items if item.get_closest_marker("spark") and not _has_spark(item.path)}
    if missed:
        raise pytest.UsageError(f"The text of {min(missed)} does not show that it has tests on Spark")
    is_named = any("::" in argument for argument in config.args)
    current = line()  # parses the metadata of pyspark
    deselected = {item for item in items if not _is_of_line(item, current)}
    asked = {name for name in ("long", "lap") if f"LAKEWARD_{name.upper()}" in os.environ}
    if "lap" in asked:
        deselected |= {
            item for item in items if item.get_closest_marker("spark") and not item.get_closest_marker("lap")
        }
    if not is_named:
        deselected |= {item for item in items if item.get_closest_marker("long") and not asked & _marks(item)}
    config.hook.pytest_deselected(items=[item for item in items if item in deselected])
    items[:] = [item for item in items if item not in deselected]


@cache
def _has_spark(module: Path) -> bool:
    return _OF_SPARK.search(module.read_text("utf-8")) is not None


def pytest_collection_finish() -> None:
    """Let the garbage collector skip modules and tests, which stay: it scans them for a second each time."""
    gc.collect()
    gc.freeze()


def _is_of_line(item: pytest.Item, current: str) -> bool:
    if current == LINES[0]:
        return item.get_closest_marker("hudi") is None
    return any(item.get_closest_marker(name) for name in ("lines", "hudi"))


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}
