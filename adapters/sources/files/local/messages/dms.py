"""Messages of AWS DMS decoded in plain Python, as `lakeward.adapters.sources.messages.dms` decodes them in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lakeward.adapters.sources.files.local.messages.debezium import differs, or_star
from lakeward.adapters.sources.files.local.messages.log_positions import no_place
from lakeward.adapters.sources.files.local.messages.message import Message
from lakeward.adapters.sources.files.local.rows import Columns, Row, strange_names
from lakeward.adapters.sources.files.local.values.documents import NO_OBJECT, Object, text_of
from lakeward.adapters.sources.files.local.values.typed_values import reader_of
from lakeward.adapters.sources.messages.decoded import LONGEST_NAME, NAMELESS, OTHER_TABLE, PLAIN, ROWS_GONE
from lakeward.adapters.sources.messages.dms import NO_IMAGE, OPERATIONS, OTHER_KIND, ROW_REMOVALS, DmsMessages
from lakeward.core.dimension import TableName
from lakeward.core.schema import Type

_MOMENT: Final = reader_of(Type("timestamp"), PLAIN)


@dataclass(frozen=True, slots=True)
class LocalDms:
    """Decoder of the messages of one table."""

    decoder: DmsMessages
    table: TableName

    def row_of(self, message: Message, columns: Columns) -> Row:
        """Return the row of a message; a message of another table is a skipped row without contents."""
        body = message.body or {}
        image = body.get("before-image")
        parts = (body.get("data"), body.get("metadata"), image)
        data, meta, before = (part if part.__class__ is dict else None for part in parts)
        metadata = meta or {}
        schema, table = text_of(metadata.get("schema-name")), text_of(metadata.get("table-name"))
        is_of_other = differs(schema, self.table.schema) or differs(table, self.table.table)
        is_nameless = any(metadata.get(f"{part}-name") is None for part in self.decoder.must_name)
        said_kind = text_of(metadata.get("record-type"))
        kind = "data" if said_kind is None else said_kind.lower()
        is_row = kind != "control"
        has_row = is_of_other and is_row and data is not None
        data = None if is_of_other else data
        operation, time_text = text_of(metadata.get("operation")), _time_text(metadata)
        transaction = text_of(metadata.get("transaction-id"))
        other = f"{or_star(schema)}.{or_star(table)}"[:LONGEST_NAME] if has_row else None
        cells, time = data or {}, None if time_text is None else _MOMENT(time_text)
        return Row(
            message.line,
            None if is_of_other else message.line.text,
            [cells.get(name) for name in columns.names],
            self._before_cells(operation, data, before, columns),
            has_image=self._has_image(operation, data, before, columns),
            operation=operation if operation is None else OPERATIONS.get(operation, operation),
            time=time,
            unread_time=None if time_text is None or time is not None else f"the time of metadata: {time_text}",
            sequence=no_place(operation == "load"),
            transaction=time_text if transaction is None else transaction,
            broken=_broken(
                *(message, kind),
                lacks_part=data is None or meta is None,
                image_is_no_object=before is None and image is not None,
                is_nameless=is_nameless,
            ),
            is_blank=is_of_other or message.is_bare or not is_row,
            strange=strange_names(data, columns.places.keys(), self.decoder.not_columns),
            extra={OTHER_TABLE: other, ROWS_GONE: not is_row and operation in ROW_REMOVALS and not is_of_other},
        )

    def _before_cells(
        self, operation: str | None, data: Object | None, before: Object | None, columns: Columns
    ) -> list[Any]:
        is_change = operation == "update" or (not columns.key and operation == "delete")
        prefix = self.decoder.before_prefix
        if not is_change:
            return [None] * len(columns.before_columns)
        cells = {} if data is None or prefix is None else {n: data.get(prefix + n) for n in columns.before_columns}
        image = before or {}
        return [image.get(name) if cells.get(name) is None else cells[name] for name in columns.before_columns]

    def _has_image(
        self, operation: str | None, data: Object | None, before: Object | None, columns: Columns
    ) -> bool:
        """Return whether a message has all values before the change; a missing one is not certainly NULL."""
        prefix, image, cells = self.decoder.before_prefix, before or {}, data or {}

        def is_set(name: str) -> bool:
            return name in image or (prefix is not None and prefix + name in cells)

        before_columns = columns.before_columns
        return bool(before_columns) and all(
            is_set(name) or (operation == "delete" and name in cells) for name in before_columns
        )


def _time_text(metadata: Object) -> str | None:
    """Return the text of the commit time, else that of the time at which the message was made."""
    commit_time = text_of(metadata.get("commit-timestamp"))
    return text_of(metadata.get("timestamp")) if commit_time is None else commit_time


def _broken(
    message: Message, kind: str, *, lacks_part: bool, image_is_no_object: bool, is_nameless: bool
) -> str | None:
    if message.body is None:
        return "the message is not a JSON object" if message.problem in (None, NO_OBJECT) else message.problem
    if kind == "control":
        return None
    if lacks_part:
        return "the message lacks data or metadata"
    if kind != "data":
        return OTHER_KIND
    if image_is_no_object:
        return NO_IMAGE
    return NAMELESS if is_nameless else None
