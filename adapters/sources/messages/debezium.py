"""Decoder of Debezium messages in SQL, in their envelope or flattened (`ExtractNewRecordState`).

debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events and
debezium.io/documentation/reference/stable/transformations/event-flattening.html. Its input is a frame with the
columns of `lakeward.adapters.sources.messages.message`. Spark's expressions decode it row by row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.sources.messages import log_positions
from lakeward.adapters.sources.messages.added_fields import PATTERN as ADDED
from lakeward.adapters.sources.messages.decoded import (
    HAS_DELETED,
    KEY_HALF,
    LONGEST_NAME,
    NAMELESS,
    NULL,
    OF_OTHER,
    OLD_KEY_UNKNOWN,
    TOMBSTONE,
    Decoded,
    bare,
    other_table,
)
from lakeward.adapters.sources.messages.json.wire_format import number
from lakeward.adapters.sources.messages.key_changes import LINKED_KEY, MOVED, Half, link_key_changes
from lakeward.adapters.sources.messages.message import (
    BODY,
    CELLS,
    ENVELOPE,
    KEY,
    NEW_KEY,
    OLD_KEY,
    TOPIC,
    UNAVAILABLE,
    cell,
    has,
    placeholders,
    why_broken,
    with_parsed,
)
from lakeward.adapters.sources.messages.mongodb import WHY_NOT_READ, MongoMessages
from lakeward.adapters.sources.messages.transaction_ids import transaction_name_of
from lakeward.adapters.spark.frames.event_frame import DATABASE, INITIAL
from lakeward.adapters.spark.frames.source_rows import NAME, VALUE, RowSettings
from lakeward.adapters.spark.session.compatibility import is_valid_utf8
from lakeward.adapters.spark.sql.names import text
from lakeward.core.dimension import TableName
from lakeward.core.schema import Column

OPERATIONS: Final = {"c": "insert", "u": "update", "d": "delete", "r": "read", "t": "truncate"}
"""The meaning of the letters in `op`, except for messages that are no rows (`m`)."""

INITIAL_SNAPSHOT: Final = (*("true", "first", "first_in_data_collection", "last_in_data_collection", "last"),)
"""The values of `source.snapshot` in rows of an initial snapshot; in an incremental one it is `incremental`."""

_PARSED, _IS_OBJECT, IS_TOMBSTONE = "_lakeward_parsed", "_lakeward_is_object", "_lakeward_is_tombstone"
_KEY_PARSED, _KEY_INNER, _KEYS = "_lakeward_key_parsed", "_lakeward_key_inner", "_lakeward_keys"
_INNER, _PLAIN = "_lakeward_inner", "_lakeward_plain"
_AFTER, _BEFORE, _SOURCE = "_lakeward_after", "_lakeward_before", "_lakeward_source"
_OP, _BLOCK, _OWN_OP = "_lakeward_op", "_lakeward_transaction_block", "_lakeward_said"
_OTHER_PARSED, _OTHER_INNER, _OTHER = "_lakeward_other_parsed", "_lakeward_other_inner", "_lakeward_other_key"
_NEEDS = "_lakeward_needs"
_IS_OF_NONE = "_lakeward_is_of_none"
_OPERATION, _BARE, _BARE_INNER = "_lakeward_what", "_lakeward_bare", "_lakeward_bare_inner"

_PARTS: Final = {_AFTER: "after", _BEFORE: "before", _SOURCE: "source", _OP: "op", _BLOCK: "transaction"}

HEARTBEAT: Final = "ts_ms"
MARKER: Final = frozenset(("status", "id", "event_count", "data_collections"))
SCHEMA_CHANGE: Final = frozenset(("source", "databaseName", "ddl"))
"""The only field of a heartbeat, the fields of a transaction marker (BEGIN or END), which may have that field too,
and the fields of a schema change.

