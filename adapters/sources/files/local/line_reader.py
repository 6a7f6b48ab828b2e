"""Reader of files of JSON lines and messages in plain Python, so that a small batch needs no Spark job.

Its results are equal to those of `lakeward.adapters.sources.files.event_frame`. It leaves the rest to Spark:
`why_not_local` says which tables by their settings, and SparkNeeded is raised for lines that Spark must read.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

from lakeward.adapters.sources.files.column_mapping import needs_schemas, writings
from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.json_lines.messages import NO_SCHEMA, OF_KEY, versions_by_file, versions_of
from lakeward.adapters.sources.files.local.json_objects import LocalObjects
from lakeward.adapters.sources.files.local.messages.debezium import LocalDebezium, ParsedMessage
from lakeward.adapters.sources.files.local.messages.debezium_rows import DebeziumRows
from lakeward.adapters.sources.files.local.messages.dms import LocalDms
from lakeward.adapters.sources.files.local.messages.key_changes import link
from lakeward.adapters.sources.files.local.messages.message import message_of
from lakeward.adapters.sources.files.local.rows import Cell, Columns, Line, RowLists, Rows, time_text
from lakeward.adapters.sources.files.local.values.documents import Documents, text_of
from lakeward.adapters.sources.files.local.values.typed_values import why_not_read
from lakeward.adapters.sources.files.named_fields import fields_of, find_field
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.connect_schema import Version
from lakeward.adapters.sources.messages.debezium import Debezium
from lakeward.adapters.sources.messages.decoded import (
    HAS_DELETED,
    KEY_HALF,
    OLD_KEY_UNKNOWN,
    OTHER_TABLE,
    PLAIN,
    ROWS_GONE,
    TOMBSTONE,
)
from lakeward.adapters.sources.messages.dms import DmsMessages
from lakeward.adapters.sources.messages.json.wire_format import Wire, Writing
from lakeward.adapters.sources.rows.local_files import BYTES_OF_A_ROW, is_packed_otherwise
from lakeward.adapters.spark.frames.event_frame import DATABASE, INITIAL
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.source_rows import OP_TEXT, SEQUENCE_TEXT, TIME_TEXT
from lakeward.core.schema import Column
from lakeward.core.text.numbers import format_count

FORMATS: Final = ("json", "debezium", "dms-json")
"""The formats of files that this module reads."""

_BOM: Final = "\ufeff"

_DAY: Final = 86_400_000_000
_TIMES: Final = ("timestamp", "timestamp_ntz", "date")


def why_not_local(table: TableFiles, names: Sequence[str]) -> str | None:
    """Return in words why Spark must read files of a table; None if plain Python can."""
    other = next((name for name in names if table.format_of(name) not in FORMATS), None)
    if other is not None:
        return f"{other} has the format {table.format_of(other)}"
    packed_name = next((name for name in names if is_packed_otherwise(name)), None)
    if packed_name is not None:
        return f"{packed_name} is packed by something else than gzip"
    if table.options.path_columns:
        return "columns are from the path of files"
    written = table.reading.written
    for column in table.dimension.schema:
        reason = why_not_read(column.type, written.get(column.name, PLAIN))
        if reason is not None:
            return f"{reason} ({column.name})"
    decoder = table.decoder
    if table.options.format == "debezium" and isinstance(decoder, Debezium):
        return LocalDebezium(decoder, table.dimension.source, Documents()).why_not()
    return None


def read_lines_of(table: TableFiles, names: Sequence[str], most: int | None = None) -> list[Line]:
    """Return the lines of files, in order; raises SparkNeeded for more than `most`, and for invalid UTF-8."""
    lines: list[Line] = []
    start = len(table.folder.base.rstrip("/")) + 1
    for name in names:
        path = table.path_of(name)[start:]
        lines += [Line(path, number, text) for number, text in enumerate(_texts(table, name, most), 1)]
        if most is not None and len(lines) > most:
            raise SparkNeeded(f"its files have more than {format_count(most, 'row')}")
    return lines


@contextmanager
def open_unpacked(table: TableFiles, name: str) -> Iterator[BinaryIO]:
    """Open a file of a table, and unpack it if it is packed by gzip.

    Raises SourceError if it cannot be opened. Reading it raises OSError, EOFError or zlib.error.
    """
    with table.folder.open(table.dimension.source, name) as raw:
        yield cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if name.endswith(".gz") else raw


def _texts(table: TableFiles, name: str, most: int | None) -> list[str]:
    size = None if most is None else most * BYTES_OF_A_ROW
    try:
        with open_unpacked(table, name) as opened:
            data = opened.read() if size is None else opened.read(size + 1)
        if size is not None and len(data) > size:
            raise SparkNeeded(f"{name} has more bytes than a small batch")
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SparkNeeded(f"{name} is no UTF-8") from error
    except (OSError, EOFError, zlib.error) as error:
        raise SparkNeeded(f"{name} cannot be unpacked") from error
    if text in ("", _BOM):
        return []
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    lines[0] = lines[0].removeprefix(_BOM).removeprefix(_BOM)  # Hadoop removes one, and Spark's query another
    return lines


def read_local(table: TableFiles, files: Sequence[File], most: int | None = None) -> RowLists:
    """Return the rows of files; raises SparkNeeded if Spark must read them, or if there are more than `most`.

    `table` has the columns that the files have.
    """
    names = [file.item.name for file in files]
    lines = read_lines_of(table, names, most)
    versions = {version.digest: version for file in files for version in file.versions}
    return read_rows(table.of_partitions(names), lines, versions)


def read_rows(table: TableFiles, lines: Sequence[Line], versions: Mapping[str, Version]) -> RowLists:
    """Return lines as rows; `versions` are the schemas of messages by digest, if types are taken from schemas."""
    decoder, is_record = table.decoder, table.options.line == "record"
    columns, documents = Columns.of(table.dimension), Documents()
    if table.options.format == "debezium" and isinstance(decoder, Debezium):
        return LocalMessages(table, lines, decoder).rows(table, versions)
    if table.options.format == "dms-json" and isinstance(decoder, DmsMessages):
        dms, rows = LocalDms(decoder, table.dimension.source), Rows(table.reading, (OTHER_TABLE, ROWS_GONE))
        cells = rows.cells(table.reading.written)
        for line in lines:
            rows.add(dms.row_of(message_of(line, documents, is_record=is_record), columns), cells)
        return rows.lists
    objects = LocalObjects.of(table, documents)
    rows = Rows(table.reading, objects.extra_columns())
    cells = rows.cells(table.reading.written)
    for line in lines:
        rows.add(objects.row_of(line, columns), cells)
    return with_mapping_of(table, rows.lists)


class LocalMessages:
    """The parsed Debezium messages in the files of a batch."""

    def __init__(self, table: TableFiles, lines: Sequence[Line], decoder: Debezium) -> None:
        self._local = LocalDebezium(decoder, table.dimension.source, Documents())
        self._digests: dict[int, tuple[Any, str]] = {}
        self._reads_keys = table.options.reads_keys
        is_record = table.options.line == "record"
        self.opened = [
            self._local.open(
                message_of(line, self._local.documents, is_record=is_record, of_mongodb=decoder.documents)
            )
            for line in lines
        ]
        if table.links:
            link(self.opened, self._local)

    def versions(self, table: TableFiles) -> Mapping[str, Sequence[Version]]:
        """Return the schemas of messages by the path of their file, in the order of their lines.

        Raises SchemaConflict if rows have no schema at all.
        """
        in_order = sorted(self._schemas().items(), key=lambda item: item[1][0])
        schemas = ((name, digest, text_of(one.schema), has_row) for (name, digest), (_, one, has_row) in in_order)
        return versions_by_file(table, schemas)

    def _schemas(self) -> Mapping[tuple[str, str], tuple[int, ParsedMessage, bool]]:
        """Return by file and digest of the schema: the first line, its message, and whether a message has a row."""
        schemas: dict[tuple[str, str], tuple[int, ParsedMessage, bool]] = {}
        for one in self.opened:
            line = one.message.line
            if one.message.body is None and '"schema"' in line.text:
                raise SparkNeeded("a message that is no JSON object may have a schema")
            if not one.is_of_other:
                place = (line.name, self.digest(one))
                least, first, has_row = schemas.get(place, (line.number, one, False))
                schemas[place] = (least, first, has_row or one.after is not None)
        return schemas

    def _schemas_beside(self, table: TableFiles) -> Mapping[str, Version]:
        """Return the schemas of messages whose columns are declared, by their digests."""
        if not needs_schemas(table.options, table.dimension):
            return {}
        schemas = {self.digest(one): self._schema(one) for one in self.opened if not one.is_of_other}
        return versions_of(table, ((digest, text_of(schema)) for digest, schema in schemas.items()))

    def digest(self, message: ParsedMessage) -> str:
        """Return the digest of a message's schema; '' if it has none."""
        schema, suffix = self._schema(message), "" if message.schema is not None else OF_KEY
        if schema is None:
            return ""
        entry = self._digests.get(id(schema))
        if entry is None or entry[0] is not schema:
            text = text_of(schema) or ""
            entry = (schema, hashlib.md5(text.encode(), usedforsecurity=False).hexdigest())
            self._digests[id(schema)] = entry
        return suffix + entry[1]

    def _schema(self, message: ParsedMessage) -> Any:
        """Return the schema by which a message is read; for a tombstone that deletes it is that of the key."""
        is_of_key = message.schema is None and message.is_tombstone and self._reads_keys
        return (message.message.whole_key or {}).get("schema") if is_of_key else message.schema

    def rows(self, table: TableFiles, versions: Mapping[str, Version]) -> RowLists:
        """Return the messages as rows, each decoded by its schema."""
        flags = (TOMBSTONE, HAS_DELETED, OLD_KEY_UNKNOWN, KEY_HALF, INITIAL)
        rows = Rows(table.reading, (OTHER_TABLE, DATABASE, *flags))
        columns, debezium_rows = Columns.of(table.dimension), DebeziumRows(self._local)
        by_schema = table.options.types == "schema"
        default_form = _CellForm.of(rows, table, table.reading.written, NO_SCHEMA if by_schema else None)
        described = versions if by_schema else self._schemas_beside(table)
        forms = {
            digest: _CellForm.of(rows, table, _described(table, version)) for digest, version in described.items()
        }
        for one in self.opened:
            form = forms.get(self.digest(one), default_form) if forms else default_form
            row = debezium_rows.row_of(one, columns, form.no_schema)
            if form.unscaled:
                cells = zip(columns.names, row.cells, strict=True)
                values = {name: value for name, value in cells if name in form.unscaled and value is not None}
                row.numbers = [name for name, value in values.items() if debezium_rows.is_number(one, value, name)]
            rows.add(row, form.cells)
        return rows.lists


