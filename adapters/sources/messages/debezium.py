"""Messages of Debezium, in their envelope or flattened (`ExtractNewRecordState`), with and without a schema.

debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events and
debezium.io/documentation/reference/stable/transformations/event-flattening.html. A frame has the columns of
`lakeward.adapters.sources.messages.message`, whatever carried the messages; Spark's expressions decode it, row by
row.
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
from lakeward.adapters.sources.messages.key_changes import LEFT, MOVED, Half, linked
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
from lakeward.adapters.spark.frames.source_rows import NAME, VALUE, Telling
from lakeward.adapters.spark.session.compatibility import is_valid_utf8
from lakeward.adapters.spark.sql.names import text
from lakeward.core.dimension import TableName
from lakeward.core.schema import Column

OPERATIONS: Final = {"c": "insert", "u": "update", "d": "delete", "r": "read", "t": "truncate"}
"""What the letters mean, those of messages that are no rows apart (`m`)."""

INITIAL_SNAPSHOT: Final = (*("true", "first", "first_in_data_collection", "last_in_data_collection", "last"),)
"""What `snapshot` is in rows of an initial snapshot; in those of an incremental one it is `incremental`."""

_PARSED, _IS_OBJECT, IS_TOMBSTONE = "_lakeward_parsed", "_lakeward_is_object", "_lakeward_is_tombstone"
_KEY_PARSED, _KEY_INNER, _KEYS = "_lakeward_key_parsed", "_lakeward_key_inner", "_lakeward_keys"
_INNER, _PLAIN = "_lakeward_inner", "_lakeward_plain"
_AFTER, _BEFORE, _SOURCE = "_lakeward_after", "_lakeward_before", "_lakeward_source"
_OP, _BLOCK, _SAID = "_lakeward_op", "_lakeward_transaction_block", "_lakeward_said"
_OTHER_PARSED, _OTHER_INNER, _OTHER = "_lakeward_other_parsed", "_lakeward_other_inner", "_lakeward_other_key"
_NEEDS = "_lakeward_needs"
_IS_OF_NONE = "_lakeward_is_of_none"
_OPERATION, _BARE, _BARE_INNER = "_lakeward_what", "_lakeward_bare", "_lakeward_bare_inner"

_PARTS: Final = {_AFTER: "after", _BEFORE: "before", _SOURCE: "source", _OP: "op", _BLOCK: "transaction"}

HEARTBEAT: Final = "ts_ms"
MARKER: Final = frozenset(("status", "id", "event_count", "data_collections"))
SCHEMA_CHANGE: Final = frozenset(("source", "databaseName", "ddl"))
"""What a heartbeat has and nothing else, what a BEGIN or an END has beside that, and what a change of a schema has.

