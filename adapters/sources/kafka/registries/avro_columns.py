"""Avro values of one schema in Arrow columns: a field of all values is decoded at a time, without Python objects.

The wire format is that of avro.apache.org/docs/1.12.0/specification/#binary-encoding. Columns have the types of
Avro: `int` and `long` are bigints, `bytes` are binary; logical types are not converted. A library decodes single
values (`avro.AvroSchema`), which takes twenty times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Longs: TypeAlias = npt.NDArray[np.int64]
_Words: TypeAlias = npt.NDArray[np.uint64]

_PADDING: Final = 16
"""The number of bytes that may be read after the end of the last value."""

_MORE: Final = np.uint64(0x8080808080808080)
"""The highest bit of each of eight bytes: it is set if a number has further bytes."""

_IN_WORD, _LONGEST = 8, 10
"""The bytes of a number that are read at once, and the most bytes of a number."""

_INLINE: Final = 12
"""The length up to which a view has its text within itself (arrow.apache.org/docs/format/Columnar.html)."""

_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
"""The mask of the lowest bytes of a word, by their number."""

_NUMBERS: Final[Mapping[str, tuple[type[np.generic], pa.DataType]]] = {
    "float": (np.uint32, pa.float32()),
    "double": (np.uint64, pa.float64()),
}


class NotInColumns(ValueError):
    """Values are broken, or have a type that is not decoded in columns; single values are decoded instead."""


def decode_columns(schema: Any, named: Mapping[str, Any], values: pa.BinaryArray, head: int = 0) -> pa.StructArray:
    """Return values in columns; `named` are the schemas that references name, and no value is NULL.

    The first `head` bytes of a value are left out. Raises NotInColumns unless all others, to the last, are of the
    schema.
    """
    _, of_offsets, of_data = values.buffers()
    bounds = np.frombuffer(of_offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    offsets = bounds.astype(np.int64) - bounds[0]
    whole = np.zeros(offsets[-1] + _PADDING, np.uint8)
    whole[:-_PADDING] = np.frombuffer(of_data, np.uint8)[bounds[0] : bounds[-1]]
    try:
        column, ends = _Decoder(whole, named).decode(schema, offsets[:-1] + head)
    except (IndexError, pa.ArrowInvalid) as error:  # beyond the last value, or no UTF-8
        raise NotInColumns(str(error)) from error
    if not np.array_equal(ends, offsets[1:]):
        raise NotInColumns("a value is longer or shorter than its schema says")
    return column


@dataclass(frozen=True)
class _Decoder:
    """Decodes fields of values that lie one after the other in `data`; a field begins at a place in each value.

    Its methods return the field as a column, and the places after it.
    """

    data: npt.NDArray[np.uint8]
    named: Mapping[str, Any]

    @cached_property
    def words(self) -> _Words:
        """The eight bytes that begin at each place."""
        return np.ndarray((len(self.data) - 7,), "<u8", self.data, strides=(1,))

    def decode(self, schema: Any, places: _Longs) -> tuple[pa.Array, _Longs]:
        """Decode a field of any type."""
        if isinstance(schema, list):
            return self._optional(schema, places)
        if isinstance(schema, str):
            schema = self.named.get(schema, {"type": schema})
        kind = schema["type"]
        if not isinstance(kind, str) or kind in self.named:
            return self.decode(kind, places)
        if kind in ("record", "error"):
            return self._record(schema, places)
        return self._value(kind, schema, places)

    def _value(self, kind: str, schema: Mapping[str, Any], places: _Longs) -> tuple[pa.Array, _Longs]:
        match kind:
            case "int" | "long":
                column, ends = self._longs(places)
                return pa.array(column), ends
            case "string":
                return self._texts(places, pa.string_view(), pa.string())
            case "bytes":
                return self._texts(places, pa.binary_view(), pa.binary())
            case "boolean":
                return self._booleans(places)
            case "float" | "double":
                return self._floats(places, *_NUMBERS[kind])
            case "enum":
                return self._symbols(schema["symbols"], places)
        raise NotInColumns(f"the type {kind}")

    def _record(self, schema: Mapping[str, Any], places: _Longs) -> tuple[pa.Array, _Longs]:
        columns = {}
        for field in schema["fields"]:
            columns[field["name"]], places = self.decode(field["type"], places)
        if not columns:
            raise NotInColumns("a record without fields")
        return pa.StructArray.from_arrays([*columns.values()], [*columns]), places

    def _optional(self, union: Sequence[Any], places: _Longs) -> tuple[pa.Array, _Longs]:
        others = [place for place, one in enumerate(union) if one not in ("null", {"type": "null"})]
        if len(others) != 1:
            raise NotInColumns(f"a union of {len(others)} types")
        branches, places = self._longs(places)
        is_present = branches == others[0]
        if not ((branches >= 0) & (branches < len(union))).all():
            raise NotInColumns("a union has no such branch")
        if is_present.all():
            return self.decode(union[others[0]], places)
        rows = np.flatnonzero(is_present)
        column, ends = self.decode(union[others[0]], places[rows])
        places = places.copy()
        places[rows] = ends
        order = np.cumsum(is_present) - 1
        return column.take(pa.array(order, mask=~is_present)), places

    def _longs(self, places: _Longs) -> tuple[_Longs, _Longs]:
        """Decode numbers of a variable length, whose lowest bit is the sign."""
        first_bytes = self.data[places]
        if not (first_bytes & 0x80).any():
            return _signed(first_bytes.astype(np.uint64)), places + 1
        words = self.words[places]
        ends = ~words & _MORE
        end = ends & -ends  # the highest bit of the last byte; 0 where a number goes beyond the word
        is_long = end == 0
        column = _pack(words & np.where(is_long, _MASKS[-1], (end << np.uint64(1)) - np.uint64(1)))
        lengths = np.frexp(end.astype(np.float64))[1].astype(np.int64) >> 3
        if is_long.any():
            rows = np.flatnonzero(is_long)
            column[rows], lengths[rows] = self._longest(column[rows], places[rows])
        return _signed(column), places + lengths

    def _longest(self, low: _Words, places: _Longs) -> tuple[_Words, _Longs]:
        """Return numbers of nine or ten bytes, whose first eight are in `low`, and their lengths."""
        ninth, tenth = (self.data[places + place].astype(np.uint64) for place in (_IN_WORD, _IN_WORD + 1))
        has_tenth = (ninth & np.uint64(0x80)) != 0
        tenth = np.where(has_tenth, tenth, np.uint64(0))
        if (tenth > 1).any():
            raise NotInColumns("a number has more than 64 bits")
        column = low | ((ninth & np.uint64(0x7F)) << np.uint64(56)) | (tenth << np.uint64(63))
        return column, np.where(has_tenth, _LONGEST, _IN_WORD + 1)

    def _texts(self, places: _Longs, of_views: pa.DataType, type_: pa.DataType) -> tuple[pa.Array, _Longs]:
        lengths, starts = self._longs(places)
        most = len(self.data) - _PADDING - starts
        if ((lengths < 0) | (lengths > most)).any():  # Arrow trusts views, and would read other memory
            raise NotInColumns("a text ends after its value")
        ends = starts + lengths
        common_text = self._same_text(starts, lengths)
        if common_text is not None:
            return pa.repeat(pa.scalar(common_text, pa.binary()), len(starts)).cast(type_), ends
        views = np.empty((len(starts), 2), np.uint64)
        head, is_inline = self.words[starts], lengths <= _INLINE
        rest = self.words[np.minimum(starts + 8, len(self.data) - 8)]
        inline = head & _MASKS[np.clip(lengths, 0, 8)], rest & _MASKS[np.clip(lengths - 8, 0, 4)]
        prefix, offset = head & _MASKS[4], starts.astype(np.uint64) << np.uint64(32)
        first = np.where(is_inline, inline[0], prefix)
        views[:, 0] = lengths.astype(np.uint64) | (first << np.uint64(32))
        second = (first >> np.uint64(32)) | (inline[1] << np.uint64(32))
        views[:, 1] = np.where(is_inline, second, offset)
        buffers = [None, pa.py_buffer(views), pa.py_buffer(self.data)]
        column = pa.Array.from_buffers(of_views, len(starts), buffers).cast(type_)
        column.validate(full=True)
        return column, ends

    def _same_text(self, starts: _Longs, lengths: _Longs) -> bytes | None:
        """Return the bytes of a short text that all values have, such as the name of a connector."""
        length = lengths[0] if len(lengths) else _PADDING + 1
        if length > _PADDING or (lengths != length).any():
            return None
        common_text = b""
        for place in range(0, length, _IN_WORD):
            words = self.words[starts + place] & _MASKS[min(_IN_WORD, length - place)]
            if (words != words[0]).any():
                return None
            common_text += words[:1].tobytes()
        return common_text[:length]

    def _booleans(self, places: _Longs) -> tuple[pa.Array, _Longs]:
        column = self.data[places]
        if (column > 1).any():
            raise NotInColumns("a boolean is neither 0 nor 1")
        return pa.array(column.astype(np.bool_)), places + 1

    def _floats(self, places: _Longs, bits: type[np.generic], type_: pa.DataType) -> tuple[pa.Array, _Longs]:
        words = self.words[places].astype(bits)
        return pa.array(words.view(type_.to_pandas_dtype())), places + words.itemsize

    def _symbols(self, symbols: Sequence[str], places: _Longs) -> tuple[pa.Array, _Longs]:
        column, ends = self._longs(places)
        if not ((column >= 0) & (column < len(symbols))).all():
            raise NotInColumns("an enum has no such symbol")
        return pa.array(symbols, pa.string()).take(pa.array(column)), ends


def _signed(numbers: _Words) -> _Longs:
    one = np.uint64(1)
    return ((numbers >> one) ^ -(numbers & one)).view(np.int64)


def _pack(words: _Words) -> _Words:
    """Return the lower seven bits of each of eight bytes as a number of 56 bits."""
    for size, mask in ((1, 0x007F007F007F007F), (2, 0x00003FFF00003FFF), (4, 0x000000000FFFFFFF)):
        low = np.uint64(mask)
        high = low << np.uint64(size * 8)
        if size == 1:
            words &= ~_MORE
        words = (words & low) | ((words & high) >> np.uint64(size))
    return words
