"""Rows of Debezium messages that Arrow decodes; `adapters.sources.messages.debezium` decodes the others in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from lakeward.adapters.sources.files.json_lines.frames import UNDECLARED
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages import log_positions
from lakeward.adapters.sources.messages.debezium import INITIAL_SNAPSHOT, OPERATIONS, Debezium
from lakeward.adapters.sources.messages.decoded import (
    HAS_DELETED,
    KEY_HALF,
    LONGEST_NAME,
    OLD_KEY_UNKNOWN,
    OTHER_TABLE,
    PLAIN,
    TOMBSTONE,
    UNDECODED,
    Decoded,
    to_rows,
)
from lakeward.adapters.sources.messages.envelopes import (
    BLOCK,
    COMMIT,
    HAS_BEFORE,
    HAS_KEY,
    HAS_NO_VALUE,
    IS_DECODED,
    MICROS,
    OP,
    Envelopes,
    cell_after,
    cell_before,
    cell_of_key,
    field_column,
    native_type,
    number_type,
)
from lakeward.adapters.sources.messages.message import KEY_HEADERS, placeholders
from lakeward.adapters.sources.messages.transaction_ids import transaction_name_of
from lakeward.adapters.spark.frames.event_frame import DATABASE, INITIAL
from lakeward.adapters.spark.frames.source_rows import LINE, NAME, VALUE
from lakeward.adapters.spark.sql.names import quoted, text

_IS_READ: Final = f"{OP} = 'r'"
_NO_NAMES: Final = "CAST(NULL AS array<string>)"
_BATCHES: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2048",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 1024 * 1024),  # Spark 3.5 does not know it
}
"""The size of the batches that Spark sends to a Python worker, which needs a few times as much memory."""

_DDL: Final = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
}


@dataclass(frozen=True, slots=True)
class EnvelopeRows:
    """Reads the messages of a table in their usual form: Arrow decodes them, and SQL makes rows of their cells."""

    envelopes: Envelopes
    decoder: Debezium

    @classmethod
    def of(cls, table: TableFiles) -> EnvelopeRows | None:
        """Return the reader of a table's messages; None if Arrow cannot decode the form that settings describe."""
        decoder, options, schema = table.decoder, table.options, table.dimension.schema
        if not isinstance(decoder, Debezium) or decoder.is_flat or table.links or decoder.documents is not None:
            return None
        if options.types == "schema" and not table.described:
            return None
        if any(c.type.is_nested or {*c.name} & {'"', "\\"} for c in schema):
            return None
        wires = {c.name: table.reading.written.get(c.name, PLAIN).wire for c in schema}
        numbers = {c.name: number_type(c, wires[c.name]) for c in schema}
        before = (*dict.fromkeys((*decoder.key, *(c.name for c in table.reading.before_columns))),)
        source = table.dimension.source
        return cls(
            Envelopes(
                columns={c.name: native_type(c, wires[c.name]) for c in schema},
                numbers={name: type_ for name, type_ in numbers.items() if type_ is not None},
                schema=source.schema,
                table=source.table,
                before=before,
                key=(*decoder.key,),
                are_records=options.line == "record",
                placeholders=placeholders(decoder.unavailable),
                key_headers=KEY_HEADERS,
                skips_tombstones=decoder.tombstones == "skip",
            ),
            decoder,
        )

    def decoded(self, lines: DataFrame) -> DataFrame:
        """Return the lines with the flag `IS_DECODED`, and the contents of the decoded ones."""
        for name, value in _BATCHES.items():
            lines.sparkSession.conf.set(name, value)
        returned = ", ".join(f"{quoted(field.name)} {_DDL[field.type]}" for field in self.envelopes.decoded_schema)
        return lines.select(VALUE, NAME, LINE).mapInArrow(self.envelopes.decode_all, returned)

    def rows(self, table: TableFiles, decoded: DataFrame) -> DataFrame:
        """Return decoded messages as rows, and the others with the flag `UNDECODED`."""
        flags = (
            f"{HAS_NO_VALUE} AS {TOMBSTONE}",
            f"false AS {HAS_DELETED}",
            f"{self._old_key_unknown()} AS {OLD_KEY_UNKNOWN}",
            f"false AS {KEY_HALF}",
            f"{_database()} AS {DATABASE}",
            f"coalesce({_IS_READ} AND {_field('snapshot')} IN ({_listed(INITIAL_SNAPSHOT)}), false) AS {INITIAL}",
            f"NOT {IS_DECODED} AS {UNDECODED}",
        )
        written = table.reading.written
        strange, other = f"{_NO_NAMES} AS {UNDECLARED}", f"string(NULL) AS {OTHER_TABLE}"
        return to_rows(decoded, table.reading, self._decoded(table), written, strange, other, *flags)

    def _decoded(self, table: TableFiles) -> Decoded:
        cells = {
            name: f"CASE WHEN {OP} != 'd' THEN {cell_after(place)} END"
            for place, name in enumerate(self.envelopes.columns)
        }
        for name in self.envelopes.key:
            cells[name] = f"CASE WHEN {OP} = 'd' THEN {self._gone(name)} ELSE {self._after(name)} END"
        before_columns = [column.name for column in table.reading.before_columns]
        is_told = f"{OP} = 'u'" if self.envelopes.key else f"{OP} IN ('u', 'd')"
        has_whole = self.decoder.before_images == "whole" and table.dimension.before_columns
        has_places = self.decoder.has_places
        words = " ".join(f"WHEN '{letter}' THEN '{word}'" for letter, word in OPERATIONS.items())
        return Decoded(
            cells=cells,
            before={name: f"CASE WHEN {is_told} THEN {self._before(name)} END" for name in before_columns},
            has_image=f"coalesce({HAS_BEFORE}, false)" if has_whole else "false",
            operation=f"CASE {OP} {words} END",
            time=f"CASE WHEN {MICROS} != 0 THEN {MICROS} END",
            sequence=(
                log_positions.sequence(_field, _IS_READ, COMMIT) if has_places else log_positions.no_place(_IS_READ)
            ),
            log=log_positions.log(_field, COMMIT) if has_places else "string(NULL)",
            transaction=_transaction(),
            blank=f"coalesce({HAS_NO_VALUE}, false)",
            texts=(),
            typed={name for name, type_ in self.envelopes.columns.items() if type_ is not None},
        )

    def _after(self, name: str) -> str:
        return cell_after([*self.envelopes.columns].index(name))

    def _before(self, name: str) -> str:
        return cell_before(self.envelopes.before.index(name))

    def _key(self, name: str) -> str:
        return cell_of_key(self.envelopes.key.index(name))

    def _gone(self, name: str) -> str:
        """Return a key cell of a deleted row: from the message's key, else from the before image."""
        if self.decoder.before_images == "whole":
            return f"coalesce({self._key(name)}, {self._before(name)})"
        return f"CASE WHEN {HAS_KEY} THEN {self._key(name)} ELSE {self._before(name)} END"

    def _old_key_unknown(self) -> str:
        lacks = [f"({self._key(name)} IS NULL AND {self._before(name)} IS NULL)" for name in self.envelopes.key]
        return f"coalesce({HAS_KEY} AND {OP} = 'u' AND ({' OR '.join(lacks)}), false)" if lacks else "false"


def _field(name: str) -> str:
    return field_column(name)


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(map(text, words))


def _transaction() -> str:
    fields = (field_column(name) for name in ("txId", "gtid", "commit_lsn", "commit_scn", "ts_ms"))
    return f"coalesce({', '.join([transaction_name_of(BLOCK), *fields])})"


def _database() -> str:
    """Return the connector and database of a message with a row, as `Debezium.database` does."""
    database = f"CASE WHEN {_field('schema')} IS NOT NULL THEN nullif({_field('db')}, '') END"
    name = f"concat_ws('.', nullif({_field('name')}, ''), {database})"
    return f"CASE WHEN {OP} IS NOT NULL THEN nullif(lower(left({name}, {LONGEST_NAME})), '') END"
