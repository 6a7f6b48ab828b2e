"""Write files as AWS DMS writes them, without Spark.

Tests, the demo and the benchmarks get their files from here. Rows become Arrow columns at once, so that Arrow
tables pass through no Python objects. The CSV is the inverse of the rules in
`lakeward.adapters.sources.csv.parser`, which reads back the rows that were given.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from itertools import chain, count, groupby
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.adapters.sources.csv.layout import OPERATIONS
from lakeward.adapters.sources.csv.parser import BOM, Dialect
from lakeward.adapters.sources.dms.paths.date_folders import folder_of
from lakeward.adapters.sources.dms.paths.file_names import read_name
from lakeward.adapters.sources.landing.places import OWN_FOLDER, fill_template
from lakeward.core.dimension import TableName
from lakeward.core.events import UNSET, Operation
from lakeward.core.schema import Schema, Type

Row: TypeAlias = Sequence[object]
"""The values of a row, in the order of the columns. None is NULL. UNSET is a value that is not sent (CSV only)."""


class Change(NamedTuple):
    """A change: the row after an insert or update, or before a delete, and its commit time."""

    operation: Operation
    row: Row
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The endpoint settings that a file's form depends on.

    `time_digits` are the digits of a commit time behind the second. `padding` is the width to which texts are
    padded. `date_folders` is a form as `YYYY/MM/DD`, by days of `date_zone`. `is_parquet_2` is `PARQUET_2_0`,
    `has_millis` writes Parquet times in milliseconds. The defaults are those of DMS: no header, no Op column in a
    full load, no commit time.
    """

    format: Literal["csv", "parquet"] = "csv"
    dialect: Dialect = field(default_factory=Dialect)
    row_end: str = "\n"
    has_header: bool = False
    is_gzip: bool = False
    has_op_in_load: bool = False
    has_op_in_changes: bool = True
    op_column: str = "Op"
    timestamp_column: str | None = None
    time_digits: int = 6
    padding: int = 0
    load_folder: str = OWN_FOLDER
    changes_folder: str = OWN_FOLDER
    date_folders: str | None = None
    date_zone: tzinfo = UTC
    load_digits: int = 8
    is_parquet_2: bool = False
    has_millis: bool = False


