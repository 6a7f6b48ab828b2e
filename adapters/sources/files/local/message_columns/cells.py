"""Typed values of message cells, a column at a time.

Arrow converts texts of the usual form of a type. `values.typed_values` reads all others, each different text once.
So the results are those of a small batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.files.local.values.typed_values import reader_of, why_not_read
from lakeward.adapters.sources.messages.json.wire_format import UNITS, Wire, Writing
from lakeward.adapters.spark.frames.local_casts import SparkNeeded, arrow_type, convert_usual
from lakeward.adapters.spark.sql.casts import TextFormat
from lakeward.core.schema import Column, Type

_TEXTS: Final = ("string", "undeclared")
_TIMES: Final = ("timestamp", "timestamp_ntz")
_COUNT: Final = r"\A-?[0-9]{1,18}\z"
_DAYS: Final = r"\A-?[0-9]{1,7}\z"
"""Patterns of whole numbers that are counts of a unit of time, or of days."""

_FIRST, _LAST = -2_208_988_800, 253_402_300_799
"""The beginning of 1900 and the last second of the year 9999, in seconds since 1970."""

_A_DAY: Final = 24 * 3600


def why_not_typed(column: Column, written: Writing) -> str | None:
    """Return in words why the cells of a column cannot be read here; None if they can."""
    if written.text != TextFormat() or column.type.is_nested:
        return f"the column {column.name} is nested, or has a format of its own"
    if column.type.name in _TEXTS and written.wire is not Wire.PLAIN:
        return f"the column {column.name} has texts in a form of their own"
    return why_not_read(column.type, written)


def values_of(texts: pa.Array, column: Column, written: Writing) -> pa.Array:
    """Return the typed values of cells of a column, which are texts.

    Raises SparkNeeded for a text that does not fit: such rows go into quarantine, which Spark prepares.
    """
    if column.type.name in _TEXTS:
        return texts
    values, is_odd = _usual_values(texts, column.type, written)
    if not pc.any(is_odd).as_py():
        return values
    reader, others = reader_of(column.type, written), texts.filter(is_odd).dictionary_encode()
    read_values = pa.array(map(reader, others.dictionary.to_pylist()), values.type)
    if read_values.null_count:
        raise SparkNeeded(f"a value does not fit the column {column.name}")
    return pc.replace_with_mask(values, is_odd, read_values.take(others.indices))


def _usual_values(texts: pa.Array, type_: Type, written: Writing) -> tuple[pa.Array, pa.Array]:
    """Return the values of texts of the usual form, NULL for the others, and which texts are of another form."""
    if written.wire in UNITS:
        return _moments(texts, type_, UNITS[written.wire])
    if written.wire not in (Wire.PLAIN, Wire.DAYS):
        return pa.nulls(len(texts), arrow_type(type_)), texts.is_valid()
    if written.wire is Wire.DAYS:
        return _matching(texts, _DAYS, _dates)
    if type_.name == "date" or type_.name in _TIMES:
        texts = _without_zone(texts)
    return convert_usual(texts, type_)


def _without_zone(texts: pa.Array) -> pa.Array:
    """Return texts without a Z at their end: times without a zone are in UTC."""
    has_zone = pc.ends_with(texts, "Z")
    if pc.all(has_zone).as_py():
        return pc.utf8_slice_codeunits(texts, 0, -1)
    return pc.replace_substring_regex(texts, r"Z\z", "") if pc.any(has_zone).as_py() else texts


def _dates(texts: pa.Array) -> pa.Array:
    """Return the dates of counts of days since 1970; NULL for those before 1900 and after 9999."""
    days = texts.cast(pa.int32())
    is_inside = pc.and_(pc.greater_equal(days, _FIRST // _A_DAY), pc.less_equal(days, _LAST // _A_DAY))
    return pc.if_else(is_inside, days, pa.scalar(None, pa.int32())).cast(pa.date32())


def _moments(texts: pa.Array, type_: Type, unit: int) -> tuple[pa.Array, pa.Array]:
    """Return the moments of counts of a unit, of which a second has `unit`.

    Those before 1900, after 9999 or between two microseconds are left to the reader of single values.
    """
    arrow = arrow_type(type_)

    def convert(texts: pa.Array) -> pa.Array:
        counts = texts.cast(pa.int64())
        end = min((_LAST + 1) * unit, 2**63 - 1)  # in nanoseconds a bigint ends in 2262
        is_exact = pc.and_(pc.greater_equal(counts, _FIRST * unit), pc.less(counts, end))
        if unit > 10**6:
            micros = pc.divide(counts, unit // 10**6)
            is_exact = pc.and_(is_exact, pc.equal(pc.multiply(micros, unit // 10**6), counts))
            micros = pc.if_else(is_exact, micros, pa.scalar(None, pa.int64()))
        else:
            micros = pc.multiply(pc.if_else(is_exact, counts, pa.scalar(None, pa.int64())), 10**6 // unit)
        return micros if pa.types.is_integer(arrow) else micros.cast(arrow)

    return _matching(texts, _COUNT, convert)


def _matching(texts: pa.Array, pattern: str, convert: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Return the converted texts that match a pattern, and which texts were not converted."""
    is_match = pc.fill_null(pc.match_substring_regex(texts, pattern), True)
    matching = texts if pc.all(is_match).as_py() else pc.if_else(is_match, texts, pa.scalar(None, pa.string()))
    values = convert(matching)
    return values, pc.and_(texts.is_valid(), values.is_null())
