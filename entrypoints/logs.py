"""Logs: readable on a terminal, JSON lines on request; run, table and batch in each line."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Callable

import structlog

from lakeward.core.errors import LakewardError


def _to_stderr(*_: object) -> structlog.PrintLogger:
    """Write to standard error as it is now: bars on a terminal put themselves before it."""
    return structlog.PrintLogger(sys.stderr)


def undoing() -> Callable[[], None]:
    """Return what makes logging again what it is now."""
    before = structlog.get_config()

    def undo() -> None:
        structlog.contextvars.clear_contextvars()
        structlog.configure(**before)

    return undo


def configure(*, as_json: bool, level: str = "info") -> str:
    """Set up logging to standard error and return the id of this run."""
    run = uuid.uuid4().hex[:12]
    colors = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=colors)
    )
    structlog.configure(
        processors=[
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
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(run=run)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    return run


def log_failure(error: BaseException, say: Callable[..., object]) -> None:
    """Log why a table failed, with a stack trace where the error is none of ours."""
    if isinstance(error, LakewardError):
        say("failed", error=error.what, found=error.found, todo=error.todo)
    else:
        say("failed", error=repr(error), exc_info=error)