A row whose only column is `ts_ms` is no heartbeat if that column is the key.
"""

IMAGE_AS_TEXT: Final = (
    "its image of the row after the change is a text of JSON, as the connector for MongoDB writes it: say "
    "`documents`, or let ExtractNewDocumentState flatten the messages"
)

NO_ROW: Final = r'\A\{\s*("schema"\s*:\s*null\s*,\s*)?"payload"\s*:\s*null\s*(,\s*"schema"\s*:\s*null\s*)?\}\z'
"""Matches a tombstone that a converter with schemas wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Debezium:
    """The decoder of one table's messages, by the settings of its connector.

    `unavailable` is the placeholder of values that were not logged. With `tombstones` = "delete" a tombstone
    deletes the row of its key. `has_places` says that log positions order changes, and not only arrival. `key` is
    the key of the table. `before_images` says for which columns the before image of a delete has true values.
    `partitions` are the topic's partitions by file, as far as names have one. If tables share a folder, `must_name`
    says which parts of its table's name a message must have. `documents` rewrites messages of the connector for
    MongoDB.

    A key change comes as a delete and an insert, which headers link. With `links_all` they always become one
    update. Otherwise they do only if it matters: if the insert has values that were not logged, or if another row
    leaves that key later in the transaction. They never do if the keys of messages lack a column of `key`.
    """

    form: Literal["envelope", "flattened"] = "envelope"
    unavailable: str = UNAVAILABLE
    tombstones: Literal["skip", "delete"] = "skip"
    links_all: bool = False
    has_places: bool = True
    key: Sequence[str] = ()
    before_images: Literal["key", "whole"] = "key"
    partitions: Mapping[str, int] = field(default_factory=dict)
    must_name: frozenset[str] = frozenset()
    documents: MongoMessages | None = None

    row: ClassVar[str] = _AFTER
    """The column with the after image of a row, in parsed messages."""

    @property
    def is_flat(self) -> bool:
        """Whether messages are flattened: the columns of a row are fields of its message."""
        return self.form == "flattened"

    @property
    def without_op(self) -> str:
        """The operation of a flattened message without one: a table without a key takes no updates."""
        return "update" if self.key else "insert"

    @property
    def not_columns(self) -> str | None:
        """A regular expression for fields of a row that are no columns; None if there are none."""
        return ADDED if self.is_flat else None

    def parse(self, messages: DataFrame, table: TableName) -> DataFrame:
        """Return parsed messages, flagged if they are of another table, and with the name of that table."""
        frame = self._with_parts(messages).selectExpr("*", f"{self._is_of_other(table)} AS {OF_OTHER}")
        frame = frame.selectExpr(
            "*",
            other_table(*self._names(), self._has_row()),
            f"CASE WHEN NOT {OF_OTHER} THEN {self._own_operation()} END AS {_OWN_OP}",
        )
        if not self.is_flat:
            frame = with_parsed(frame, {_BARE: f"CASE WHEN {_OP} IS NULL THEN {BODY} END"})
            frame = with_parsed(frame, {_BARE_INNER: cell(f"{_BARE}.it", "payload")})
            bare_row = f"coalesce({_BARE_INNER}.it, {_BARE}.it)"
            frame = frame.selectExpr("*", f"coalesce({self._is_of_none(bare_row)}, false) AS {_IS_OF_NONE}")
        return self._by_headers(frame)

    def _with_parts(self, messages: DataFrame) -> DataFrame:
        """Add the parts of messages: the keys, and the envelope or the flattened row."""
        if self.documents is not None:
            messages = _convert_documents(messages, self.documents)
        frame = with_parsed(messages, {_PARSED: BODY}, CELLS if self.is_flat else ENVELOPE)
        frame = with_parsed(frame, {_KEY_PARSED: KEY, _OTHER_PARSED: f"coalesce({OLD_KEY}, {NEW_KEY})"})
        inner = {_INNER: f"CASE WHEN {_is_wrapped()} THEN {cell(f'{_PARSED}.it', 'payload')} END"}
        frame = with_parsed(
            frame,
            {
                _KEY_INNER: cell(f"{_KEY_PARSED}.it", "payload"),
                _OTHER_INNER: cell(f"{_OTHER_PARSED}.it", "payload"),
                **(inner if self.is_flat else {}),
            },
        )
        plain = [f"CASE WHEN NOT ({_is_wrapped()}) THEN {_PARSED}.it END AS {_PLAIN}"]
        frame = frame.selectExpr(
            "*",
            f"{_PARSED}.it IS NOT NULL AND {_PARSED}.broken IS NULL AS {_IS_OBJECT}",
            f"{is_tombstone()} AS {IS_TOMBSTONE}",
            *(plain if self.is_flat else _enveloped()),
        )
        row = f"coalesce({_PLAIN}, {_INNER}.it)"
        is_none = f"{cell(row, '__op')} IS NULL AND {self._is_of_none(row)}"
        is_none = f"coalesce({is_none}, false)"
        flat = [f"{is_none} AS {_IS_OF_NONE}", f"CASE WHEN NOT {is_none} THEN {row} END AS {_AFTER}"]
        keys = [
            f"coalesce({_KEY_INNER}.it, {_KEY_PARSED}.it) AS {_KEYS}",
            f"coalesce({_OTHER_INNER}.it, {_OTHER_PARSED}.it) AS {_OTHER}",
        ]
        return frame.selectExpr("*", *keys, *(flat if self.is_flat else []))

    def _by_headers(self, frame: DataFrame) -> DataFrame:
        """Add the columns that link halves of key changes by their headers."""
        needs = f"coalesce(arrays_overlap(map_values({_AFTER}), array({self._unavailable()})), false)"
        links = "true" if self.links_all else _NEEDS
        previous_key = f"CASE WHEN {links} AND {self._enters()} THEN {_OTHER} END"
        is_left = self._leaves() if self.links_all else "false"
        return (
            frame.selectExpr("*", f"{_OWN_OP} = 'insert' AND {needs} AS {_NEEDS}")
            .selectExpr("*", f"{previous_key} AS {LINKED_KEY}", f"coalesce({is_left}, false) AS {MOVED}")
            .selectExpr("*", f"CASE WHEN {LINKED_KEY} IS NOT NULL THEN 'update' ELSE {_OWN_OP} END AS {_OPERATION}")
        )

    def link(self, messages: DataFrame, order: Sequence[str]) -> DataFrame:
        """Link inserts that lack values with the deletes before them in `order`, if headers did not link them."""
        is_row = f"coalesce({_OWN_OP} IN ({', '.join(map(text, OPERATIONS.values()))}), false)"
        cells = ", ".join(cell(_KEYS, name) for name in self.key)
        half = Half(
            operation=_OWN_OP,
            transaction=self._transaction(),
            keys=self._gone_key(),
            lacks_values=_NEEDS,
            is_row=is_row,
            key=f"to_json(array({cells or NULL}))",
            gets_key=self._enters() if self.has_halves else "false",
            leaves_key=self._leaves() if self.has_halves else "false",
            other=_OTHER,
        )
        return link_key_changes(messages, half, _OPERATION, order, self._partition())

    @property
    def has_halves(self) -> bool:
        """Whether the two halves of a key change are applied as a delete and an insert of rows with a key."""
        return bool(self.key) and not self.links_all

    def _enters(self) -> str:
        """Return whether a message is the insert of a key change by its headers, as SQL."""
        return self._is_half("insert", OLD_KEY)

    def _leaves(self) -> str:
        """Return whether a message is the delete of a key change by its headers, as SQL."""
        return self._is_half("delete", NEW_KEY)

    def _is_half(self, operation: str, header: str) -> str:
        has_both_keys = f"{self._has_key(_KEYS)} AND {self._has_key(_OTHER)}"
        return f"coalesce({_OWN_OP} = {text(operation)} AND {header} IS NOT NULL AND {has_both_keys}, false)"

    def key_half(self) -> str:
        """Return the flag `KEY_HALF` of a parsed message, as SQL with its name."""
        return f"{f'({self._enters()} OR {self._leaves()})' if self.has_halves else 'false'} AS {KEY_HALF}"

    def tombstone(self) -> str:
        """Return the flag `TOMBSTONE` of a parsed message of the table, as SQL with its name."""
        return f"coalesce({IS_TOMBSTONE} AND NOT {OF_OTHER} AND {bare(VALUE)} != '', false) AS {TOMBSTONE}"

    def has_deleted(self) -> str:
        """Return the flag `HAS_DELETED` of a parsed message, as SQL with its name."""
        return f"{has(_AFTER, '__deleted') if self.is_flat else 'false'} AS {HAS_DELETED}"

    def old_key_unknown(self) -> str:
        """Return the flag `OLD_KEY_UNKNOWN` of a parsed message, as SQL with its name."""
        lacks_key = " OR ".join(
            f"({cell(_KEYS, name)} IS NULL AND {self._before(name)} IS NULL)" for name in self.key
        )
        is_update = f"{_KEYS} IS NOT NULL AND {_OPERATION} = 'update'"
        return f"{f'coalesce({is_update} AND ({lacks_key}), false)' if lacks_key else 'false'} AS {OLD_KEY_UNKNOWN}"

    def initial(self) -> str:
        """Return the flag `INITIAL` of a parsed message with a row of an initial snapshot, as SQL with its name."""
        is_initial = f"{self._field('snapshot')} IN ({', '.join(map(text, INITIAL_SNAPSHOT))})"
        return f"coalesce({_IS_READ} AND {is_initial}, false) AS {INITIAL}"

    def database(self) -> str:
        """Return the `DATABASE` of a parsed message, its connector and database, as SQL with its name.

        A message without a schema has the database as schema, so that the database is compared with the table's.
        """
        database = f"CASE WHEN {self._field('schema')} IS NOT NULL THEN nullif({self._field('db')}, '') END"
        name = f"concat_ws('.', nullif({self._field('name')}, ''), {database})"
        is_own = f"NOT {OF_OTHER} AND {self._has_row()}"
        return f"CASE WHEN {is_own} THEN nullif(lower(left({name}, {LONGEST_NAME})), '') END AS {DATABASE}"

    def decode(self, settings: RowSettings) -> Decoded:
        """Return the cells and the other parts of parsed messages, as SQL.

        A deleted row has only its key, because other cells of the before image may be invented. A key cell that was
        not logged is taken from the message's key.
        """
        schema, key = settings.dimension.schema, settings.dimension.key
        is_gone = f"coalesce({_OPERATION} IN ('delete', 'truncate'), false)"
        cells = {c.name: f"CASE WHEN NOT {is_gone} THEN {cell(_AFTER, c.name)} END" for c in schema}
        for name in key:
            is_lost = f"{cells[name]} IN ({self._unavailable()})"
            sent_cell = f"CASE WHEN {is_lost} THEN {cell(_KEYS, name)} ELSE {cells[name]} END"
            cells[name] = f"CASE WHEN {_OPERATION} = 'delete' THEN {self._deleted_cell(name)} ELSE {sent_cell} END"
        before_columns = settings.dimension.before_columns
        commit = log_positions.last_commit(self._field)
        may_change_key = _IS_UPDATE if key else f"{_OPERATION} IN ('update', 'delete')"
        cells_before = {
            name: f"CASE WHEN {may_change_key} THEN {self._before(name)} END" for name in before_columns
        }
        return Decoded(
            cells=cells,
            before=cells_before,
            has_image=self._has_image(before_columns),
            unset={c.name: self._is_unset(c) for c in schema if c.name not in key},
            operation=_OPERATION,
            time=f"CASE WHEN {self._micros()} != 0 THEN try_cast({self._micros()} AS bigint) END",
            unread_time=f"CASE WHEN coalesce({self._micros()} != 0, true) THEN {self._written_time()} END",
            sequence=self._sequence(commit),
            log=log_positions.log(self._field, commit) if self.has_places and self.documents is None else NULL,
            transaction=self._transaction(),
            broken=self._broken(),
            blank=self._blank(),
        )

    def _sequence(self, commit: str) -> str:
        if not self.has_places:
            return log_positions.no_place(_IS_READ)
        if self.documents is not None:
            return log_positions.sequence_of_mongodb(self._field, _IS_READ)
        return log_positions.sequence(self._field, _IS_READ, commit)

    def _has_key(self, keys: str) -> str:
        """Return whether the key of a message has each column of the table's key, as SQL."""
        return " AND ".join([f"{keys} IS NOT NULL", *(f"{cell(keys, name)} IS NOT NULL" for name in self.key)])

    def _partition(self) -> str | None:
        """Return the partition of a message as SQL; None if all files are of partition 0, or of none."""
        files: dict[int, list[str]] = defaultdict(list)
        for name, partition in self.partitions.items():
            files[partition].append(text(name))
        if not files.keys() - {0}:
            return None
        cases = (f"WHEN {NAME} IN ({', '.join(names)}) THEN {partition}" for partition, names in files.items())
        return f"CASE {' '.join(cases)} ELSE -1 END"

    def _gone_key(self) -> str:
        """Return the key cells of a deleted row as SQL; NULL if one of them is missing."""
        key_cells = {name: self._deleted_cell(name) for name in self.key}
        if not key_cells:
            return f"CAST(NULL AS {CELLS})"
        cells = ", ".join(f"{text(name)}, {value}" for name, value in key_cells.items())
        has_all = " AND ".join(f"({value}) IS NOT NULL" for value in key_cells.values())
        return f"CASE WHEN {has_all} THEN map({cells}) END"

    def _deleted_cell(self, name: str) -> str:
        """Return a key cell of a deleted row as SQL, from the message's key, else from its image."""
        key_cell, image = cell(_KEYS, name), cell(_AFTER if self.is_flat else _BEFORE, name)
        if self.before_images == "whole":
            return f"coalesce({key_cell}, {image})"
        return f"CASE WHEN {_KEYS} IS NULL THEN {image} ELSE {key_cell} END"

    def _before(self, name: str) -> str:
        """Return a cell of the old key of an update; for a flattened message only a linked message has it."""
        return (
            cell(LINKED_KEY, name) if self.is_flat else f"coalesce({cell(LINKED_KEY, name)}, {cell(_BEFORE, name)})"
        )

    def _has_image(self, columns: Sequence[str]) -> str:
        """Return whether the before image has all columns with their true values, as SQL."""
        if self.is_flat or self.before_images != "whole":
            return "false"
        listed = ", ".join(map(text, columns))
        lacks_columns = f"size(array_except(array({listed}), map_keys({_BEFORE}))) > 0" if columns else "true"
        unlogged = f"arrays_overlap(map_values({_BEFORE}), array({self._unavailable()}))"
        return f"coalesce(NOT ({lacks_columns}) AND NOT coalesce({unlogged}, false), false)"

    def _field(self, name: str) -> str:
        """Return a field of the source as SQL; in a flattened row its name begins with `__` or `__source_`."""
        if not self.is_flat:
            return cell(_SOURCE, name)
        return f"coalesce({cell(_AFTER, f'__{name}')}, {cell(_AFTER, f'__source_{name}')})"

    def _own_operation(self) -> str:
        """Return the operation of a message as SQL; a flattened row without one is a change.

        It may be a row of a snapshot, but the checks for lost changes must not pass it over.
        """
        sent = cell(_AFTER, "__op") if self.is_flat else _OP
        cases = [f"WHEN {IS_TOMBSTONE} THEN 'delete'"] if self.tombstones == "delete" else []
        if self.is_flat:
            deleted = cell(_AFTER, "__deleted")
            cases.append(f"WHEN lower({deleted}) = 'true' THEN 'delete'")
            cases.append(f"WHEN lower({deleted}) != 'false' THEN concat('__deleted: ', {deleted})")
        cases += [f"WHEN {sent} = '{letter}' THEN '{word}'" for letter, word in OPERATIONS.items()]
        other = f"coalesce({sent}, '{self.without_op}')" if self.is_flat else sent
        return f"CASE {' '.join(cases)} ELSE {other} END"

    def _is_of_other(self, table: TableName) -> str:
        """Return whether a message names another table, as SQL; case is ignored."""
        return " OR ".join(
            f"coalesce({name} != {text(own)} AND lower({name}) != {text(own.lower())}, false)"
            for name, own in zip(self._names(), (table.schema, table.table), strict=True)
        )

    def _names(self) -> tuple[str, str]:
        """Return the schema and the table that a message names in its source or by its topic, as SQL."""
        parts = f"split({TOPIC}, '[.]')"
        schema = f"coalesce({self._field('schema')}, {self._field('db')}, try_element_at({parts}, -2))"
        return schema, f"coalesce({self._field('table')}, {self._field('collection')}, try_element_at({parts}, -1))"

    def _has_row(self) -> str:
        """Return whether a message has a row of any table, as SQL: heartbeats, markers and tombstones have none."""
        if not self.is_flat:
            return f"coalesce({_OP} IN ({', '.join(map(text, OPERATIONS))}), false)"
        return f"{_AFTER} IS NOT NULL AND NOT {IS_TOMBSTONE}"

    def _is_unset(self, column: Column) -> str:
        """Return whether a column was not sent, as SQL: not logged, or missing in the after image of an update."""
        value = cell(_AFTER, column.name)
        is_absent = f"{_OPERATION} = 'update' AND NOT {has(_AFTER, column.name)}"
        return f"coalesce(({value} IN ({self._unavailable()}) OR ({is_absent})) AND {_AFTER} IS NOT NULL, false)"

    def _unavailable(self) -> str:
        return ", ".join(text(form) for form in placeholders(self.unavailable))

    def _times(self) -> Mapping[str, str]:
        """Return the fields with the time of the change as SQL, by name, in order of precedence."""
        of, prefix = (_AFTER, "__source_ts_") if self.is_flat else (_SOURCE, "ts_")
        return {prefix + unit: cell(of, prefix + unit) for unit in ("us", "ns", "ms")}

    def _micros(self) -> str:
        """Return the source's time of the change in microseconds since 1970, as SQL; 0 means none."""
        micros, nanos, millis = map(number, self._times().values())
        return f"coalesce({micros}, {nanos} div 1000, try_multiply({millis}, 1000BD))"

    def _written_time(self) -> str:
        """Return the first time of a message as its text, with the name of its field, as SQL; NULL without one."""
        named = [f"concat('{name}: ', {written})" for name, written in self._times().items()]
        return f"coalesce({', '.join(named)})"

    def _transaction(self) -> str:
        names = ("txId", "gtid", "commit_lsn", "commit_scn", "ts_ms")
        id_ = cell(_AFTER, "__transaction_id") if self.is_flat else f"{_BLOCK}.id"
        return f"coalesce({', '.join([transaction_name_of(id_), *map(self._field, names)])})"

    def _broken(self) -> str:
        lacks_image = f"{_OPERATION} IN ('insert', 'update', 'read') AND {_AFTER} IS NULL"
        has_other_key = (
            f"coalesce({OLD_KEY}, {NEW_KEY}) IS NULL OR NOT ({self._has_key(_KEYS)}) OR ({self._has_key(_OTHER)})"
        )
        is_lost = f"{_OWN_OP} IN ('insert', 'delete') AND NOT ({has_other_key})" if self.links_all else "false"
        words = "the message is not a JSON object with a row"
        images = (f"get_json_object({BODY}, '$.{path}')" for path in ("payload.after", "after"))
        is_text = f"ltrim(coalesce({', '.join(images)})) LIKE '{{%'"
        payload = f"{_INNER}.broken"
        inner = f"WHEN {payload} IS NOT NULL THEN {why_broken(payload, words)} " if self.is_flat else ""
        reason = self._field(WHY_NOT_READ)
        document = "" if self.documents is None else f"WHEN {reason} IS NOT NULL THEN {reason} "
        return (
            f"CASE WHEN {self._is_nameless()} THEN {text(NAMELESS)} WHEN {IS_TOMBSTONE} THEN NULL "
            f"WHEN NOT coalesce({_IS_OBJECT}, false) THEN {why_broken(BODY, words)} {inner}{document}"
            f"WHEN {_OPERATION} IS NULL THEN 'the message has no operation, as one that was flattened' "
            f"WHEN {lacks_image} AND {is_text} THEN {text(IMAGE_AS_TEXT)} "
            f"WHEN {lacks_image} THEN 'the message has no image of the row after the change' "
            f"WHEN {is_lost} THEN 'the header with the other key of a key change tells no key' END"
        )

    def _is_nameless(self) -> str:
        """Return whether a message with a row, or a tombstone that deletes, lacks a required name, as SQL."""
        named = zip(("schema", "table"), self._names(), strict=True)
        lacks_name = " OR ".join(f"{name} IS NULL" for part, name in named if part in self.must_name)
        deletes = IS_TOMBSTONE if self.tombstones == "delete" else "false"
        return f"coalesce(({lacks_name}) AND ({self._has_row()} OR {deletes}), false)" if lacks_name else "false"

    def _is_of_none(self, row: str) -> str:
        """Return whether an object is a heartbeat, a transaction marker or a schema change, as SQL."""
        of_marker = [has(row, name) for name in sorted(MARKER)]
        conditions = [
            " AND ".join([*of_marker, f"cardinality({row}) - int({has(row, HEARTBEAT)}) = {len(MARKER)}"])
        ]
        conditions.append(" AND ".join(has(row, name) for name in sorted(SCHEMA_CHANGE)))
        if HEARTBEAT not in self.key:
            conditions.append(f"cardinality({row}) = 1 AND {has(row, HEARTBEAT)}")
        return f"({' OR '.join(f'({one})' for one in conditions)})"

    def _blank(self) -> str:
        """Return whether a message is skipped, as SQL: tombstone, heartbeat, transaction marker, of another table.

        A message without an operation is skipped only if it is known to be no row.
        """
        is_told = _IS_OF_NONE if self.is_flat else f"{_OPERATION} IS NULL AND {_IS_OF_NONE}"
        is_of_none = f"{_IS_OBJECT} AND ({_OPERATION} = 'm' OR ({is_told})) AND NOT {IS_TOMBSTONE}"
        is_skipped = "false" if self.tombstones == "delete" else IS_TOMBSTONE
        return f"coalesce({is_skipped} OR ({is_of_none}), false) OR {MOVED} OR {OF_OTHER}"