class DmsWriter:
    """Writes the files of one table below a landing folder.

    A file gets its name once it is complete; before, it has a name that no reader lists. Times without a zone are
    in UTC, and so are all that are written.
    """

    def __init__(self, landing: Path, table: TableName, schema: Schema, style: Style | None = None) -> None:
        self.style = style or Style()
        self.table = table
        self.folder = landing / fill_template(self.style.load_folder, table)
        self.changes_folder = landing / fill_template(self.style.changes_folder, table)
        self.schema = schema
        self._types = pa.schema([pa.field(c.name, _ARROW.get(c.type.name) or _decimal(c.type)) for c in schema])

    def load(
        self, rows: pa.Table | Iterable[Row], at: datetime, rows_per_file: int | None = None, segment: str = ""
    ) -> list[Path]:
        """Write rows as the next files of a full load, transferred at a time, and return the files.

        `segment` precedes the name: `p2026/` or `SEGMENT1_`.
        """
        table = self._cast(rows, []) if isinstance(rows, pa.Table) else self._table(rows)
        if self.style.timestamp_column is not None:
            table = table.add_column(0, self.style.timestamp_column, pa.repeat(self._times([at])[0], len(table)))
        if self.style.has_op_in_load:
            table = table.add_column(0, self.style.op_column, pa.repeat("I", len(table)))
        size = rows_per_file or max(1, len(table))
        parts = [table.slice(start, size) for start in range(0, len(table), size)]
        return [self._write(self.folder / self._next_load(segment), part) for part in parts]

    def changes(self, changes: pa.Table | Iterable[Change], at: datetime) -> Path:
        """Write changes as one file that DMS closed at a time, and return the file.

        An Arrow table of changes also has the columns that the style adds: the operation (I, U or D), and the
        commit time if there is one.
        """
        if isinstance(changes, pa.Table):
            added = [name for name in (self.style.op_column, self.style.timestamp_column) if name is not None]
            return self._write(self._next_changes(at), self._cast(changes, added))
        return self._write(self._next_changes(at), self._with_operations(list(changes)))

    def dated_changes(self, changes: Iterable[Change], at: datetime) -> list[Path]:
        """Write changes as files of one name, one in each date folder.

        A change without a time goes with the one before.
        """
        parts: dict[str, list[Change]] = {}
        moment = at
        for change in changes:
            moment = change.time or moment
            day = _in_utc(moment).astimezone(self.style.date_zone)
            parts.setdefault(folder_of(day, self.style.date_folders or ""), []).append(change)
        return [
            self._write(self._next_changes(at, folder), self._with_operations(part))
            for folder, part in parts.items()
        ]

    def in_transactions(self, changes: Iterable[Change]) -> bytes:
        """Return changes as rows of a transaction file, which have table and schema behind the operation."""
        table = self._padded(self._with_operations(list(changes)))
        for place, name in enumerate((self.table.table, self.table.schema), 1):
            table = table.add_column(place, f"{place}", pa.repeat(name, len(table)))
        return b"".join(self._csv(table))

    # From rows to Arrow.

    def _cast(self, table: pa.Table, added: Sequence[str]) -> pa.Table:
        """Return the table with its columns in order and of the right types.

        Raises ArrowInvalid where a value is lost.
        """
        wanted = pa.schema([*[pa.field(name, pa.string()) for name in added], *self._types])
        return table.select(wanted.names).cast(wanted)

    def _table(self, rows: Iterable[Row]) -> pa.Table:
        row_list = list(rows)
        columns = list(zip(*row_list, strict=True)) if row_list else [()] * len(self.schema)
        sent = [[None if cell is UNSET else cell for cell in column] for column in columns]
        arrays = [pa.array(c, type_) for c, type_ in zip(sent, self._types.types, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=self._types)
        for name, column in zip(self.schema.names, columns, strict=True):
            if any(cell is UNSET for cell in column):
                table = table.append_column(_NOT_SENT + name, pa.array([cell is UNSET for cell in column]))
        return table

    def _times(self, moments: Sequence[datetime | None]) -> pa.Array:
        """Return commit times as DMS writes them: texts in every format, in the precision of the source."""
        texts = pa.array([None if m is None else _in_utc(m) for m in moments], pa.timestamp("us")).cast(pa.string())
        length = 19 + (self.style.time_digits and 1 + self.style.time_digits)
        return pc.utf8_slice_codeunits(texts, 0, length)

    def _padded(self, table: pa.Table) -> pa.Table:
        """Pad the texts of the table's own columns, if the style has a padding."""
        for column in self.schema if self.style.padding else ():
            if column.type.name == "string":
                place = table.column_names.index(column.name)
                filled_up = pc.utf8_rpad(table.column(place), self.style.padding)
                table = table.set_column(place, column.name, filled_up)
        return table

    def _with_operations(self, changes: Sequence[Change]) -> pa.Table:
        table = self._table([change.row for change in changes])
        if self.style.timestamp_column is not None:
            table = table.add_column(0, self.style.timestamp_column, self._times([c.time for c in changes]))
        if not self.style.has_op_in_changes:
            return table
        letters = [_LETTERS[change.operation] for change in changes]
        return table.add_column(0, self.style.op_column, pa.array(letters, pa.string()))

    # Names.

    def _next_load(self, segment: str) -> str:
        folder, _, prefix = segment.rpartition("/")
        written = _list_names(self.folder / folder)
        load_names = [name.removeprefix(prefix) for name in written if name.startswith(f"{prefix}LOAD")]
        last = max((name.order for name in map(read_name, load_names) if name is not None), default=0)
        return f"{segment}LOAD{last + 1:0{self.style.load_digits}X}{self._ending}"

    def _next_changes(self, at: datetime, folder: str = "") -> Path:
        """Return the path of the next change file.

        A second file of the same millisecond has a counter behind it.
        """
        moment, inner = _in_utc(at), self.changes_folder / folder
        stem, written = f"{moment:%Y%m%d-%H%M%S}{moment.microsecond // 1000:03}", _list_names(inner)
        return inner / next(n for c in chain([""], count(1)) if (n := f"{stem}{c}{self._ending}") not in written)

    @property
    def _ending(self) -> str:
        if self.style.format == "parquet":
            return ".parquet"
        return ".csv.gz" if self.style.is_gzip else ".csv"

    # Files.

    def _write(self, path: Path, table: pa.Table) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        table = self._padded(table)
        with whole_file(path) as file:
            self._write_parquet(file, table) if self.style.format == "parquet" else self._write_csv(file, table)
        return path

    def _write_parquet(self, file: BinaryIO, table: pa.Table) -> None:
        version, pages = ("2.6", "2.0") if self.style.is_parquet_2 else ("1.0", "1.0")
        pq.write_table(
            table,
            file,
            version=version,
            data_page_version=pages,
            coerce_timestamps="ms" if self.style.has_millis else "us",
            allow_truncated_timestamps=self.style.has_millis,
            compression="gzip" if self.style.is_gzip else "none",
        )

    def _write_csv(self, file: BinaryIO, table: pa.Table) -> None:
        if not self.style.is_gzip:
            file.writelines(self._csv(table))
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            packed.writelines(self._csv(table))

    def _csv(self, table: pa.Table) -> Iterator[pa.Buffer]:
        own = [name for name in table.column_names if not name.startswith(_NOT_SENT)]
        if self.style.has_header:
            yield self._rows([_fields(pa.array([name], pa.string()), self.style.dialect) for name in own])
        for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
            if len(batch):
                yield self._rows([self._column(batch, name) for name in own])

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        fields = _fields(_as_text(batch.column(name)), self.style.dialect)
        if _NOT_SENT + name not in batch.schema.names:
            return fields
        if self.style.dialect.no_sup_text is None:
            raise ValueError(f"{name} is not sent, and the dialect has no text for that")
        return pc.if_else(batch.column(_NOT_SENT + name), self.style.dialect.no_sup_text, fields)

    def _rows(self, fields: Sequence[pa.Array]) -> pa.Buffer:
        """Join columns of fields to rows, and return the bytes of all rows."""
        rows = pc.binary_join_element_wise(*fields, self.style.dialect.delimiter)
        return pc.binary_join_element_wise(rows, "", self.style.row_end).buffers()[2]


class TransactionWriter:
    """Writes changes of many tables into transaction files, in the folder `cdc_path` of a landing folder.

    Each table has a writer, whose style defines the form of its rows: CSV without a header.
    """

    def __init__(self, landing: Path, cdc_path: str, writers: Iterable[DmsWriter]) -> None:
        self.folder = landing / cdc_path
        self.writers = {writer.table: writer for writer in writers}

    def write(self, changes: Iterable[tuple[TableName, Change]], at: datetime, *, is_gzip: bool = False) -> Path:
        """Write changes in this order as one file that DMS closed at a time, and return the file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        moment, ending = _in_utc(at), ".csv.gz" if is_gzip else ".csv"
        written = {name.partition(".")[0] for name in _list_names(self.folder)}
        stem = f"CDC_TXN-{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03}"
        stem_and_counter = next(name for c in chain([""], count(1)) if (name := f"{stem}{c}") not in written)
        path = self.folder / f"{stem_and_counter}{ending}"
        runs = groupby(changes, key=lambda change: change[0])
        rows = [self.writers[table].in_transactions(one for _, one in run) for table, run in runs]
        with whole_file(path) as file:
            file.write(gzip.compress(b"".join(rows), mtime=0) if is_gzip else b"".join(rows))
        return path


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing; it gets its name once it is complete, and no reader lists it before."""
    unfinished = path.parent / f".{path.name}"
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)


