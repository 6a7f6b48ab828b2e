"""Checks of DMS files as a whole: files that cannot be read, and files of which no row fits the table."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.adapters.sources.csv.repeated_header import refuse_moved_columns
from lakeward.adapters.sources.dms.file_columns import File
from lakeward.adapters.sources.dms.transactions.splitter import refuse_shifted_columns
from lakeward.adapters.sources.rows.read_errors import torn_file
from lakeward.adapters.spark.frames.event_frame import AHEAD, SKIPPED, Group, by_object
from lakeward.adapters.spark.frames.frame_survey import survey
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.frames.source_rows import MALFORMED, TORN
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import column
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict


def survey_frame(frame: Frame, dimension: Dimension) -> Sequence[Group]:
    """Return the groups of a frame's rows, counted by object and by what is wrong with them."""
    return survey(frame, dimension, TORN, MALFORMED, AHEAD)


def refuse_damage(
    dimension: Dimension, frame: Frame, files: Sequence[File], groups: Sequence[Group], *, has_times: bool
) -> None:
    """Refuse a file whose last quote is never closed, and a file of which no row has the columns of the table.

    `groups` is the survey of the frame. `has_times` says whether rows have a commit time: in transaction files it
    shows that columns have moved. Raises SourceError and SchemaConflict.
    """
    by_order = by_object(groups)
    refuse_moved_columns(dimension, frame, groups, {file.object.order: file.object.name for file in files})
    for file in files:
        own_groups = by_order.get(file.object.order, [])
        if any(TORN in group.flags for group in own_groups):
            remedy = ', or set `quote = ""` under [source] where the endpoint has Rfc4180=false'
            raise torn_file(dimension.name, frame, file.object.order, file.object.name, remedy)
        rows = [group for group in own_groups if group.reason != SKIPPED]
        if rows and file.layout is not None and all(MALFORMED in group.flags for group in rows):
            raise _column_count_error(dimension, file, frame)
        if file.layout is not None and file.name.is_shared and has_times:
            own = in_spark(frame).where(column(names.OBJECT) == file.object.order)
            refuse_shifted_columns(dimension, file.object.name, file.layout, own)


def _column_count_error(dimension: Dimension, file: File, frame: Frame) -> SchemaConflict:
    of_file = column(names.OBJECT) == file.object.order
    why = in_spark(frame).where(of_file).orderBy(column(names.ROW)).select(column(names.DETAIL)).first()
    return SchemaConflict(
        f"{dimension.name}: no row of {file.object.name} has the columns of the table",
        found=f"in the first of them, {why[0] if why else 'nothing'}",
        todo="Nothing of this batch was applied; other tables go on. Declare the columns as they are now "
        "under [tables], or keep the file back.",
    )
