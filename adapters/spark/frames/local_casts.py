"""Convert text to typed values in this process: the same results as `adapters.spark.sql.casts`, column by column.

Arrow reads texts of the usual form of a type, a whole column at once. `core.text.values.from_text` reads all
others. A text that neither reads as Spark does raises SparkNeeded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache, partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type

from lakeward.adapters.spark.sql.casts import TextFormat
from lakeward.adapters.spark.sql.types import to_spark
from lakeward.core.schema import UNDECLARED, Column, Type
from lakeward.core.text.values import MISFIT, from_text


class SparkNeeded(Exception):  # not an error: Spark reads or resolves the batch instead
    """Spark must read or resolve a batch; the message says why. Nothing of the batch has been written."""


@cache
def arrow_type(type_: Type) -> pa.DataType:
    """Return the Arrow type that Spark uses for the values of a column."""
    return to_arrow_type(to_spark(type_))


def compares_alike(type_: Type) -> bool:
    """Return whether Arrow finds values of a type equal, and writes them, exactly as Spark does.

    Doubles are compared alike as long as they are `are_whole`.
    """
    return not (type_.name == "float" or type_.is_nested or type_.name == "binary")


def are_whole(doubles: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether doubles are whole numbers below 2**53 other than 0: each has one form and one text.

    0 has two forms, which Spark finds equal and Arrow does not.
    """
    is_whole = pc.and_(pc.equal(pc.floor(doubles), doubles), pc.less(pc.abs(doubles), 2**53))
    return bool(pc.all(pc.and_(is_whole, pc.not_equal(doubles, 0))).as_py())


def why_spark(item: Column, text_format: TextFormat) -> str | None:
    """Return why only Spark can read the texts of a column; None if they can be read here."""
    if item.type.is_nested:
        return f"the column {item.name} is {item.type.with_article}"
    if text_format.pattern is not None and text_format.pattern not in ("hex", "utf-8"):
        return f"the column {item.name} has the format {text_format.pattern!r}"
    if item.type.name == "timestamp" and text_format.zone != "UTC":
        return f"times of the column {item.name} are in the zone {text_format.zone}"
    return None


def typed(texts: pa.Array, type_: Type, text_format: TextFormat) -> pa.Array:
    """Return the values of texts; NULL for a text that is NULL or does not fit. Times without a zone are in UTC."""
    if type_.name in ("string", UNDECLARED.name):
        return texts
    if type_.name == "binary" and text_format.pattern == "utf-8":
        return texts.cast(pa.binary())
    values, is_odd = convert_usual(texts, type_)
    if not pc.any(is_odd).as_py():
        return values
    read = cache(partial(_read_unusual, type_=type_))
    return pc.replace_with_mask(values, is_odd, pa.array(map(read, texts.filter(is_odd).to_pylist()), values.type))


def convert_usual(texts: pa.Array, type_: Type) -> tuple[pa.Array, pa.Array]:
    """Return the values of texts of the usual form of a type, NULL for the others, and which texts are others."""
    arrow = arrow_type(type_)
    is_usual = pc.fill_null(pc.match_substring_regex(texts, _usual_form(type_)), True)
    try:
        values = _cast(texts if pc.all(is_usual).as_py() else pc.if_else(is_usual, texts, None), arrow)
    except pa.ArrowInvalid:  # such as 30 February
        is_usual, values = texts.is_null(), pa.nulls(len(texts), arrow)
    return values, pc.invert(is_usual)


def _cast(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    if pa.types.is_binary(arrow):
        return pa.nulls(len(texts), arrow)
    if pa.types.is_timestamp(arrow):
        return texts.cast(pa.timestamp("us")).cast(arrow)
    return texts.cast(arrow)


@cache
def _usual_form(type_: Type) -> str:
    """Return a pattern of texts that Arrow and Spark read alike, for a type."""
    if type_.name != "decimal":
        return _USUAL_FORMS[type_.name]
    places = type_.precision - type_.scale
    digits = rf"[0-9]{{1,{places}}}" if places else "0"
    fraction = rf"(\.[0-9]{{1,{type_.scale}}})?" if type_.scale else ""
    return rf"\A-?{digits}{fraction}\z"


_NEVER: Final = r"[^\s\S]"
_MOMENT: Final = r"\A[12][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?\z"
_FLOAT: Final = r"\A-?[0-9]{1,18}(\.[0-9]{0,20})?([eE][+-]?0?[0-9])?\z"
"""With so few digits no number overflows a float, or is so small that it becomes zero."""

_USUAL_FORMS: Final = {
    "boolean": r"\A(true|false|1|0)\z",
    "int": r"\A-?[0-9]{1,9}\z",
    "bigint": r"\A-?[0-9]{1,18}\z",
    "float": _FLOAT,
    "double": _FLOAT,
    "date": r"\A[12][0-9]{3}-[0-9]{2}-[0-9]{2}\z",
    "timestamp": _MOMENT,
    "timestamp_ntz": _MOMENT,
    "binary": _NEVER,
}

_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ZONE: Final = re.compile(r"[+-](\d\d):?(\d\d)?\s*\Z", re.ASCII)
_MOST_HOURS: Final = 14


def _read_unusual(text: str, type_: Type) -> object:
    """Return the value of a text that is not of the usual form, None if it does not fit."""
    if _CONTROL.search(text):
        raise SparkNeeded(f"{type_.with_article} is written with control characters")
    if type_.name == "float":
        return _read_float(text, type_)
    if type_.name == "timestamp" and (zone := _ZONE.search(text)) and int(zone[1]) > _MOST_HOURS and ":" in text:
        raise SparkNeeded(f"a time is in a zone that is more than {_MOST_HOURS} hours apart")
    value = from_text(text, type_)
    return None if value is MISFIT else value


def _read_float(text: str, type_: Type) -> object:
    """Return the 32-bit number nearest to the text. This is not always the one nearest to its 64-bit value."""
    plain = text.strip()
    if not _NUMBER.fullmatch(plain):
        value = from_text(text, type_)
        return None if value is MISFIT else value
    try:
        single = pa.scalar(plain.removeprefix("+")).cast(pa.float32()).as_py()
    except pa.ArrowInvalid:  # out of range, if Arrow checks it
        return None
    is_zero = not re.search("[1-9]", plain.lower().partition("e")[0])
    return None if math.isinf(single) or (single == 0 and not is_zero) else single


def misfits(texts: pa.Array, item: Column, values: pa.Array) -> Sequence[tuple[int, str]]:
    """Return the indexes of texts that do not fit their column, each with an explanation."""
    if item.type.name == "string" or values.null_count == texts.null_count:
        return []
    is_unfit = pc.and_(texts.is_valid(), values.is_null())
    explanation = f'" is not {item.type.with_article} (column {item.name})'
    indexes = pc.indices_nonzero(is_unfit).to_pylist()
    return [(index, f'"{texts[index].as_py()}{explanation}') for index in indexes]
