"""Checks of whole files after they were read: damaged, unreadable or misplaced files stop their table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.sources.csv.file_form import encoding_error, gzip_error
from lakeward.adapters.sources.csv.repeated_header import refuse_moved_columns
from lakeward.adapters.sources.files.event_frame import ODD
from lakeward.adapters.sources.files.file_columns import File, undeclared_columns
from lakeward.adapters.sources.files.json_lines.frames import UNDECLARED
from lakeward.adapters.sources.files.json_lines.message_warnings import NO_TIME
from lakeward.adapters.sources.files.json_lines.other_tables import HAS_OTHER, other_tables
from lakeward.adapters.sources.files.named_fields import FIELD_FLAGS
from lakeward.adapters.sources.files.paths.path_columns import column_in_file_and_path
from lakeward.adapters.sources.messages.decoded import MESSAGE_FLAGS
from lakeward.adapters.sources.rows.read_errors import explain_read_errors, torn_file
from lakeward.adapters.spark.frames.event_frame import AHEAD, INITIAL, NO_PLACE, SKIPPED, Group, by_object
from lakeward.adapters.spark.frames.frame_survey import survey
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame, in_spark
from lakeward.adapters.spark.frames.source_rows import MALFORMED, TORN
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import column
from lakeward.core.dimension import Dimension
from lakeward.core.errors import LakewardError, SchemaConflict, SourceError
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.schema_changes.evolution import Kind, Policy

_BYTE_ORDER_MARKS: Final = ("0xFFFE", "0xFEFF")
"""The beginnings of a row with the byte order mark of UTF-16 or UTF-32, as hex of bytes that are no UTF-8."""

_GZIP: Final = "0x1F8B08"
"""The beginning of a row of a gzip file, as hex of bytes that are no UTF-8."""

_MOST_NAMES: Final = 100


def survey_frame(frame: Frame, dimension: Dimension, files: Sequence[File]) -> Sequence[Group]:
    """Return the survey of a frame; raises SourceError with the name of the file for one that Spark cannot read."""
    with explain_read_errors(dimension.name, [file.item.name for file in files]):
        every = (NO_PLACE, NO_TIME, *MESSAGE_FLAGS, INITIAL, *FIELD_FLAGS)
        flags = [name for name in every if name in frame.columns]
        return survey(frame, dimension, TORN, MALFORMED, AHEAD, ODD, HAS_OTHER, *flags)


def refuse_damage(
    dimension: Dimension,
    frame: Frame,
    files: Sequence[File],
    groups_of_all: Sequence[Group],
    *,
    has_own_folder: bool,
    path_columns: Collection[str] = (),
    may_be_unreadable: bool = False,
) -> None:
    """Raise an error for the first file that breaks a rule as a whole.

    A file must not end within a quoted field, have undeclared columns or columns that are taken from its path,
    consist of messages of other tables (if the table has its own folder), or have no readable row. With
    `may_be_unreadable` the last is allowed, because lines are in one file by chance: the rows go into quarantine,
    or QUARANTINE-001 stops the table. Raises SourceError for damage, and SchemaConflict for columns.
    """
    by_order = by_object(groups_of_all)
    if any(file.layout is not None for file in files):
        refuse_moved_columns(dimension, frame, groups_of_all, {file.item.order: file.item.name for file in files})
    for file in files:
        groups = by_order.get(file.item.order, [])
        rows = [group for group in groups if group.reason != SKIPPED]
        if any(TORN in group.flags for group in groups):
            raise torn_file(dimension.name, frame, file.item.order, file.item.name)
        if any(ODD in group.flags for group in rows):
            _refuse_undeclared(dimension, frame, file, path_columns)
        if has_own_folder and has_only_other_tables(groups):
            others = other_tables(_of_file(frame, file), is_shared=False)
            raise only_other_tables(dimension, f"{file.item.name} has", others)
        if rows and all(MALFORMED in group.flags for group in rows) and not may_be_unreadable:
            raise _no_readable_row(dimension, _of_file(frame, file), file)


def _of_file(frame: Frame, file: File) -> DataFrame:
    return in_spark(frame).where(column(names.OBJECT) == file.item.order)


def has_only_other_tables(groups: Sequence[Group]) -> bool:
    """Return whether a file has rows of other tables and none of its own table, by its groups of the survey.

    Messages that are no row of any table, such as heartbeats and tombstones, do not count.
    """
    return all(group.reason == SKIPPED for group in groups) and any(HAS_OTHER in group.flags for group in groups)


def only_other_tables(dimension: Dimension, which: str, others: OtherTables | None) -> SourceError:
    """Return the error for files with messages of other tables only; `which` names the files, with their verb."""
    return SourceError(
        f"{dimension.name}: {which} messages of other tables alone",
        found=f"found rows of {others}, and none of {dimension.source}, in the folder of {dimension.source}",
        todo="Nothing of this batch was applied; other tables go on. Call the table under [tables] as its messages "
        "do, or move the file away. A `folder` under [source] without {schema} and {table} is one for all tables.",
    )


def _no_readable_row(dimension: Dimension, of_file: DataFrame, file: File) -> LakewardError:
    malformed = of_file.where(column(MALFORMED)).orderBy(column(names.ROW))
    why, text = malformed.select(column(names.DETAIL), column(names.TEXT)).first() or ("nothing", "")
    if text is not None and (text.startswith(_BYTE_ORDER_MARKS) or "\0" in text):
        return encoding_error(dimension.name, file.item.name)
    if text is not None and text.startswith(_GZIP):
        return gzip_error(dimension.name, file.item.name)
    return SchemaConflict(
        f"{dimension.name}: no row of {file.item.name} can be read",
        found=f"of the first of them, {why}",
        todo="Nothing of this batch was applied; other tables go on. Correct `format` and what belongs to it under "
        "[source], or keep the file back.",
    )


def _refuse_undeclared(dimension: Dimension, frame: Frame, file: File, path_columns: Collection[str]) -> None:
    declared = {name.lower(): name for name in dimension.schema.names}
    undeclared = _undeclared_names(frame, file, {*declared, *(old.lower() for old in dimension.policies.renames)})
    policies = dimension.policies
    alike = [(name, declared[name.lower()]) for name in undeclared if name.lower() in declared]
    of_path = {name.lower() for name in path_columns}
    if both := [name for name, _ in alike if name.lower() in of_path]:
        raise column_in_file_and_path(dimension, file.item.name, both[0])
    if alike:
        raise _names_in_other_case(dimension, file.item.name, alike)
    if old := sorted(policies.renames.keys() & set(undeclared)):
        raise _old_name_of_column(dimension, file.item.name, old[0])
    refused = sorted(name for name in undeclared if policies.of(Kind.ADD, [name]) is not Policy.IGNORE)
    if refused:
        raise undeclared_columns(dimension, file.item.name, refused)


def _old_name_of_column(dimension: Dimension, name: str, old: str) -> SchemaConflict:
    return SchemaConflict(
        f"{dimension.name}: {name} has the old name of a column",
        found=f"{old} is called {dimension.policies.renames[old]} now, as `schema.rename` says",
        todo="Nothing of this batch was applied; other tables go on. Let the file have the new name, or keep it "
        "back.",
    )


def _undeclared_names(frame: Frame, file: File, declared: Collection[str]) -> Sequence[str]:
    """Return the undeclared names in the rows of a file, at most 100.

    Names that differ from `declared` names (which are in lower case) by case only come first.
    """
    if isinstance(frame, LocalFrame):
        is_own = pc.equal(frame.rows.column(names.OBJECT), file.item.order)
        every = pc.list_flatten(frame.rows.column(UNDECLARED).filter(is_own)).unique().to_pylist()
        return sorted(every, key=lambda name: (name.lower() not in declared, name))[:_MOST_NAMES]
    strange = _of_file(frame, file).selectExpr(f"explode({UNDECLARED}) AS name").distinct()
    is_declared = F.lower("name").isin(list(declared))
    return [row[0] for row in strange.orderBy(is_declared.desc(), "name").limit(_MOST_NAMES).collect()]


def _names_in_other_case(dimension: Dimension, file: str, alike: Sequence[tuple[str, str]]) -> SchemaConflict:
    return SchemaConflict(
        f"{dimension.name}: {file} has columns in other letters than the table",
        found=", ".join(f"found {written}, and {name} is declared" for written, name in alike),
        todo="Names in lines of JSON are compared as they are written. Declare them under "
        f'[tables."{dimension.name}".columns] as the files have them. Nothing of this batch was applied; other '
        "tables go on.",
    )
