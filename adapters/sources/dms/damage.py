"""Files of DMS that cannot be read, and files that break the rules as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath

from pyspark.sql import functions as F

from lakeward.adapters.sources.csv.repeated_header import refuse_moved_columns
from lakeward.adapters.sources.dms.file_columns import File
from lakeward.adapters.sources.dms.transactions.splitter import refuse_shifted
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.rows.read_errors import not_read
from lakeward.adapters.spark.frames.event_frame import AHEAD, SKIPPED, Group, by_object
from lakeward.adapters.spark.frames.frame_survey import survey
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.frames.source_rows import MALFORMED, TORN
from lakeward.adapters.spark.session.errors import FAILURES, full_text, unreachable
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import column
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict, SourceError


def surveyed(frame: Frame, dimension: Dimension) -> Sequence[Group]:
    """Return the survey of a frame."""
    return survey(frame, dimension, TORN, MALFORMED, AHEAD)


@contextmanager
def naming_unread(dimension: Dimension, files: Sequence[File], folder: Folder) -> Iterator[None]:
    """Raise SourceError, with its name, for a file that Spark cannot read."""
    try:
        yield
    except FAILURES as error:
        if (gone := unreachable(str(dimension.name), error)) is not None:
            raise gone from error
        text = full_text(error)
        listed = [file.object.name for file in files]
        whole = [name for name in listed if folder.path(dimension.source, name) in text]
        named = whole or [name for name in listed if PurePosixPath(name).name in text]
        raise not_read(str(dimension.name), named[0] if named else None, error) from error


def refuse_damage(
    dimension: Dimension, frame: Frame, files: Sequence[File], found: Sequence[Group], *, has_times: bool
) -> None:
    """Stop at a quote that is never closed, and at a file of which no row has the right columns.

    With `has_times` files of transactions have a commit time, by which columns that moved are found.
    """
    by_order = by_object(found)
    refuse_moved_columns(dimension, frame, found, {file.object.order: file.object.name for file in files})
    for file in files:
        groups = by_order.get(file.object.order, [])
        if any(TORN in group.flags for group in groups):
            of_file = (column(names.OBJECT) == file.object.order) & column(TORN)
            line = in_spark(frame).where(of_file).agg(F.min(column(names.ROW))).collect()[0][0]
            raise SourceError(
                f"{dimension.name}: {file.object.name} ends within a quoted field",
                found=f"the quote is open in the row that begins on line {line}",
                todo="Nothing of this batch was applied; other tables go on. Replace the file by a whole "
                'one, or set `quote = ""` under [source] where the endpoint has Rfc4180=false.',
            )
        rows = [group for group in groups if group.reason != SKIPPED]
        if rows and file.layout is not None and all(MALFORMED in group.flags for group in rows):
            raise _other_width(dimension, file, frame)
        if file.layout is not None and file.name.is_shared and has_times:
            own = in_spark(frame).where(column(names.OBJECT) == file.object.order)
            refuse_shifted(dimension, file.object.name, file.layout, own)


def _other_width(dimension: Dimension, file: File, frame: Frame) -> SchemaConflict:
    of_file = column(names.OBJECT) == file.object.order
    why = in_spark(frame).where(of_file).orderBy(column(names.ROW)).select(column(names.DETAIL)).first()
    return SchemaConflict(
        f"{dimension.name}: no row of {file.object.name} has the columns of the table",
        found=f"in the first of them, {why[0] if why else 'nothing'}",
        todo="Nothing of this batch was applied; other tables go on. Declare the columns as they are now "
        "under [tables], or keep the file back.",
    )