@dataclass(frozen=True, slots=True)
class _CellForm:
    """How the cells of messages with one schema are read.

    `unscaled` are the columns whose decimals are base64 or numbers. `no_schema` says in words why a message with a
    row cannot be read, if it needs a schema.
    """

    cells: Mapping[str, Cell]
    unscaled: frozenset[str]
    no_schema: str | None

    @classmethod
    def of(
        cls, rows: Rows, table: TableFiles, written: Mapping[str, Writing], no_schema: str | None = None
    ) -> _CellForm:
        """Return how cells are read whose columns are `written` in these forms."""
        decimals = [c.name for c in table.dimension.schema if c.type.name == "decimal"]
        unscaled = frozenset(name for name in decimals if written.get(name, PLAIN).wire is Wire.UNSCALED)
        return cls(rows.cells(written), unscaled, no_schema)


def _described(table: TableFiles, version: Version) -> Mapping[str, Writing]:
    described = {column.name: column for column in version.columns}
    return writings(table.options, table.dimension, table.patterns, described)


# Mapping of columns to operation, order and time.


def with_mapping_of(table: TableFiles, rows: RowLists) -> RowLists:
    """Return rows with operation, order and time filled from columns, as `with_mapping` does in SQL."""
    schema = table.dimension.schema
    named = {setting: find_field(schema, name) for setting, name in fields_of(table.options).items()}
    columns = {setting: field[1] for setting, field in named.items() if field is not None}
    if any(schema.find(column.name) is None for column in columns.values()):
        raise SparkNeeded("a setting names a field within a column")
    operation, order = columns.get("operation"), columns.get("order_by")
    time = columns.get("time", order)
    mapped: dict[str, list[Any]] = {}
    if operation is not None:
        mapped[OP_TEXT] = _words(operation, rows[operation.name])
    if order is not None:
        cells = rows[order.name]
        mapped[SEQUENCE_TEXT] = [None if value is None else str(_number(order, value)) for value in cells]
    if time is not None and time.type.name in _TIMES:
        cells = rows[time.name]
        mapped[TIME_TEXT] = [None if value is None else time_text(_number(time, value)) for value in cells]
    return {**rows, **mapped}


def _number(column: Column, value: Any) -> Any:
    return value * _DAY if column.type.name == "date" else value


def _words(column: Column, values: Sequence[Any]) -> list[str | None]:
    if column.type.name in ("string", "int", "bigint", "decimal"):
        return [None if value is None else str(value) for value in values]
    if column.type.name == "boolean":
        return [None if value is None else str(value).lower() for value in values]
    raise SparkNeeded(f"`operation` names a column that is {column.type.with_article}")
