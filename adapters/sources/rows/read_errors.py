"""Errors of files that were not read whole: Spark fails to read them, or they end within a quoted field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Final

from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.frames.source_rows import TORN
from lakeward.adapters.spark.session.errors import FAILURES, full_text, root_cause, short_message, unreachable
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import column
from lakeward.core.dimension import TableName
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


@contextmanager
def explain_read_errors(
    table: TableName, files: Sequence[str], path_of: Callable[[str], str] | None = None
) -> Iterator[None]:
    """Raise SourceError, with the name of the file, where Spark fails to read one of these files.

    `path_of` returns the path of a file by its name; without it files are recognised by the last parts of their
    names alone. Raises StoreUnreachable where the store does not answer.
    """
    try:
        yield
    except FAILURES as error:
        if (unreachable_error := unreachable(str(table), error)) is not None:
            raise unreachable_error from error
        text = full_text(error)
        by_path = [] if path_of is None else [name for name in files if path_of(name) in text]
        suspects = by_path or [name for name in files if PurePosixPath(name).name in text]
        raise unreadable_file(str(table), suspects[0] if suspects else None, error) from error


def torn_file(table: TableName, frame: Frame, order: int, name: str, remedy: str = "") -> SourceError:
    """Return the error for a file that ends within a quoted field.

    `order` is that of the file in the frame, `name` its name. `remedy` is added to the advice.
    """
    of_file = (column(names.OBJECT) == order) & column(TORN)
    line = in_spark(frame).where(of_file).agg(F.min(column(names.ROW))).collect()[0][0]
    return SourceError(
        f"{table}: {name} ends within a quoted field",
        found=f"the quote is open in the row that begins on line {line}",
        todo=f"{_REST} Replace the file by a whole one{remedy}.",
    )
