"""Set-up of logging: readable lines on a terminal, JSON lines on request; each has run, table and batch."""

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
"""Event name of the log line of a table that failed."""


def _to_stderr(*_: object) -> structlog.PrintLogger:
    """Return a logger for the current `sys.stderr`, which rich replaces while progress bars are shown."""
    return structlog.PrintLogger(sys.stderr)


def inherit_context() -> Callable[[], None]:
    """Return a function that copies the logging context of this thread into the thread that calls it."""
    context = structlog.contextvars.get_contextvars()

    def initialize() -> None:
        structlog.contextvars.bind_contextvars(**context)

    return initialize


def restore_logging() -> Callable[[], None]:
    """Return a function that restores the current logging configuration."""
    before = structlog.get_config()

    def undo() -> None:
        structlog.contextvars.clear_contextvars()
        structlog.configure(**before)

    return undo


def _drop_failure(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Drop the log line of a failed table without a stack trace: the command prints the error at its end."""
    if event["event"] == FAILED and "exc_info" not in event:
        raise structlog.DropEvent
    return event


def configure(*, as_json: bool, level: str = "info", reports: bool = False) -> str:
    """Configure logging to standard error and return the id of this run.

    With `reports` the command itself prints the errors of tables at its end, so they are not logged. Ids that an
    orchestrator gave the run stay bound.
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
"""Names of the ids that an orchestrator may give a run."""


def bind_run_ids(ids: Mapping[str, str]) -> None:
    """Add the ids of an orchestrator to each further log line; the keys are names of `RUN_IDS`."""
    structlog.contextvars.bind_contextvars(**ids)


def ids_of_run() -> Mapping[str, str]:
    """Return the bound ids of the orchestrator."""
    return {name: value for name, value in structlog.contextvars.get_contextvars().items() if name in RUN_IDS}


def id_of_run() -> str:
    """Return the bound id of this run; an empty text if there is none."""
    return str(structlog.contextvars.get_contextvars().get("run", ""))


def log_failure(error: BaseException, say: Callable[..., object]) -> None:
    """Log the error of a table, with a stack trace if it is not a LakewardError."""
    if isinstance(error, LakewardError):
        say(FAILED, error=error.what, found=error.found, todo=error.todo)
    else:
        say(FAILED, error=repr(error), exc_info=error)
