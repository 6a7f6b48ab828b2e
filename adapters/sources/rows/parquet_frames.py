"""Rows of Parquet files as Spark frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from operator import not_
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from lakeward.adapters.sources.rows.parquet_footers import Footer, PhysicalForm
from lakeward.adapters.sources.rows.read_spec import Reading, below, escaped
from lakeward.adapters.spark.frames.source_rows import (
    BLANK,
    BROKEN,
    HAS_IMAGE,
    KEY_MISFIT,
    LINE,
    MISFIT,
    NAME,
    OP_TEXT,
    SEQUENCE_TEXT,
    TIME_TEXT,
    TORN,
    VALUE,
    before_column,
)
from lakeward.adapters.spark.session.compatibility import is_valid_utf8
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.casts import misfit
from lakeward.adapters.spark.sql.inline_rows import as_json
from lakeward.adapters.spark.sql.limits import is_not_utf8, is_outside
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.schema import Column, Type

NOT_UTF8: Final = "_lakeward_not_utf8"
"""The key in the JSON of a row that lists its columns with invalid UTF-8, whose texts are in hex there."""

_AS_NOW: Final[Mapping[str, str]] = MappingProxyType({})


def read_parquet(
    spark: SparkSession,
    paths: Sequence[str],
    reading: Reading,
    footer: Footer,
    *,
    has_op: bool,
    called: Mapping[str, str] = _AS_NOW,
) -> DataFrame:
    """Return the rows of Parquet files; only years out of range and invalid UTF-8 can make a value not fit.

    `called` has the names in the files of columns that were renamed, by their present names.
    """
    schema = reading.dimension.schema
    time, place = reading.timestamp_column, reading.sequence_column
    frame = _named(_with_forms(spark.read, footer).parquet(*[escaped(path) for path in paths]), footer)
    text_of = partial(_text_of, reading=reading, footer=footer)
    owns = [_Cell(called.get(c.name, c.name), c, reading, footer, n) for n, c in enumerate(schema)]
    before = _before_cells(reading, footer, called, frame.columns)
    sent = [cell.display for cell in (*owns, *(cell for cell in before if cell.name is not None))]
    cells = (*owns, *before)
    of_key = [cell.column.name in reading.dimension.key for cell in cells]
    wrong = [cell.misfit for cell in cells]
    flags = [f"{is_not_utf8(cell.cast, cell.column.type)} AS {cell.flag}" for cell in cells if cell.flag]
    return frame.selectExpr("*", "_metadata", *flags).selectExpr(
        *[f"{own.value} AS {quoted(own.column.name)}" for own in owns],
        f"{text_of(reading.op_column if has_op else None)} AS {OP_TEXT}",
        f"{text_of(time)} AS {TIME_TEXT}",
        f"{reading.unpadded(text_of(place), Type('string'))} AS {SEQUENCE_TEXT}",
        f"{_as_json(sent, cells)} AS {VALUE}",
        f"_metadata.row_index + 1 AS {LINE}",
        f"{below(reading.base, paths)} AS {NAME}",
        f"{_first(compress(wrong, of_key))} AS {KEY_MISFIT}",
        f"{_first(compress(wrong, map(not_, of_key)))} AS {MISFIT}",
        f"string(NULL) AS {BROKEN}",
        *[f"false AS {name}" for name in (BLANK, TORN)],
        f"CAST(NULL AS array<string>) AS {names.UNSET}",
        f"{'boolean(NULL)' if any(cell.name is None for cell in before) else 'true'} AS {HAS_IMAGE}",
        *[f"{cell.value} AS {before_column(index)}" for index, cell in enumerate(before)],
    )


def _before_cells(
    reading: Reading, footer: Footer, called: Mapping[str, str], columns: Sequence[str]
) -> Sequence[_Cell]:
    """Return the cells with values before the change; one that the files lack has no name."""
    cells = []
    for number, column in enumerate(reading.before_columns, len(reading.dimension.schema)):
        name = f"{reading.before_prefix or ''}{called.get(column.name, column.name)}"
        is_there = reading.before_prefix is not None and name in columns
        cells.append(_Cell(name if is_there else None, column, reading, footer, number))
    return cells


def _named(frame: DataFrame, footer: Footer) -> DataFrame:
    """Return rows with the names of the footer for columns that the files have in another case."""
    if not footer.written:
        return frame
    return frame.select("*", "_metadata").withColumnsRenamed({written: name for name, written in footer.written})


def _first(misfits: Iterable[str | None]) -> str:
    return f"coalesce({', '.join([*filter(None, misfits), 'string(NULL)'])})"


def _as_json(sent: Sequence[str], cells: Iterable[_Cell]) -> str:
    """Return a row as JSON, as SQL; if it has texts that are not valid UTF-8, `NOT_UTF8` names their columns."""
    flags = {cell.flag: cell.name or "" for cell in cells if cell.flag}
    listed = ", ".join(f"CASE WHEN {flag} THEN {text(name)} END" for flag, name in flags.items())
    noted = as_json([*sent, f"concat_ws(', ', {listed}) AS {NOT_UTF8}"])
    return f"CASE WHEN {' OR '.join(flags)} THEN {noted} ELSE {as_json(sent)} END" if flags else as_json(sent)


def _text_of(name: str | None, reading: Reading, footer: Footer) -> str:
    """Return a column with the operation, time or sequence of rows as a text, as SQL."""
    return _Cell(name, Column(name or "", Type("string")), reading, footer, number=None).text


def _with_forms(reader: DataFrameReader, footer: Footer) -> DataFrameReader:
    """Return a reader with an explicit schema if the footer has forms that Spark does not know or would refuse."""
    forms = dict(footer.forms)
    if not forms:
        return reader
    types = {c.name: forms[c.name].value if c.name in forms else ddl(c.type) for c in footer.schema}
    readable, written = {n: t for n, t in types.items() if t != PhysicalForm.NOTHING.value}, dict(footer.written)
    listed = [f"{quoted(written.get(name, name))} {type_}" for name, type_ in readable.items()]
    return reader.schema(", ".join(listed) if listed else StructType([]))


@dataclass(frozen=True, slots=True)
class _Cell:
    """The cell of a file for a column of the table, as SQL; NULL if `name` is None.

    With a `number` the flag for invalid UTF-8 is a column of its own, which is named by that number. Without it the
    text is checked where it is used.
    """

    name: str | None
    column: Column
    reading: Reading
    footer: Footer
    number: int | None

    @property
    def form(self) -> PhysicalForm | None:
        """The stored form of the cell, if its type does not imply it."""
        return PhysicalForm.NOTHING if self.name is None else dict(self.footer.forms).get(self.name)

    @property
    def value(self) -> str:
        """The value in the column's type, NULL if it does not fit."""
        wrong = [sql for sql in (self.flag, is_outside(self.cast, self.column.type)) if sql is not None]
        return f"CASE WHEN NOT ({' OR '.join(wrong)}) THEN {self.cast} END" if wrong else self.cast

    @property
    def flag(self) -> str | None:
        """The name of the column that flags invalid UTF-8; None for a type without texts."""
        is_made_here = self.number is None or self.form in (PhysicalForm.NOTHING, PhysicalForm.UUID)
        has_texts = not is_made_here and is_not_utf8("", self.column.type) is not None
        return f"{NOT_UTF8}_{self.number}" if has_texts else None

    @property
    def cast(self) -> str:
        """The value in the column's type, which may be outside of the limits that every reader of the lake has."""
        item, raw = self.column, quoted(self.name or "")
        match self.form:
            case PhysicalForm.NOTHING:
                return f"CAST(NULL AS {ddl(item.type)})"
            case PhysicalForm.NANOS:
                raw = f"CASE WHEN {raw} % 1000 = 0 THEN timestamp_micros({raw} div 1000) END"
            case PhysicalForm.UUID:
                raw = self.text
        return f"CAST({self.reading.unpadded(raw, item.type)} AS {ddl(item.type)})"

    @property
    def text(self) -> str:
        """The cell as a text; in hex if it is not valid UTF-8."""
        raw = quoted(self.name or "")
        match self.form:
            case PhysicalForm.NANOS:
                column = None if self.name is None else self.footer.schema.find(self.name)
                zone = "Z" if column is not None and column.type.name == "timestamp" else ""
                return _moment(raw, zone)
            case PhysicalForm.UUID:
                return f"regexp_replace(lower(hex({raw})), {text(_PARTS)}, '$1-$2-$3-$4-$5')"
            case PhysicalForm.NOTHING:
                return "string(NULL)"
            case _ if self._is_text:
                is_text = is_valid_utf8(raw) if self.flag is None else f"NOT {self.flag}"
                return f"CASE WHEN {is_text} THEN {raw} ELSE concat('0x', hex({raw})) END"
            case _:
                return f"CAST({raw} AS string)"

    @property
    def _is_text(self) -> bool:
        column = self.footer.schema.find(self.name or "")
        return column is not None and column.type.name == "string"

    @property
    def display(self) -> str:
        """The cell as it is in the JSON of its row, as a column of that name."""
        is_as_it_is = self.form is None and not self._is_text
        return quoted(self.name or "") if is_as_it_is else f"{self.text} AS {quoted(self.name or '')}"

    @property
    def misfit(self) -> str | None:
        """In words why the value does not fit, NULL if it fits; None for a type in which every value fits."""
        reason = None
        if self.name is not None and is_outside(quoted(self.name), self.column.type) is not None:
            reason = misfit(self.text, self.column, self.value)
        if self.flag is None:
            return reason
        words = text(f"the text is not valid UTF-8 (column {self.column.name})")
        return f"CASE WHEN {self.flag} THEN {words} ELSE {reason or 'NULL'} END"


_PARTS: Final = "(.{8})(.{4})(.{4})(.{4})(.{12})"
"""The groups of a UUID, in its 32 digits without hyphens."""


def _moment(nanos: str, zone: str) -> str:
    """Return nanoseconds since 1970 as ISO 8601, as SQL, with six digits of a second, or nine if needed."""
    rest = f"pmod({nanos}, 1000)"
    micros = f"timestamp_micros({nanos} div 1000 - IF({nanos} % 1000 < 0, 1, 0))"
    digits = f"CASE WHEN {rest} = 0 THEN '' ELSE lpad({rest}, 3, '0') END"
    return f"concat(date_format({micros}, {text(_SHOWN)}), {digits}, '{zone}')"


_SHOWN: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
