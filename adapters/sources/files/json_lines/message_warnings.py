"""Warnings about the messages of a batch, each with the number of messages."""

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
"""Flags a change with a position in the log of its source, but without a time of the source."""

_NO_POSITIONS: Final = (
    "Messages without a position in the log of their source are ordered by arrival alone. If they are flattened, "
    "let ExtractNewRecordState add its fields (`add.fields`: PostgreSQL lsn,sequence; MySQL file,pos,row; SQL "
    "Server commit_lsn; Oracle commit_scn,scn), which docs/reference/plain-files.md lists. If there are no "
    'positions and partitions go by key, set `places = "arrival"`.'
)

_NO_TIMES: Final = (
    "Messages have positions in the log of their source, but no time of the source. If the log starts over, its "
    "changes look like messages that are delivered again, and would be dropped as stale. If messages are "
    "flattened, let ExtractNewRecordState add `source.ts_ms` (`add.fields`); `ts_ms` is the time of the "
    "connector."
)

_LOST_DELETES: Final = (
    "Tombstones are skipped, and no message says that its row is deleted. ExtractNewRecordState turns deletes "
    "into tombstones by default: these are lost unless it has `delete.tombstone.handling.mode = rewrite`. Or read "
    'tombstones as deletes (`tombstones = "delete"`).'
)

_DROPPED_DELETES: Final = (
    "No flattened message has the field `__deleted`, and none says that its row is deleted. ExtractNewRecordState "
    "drops deletes, or turns them into tombstones, unless it has `delete.tombstone.handling.mode = rewrite`: "
    "deleted rows stay in the table. Set that mode. If rows were deleted before, load the table again."
)

_OLD_KEY_UNKNOWN: Final = (
    "The keys of messages lack a column of the table's `key`, and updates do not have its old value. If an update "
    "changes it, the row with the old key stays. Let the source send before images (PostgreSQL: REPLICA IDENTITY "
    'FULL, messages in their envelope, `before_images = "whole"`), or use the columns of the messages\' keys as '
    "`key`."
)

_ROWS_GONE: Final = (
    "Control messages say that the source table was truncated or dropped. They are skipped, and older rows stay. "
    "If these are gone at the source: `lakeward truncate {table} --at FILE`, with the first file of changes after "
    "the message, or `--at now` if there is none. A task that drops its target tables sends such a message before "
    "each full load as well; before the first one there is nothing to do."
)


def with_missing_order(events: DataFrame, options: FilesOptions) -> DataFrame:
    """Flag the messages of an event frame that lack a position, or a time in addition to it.

    Nothing is flagged if messages need no positions. The time is needed to see that the log starts over.
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


def count_missing_order(groups: Sequence[Group]) -> Mapping[str, int]:
    """Return warnings with the numbers of messages that lack a position, or a time in addition to it."""
    flags = {NO_PLACE: _NO_POSITIONS, NO_TIME: _NO_TIMES}
    counts = {words: sum(group.rows for group in groups if flag in group.flags) for flag, words in flags.items()}
    return {words: count for words, count in counts.items() if count}


def count_lost_deletes(table: TableFiles, groups: Sequence[Group]) -> Mapping[str, int]:
    """Return a warning if deletes may have been lost because flattened messages do not say them.

    It has the number of skipped tombstones if the batch has no delete. Without tombstones it has the number of
    changes, if none has the field that marks deletes. There is none for a table without a key, which keeps deleted
    rows.
    """
    options = table.options
    if options.form != "flattened" or options.tombstones == "delete" or not table.dimension.key:
        return {}
    if any(group.operation == Operation.DELETE.value for group in groups):
        return {}
    rows = sum(group.rows for group in groups if TOMBSTONE in group.flags)
    if rows or any(HAS_DELETED in group.flags for group in groups):
        return {_LOST_DELETES: rows} if rows else {}
    changes = sum(g.rows for g in groups if g.reason is None and g.operation != Operation.READ.value)
    return {_DROPPED_DELETES: changes} if changes else {}


def count_unknown_keys(groups: Sequence[Group]) -> Mapping[str, int]:
    """Return a warning with the number of updates that may leave a row with an old key."""
    rows = sum(group.rows for group in groups if OLD_KEY_UNKNOWN in group.flags)
    return {_OLD_KEY_UNKNOWN: rows} if rows else {}


def count_rows_gone(table: TableFiles, groups: Sequence[Group]) -> Mapping[str, int]:
    """Return a warning with the number of messages saying that the table was truncated or dropped."""
    rows = sum(group.rows for group in groups if ROWS_GONE in group.flags)
    return {_ROWS_GONE.format(table=table.dimension.name): rows} if rows else {}