A row whose only column is `ts_ms` is no heartbeat where that is the key.
"""

IMAGE_AS_TEXT: Final = (
    "its image of the row after the change is a text of JSON, as the connector for MongoDB writes it: say "
    "`documents`, or let ExtractNewDocumentState flatten the messages"
)

NO_ROW: Final = r'\A\{\s*("schema"\s*:\s*null\s*,\s*)?"payload"\s*:\s*null\s*(,\s*"schema"\s*:\s*null\s*)?\}\z'
"""A tombstone of a converter that puts a schema beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Debezium:
    """How a connector writes; a tombstone is a delete where nothing else says that a row was deleted.

    A key change comes as a delete and an insert, which headers link. With `links_all` they are always
    one key change, else only where it matters: where the insert has values that were not logged, or another row
    leaves its key behind it in the transaction. It is one only where the keys of messages tell the whole `key` of
    the table. `before_images` says of which columns an image before a delete has the true values. `partitions` are
    those of the topic, by file, where names tell. `has_places` says that places in the source's log order changes,
    not their arrival alone. Where tables share a folder, `must_name` says what a message must name of its table.
    `documents` rewrites messages of the connector for MongoDB.
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
    """The image of a row, in messages that were opened."""

    @property
    def is_flat(self) -> bool:
        """Whether the columns of a row are those of its message."""
        return self.form == "flattened"

    @property
    def without_op(self) -> str:
        """What a flattened message does that has no operation: a table without a key takes no updates."""
        return "update" if self.key else "insert"

    @property
    def not_columns(self) -> str | None:
        """What names are that are no columns, as a regular expression."""
        return ADDED if self.is_flat else None

    def opened(self, messages: DataFrame, table: TableName) -> DataFrame:
        """Return messages taken apart, with whether each is of another table, and of which."""
        if self.documents is not None:
            messages = _rewritten(messages, self.documents)
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
        frame = frame.selectExpr("*", *keys, *(flat if self.is_flat else []))
        frame = frame.selectExpr("*", f"{self._is_of_other(table)} AS {OF_OTHER}").selectExpr(
            "*",
            other_table(*self._names(), self._has_row()),
            f"CASE WHEN NOT {OF_OTHER} THEN {self._said()} END AS {_SAID}",
        )
        if not self.is_flat:
            frame = with_parsed(frame, {_BARE: f"CASE WHEN {_OP} IS NULL THEN {BODY} END"})
            frame = with_parsed(frame, {_BARE_INNER: cell(f"{_BARE}.it", "payload")})
            bare_row = f"coalesce({_BARE_INNER}.it, {_BARE}.it)"
            frame = frame.selectExpr("*", f"coalesce({self._is_of_none(bare_row)}, false) AS {_IS_OF_NONE}")
        return self._by_headers(frame)

    def _by_headers(self, frame: DataFrame) -> DataFrame:
        """Tell the halves of key changes by their headers."""
        needs = f"coalesce(arrays_overlap(map_values({_AFTER}), array({self._unavailable()})), false)"
        links = "true" if self.links_all else _NEEDS
        left = f"CASE WHEN {links} AND {self._enters()} THEN {_OTHER} END"
        is_left = self._leaves() if self.links_all else "false"
        return (
            frame.selectExpr("*", f"{_SAID} = 'insert' AND {needs} AS {_NEEDS}")
            .selectExpr("*", f"{left} AS {LEFT}", f"coalesce({is_left}, false) AS {MOVED}")
            .selectExpr("*", f"CASE WHEN {LEFT} IS NOT NULL THEN 'update' ELSE {_SAID} END AS {_OPERATION}")
        )

    def linked(self, opened: DataFrame, order: Sequence[str]) -> DataFrame:
        """Link inserts that lack values with the deletes before them, where headers did not, in the given order."""
        is_row = f"coalesce({_SAID} IN ({', '.join(map(text, OPERATIONS.values()))}), false)"
        told = ", ".join(cell(_KEYS, name) for name in self.key)
        half = Half(
            said=_SAID,
            transaction=self._transaction(),
            keys=self._gone_key(),
            lacks=_NEEDS,
            is_row=is_row,
            key=f"to_json(array({told or NULL}))",
            enters=self._enters() if self.has_halves else "false",
            leaves=self._leaves() if self.has_halves else "false",
            other=_OTHER,
        )
        return linked(opened, half, _OPERATION, order, self._partition())

    @property
    def has_halves(self) -> bool:
        """Whether the two halves of a key change count as a delete and an insert of rows with a key."""
        return bool(self.key) and not self.links_all

    def _enters(self) -> str:
        """Whether a message is the insert of a key change, by its headers."""
        return self._is_half("insert", OLD_KEY)

    def _leaves(self) -> str:
        """Whether a message is the delete of a key change, by its headers."""
        return self._is_half("delete", NEW_KEY)

    def _is_half(self, said: str, header: str) -> str:
        is_told = f"{self._tells(_KEYS)} AND {self._tells(_OTHER)}"
        return f"coalesce({_SAID} = {text(said)} AND {header} IS NOT NULL AND {is_told}, false)"

    def key_half(self) -> str:
        """Return whether a message that was `opened` is a `KEY_HALF`, as SQL with its name."""
        return f"{f'({self._enters()} OR {self._leaves()})' if self.has_halves else 'false'} AS {KEY_HALF}"

    def tombstone(self) -> str:
        """Return whether a message that was `opened` is a `TOMBSTONE` of the table, as SQL with its name."""
        return f"coalesce({IS_TOMBSTONE} AND NOT {OF_OTHER} AND {bare(VALUE)} != '', false) AS {TOMBSTONE}"

    def has_deleted(self) -> str:
        """Return whether a message that was `opened` `HAS_DELETED`, as SQL with its name."""
        return f"{has(_AFTER, '__deleted') if self.is_flat else 'false'} AS {HAS_DELETED}"

    def old_key_unknown(self) -> str:
        """Return `OLD_KEY_UNKNOWN` of a message that was `opened`, as SQL with its name."""
        lacks = " OR ".join(f"({cell(_KEYS, name)} IS NULL AND {self._before(name)} IS NULL)" for name in self.key)
        is_update = f"{_KEYS} IS NOT NULL AND {_OPERATION} = 'update'"
        return f"{f'coalesce({is_update} AND ({lacks}), false)' if lacks else 'false'} AS {OLD_KEY_UNKNOWN}"

    def initial(self) -> str:
        """Return whether a message that was `opened` has a row of an `INITIAL` snapshot, as SQL with its name."""
        told = f"{self._field('snapshot')} IN ({', '.join(map(text, INITIAL_SNAPSHOT))})"
        return f"coalesce({_IS_READ} AND {told}, false) AS {INITIAL}"

    def database(self) -> str:
        """Return the `DATABASE` of a message that was `opened`, as SQL with its name: its connector and database.

        Where nothing names a schema, the database stands for it, and is compared with that of the table.
        """
        database = f"CASE WHEN {self._field('schema')} IS NOT NULL THEN nullif({self._field('db')}, '') END"
        name = f"concat_ws('.', nullif({self._field('name')}, ''), {database})"
        is_own = f"NOT {OF_OTHER} AND {self._has_row()}"
        return f"CASE WHEN {is_own} THEN nullif(lower(left({name}, {LONGEST_NAME})), '') END AS {DATABASE}"

    def decoded(self, telling: Telling) -> Decoded:
        """Return what stands where in messages that were `opened`.

        Of a row that is gone nothing but its key counts: other cells of an image before may
        be made up. What was not logged of the key of another is in the message's key, or nowhere.
        """
        schema, key = telling.dimension.schema, telling.dimension.key
        is_gone = f"coalesce({_OPERATION} IN ('delete', 'truncate'), false)"
        cells = {c.name: f"CASE WHEN NOT {is_gone} THEN {cell(_AFTER, c.name)} END" for c in schema}
        for name in key:
            is_lost = f"{cells[name]} IN ({self._unavailable()})"
            there = f"CASE WHEN {is_lost} THEN {cell(_KEYS, name)} ELSE {cells[name]} END"
            cells[name] = f"CASE WHEN {_OPERATION} = 'delete' THEN {self._gone(name)} ELSE {there} END"
        told = telling.dimension.told_before
        commit = log_positions.last_commit(self._field)
        is_told = _IS_UPDATE if key else f"{_OPERATION} IN ('update', 'delete')"
        was = {name: f"CASE WHEN {is_told} THEN {self._before(name)} END" for name in told}
        return Decoded(
            cells=cells,
            before=was,
            has_image=self._has_image(told),
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

    def _tells(self, keys: str) -> str:
        """Return whether the key of a message has each column of the table's."""
        return " AND ".join([f"{keys} IS NOT NULL", *(f"{cell(keys, name)} IS NOT NULL" for name in self.key)])

    def _partition(self) -> str | None:
        """Return the partition of a message, None where the topic may have but one: the first is 0."""
        files: dict[int, list[str]] = defaultdict(list)
        for name, partition in self.partitions.items():
            files[partition].append(text(name))
        if not files.keys() - {0}:
            return None
        cases = (f"WHEN {NAME} IN ({', '.join(names)}) THEN {partition}" for partition, names in files.items())
        return f"CASE {' '.join(cases)} ELSE -1 END"

    def _gone_key(self) -> str:
        """Return the cells of the key of a row that is gone, NULL where one of them is not told."""
        told = {name: self._gone(name) for name in self.key}
        if not told:
            return f"CAST(NULL AS {CELLS})"
        cells = ", ".join(f"{text(name)}, {value}" for name, value in told.items())
        return (
            f"CASE WHEN {' AND '.join(f'({value}) IS NOT NULL' for value in told.values())} THEN map({cells}) END"
        )

    def _gone(self, name: str) -> str:
        """Return a cell of the key of a row that is gone; what the message's key has not, its image may make up."""
        own, image = cell(_KEYS, name), cell(_AFTER if self.is_flat else _BEFORE, name)
        if self.before_images == "whole":
            return f"coalesce({own}, {image})"
        return f"CASE WHEN {_KEYS} IS NULL THEN {image} ELSE {own} END"

    def _before(self, name: str) -> str:
        """Return a cell of the key that an update left; flattened, only another message tells it."""
        return cell(LEFT, name) if self.is_flat else f"coalesce({cell(LEFT, name)}, {cell(_BEFORE, name)})"

    def _has_image(self, columns: Sequence[str]) -> str:
        """Return whether the image before a change has all columns, with the values that they had."""
        if self.is_flat or self.before_images != "whole":
            return "false"
        listed = ", ".join(map(text, columns))
        lacks = f"size(array_except(array({listed}), map_keys({_BEFORE}))) > 0" if columns else "true"
        unlogged = f"arrays_overlap(map_values({_BEFORE}), array({self._unavailable()}))"
        return f"coalesce(NOT ({lacks}) AND NOT coalesce({unlogged}, false), false)"

    def _field(self, name: str) -> str:
        """Return a field of the source: flattened, it is a column whose name begins with `__` or `__source_`."""
        if not self.is_flat:
            return cell(_SOURCE, name)
        return f"coalesce({cell(_AFTER, f'__{name}')}, {cell(_AFTER, f'__source_{name}')})"

    def _said(self) -> str:
        """Return the operation; flattened, what leaves a row without a word for it counts as a change.

        It may have been none (a row of a snapshot), but what looks for lost changes must not pass it over.
        """
        said = cell(_AFTER, "__op") if self.is_flat else _OP
        cases = [f"WHEN {IS_TOMBSTONE} THEN 'delete'"] if self.tombstones == "delete" else []
        if self.is_flat:
            deleted = cell(_AFTER, "__deleted")
            cases.append(f"WHEN lower({deleted}) = 'true' THEN 'delete'")
            cases.append(f"WHEN lower({deleted}) != 'false' THEN concat('__deleted: ', {deleted})")
        cases += [f"WHEN {said} = '{letter}' THEN '{word}'" for letter, word in OPERATIONS.items()]
        other = f"coalesce({said}, '{self.without_op}')" if self.is_flat else said
        return f"CASE {' '.join(cases)} ELSE {other} END"

    def _is_of_other(self, table: TableName) -> str:
        """Whether a message says that it is of another table; names are compared without case."""
        return " OR ".join(
            f"coalesce({found} != {text(own)} AND lower({found}) != {text(own.lower())}, false)"
            for found, own in zip(self._names(), (table.schema, table.table), strict=True)
        )

    def _names(self) -> tuple[str, str]:
        """Return the schema and the table that a message names, itself or by its topic."""
        parts = f"split({TOPIC}, '[.]')"
        schema = f"coalesce({self._field('schema')}, {self._field('db')}, try_element_at({parts}, -2))"
        return schema, f"coalesce({self._field('table')}, {self._field('collection')}, try_element_at({parts}, -1))"

    def _has_row(self) -> str:
        """Whether a message has a row of any table: it is no heartbeat, transaction marker or tombstone."""
        if not self.is_flat:
            return f"coalesce({_OP} IN ({', '.join(map(text, OPERATIONS))}), false)"
        return f"{_AFTER} IS NOT NULL AND NOT {IS_TOMBSTONE}"

    def _is_unset(self, column: Column) -> str:
        """Whether a column was not sent: not logged, or, by an update, not in the event's schema."""
        found = cell(_AFTER, column.name)
        is_absent = f"{_OPERATION} = 'update' AND NOT {has(_AFTER, column.name)}"
        return f"coalesce(({found} IN ({self._unavailable()}) OR ({is_absent})) AND {_AFTER} IS NOT NULL, false)"

    def _unavailable(self) -> str:
        return ", ".join(text(form) for form in placeholders(self.unavailable))

    def _times(self) -> Mapping[str, str]:
        """Return the fields with the time of the change, in the order in which they count, by their names."""
        of, prefix = (_AFTER, "__source_ts_") if self.is_flat else (_SOURCE, "ts_")
        return {prefix + unit: cell(of, prefix + unit) for unit in ("us", "ns", "ms")}

    def _micros(self) -> str:
        """Return when the change was made, not when the connector came to it; 0 is no time."""
        micros, nanos, millis = map(number, self._times().values())
        return f"coalesce({micros}, {nanos} div 1000, try_multiply({millis}, 1000BD))"

    def _written_time(self) -> str:
        """Return the first time as it stands in the message, with its name; NULL where there is none."""
        named = [f"concat('{name}: ', {written})" for name, written in self._times().items()]
        return f"coalesce({', '.join(named)})"

    def _transaction(self) -> str:
        names = ("txId", "gtid", "commit_lsn", "commit_scn", "ts_ms")
        own = cell(_AFTER, "__transaction_id") if self.is_flat else f"{_BLOCK}.id"
        return f"coalesce({', '.join([transaction_name_of(own), *map(self._field, names)])})"

    def _broken(self) -> str:
        lacks = f"{_OPERATION} IN ('insert', 'update', 'read') AND {_AFTER} IS NULL"
        is_told = f"coalesce({OLD_KEY}, {NEW_KEY}) IS NULL OR NOT ({self._tells(_KEYS)}) OR ({self._tells(_OTHER)})"
        is_lost = f"{_SAID} IN ('insert', 'delete') AND NOT ({is_told})" if self.links_all else "false"
        words = "the message is not a JSON object with a row"
        images = (f"get_json_object({BODY}, '$.{path}')" for path in ("payload.after", "after"))
        is_text = f"ltrim(coalesce({', '.join(images)})) LIKE '{{%'"
        payload = f"{_INNER}.broken"
        inner = f"WHEN {payload} IS NOT NULL THEN {why_broken(payload, words)} " if self.is_flat else ""
        why = self._field(WHY_NOT_READ)
        document = "" if self.documents is None else f"WHEN {why} IS NOT NULL THEN {why} "
        return (
            f"CASE WHEN {self._is_nameless()} THEN {text(NAMELESS)} WHEN {IS_TOMBSTONE} THEN NULL "
            f"WHEN NOT coalesce({_IS_OBJECT}, false) THEN {why_broken(BODY, words)} {inner}{document}"
            f"WHEN {_OPERATION} IS NULL THEN 'the message has no operation, as one that was flattened' "
            f"WHEN {lacks} AND {is_text} THEN {text(IMAGE_AS_TEXT)} "
            f"WHEN {lacks} THEN 'the message has no image of the row after the change' "
            f"WHEN {is_lost} THEN 'the header with the other key of a key change tells no key' END"
        )

    def _is_nameless(self) -> str:
        """Whether a message with a row, or a tombstone that deletes one, does not name the table as it must."""
        named = zip(("schema", "table"), self._names(), strict=True)
        lacks = " OR ".join(f"{name} IS NULL" for part, name in named if part in self.must_name)
        deletes = IS_TOMBSTONE if self.tombstones == "delete" else "false"
        return f"coalesce(({lacks}) AND ({self._has_row()} OR {deletes}), false)" if lacks else "false"

    def _is_of_none(self, it: str) -> str:
        """Whether an object without an operation is a heartbeat, of a transaction, or of a change of the schema."""
        of_marker = [has(it, name) for name in sorted(MARKER)]
        found = [" AND ".join([*of_marker, f"cardinality({it}) - int({has(it, HEARTBEAT)}) = {len(MARKER)}"])]
        found.append(" AND ".join(has(it, name) for name in sorted(SCHEMA_CHANGE)))
        if HEARTBEAT not in self.key:
            found.append(f"cardinality({it}) = 1 AND {has(it, HEARTBEAT)}")
        return f"({' OR '.join(f'({one})' for one in found)})"

    def _blank(self) -> str:
        """Whether a message is of no row: a tombstone, a heartbeat, the beginning or end of a transaction.

        What has no operation is only passed over where it is known to be no row.
        """
        is_told = _IS_OF_NONE if self.is_flat else f"{_OPERATION} IS NULL AND {_IS_OF_NONE}"
        is_of_none = f"{_IS_OBJECT} AND ({_OPERATION} = 'm' OR ({is_told})) AND NOT {IS_TOMBSTONE}"
        is_skipped = "false" if self.tombstones == "delete" else IS_TOMBSTONE
        return f"coalesce({is_skipped} OR ({is_of_none}), false) OR {MOVED} OR {OF_OTHER}"


