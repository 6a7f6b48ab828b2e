"""The error for a file that Spark fails to read."""

from __future__ import annotations

from typing import Final

from lakeward.adapters.spark.session.errors import root_cause, short_message
from lakeward.core.errors import SourceError

_OVERFLOW: Final = "long overflow"
"""Java's message if a time in milliseconds overflows as microseconds, so that its year is far out of range."""

_REST: Final = "Nothing of this batch was applied; other tables go on."


def unreadable_file(table: str, name: str | None, error: BaseException) -> SourceError:
    """Return the error for a file that Spark fails to read; `name` is None if the file is not known."""
    file = name or "a file of the batch"
    if root_cause(error)[1] == _OVERFLOW:
        return SourceError(
            f"{table}: {file} has a time outside of the years 1 to 9999",
            found=f"it is so far away that Spark does not read the file ({_OVERFLOW}); the file is whole",
            todo=f"{_REST} Let the file be written with times of those years, or with NULL.",
        )
    return SourceError(
        f"{table}: {file} cannot be read",
        found=short_message(error),
        todo=f"{_REST} Replace the file by a whole one.",
    )
