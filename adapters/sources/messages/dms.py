"""Decoder of messages of AWS DMS in SQL: JSON of `data` and `metadata`, as for its targets Kafka and Kinesis.

docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.Kafka.html. NULLs are left out of `data` unless the endpoint
has IncludeNullAndEmpty. Values before a change are in `before-image`, or in columns with a prefix.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from pyspark.sql import DataFrame

from lakeward.adapters.sources.messages.decoded import NAMELESS, OF_OTHER, ROWS_GONE, Decoded, bare, other_table
from lakeward.adapters.sources.messages.log_positions import no_place
from lakeward.adapters.sources.messages.message import (
    BODY,
    MESSAGE_OF_DMS,
    PARTS_OF_DMS,
    cell,
    has,
    why_broken,
    with_parsed,
)
from lakeward.adapters.spark.frames.source_rows import RowSettings
from lakeward.adapters.spark.sql.casts import TextFormat, to_type
from lakeward.adapters.spark.sql.names import text
from lakeward.core.dimension import TableName
from lakeward.core.schema import Type

OPERATIONS: Final = {"load": "read", "insert": "insert", "update": "update", "delete": "delete"}
"""The operations of rows by the words in `metadata.operation`."""

ROW_REMOVALS: Final = ("truncate-table", "drop-table")
"""The words in `metadata.operation` of control messages after which a table has no rows."""

_ROOT, _DATA = "_lakeward_root", "_lakeward_data"
_META, _BEFORE, _PARSED = "_lakeward_metadata", "_lakeward_before", "_lakeward_parsed"
_PARTS: Final = dict(zip((_DATA, _META, _BEFORE), PARTS_OF_DMS, strict=True))
_KIND: Final = f"lower(coalesce({cell(_META, 'record-type')}, 'data'))"
_IS_ROW: Final = f"({_KIND} != 'control')"
OTHER_KIND: Final = "its record-type is neither data nor control"
NO_IMAGE: Final = "its before-image is no object"


@dataclass(frozen=True, slots=True, kw_only=True)
class DmsMessages:
    """The decoder of one table's messages, by the settings of its replication task.

    Columns whose names begin with `before_prefix` have values before the change. If tables share a folder,
    `must_name` says which parts of its table's name a message must have.
    """

    before_prefix: str | None = None
    must_name: frozenset[str] = frozenset()

    row: ClassVar[str] = _DATA
    """The column with the image of a row, in parsed messages."""

    @property
    def not_columns(self) -> str | None:
        """A regular expression for fields of a row that are no columns; None if there are none."""
        return None if self.before_prefix is None else rf"{re.escape(self.before_prefix)}.*"

    def parse(self, messages: DataFrame, table: TableName) -> DataFrame:
        """Return parsed messages, flagged if they are of another table, and with the name of that table."""
        frame = with_parsed(messages, {_PARSED: BODY}, MESSAGE_OF_DMS).selectExpr(
            "*",
            f"{_PARSED}.it IS NOT NULL AND {_PARSED}.broken IS NULL AS {_ROOT}",
            *[f"{_PARSED}.it.`{name}` AS {part}" for part, name in _PARTS.items()],
        )
        names = {"schema-name": table.schema, "table-name": table.table}
        is_of_other = " OR ".join(
            f"coalesce(lower({cell(_META, name)}) != {text(expected.lower())}, false)"
            for name, expected in names.items()
        )
        frame = frame.selectExpr("*", f"{is_of_other} AS {OF_OTHER}")
        schema, name = (cell(_META, part) for part in names)
        has_row = f"{_IS_ROW} AND {_DATA} IS NOT NULL"
        return frame.selectExpr("*", other_table(schema, name, has_row))

    def decode(self, settings: RowSettings) -> Decoded:
        """Return the cells and the other parts of parsed messages, as SQL."""
        schema, before_columns, operation = (
            settings.dimension.schema,
            settings.dimension.before_columns,
            cell(_META, "operation"),
        )
        cases = " ".join(f"WHEN '{word}' THEN '{meaning}'" for word, meaning in OPERATIONS.items())
        is_change = f"{operation} = 'update'" if settings.dimension.key else f"{operation} IN ('update', 'delete')"
        before = {name: f"CASE WHEN {is_change} THEN {self._before(name)} END" for name in before_columns}
        time = f"coalesce({cell(_META, 'commit-timestamp')}, {cell(_META, 'timestamp')})"
        return Decoded(
            cells={c.name: cell(_DATA, c.name) for c in schema},
            before=before,
            has_image=self._has_image(before_columns, operation),
            operation=f"CASE {operation} {cases} ELSE {operation} END",
            time=f"unix_micros({to_type(time, Type('timestamp'), TextFormat())})",
            unread_time=f"concat('the time of metadata: ', {time})",
            sequence=no_place(f"{operation} = 'load'"),
            transaction=f"coalesce({cell(_META, 'transaction-id')}, {time})",
            broken=self._broken(),
            blank=self._blank(),
        )

    def rows_gone(self) -> str:
        """Return the flag `ROWS_GONE` of a parsed message, as SQL with its name."""
        is_gone = f"{cell(_META, 'operation')} IN ({', '.join(map(text, ROW_REMOVALS))})"
        return f"coalesce(NOT {_IS_ROW} AND {is_gone} AND NOT {OF_OTHER}, false) AS {ROWS_GONE}"

    def _blank(self) -> str:
        is_none = f"{BODY} IS NULL OR {bare(BODY)} IN ('', 'null') OR NOT ({_IS_ROW})"
        return f"coalesce({is_none}, false) OR {OF_OTHER}"

    def _has_image(self, columns: Sequence[str], operation: str) -> str:
        """Return whether a message has all values before the change, as SQL; a missing one may not be NULL."""
        images = {name: has(_BEFORE, name) for name in columns}
        if self.before_prefix is not None:
            images = {name: f"({has(_DATA, self.before_prefix + name)} OR {sql})" for name, sql in images.items()}
        deleted_images = [f"({has(_DATA, name)} OR {sql})" for name, sql in images.items()]
        has_images, has_deleted_images = (
            " AND ".join(conditions) or "false" for conditions in (images.values(), deleted_images)
        )
        return f"CASE WHEN {operation} = 'delete' THEN {has_deleted_images} ELSE {has_images} END"

    def _before(self, name: str) -> str:
        image = cell(_BEFORE, name)
        return (
            image if self.before_prefix is None else f"coalesce({cell(_DATA, self.before_prefix + name)}, {image})"
        )

    def _broken(self) -> str:
        reason = why_broken(BODY, "the message is not a JSON object")
        image_is_no_object = f"{_BEFORE} IS NULL AND get_json_object({BODY}, '$.before-image') IS NOT NULL"
        return (
            f"CASE WHEN NOT coalesce({_ROOT}, false) THEN {reason} WHEN {_IS_ROW} AND "
            f"({_DATA} IS NULL OR {_META} IS NULL) THEN 'the message lacks data or metadata' "
            f"WHEN {_KIND} NOT IN ('data', 'control') THEN {text(OTHER_KIND)} "
            f"WHEN {_IS_ROW} AND {image_is_no_object} THEN {text(NO_IMAGE)} "
            f"WHEN {_IS_ROW} AND ({self._is_nameless()}) THEN {text(NAMELESS)} END"
        )

    def _is_nameless(self) -> str:
        """Return whether metadata lack a name that they must have, as SQL."""
        return " OR ".join(f"{cell(_META, f'{part}-name')} IS NULL" for part in sorted(self.must_name)) or "false"