_IS_UPDATE: Final = f"{_OPERATION} = 'update'"
_IS_READ: Final = f"{_OPERATION} = 'read'"


def _rewritten(messages: DataFrame, documents: MongoMessages) -> DataFrame:
    """Return messages of MongoDB's connector as those of others, which Python writes: Spark reads no such JSON."""
    envelope, key_of = (F.udf(of, "string", useArrow=False) for of in (documents.envelope, documents.key))
    body, key = (F.expr(f"CASE WHEN {is_valid_utf8(of)} THEN {of} END") for of in (BODY, KEY))
    found = {BODY: envelope(body, key), KEY: key_of(key)}
    return messages.withColumns(
        {name: F.when(F.expr(is_valid_utf8(name)), value).otherwise(F.col(name)) for name, value in found.items()}
    )


def _enveloped() -> Sequence[str]:
    """Return the parts of an envelope, which a schema may stand beside."""
    it = f"{_PARSED}.it"
    return [f"coalesce({it}.payload.{name}, {it}.{name}) AS {part}" for part, name in _PARTS.items()]


def _is_wrapped() -> str:
    """Whether a flattened row is one that a schema stands beside, which is parsed once more."""
    it = f"{_PARSED}.it"
    return f"{has(it, 'payload')} AND cardinality({it}) - int({has(it, 'schema')}) = 1"


def is_tombstone() -> str:
    """Return whether a message has no value, as SQL: none at all, an empty one, or a schema of nothing."""
    body = bare(BODY)
    is_null = f"{BODY} IS NULL OR {body} IN ('', 'null', '{{}}')"
    return f"coalesce({is_null} OR (length({BODY}) < 100 AND {body} RLIKE {text(NO_ROW)}), false)"