_LETTERS: Final = {Operation(word): letter for letter, word in OPERATIONS.items()}

_NOT_SENT: Final = "\0not sent "
"""The prefix of a column that states which cells of another column are not sent."""

_ROWS_AT_ONCE: Final = 1 << 16

_ARROW: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def _decimal(type_: Type) -> pa.DataType:
    if type_.is_nested:
        raise ValueError(f"DMS writes no {type_}")
    return pa.decimal128(type_.precision, type_.scale)


def _list_names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.exists() else set()


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _as_text(column: pa.Array) -> pa.Array:
    """Return a column as texts; NULL stays NULL."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us")).cast(pa.string())
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())
    texts = column.cast(pa.string())
    if pa.types.is_decimal(column.type) and pc.any(pc.match_substring(texts, "E")).as_py():
        return pa.array([None if value is None else f"{value:f}" for value in column.to_pylist()], pa.string())
    return texts


def _fields(column: pa.Array, dialect: Dialect) -> pa.Array:
    """Return the fields of a column: quoted where they would be read as something else, NULL as its text.

    Raises ValueError where a field needs quotes and the dialect has none.
    """
    signs = {dialect.delimiter, dialect.quote, *dialect.row_end, "\r", "\n"}
    special = "".join(re.escape(c) for c in sorted(signs) if c)
    is_special = pc.match_substring_regex(column, f"^{BOM}|[{special}]")
    meanings = pa.array(
        [text for text in (dialect.null_text, dialect.no_sup_text) if text is not None], pa.string()
    )
    is_unsafe = pc.fill_null(pc.or_(is_special, pc.is_in(column, meanings)), False)
    if pc.any(is_unsafe, min_count=0).as_py():
        if not dialect.quote:
            first = column.filter(is_unsafe)[0].as_py()
            raise ValueError(f"{first!r} cannot be written without quotes, as it would be read as something else")
        doubled = pc.replace_substring(column, dialect.quote, dialect.quote * 2)
        quoted = pc.binary_join_element_wise(dialect.quote, doubled, dialect.quote, "")
        column = pc.if_else(is_unsafe, quoted, column)
    return pc.fill_null(column, dialect.null_text)
