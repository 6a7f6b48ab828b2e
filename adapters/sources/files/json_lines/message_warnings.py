"""What a person should know of the messages of a batch, with their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.decoded import HAS_DELETED, OLD_KEY_UNKNOWN, ROWS_GONE, TOMBSTONE
from lakeward.adapters.spark.frames.event_frame import IS_EVENT, NO_PLACE, Group, has_order
from lakeward.adapters.spark.sql import names
from lakeward.core.events import Operation

NO_TIME: Final = "_lakeward_no_time"
"""Flags a change that tells its place in the log of its source, and no time of the source."""

_UNPLACED: Final = (
    "Only their arrival orders messages that tell no place in the log of their source. If they are flattened, let "
    "ExtractNewRecordState add its fields (`add.fields`: PostgreSQL lsn,sequence; MySQL file,pos,row; SQL Server "
    "commit_lsn; Oracle commit_scn,scn), which docs/reference/plain-files.md lists; where there are none and "
    'partitions go by key, set `places = "arrival"`.'
)

_UNTIMED: Final = (
    "Messages tell their places in the log of their source, but no time of the source. A log that starts over "
    "looks like messages that are delivered again, and its changes would be dropped as stale. If messages are "
    "flattened, let ExtractNewRecordState add `source.ts_ms` (`add.fields`); `ts_ms` is the time of the connector."
)

_NO_DELETE: Final = (
    "Tombstones are skipped, and no message says that its row is deleted. ExtractNewRecordState makes tombstones "
    "of deletes by default: these are lost unless it has `delete.tombstone.handling.mode = rewrite`. Or read "
    'tombstones as deletes (`tombstones = "delete"`).'
)

_NO_DELETED: Final = (
    "No flattened message has the field `__deleted`, and none says that its row is deleted. ExtractNewRecordState "
    "drops deletes, or makes tombstones of them, unless it has `delete.tombstone.handling.mode = rewrite`: deleted "
    "rows stay in the table. Set that; where rows were deleted before, load the table anew."
)

_OLD_KEY_UNKNOWN: Final = (
    "The messages' keys lack a column of the table's `key`, and updates do not tell its value of before. Where an "
    "update changes it, the row with the old key stays. Let the source send rows as they were (PostgreSQL: REPLICA "
    'IDENTITY FULL, messages in their envelope, `before_images = "whole"`), or take the columns of the messages\' '
    "keys as `key`."
)

_ROWS_GONE: Final = (
    "Control messages say that the source table was truncated or dropped. They are skipped, and the rows of before "
    "stay. If these are gone at the source: `lakeward truncate {table} --at FILE`, with the first file of changes "
    "behind the message, or `--at now` where there is none. A task that drops its target tables sends one, too, "
    "before each full load; before the first one there is nothing to do."
)


def with_missing_order(events: DataFrame, options: FilesOptions) -> DataFrame:
    """Flag the messages of an event frame that lack what orders them, where places in a log should do so.

    It is the place, or of a change with a place the time, which shows that the log starts over.
    """
    if not options.has_places:
        return events
    is_change = f"{names.OPERATION} != '{Operation.READ.value}'"
    return events.withColumns(
        {
            NO_PLACE: F.expr(f"{IS_EVENT} AND NOT ({has_order()})"),
            NO_TIME: F.expr(f"{IS_EVENT} AND {is_change} AND {has_order()} AND {names.TIME} IS NULL"),
        }
    )


def count_missing_order(found: Sequence[Group]) -> Mapping[str, int]:
    """Return how many messages lack a place, or the time beside it, by what a person should know of that."""
    flags = {NO_PLACE: _UNPLACED, NO_TIME: _UNTIMED}
    counts = {words: sum(group.rows for group in found if flag in group.flags) for flag, words in flags.items()}
    return {words: count for words, count in counts.items() if count}


def count_lost_deletes(table: TableFiles, found: Sequence[Group]) -> Mapping[str, int]:
    """Return how many tombstones of flattened messages were skipped where no message tells a delete.

    Where there are none either, it is how many changes came, of which none has what tells of a delete. The count is
    by what a person should know of that. Tables without a key keep deleted rows in any case.
    """
    options = table.options
    if options.form != "flattened" or options.tombstones == "delete" or not table.dimension.key:
        return {}
    if any(group.operation == Operation.DELETE.value for group in found):
        return {}
    rows = sum(group.rows for group in found if TOMBSTONE in group.flags)
    if rows or any(HAS_DELETED in group.flags for group in found):
        return {_NO_DELETE: rows} if rows else {}
    changes = sum(g.rows for g in found if g.reason is None and g.operation != Operation.READ.value)
    return {_NO_DELETED: changes} if changes else {}


def count_unknown_keys(found: Sequence[Group]) -> Mapping[str, int]:
    """Return how many updates may leave a row with an old key, by what a person should know of it."""
    rows = sum(group.rows for group in found if OLD_KEY_UNKNOWN in group.flags)
    return {_OLD_KEY_UNKNOWN: rows} if rows else {}


def count_rows_gone(table: TableFiles, found: Sequence[Group]) -> Mapping[str, int]:
    """Return how many messages say that the table was truncated or dropped, by what a person should know of it."""
    rows = sum(group.rows for group in found if ROWS_GONE in group.flags)
    return {_ROWS_GONE.format(table=table.dimension.name): rows} if rows else {}
