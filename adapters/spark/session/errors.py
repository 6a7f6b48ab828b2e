"""Reduce the errors of Spark and Java to the sentence that a person needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from lakeward.adapters.aws.s3 import transient_errors
from lakeward.adapters.spark.session.compatibility import condition_of, silence
from lakeward.core.errors import EngineExhausted, EngineLost, StoreUnreachable


def keep_quiet() -> None:
    """Silence PySpark's own error output: lakeward prints each error once, in its own words."""
    silence("SQLQueryContextLogger", "DataFrameQueryContextLogger")


_DRAWN: Final = re.compile(r"\x1b\[[0-9;]*m|↳")
"""The characters with which delta-rs draws the causes of an error as a tree for a terminal."""

FAILURES: Final = (PySparkException, Py4JError)
"""The exceptions that a call into Spark raises."""


def is_cut_off(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, says that Java does not answer."""
    while error is not None:
        if isinstance(error, ConnectionError) or (
            isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_shut_down(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, says that Spark was stopped during its work."""
    return _says("SparkContext was shut down", error) or _says("stopped SparkContext", error)


def is_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, says that Java ran out of memory."""
    return _says("java.lang.OutOfMemoryError", error)


def _says(words: str, error: BaseException | None) -> bool:
    while error is not None:
        with suppress(*FAILURES, OSError):  # the text comes from Java, which may not answer
            if words in str(error) or words in "\n".join(root_cause(error)):
                return True
        error = error.__cause__ or error.__context__
    return False


def lost(what: str) -> EngineLost:
    """Return the error for a Java that has ended."""
    return EngineLost(
        f"{what}: Java has ended in the middle of it",
        found="it was stopped from outside, or by the system where memory was short",
        todo="Nothing is lost: run again. Where it was memory, set `memory` under [spark] lower than what the "
        "machine has, or work on fewer tables at a time: `parallel` under [pipeline].",
    )


def exhausted(what: str, memory: str) -> EngineExhausted:
    """Return the error for a Java that ran out of the `memory` that it was given."""
    return EngineExhausted(
        f"{what}: Java has run out of memory",
        found=f"its heap is {memory}",
        todo="Nothing is lost. Set `memory` under [spark] higher, where the machine has more; or work on fewer "
        "tables at a time (`parallel` under [pipeline]), and in smaller batches (`max_bytes` under [source]). "
        "Then run again.",
    )


def unreachable(what: str, error: BaseException) -> StoreUnreachable | None:
    """Return the error if S3 did not answer Spark, Iceberg or Arrow; None for other errors."""
    is_so = (
        transient_errors.is_of_arrow(error)
        or transient_errors.is_of_object_store(error)
        or not transient_errors.JAVA_EXCEPTIONS.isdisjoint(causes(error))
    )
    return transient_errors.transient_error(what, short_message(error)) if is_so else None


def root_cause(error: BaseException) -> tuple[str, str]:
    """Return class and message of the innermost Java exception, or of the Python exception."""
    java = getattr(error, "java_exception", None) if isinstance(error, Py4JJavaError) else None
    java = java if java is not None else getattr(error, "_origin", None)
    if java is None:
        return type(error).__name__, str(error)
    while java.getCause() is not None:
        java = java.getCause()
    return str(java.getClass().getName()), str(java.getMessage())


def causes(error: BaseException) -> Iterator[str]:
    """Yield the classes of the Java exceptions that led to an error, outermost first."""
    java = getattr(error, "java_exception", None) if isinstance(error, Py4JJavaError) else None
    java = java if java is not None else getattr(error, "_origin", None)
    while java is not None:
        yield str(java.getClass().getName())
        java = java.getCause()


def short_message(error: BaseException) -> str:
    """Return the first line of an error message, without its class; of delta-rs's tree all lines."""
    name, message = root_cause(error)
    lines = [line.strip() for line in _DRAWN.sub("", message).splitlines() if line.strip()]
    text = lines[0] if lines and lines[0] != "None" else name.rsplit(".", 1)[-1]
    text = ": ".join(lines) if _DRAWN.search(message) else text
    return re.sub(r"\s+", " ", text)[:500]


def was_made_meanwhile(error: BaseException) -> bool:
    """Return whether a table could not be created because another process created it."""
    return isinstance(error, PySparkException) and condition_of(error) == "TABLE_OR_VIEW_ALREADY_EXISTS"


def refused_by_disk(error: BaseException) -> str | None:
    """Return a message if there is no space or no permission, or None for other errors."""
    name, message = root_cause(error)
    if "No space left on device" in message or "File too large" in message:
        return f"there is no space left: {message.splitlines()[0]}"
    if "AccessDenied" in name or "Permission denied" in message:
        return f"permission denied: {message.splitlines()[0]}"
    return None


def full_text(error: BaseException) -> str:
    """Return the full text of an error, to search for names in it."""
    return f"{error} {root_cause(error)[1]}"
