"""Rows of parsed Debezium messages in plain Python, equal to those of `adapters.sources.messages.debezium`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeward.adapters.sources.files.local.messages.debezium import NUMBER, LocalDebezium, ParsedMessage
from lakeward.adapters.sources.files.local.messages.log_positions import (
    Field,
    no_place,
    place_and_log,
    place_of_mongodb,
)
from lakeward.adapters.sources.files.local.rows import Columns, Row, strange_names
from lakeward.adapters.sources.files.local.values.documents import NO_OBJECT, Object, text_of
from lakeward.adapters.sources.files.local.values.texts import number
from lakeward.adapters.sources.messages.debezium import IMAGE_AS_TEXT, INITIAL_SNAPSHOT
from lakeward.adapters.sources.messages.decoded import (
    HAS_DELETED,
    KEY_HALF,
    NAMELESS,
    OLD_KEY_UNKNOWN,
    OTHER_TABLE,
    TOMBSTONE,
)
from lakeward.adapters.sources.messages.mongodb import WHY_NOT_READ
from lakeward.adapters.spark.frames.event_frame import DATABASE, INITIAL
from lakeward.adapters.spark.frames.local_casts import SparkNeeded

_WORDS: Final = "the message is not a JSON object with a row"
_NO_IMAGE: Final = "the message has no image of the row after the change"
_LEAVES_ROW: Final = ("insert", "update", "read")
_BLANK: Final = " \t\r\n"
_IMAGES: Final = ("after", "before")


@dataclass(frozen=True, slots=True)
class DebeziumRows:
    """Converts the parsed messages of one table to rows."""

    local: LocalDebezium

    def row_of(self, parsed: ParsedMessage, columns: Columns, own_words: str | None = None) -> Row:
        """Return the row of a message; `own_words` say why no message with a row can be read, if that is so."""
        after, operation, field = parsed.after, parsed.operation, self.local.field_of(parsed)
        broken = self._broken(parsed)
        if broken is None and after is not None:
            broken = own_words
        unset = None if after is None else self._unset(after, operation, columns)
        is_read, message = operation == "read", parsed.message
        time, unread_time = self._time(parsed)
        sequence, log = self._place(field, is_read)
        return Row(
            message.line,
            None if parsed.is_of_other else message.line.text,
            self._cells(parsed, unset or (), columns),
            self._before_cells(parsed, columns),
            unset=unset,
            has_image=self._has_image(parsed, columns),
            operation=operation,
            time=time,
            unread_time=unread_time,
            sequence=sequence,
            log=log,
            transaction=self.local.transaction(parsed),
            broken=broken,
            is_blank=self._is_blank(parsed),
            strange=strange_names(after, columns.places.keys(), self.local.decoder.not_columns),
            extra={
                OTHER_TABLE: parsed.other_table,
                TOMBSTONE: self._is_tombstone(parsed),
                HAS_DELETED: self.local.decoder.is_flat and "__deleted" in (after or {}),
                OLD_KEY_UNKNOWN: self._is_old_key_unknown(parsed),
                KEY_HALF: parsed.is_new_key_half or parsed.is_old_key_half,
                DATABASE: parsed.database,
                INITIAL: is_read and field("snapshot") in INITIAL_SNAPSHOT,
            },
        )

    def _place(self, field: Field, is_read: bool) -> tuple[str, str | None]:
        """Return the sequence of a message, and the log of its position."""
        if not self.local.decoder.has_places:
            return no_place(is_read), None
        if self.local.decoder.documents is not None:
            return place_of_mongodb(field, is_read), None
        return place_and_log(field, is_read)

    def _cells(self, parsed: ParsedMessage, unset: Sequence[str], columns: Columns) -> list[Any]:
        """Return the cells of a row; a deleted row has only its key."""
        operation, after = parsed.operation, parsed.after
        if after is None or operation in ("delete", "truncate"):
            cells: list[Any] = [None] * len(columns.names)
        elif unset:
            cells = [None if name in unset else after.get(name) for name in columns.names]
        else:
            cells = [after.get(name) for name in columns.names]
        for name in columns.key:
            if operation == "delete":
                cells[columns.places[name]] = self.local.deleted_key_cell(parsed, name)
            elif self.local.is_placeholder(cells[columns.places[name]]):
                cells[columns.places[name]] = (parsed.message.key or {}).get(name)
        return cells

    def _unset(self, after: Object, operation: str | None, columns: Columns) -> list[str] | None:
        """Return the columns that were not sent: not logged, or missing in the after image of an update."""
        may_lack = operation == "update"
        if not (may_lack and not after.keys() >= columns.others_set) and not self.local.has_placeholder(after):
            return None
        unsent = [
            n for n in columns.others if (may_lack and n not in after) or self.local.is_placeholder(after.get(n))
        ]
        return unsent or None

    def _before_cells(self, parsed: ParsedMessage, columns: Columns) -> list[Any]:
        is_told = parsed.operation == "update" or (not columns.key and parsed.operation == "delete")
        if not is_told or (parsed.previous_key is None and (self.local.decoder.is_flat or parsed.before is None)):
            return [None] * len(columns.before_columns)
        previous, before = parsed.previous_key or {}, {} if self.local.decoder.is_flat else parsed.before or {}
        return [
            before.get(name) if previous.get(name) is None else previous.get(name)
            for name in columns.before_columns
        ]

    def _is_old_key_unknown(self, parsed: ParsedMessage) -> bool:
        keys = parsed.message.key
        if keys is None or parsed.operation != "update":
            return False
        previous, before = parsed.previous_key or {}, {} if self.local.decoder.is_flat else parsed.before or {}
        images = (keys, previous, before)
        return any(all(image.get(name) is None for image in images) for name in self.local.decoder.key)

    def _has_image(self, parsed: ParsedMessage, columns: Columns) -> bool:
        is_complete = self.local.decoder.before_images == "whole" and not self.local.decoder.is_flat
        if not is_complete or not columns.before_columns or parsed.before is None:
            return False
        return all(name in parsed.before for name in columns.before_columns) and not self.local.has_placeholder(
            parsed.before
        )

    def _time(self, parsed: ParsedMessage) -> tuple[int | None, str | None]:
        """Return the time of the change in microseconds since 1970, and the text of a time that cannot be read.

        It is the time of the source, not that of the connector. At least one of the two is None.
        """
        fields, prefix = (parsed.after, "__source_ts_") if self.local.decoder.is_flat else (parsed.source, "ts_")
        texts = {f"{prefix}{unit}": text_of((fields or {}).get(f"{prefix}{unit}")) for unit in ("us", "ns", "ms")}
        micros, nanos, millis = map(number, texts.values())
        if micros is None and nanos is not None:
            if abs(nanos) >= 10**21:
                raise SparkNeeded("a time is too great a number")
            micros = abs(nanos) // 1000 * (1 if nanos > 0 else -1)
        if micros is None and millis is not None:
            micros = millis * 1000
        if micros is not None and -(2**63) <= micros < 2**63:
            return micros or None, None
        return None, next((f"{name}: {text}" for name, text in texts.items() if text is not None), None)

    def _broken(self, parsed: ParsedMessage) -> str | None:
        if parsed.is_nameless:
            return NAMELESS
        if parsed.is_tombstone:
            return None
        message, operation = parsed.message, parsed.operation
        if message.body is None or parsed.broken is not None:
            return _WORDS if parsed.broken in (None, NO_OBJECT) else parsed.broken
        reason = None if self.local.decoder.documents is None else self.local.field_of(parsed)(WHY_NOT_READ)
        if reason is not None:
            return reason
        if operation is None:
            return "the message has no operation, as one that was flattened"
        if operation in _LEAVES_ROW and parsed.after is None:
            return IMAGE_AS_TEXT if _has_text(message.body) else _NO_IMAGE
        has_header = message.old_key is not None or message.new_key is not None
        is_half = self.local.decoder.links_all and parsed.own_operation in ("insert", "delete") and has_header
        is_lost = (
            is_half and self.local.has_key_columns(message.key) and not self.local.has_key_columns(parsed.other)
        )
        return "the header with the other key of a key change tells no key" if is_lost else None

    def _is_blank(self, parsed: ParsedMessage) -> bool:
        """Return whether a message is skipped: tombstone, heartbeat, transaction marker, or of another table."""
        if parsed.is_tombstone:
            is_none = self.local.decoder.tombstones != "delete"
        else:
            is_none = parsed.message.body is not None and (parsed.operation == "m" or parsed.is_of_none)
        return is_none or parsed.is_moved_delete or parsed.is_of_other

    def _is_tombstone(self, parsed: ParsedMessage) -> bool:
        return parsed.is_tombstone and not parsed.is_of_other and parsed.message.line.text.strip(_BLANK) != ""

    def is_number(self, parsed: ParsedMessage, value: Any, name: str) -> bool:
        """Return whether a cell of a column is a JSON number in its message, and not a text."""
        text = text_of(value)
        if text is None or not NUMBER.fullmatch(text):
            return False
        if parsed.message.is_key_broken:
            raise SparkNeeded("the key of a message is no JSON")
        for document in (parsed.message.body, parsed.message.whole_key):
            payload = (document or {}).get("payload")
            objects = [body for body in (document, payload) if body.__class__ is dict]
            objects += [
                body[part] for body in list(objects) for part in _IMAGES if body.get(part).__class__ is dict
            ]
            values = [body.get(name) for body in objects]
            if any(cell is not None and cell.__class__ is not str and text_of(cell) == text for cell in values):
                return True
        return False


def _has_text(body: Object) -> bool:
    """Return whether the after image is a JSON object in a text."""
    payload = body.get("payload")
    image = payload.get("after") if payload.__class__ is dict else None
    image = body.get("after") if image is None else image
    return image.__class__ is str and image.lstrip(" ").startswith("{")
