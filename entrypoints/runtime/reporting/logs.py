"""Logs: readable on a terminal, JSON lines on request; run, table and batch in each line."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from lakeward.core.errors import LakewardError

FAILED: Final = "failed"
"""The event of a table that failed."""


def _to_stderr(*_: object) -> structlog.PrintLogger:
    """Write to standard error as it is now: bars on a terminal put themselves before it."""
    return structlog.PrintLogger(sys.stderr)


def inherit_context() -> Callable[[], None]:
    """Return what copies the logging context of this thread into the one that calls it."""
    context = structlog.contextvars.get_contextvars()

    def initialize() -> None:
        structlog.contextvars.bind_contextvars(**context)

    return initialize


def undoing() -> Callable[[], None]:
    """Return what makes logging again what it is now."""
    before = structlog.get_config()

    def undo() -> None:
        structlog.contextvars.clear_contextvars()
        structlog.configure(**before)

    return undo


def _drop_failure(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Drop why a table failed, except for the stack trace of a defect: the command says it at its end."""
    if event["event"] == FAILED and "exc_info" not in event:
        raise structlog.DropEvent
    return event


def configure(*, as_json: bool, level: str = "info", reports: bool = False) -> str:
    """Set up logging to standard error and return the id of this run; with `reports` its end says what failed.

    What an orchestrator calls the run stays bound.
    """
    run = uuid.uuid4().hex[:12]
    colors = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=colors)
    )
    structlog.configure(
        processors=[
            *([_drop_failure] if reports else []),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_to_stderr,
        cache_logger_on_first_use=False,
    )
    ids = ids_of_run()
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(run=run, **ids)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    return run


RUN_IDS: Final = ("correlation_id", "dag_name", "task_id")
"""What an orchestrator calls a run."""


def bind_run_ids(ids: Mapping[str, str]) -> None:
    """Give each log line from now on what an orchestrator calls the run; its keys are of `RUN_IDS`."""
    structlog.contextvars.bind_contextvars(**ids)


def ids_of_run() -> Mapping[str, str]:
    """Return what an orchestrator calls the run, as it was bound."""
    return {name: value for name, value in structlog.contextvars.get_contextvars().items() if name in RUN_IDS}


def id_of_run() -> str:
    """Return the id of this run, as it was bound."""
    return str(structlog.contextvars.get_contextvars().get("run", ""))


def log_failure(error: BaseException, say: Callable[..., object]) -> None:
    """Log why a table failed, with a stack trace where the error is none of ours."""
    if isinstance(error, LakewardError):
        say(FAILED, error=error.what, found=error.found, todo=error.todo)
    else:
        say(FAILED, error=repr(error), exc_info=error)