_IS_UPDATE: Final = f"{_OPERATION} = 'update'"
_IS_READ: Final = f"{_OPERATION} = 'read'"


def _convert_documents(messages: DataFrame, documents: MongoMessages) -> DataFrame:
    """Return messages of MongoDB's connector in the form of other connectors; Spark cannot read extended JSON."""
    envelope, key_of = (F.udf(of, "string", useArrow=False) for of in (documents.envelope, documents.key))
    body, key = (F.expr(f"CASE WHEN {is_valid_utf8(of)} THEN {of} END") for of in (BODY, KEY))
    columns = {BODY: envelope(body, key), KEY: key_of(key)}
    return messages.withColumns(
        {name: F.when(F.expr(is_valid_utf8(name)), value).otherwise(F.col(name)) for name, value in columns.items()}
    )


def _enveloped() -> Sequence[str]:
    """Return the parts of an envelope, which may be wrapped with a schema, as SQL with their names."""
    it = f"{_PARSED}.it"
    return [f"coalesce({it}.payload.{name}, {it}.{name}) AS {part}" for part, name in _PARTS.items()]


def _is_wrapped() -> str:
    """Return whether a flattened row is wrapped with a schema, as SQL; it is parsed once more then."""
    it = f"{_PARSED}.it"
    return f"{has(it, 'payload')} AND cardinality({it}) - int({has(it, 'schema')}) = 1"


def is_tombstone() -> str:
    """Return whether a message has no value, as SQL: none at all, an empty one, or a schema with empty payload."""
    body = bare(BODY)
    is_null = f"{BODY} IS NULL OR {body} IN ('', 'null', '{{}}')"
    return f"coalesce({is_null} OR (length({BODY}) < 100 AND {body} RLIKE {text(NO_ROW)}), false)"
