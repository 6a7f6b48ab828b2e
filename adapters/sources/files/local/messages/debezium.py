"""Debezium messages parsed in plain Python, as `lakeward.adapters.sources.messages.debezium` parses them in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lakeward.adapters.sources.files.local.messages.message import Message, inner_of
from lakeward.adapters.sources.files.local.values.documents import Documents, Object, text_of
from lakeward.adapters.sources.messages.debezium import (
    HEARTBEAT,
    MARKER,
    NO_ROW,
    OPERATIONS,
    SCHEMA_CHANGE,
    Debezium,
)
from lakeward.adapters.sources.messages.decoded import LONGEST_NAME
from lakeward.adapters.sources.messages.message import placeholders
from lakeward.adapters.sources.messages.transaction_ids import transaction_name
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.core.dimension import TableName

_NO_ROW: Final = re.compile(NO_ROW.removeprefix(r"\A").removesuffix(r"\z"), re.ASCII)
NUMBER: Final = re.compile(r"-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?")
"""Matches the text of a JSON number."""

_BLANK: Final = " \t\r\n"
_TRANSACTION: Final = ("txId", "gtid", "commit_lsn", "commit_scn", "ts_ms")


@dataclass(slots=True)
class ParsedMessage:
    """A parsed message.

    `after`, `before`, `source` and `block` (the transaction's id) are its parts. `own_operation` is the operation
    in the message, `operation` the one after key changes were linked. `other` is the other key of a key change, by
    the message's headers. `broken` says in words what is wrong with the message. `is_of_none` marks messages of no
    row, `is_of_other` those of another table, which is `other_table` if the message has a row, and `is_nameless`
    those that do not name a table although they must.

    The other fields are about key changes. `lacks_values` marks an insert with values that were not logged, and
    `previous_key` is the old key of its row. `is_moved_delete` marks a delete that is half of a key change.
    `is_old_key_half` and `is_new_key_half` mark the delete and the insert of a key change by headers, if both are
    applied.
    """

    message: Message
    after: Object | None = None
    before: Object | None = None
    source: Object | None = None
    own_operation: str | None = None
    block: str | None = None
    other: Object | None = None
    broken: str | None = None
    other_table: str | None = None
    database: str | None = None
    is_tombstone: bool = False
    is_of_none: bool = False
    is_of_other: bool = False
    is_nameless: bool = False
    lacks_values: bool = False
    previous_key: Object | None = None
    is_moved_delete: bool = False
    is_new_key_half: bool = False
    is_old_key_half: bool = False
    operation: str | None = None

    @property
    def schema(self) -> Object | None:
        """The schema in the message."""
        return (self.message.body or {}).get("schema")


@dataclass(slots=True)
class LocalDebezium:
    """Parser of the messages of one table; `words` are the placeholders of values that were not logged."""

    decoder: Debezium
    table: TableName
    documents: Documents
    words: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.words = frozenset(placeholders(self.decoder.unavailable))

    def why_not(self) -> str | None:
        """Return in words why Spark must decode the messages; None if plain Python can."""
        is_other = any(NUMBER.fullmatch(word) or word in ("true", "false") for word in self.words)
        return "`unavailable_value` may be a number" if is_other else None

    def open(self, message: Message) -> ParsedMessage:
        """Parse a message."""
        parsed = ParsedMessage(message, broken=message.problem)
        parsed.is_tombstone = is_tombstone(message.value)
        op = self._open_row(parsed) if self.decoder.is_flat else self._open_envelope(parsed)
        header = message.new_key if message.old_key is None else message.old_key
        if header is not None:
            _, parsed.other = inner_of(self.documents, header)
        field = self.field_of(parsed)
        schema, table = self._names(parsed, field)
        parsed.is_of_other = differs(schema, self.table.schema) or differs(table, self.table.table)
        if parsed.is_of_other:
            if self._has_row(parsed, op):
                parsed.other_table = f"{or_star(schema)}.{or_star(table)}"[:LONGEST_NAME]
        else:
            parsed.own_operation = self._own_operation(parsed, op)
            named = {"schema": schema, "table": table}
            has_row = self._has_row(parsed, op) or (parsed.is_tombstone and self.decoder.tombstones == "delete")
            parsed.is_nameless = has_row and any(named[part] is None for part in self.decoder.must_name)
            if self._has_row(parsed, op):
                parsed.database = _database(field("name"), None if field("schema") is None else field("db"))
        parsed.operation = parsed.own_operation
        self._link(parsed)
        if not self.decoder.is_flat and op is None:
            parsed.is_of_none = self._is_of_none(inner_of(self.documents, message.body)[1])
        if parsed.is_of_other:
            parsed.after = None
        return parsed

    def _open_envelope(self, parsed: ParsedMessage) -> str | None:
        body = parsed.message.body
        if body is None:
            return None
        payload = body.get("payload")
        if payload.__class__ is not dict:
            payload = {}
        after, before, source, block = (
            _first_object(payload.get(part), body.get(part))
            for part in ("after", "before", "source", "transaction")
        )
        parsed.after, parsed.before, parsed.source = after, before, source
        parsed.block = None if block is None else text_of(block.get("id"))
        op = payload.get("op")
        return text_of(body.get("op") if op is None else op)

    def _open_row(self, parsed: ParsedMessage) -> str | None:
        body = parsed.message.body
        if body is not None and "payload" in body and len(body) - ("schema" in body) == 1:
            parsed.after, problem = self.documents.parse_part(body["payload"])
            parsed.broken = problem
        else:
            parsed.after = body
        op = None if parsed.after is None else text_of(parsed.after.get("__op"))
        parsed.is_of_none = op is None and self._is_of_none(parsed.after)
        if parsed.is_of_none:
            parsed.after = None
        return op

    def field_of(self, parsed: ParsedMessage) -> Callable[[str], str | None]:
        """Return a function for the fields of the source; in a flattened row their names have a prefix."""
        if not self.decoder.is_flat:
            source = parsed.source or {}
            return lambda name: text_of(source.get(name))
        after = parsed.after or {}

        def field(name: str) -> str | None:
            value = after.get(f"__{name}")
            return text_of(after.get(f"__source_{name}") if value is None else value)

        return field

    def _names(self, parsed: ParsedMessage, field: Callable[[str], str | None]) -> tuple[str | None, str | None]:
        topic = parsed.message.topic
        parts = [] if topic is None else topic.split(".")
        schema, table = field("schema"), field("table")
        if table is None:
            table = field("collection")
        if schema is None:
            schema = field("db")
        if schema is None and len(parts) > 1:
            schema = parts[-2]
        return schema, parts[-1] if table is None and parts else table

    def _has_row(self, parsed: ParsedMessage, op: str | None) -> bool:
        if not self.decoder.is_flat:
            return op in OPERATIONS
        row = parsed.after
        return row is not None and not parsed.is_tombstone

    def _own_operation(self, parsed: ParsedMessage, op: str | None) -> str | None:
        if parsed.is_tombstone and self.decoder.tombstones == "delete":
            return "delete"
        if self.decoder.is_flat:
            deleted = None if parsed.after is None else text_of(parsed.after.get("__deleted"))
            if deleted is not None and deleted.lower() != "false":
                return "delete" if deleted.lower() == "true" else f"__deleted: {deleted}"
            op = self.decoder.without_op if op is None else op
        return op if op is None else OPERATIONS.get(op, op)

    def _is_of_none(self, body: Object | None) -> bool:
        """Return whether an object without an operation is a heartbeat, a transaction marker or a schema change."""
        if body is None:
            return False
        is_heartbeat = body.keys() == {HEARTBEAT} and HEARTBEAT not in self.decoder.key
        is_marker = MARKER <= body.keys() <= {*MARKER, HEARTBEAT}
        return is_heartbeat or is_marker or body.keys() >= SCHEMA_CHANGE

    # Key changes.

    def _link(self, parsed: ParsedMessage) -> None:
        """Set the fields of halves of key changes that have headers."""
        message, links_all = parsed.message, self.decoder.links_all
        parsed.lacks_values = (
            parsed.own_operation == "insert" and parsed.after is not None and self.has_placeholder(parsed.after)
        )
        if message.old_key is None and message.new_key is None:
            return
        is_half = self.has_key_columns(message.key) and self.has_key_columns(parsed.other)
        is_new_key_half = parsed.own_operation == "insert" and message.old_key is not None and is_half
        is_old_key_half = parsed.own_operation == "delete" and message.new_key is not None and is_half
        if is_new_key_half and (links_all or parsed.lacks_values):
            parsed.previous_key, parsed.operation = parsed.other, "update"
        parsed.is_moved_delete = links_all and is_old_key_half
        has_halves = self.decoder.has_halves
        parsed.is_new_key_half, parsed.is_old_key_half = (
            has_halves and is_new_key_half,
            has_halves and is_old_key_half,
        )

    def has_placeholder(self, row: Object) -> bool:
        """Return whether a row has a value that was not logged."""
        try:
            return not self.words.isdisjoint(row.values())
        except TypeError:  # a list or an object has no hash
            return any(self.is_placeholder(value) for value in row.values())

    def is_placeholder(self, value: Any) -> bool:
        """Return whether a value is a placeholder for one that was not logged."""
        if value.__class__ is str:
            return value in self.words
        return value.__class__ in (list, dict) and text_of(value) in self.words

    def has_key_columns(self, keys: Object | None) -> bool:
        """Return whether the key of a message has each column of the table's key."""
        return keys is not None and all(keys.get(name) is not None for name in self.decoder.key)

    def deleted_key_cell(self, parsed: ParsedMessage, name: str) -> Any:
        """Return a key cell of a deleted row."""
        keys = parsed.message.key
        cell = None if keys is None else keys.get(name)
        image = parsed.after if self.decoder.is_flat else parsed.before
        image_cell = None if image is None else image.get(name)
        if self.decoder.before_images == "whole":
            return image_cell if cell is None else cell
        return image_cell if keys is None else cell

    def transaction(self, parsed: ParsedMessage) -> str | None:
        """Return the name of a message's transaction; None without one."""
        field = self.field_of(parsed)
        id_ = parsed.block
        if self.decoder.is_flat and parsed.after is not None:
            id_ = text_of(parsed.after.get("__transaction_id"))
        if id_ is not None:
            return transaction_name(id_)
        return next((t for t in map(field, _TRANSACTION) if t is not None), None)


def _first_object(*values: Any) -> Object | None:
    return next((value for value in values if value.__class__ is dict), None)


def _database(*names: str | None) -> str | None:
    """Return the names of a connector and a database in lower case, joined by a dot; None if both are missing."""
    database = ".".join(name for name in names if name)
    if not database.isascii():
        raise SparkNeeded("a message names a connector or a database in letters beyond ASCII")
    return database[:LONGEST_NAME].lower() or None


def or_star(name: str | None) -> str:
    """Return a part of a table's name; `*` if the message does not name it."""
    return "*" if name is None else name


def differs(name: str | None, expected: str) -> bool:
    """Return whether a name differs from `expected`; case is ignored, and a missing name does not differ."""
    if name is None or (name == expected and name == name.lower()):
        return False
    if not name.isascii():
        raise SparkNeeded("a message names a table in letters beyond ASCII")
    return name.lower() != expected.lower()


def is_tombstone(value: Any) -> bool:
    """Return whether a message has no value: none at all, an empty one, or a schema with an empty payload."""
    if value is None:
        return True
    if value.__class__ is dict:
        return not value or (
            value.keys() <= {"schema", "payload"}
            and "payload" in value
            and not any(inner is not None for inner in value.values())
        )
    if value.__class__ is not str:
        return False
    bare = value.strip(_BLANK)
    return bare in ("", "null", "{}") or (len(value) < 100 and _NO_ROW.fullmatch(bare) is not None)
