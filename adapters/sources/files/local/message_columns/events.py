"""Events of decoded messages in Arrow columns: the event frame that `local_source_rows.to_events` makes of rows.

Only events whose cells all fit are converted. A batch with any other row is left to Spark, which prepares rows for
quarantine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.files.json_lines.envelope_rows import EnvelopeRows
from lakeward.adapters.sources.files.json_lines.frames import UNDECLARED
from lakeward.adapters.sources.files.local.message_columns.cells import values_of, why_not_typed
from lakeward.adapters.sources.files.local.message_columns.log_positions import no_places, places_and_logs
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.debezium import INITIAL_SNAPSHOT, OPERATIONS
from lakeward.adapters.sources.messages.decoded import (
    HAS_DELETED,
    KEY_HALF,
    LONGEST_NAME,
    OLD_KEY_UNKNOWN,
    OTHER_TABLE,
    PLAIN,
    TOMBSTONE,
)
from lakeward.adapters.sources.messages.envelopes import (
    BLOCK,
    COMMIT,
    HAS_KEY,
    HAS_NO_VALUE,
    MICROS,
    OP,
    cell_after,
    cell_before,
    cell_of_key,
    field_column,
)
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.spark.frames.event_frame import DATABASE, INITIAL, LOG, SKIPPED
from lakeward.adapters.spark.frames.local_casts import SparkNeeded, arrow_type, compares_alike
from lakeward.adapters.spark.frames.local_source_rows import NAMES, FilePlace, old_keys
from lakeward.adapters.spark.frames.source_rows import (
    ARRIVAL_BITS,
    LINE,
    MALFORMED,
    TORN,
    TRANSACTION_TEXT,
    VALUE,
    before_column,
)
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Match
from lakeward.core.events import LOAD_SEQUENCE, Operation
from lakeward.core.schema import Column

_NO_TEXT: Final = pa.scalar(None, pa.string())
_LETTERS: Final = pa.array([*OPERATIONS])
_WORDS: Final = pa.array([*OPERATIONS.values()])
_TRANSACTION_FIELDS: Final = ("txId", "gtid", "commit_lsn", "commit_scn", "ts_ms")
_WITH_POSITION: Final = r"\A([0-9]+):[0-9]+\z"
"""Matches the id of a transaction of PostgreSQL, which ends with the position of the change."""


def why_not_events(table: TableFiles) -> str | None:
    """Return in words why the messages of a table cannot become events here; None if they can."""
    reading, dimension = table.reading, table.dimension
    if dimension.keeps_ended or not dimension.key:
        return "the table keeps ended rows or has no key, so that Spark resolves its batches"
    if not all(compares_alike(column.type) for column in dimension.schema if column.name in dimension.key):
        return "its key has floats, bytes or nested values, so that Spark resolves its batches"
    if reading.dimension.match is Match.IMAGE or reading.goes_by_time or not table.has_op:
        return "rows are matched by image, or ordered by time"
    if reading.transaction != TRANSACTION_TEXT or any(
        table.reading.operations.get(w) != w for w in _WORDS.to_pylist()
    ):
        return "operations or transactions are in columns"
    reasons = (why_not_typed(c, reading.written.get(c.name, PLAIN)) for c in reading.dimension.schema)
    return next((why for why in reasons if why is not None), None)


@dataclass(frozen=True, slots=True)
class MessageEvents:
    """Converts decoded messages (`Envelopes.decode`) of one file to events; `reading` is that of the table."""

    table: TableFiles
    reading: Reading
    rows: EnvelopeRows
    place: FilePlace

    def of(self, decoded: pa.RecordBatch) -> pa.Table:
        """Return the events of messages; raises SparkNeeded if a row of them would go into quarantine."""
        reading, is_blank = self.reading, decoded.column(HAS_NO_VALUE)
        operation = pc.take(_WORDS, pc.index_in(decoded.column(OP), _LETTERS))
        cells = self._cells(decoded, operation)
        self._refuse_null_keys(cells, is_blank)
        sequence, log = self._sequence(decoded, is_blank)
        lines, count = decoded.column(LINE), decoded.num_rows
        no_text = pa.nulls(count, pa.string())
        micros = decoded.column(MICROS)
        columns: dict[str, pa.Array] = {
            **cells,
            names.OPERATION: operation,
            names.SEQUENCE: sequence,
            names.OBJECT: pa.repeat(pa.scalar(self.place.order, pa.int64()), count),
            names.ROW: lines,
            names.ARRIVAL: pc.add(lines, self.place.rank << ARRIVAL_BITS),
            names.TIME: pc.if_else(pc.equal(micros, 0), pa.scalar(None, pa.int64()), micros),
            names.REASON: pc.if_else(is_blank, SKIPPED, _NO_TEXT),
            names.DETAIL: no_text,
            names.TEXT: decoded.column(VALUE) if reading.dimension.keeps_text else no_text,
        }
        if reading.in_part:
            before = self._cells_before(decoded, operation)
            cells_with_before = pa.table({**cells, **before})
            columns |= {
                names.UNSET: pa.nulls(count, NAMES),
                names.OLD: old_keys(cells_with_before, self.place, reading, operation),
                names.TRANSACTION: _transactions(decoded),
            }
        return pa.table(columns | self._flags(decoded) | {LOG: log})

    def _flags(self, decoded: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the flags of messages, and the undeclared columns, other tables and databases that they name."""
        count = decoded.num_rows
        no = pa.repeat(pa.scalar(False), count)
        return {
            TORN: no,
            MALFORMED: no,
            UNDECLARED: pa.nulls(count, NAMES),
            OTHER_TABLE: pa.nulls(count, pa.string()),
            TOMBSTONE: decoded.column(HAS_NO_VALUE),
            HAS_DELETED: no,
            OLD_KEY_UNKNOWN: self._is_old_key_unknown(decoded),
            KEY_HALF: no,
            DATABASE: _databases(decoded),
            INITIAL: _is_initial(decoded),
        }

    def _cells(self, decoded: pa.RecordBatch, operation: pa.Array) -> Mapping[str, pa.Array]:
        """Return the cells of the rows after their changes; a deleted row has its key alone."""
        is_delete, cells = pc.equal(operation, Operation.DELETE.value), {}
        for place, column in enumerate(self.table.dimension.schema):
            after = decoded.column(cell_after(place))
            if column.name in self.rows.envelopes.key:
                deleted_cells = self._deleted_key(decoded, column.name)
            else:
                deleted_cells = pa.scalar(None, after.type)
            cells[column.name] = self._typed(pc.if_else(is_delete, deleted_cells, after), column)
        return cells

    def _cells_before(self, decoded: pa.RecordBatch, operation: pa.Array) -> Mapping[str, pa.Array]:
        is_update, cells = pc.equal(operation, Operation.UPDATE.value), {}
        for place, column in enumerate(self.reading.before_columns):
            before = self._before(decoded, column.name)
            of_updates = pc.if_else(is_update, before, pa.scalar(None, before.type))
            cells[before_column(place)] = self._typed(of_updates, column)
        return cells

    def _typed(self, cells: pa.Array, column: Column) -> pa.Array:
        if self.rows.envelopes.columns[column.name] is not None:
            return cells
        return values_of(cells, column, self.reading.written.get(column.name, PLAIN))

    def _before(self, decoded: pa.RecordBatch, name: str) -> pa.Array:
        return decoded.column(cell_before(self.rows.envelopes.before.index(name)))

    def _deleted_key(self, decoded: pa.RecordBatch, name: str) -> pa.Array:
        """Return a key cell of deleted rows: from the message's key, else from the before image."""
        of_key, before = (
            decoded.column(cell_of_key(self.rows.envelopes.key.index(name))),
            self._before(decoded, name),
        )
        if self.rows.decoder.before_images == "whole":
            return pc.coalesce(of_key, before)
        return pc.if_else(decoded.column(HAS_KEY), of_key, before)

    def _is_old_key_unknown(self, decoded: pa.RecordBatch) -> pa.Array:
        """Return which updates lack a column of the key in the message's key and in the before image."""
        is_unknown = pa.repeat(pa.scalar(False), decoded.num_rows)
        for place, name in enumerate(self.rows.envelopes.key):
            of_key, before = decoded.column(cell_of_key(place)), self._before(decoded, name)
            is_unknown = pc.or_(is_unknown, pc.and_(of_key.is_null(), before.is_null()))
        may_be = pc.and_(decoded.column(HAS_KEY), pc.equal(decoded.column(OP), "u"))
        return pc.fill_null(pc.and_(is_unknown, may_be), False)

    def _refuse_null_keys(self, cells: Mapping[str, pa.Array], is_blank: pa.Array) -> None:
        for name in self.table.dimension.key:
            if pc.any(pc.and_(cells[name].is_null(), pc.invert(is_blank))).as_py():
                raise SparkNeeded(f"the key column {name} is NULL in a message")

    def _sequence(self, decoded: pa.RecordBatch, is_blank: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the sequences of messages, and the logs of their positions."""

        def field(name: str) -> pa.Array:
            return decoded.column(field_column(name))

        dimension, is_read = self.table.dimension, pc.fill_null(pc.equal(decoded.column(OP), "r"), False)
        if self.rows.decoder.has_places:
            texts, log = places_and_logs(field, decoded.column(COMMIT), is_read)
        else:
            texts, log = no_places(is_read), pa.nulls(decoded.num_rows, pa.string())
        if pc.any(pc.and_(texts.is_null(), pc.invert(is_blank))).as_py():
            raise SparkNeeded("a message has no position in the log, and others have one")
        texts = pc.if_else(is_blank, str(LOAD_SEQUENCE), texts)
        sequences = texts.cast(pa.decimal128(38, 0))
        return sequences.cast(arrow_type(names.sequence_type(dimension.sequences))), log


def _transactions(decoded: pa.RecordBatch) -> pa.Array:
    block = pc.replace_substring_regex(decoded.column(BLOCK), _WITH_POSITION, r"\1")
    return pc.coalesce(block, *(decoded.column(field_column(name)) for name in _TRANSACTION_FIELDS))


def _is_initial(decoded: pa.RecordBatch) -> pa.Array:
    """Return which messages are rows of an initial snapshot."""
    is_initial = pc.is_in(decoded.column(field_column("snapshot")), pa.array(INITIAL_SNAPSHOT))
    return pc.fill_null(pc.and_(pc.equal(decoded.column(OP), "r"), is_initial), False)


def _databases(decoded: pa.RecordBatch) -> pa.Array:
    """Return the connector and database of each message with a row, as `Debezium.database` does."""
    connector, database, schema = (decoded.column(field_column(name)) for name in ("name", "db", "schema"))
    connector = _without_blank(connector)
    database = pc.if_else(schema.is_valid(), _without_blank(database), _NO_TEXT)
    joined = pc.coalesce(pc.binary_join_element_wise(connector, database, "."), connector, database)
    joined = joined.dictionary_encode()
    if pc.any(pc.invert(pc.string_is_ascii(joined.dictionary))).as_py():
        raise SparkNeeded("the name of a connector or a database has a letter other than those of ASCII")
    words = pc.ascii_lower(pc.utf8_slice_codeunits(joined.dictionary, 0, LONGEST_NAME))
    named = pc.take(_without_blank(words), joined.indices)
    return pc.if_else(decoded.column(OP).is_valid(), named, _NO_TEXT)


def _without_blank(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(texts, ""), _NO_TEXT, texts)
