"""Records of Kafka Connect with all types of Debezium, as the converters of Avro and JSON write them.

Both writers are implemented here independently, from the documentation of the converters.
"""

from __future__ import annotations

import base64
import itertools
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, Final

from fastavro import schemaless_writer
from hypothesis import strategies as st

Pair = tuple[Any, Any]
"""A value for Avro's library, and in JSON."""

_TIME: Final = "io.debezium.time"
_CONNECT: Final = "org.apache.kafka.connect.data"
INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_COUNTER = itertools.count()


@dataclass(frozen=True)
class Kind:
    """A type in Avro and in the schema of JSON messages (without `optional`), with its values."""

    avro: Any
    connect: dict[str, Any]
    values: st.SearchStrategy[Pair]


def _same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Pair]:
    return values.map(lambda value: (value, value))


def _named(avro: str, connect: str, name: str, values: st.SearchStrategy[Any], logical: str | None = None) -> Kind:
    """Return a named type of Connect. `logical` is the logical type that Avro's converter writes."""
    own = {"type": avro, "connect.version": 1, "connect.name": name}
    own_type = own if logical is None else {**own, "logicalType": logical}
    return Kind(own_type, {"type": connect, "name": name, "version": 1}, _same(values))


def two_complement(number: int) -> bytes:
    """Return a whole number as Java's BigInteger writes it."""
    length = next(n for n in range(1, 99) if -(256**n) // 2 <= number < 256**n // 2)
    return number.to_bytes(length, "big", signed=True)


def shortest(value: float) -> float | str:
    """Return a float of 32 bits as JSON has it, with the fewest digits that identify it."""
    if not math.isfinite(value):
        return special(value)
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next(float(text) for text in texts if _as_float(float(text)) == value)


def _as_float(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.inf


def special(value: float) -> float | str:
    """Return a double as Jackson writes it."""
    return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


@st.composite
def _decimals(draw: st.DrawFn) -> Kind:
    scale, precision = draw(st.integers(0, 10)), draw(st.sampled_from([None, 12, 38]))
    parameters = {"scale": str(scale)}
    if precision is not None:
        parameters["connect.decimal.precision"] = str(precision)
    name = f"{_CONNECT}.Decimal"
    logical = {"type": "bytes", "scale": scale, "precision": precision or 64, "logicalType": "decimal"}
    properties = {"connect.version": 1, "connect.parameters": parameters, "connect.name": name}
    avro = {**logical, **(properties if draw(st.booleans()) else {})}
    values = st.integers(-(10**38), 10**38).map(two_complement).map(lambda data: (data, _text(data)))
    return Kind(avro, {"type": "bytes", "name": name, "version": 1, "parameters": parameters}, values)


def _record(name: str, fields: list[tuple[str, Any, Any]], values: Any, **more: Any) -> Kind:
    listed = [{"name": field, "type": avro} for field, avro, _ in fields]
    avro = {"type": "record", "name": name.rpartition(".")[2], "namespace": name.rpartition(".")[0]}
    avro |= {"fields": listed, **{f"connect.{key}": value for key, value in more.items()}, "connect.name": name}
    connect = {
        "type": "struct",
        "fields": [{**kind, "field": field} for field, _, kind in fields],
        "name": name,
        **more,
    }
    return Kind(avro, connect, values)


def _variable() -> Kind:
    values = st.tuples(st.integers(-5, 40), st.integers(-(2**70), 2**70).map(two_complement)).map(
        lambda it: ({"scale": it[0], "value": it[1]}, {"scale": it[0], "value": _text(it[1])})
    )
    fields = [
        ("scale", "int", {"type": "int32", "optional": False}),
        ("value", "bytes", {"type": "bytes", "optional": False}),
    ]
    # A record is written out once; each type of it has a namespace of its own here.
    kind = _record(f"n{next(_COUNTER)}.VariableScaleDecimal", fields, values, version=1)
    name = "io.debezium.data.VariableScaleDecimal"
    return replace(kind, avro={**kind.avro, "connect.name": name}, connect={**kind.connect, "name": name})


def _enum(draw: st.DrawFn) -> Kind:
    parameters, name = {"allowed": "sad,ok"}, "io.debezium.data.Enum"
    avro = {"type": "string", "connect.version": 1, "connect.parameters": parameters, "connect.name": name}
    connect = {"type": "string", "name": name, "version": 1, "parameters": parameters}
    if draw(st.booleans()):  # `enhanced.avro.schema.support`
        symbols = {"type": "enum", "name": f"E{next(_COUNTER)}", "namespace": "n", "symbols": ["sad", "ok"]}
        avro |= symbols
    return Kind(avro, connect, _same(st.sampled_from(["sad", "ok"])))


def _small(kind: str, bits: int) -> Kind:
    values = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return Kind({"type": "int", "connect.type": kind}, {"type": kind}, _same(values))


_LEAVES: Final[tuple[Callable[[], Kind], ...]] = (
    lambda: Kind("boolean", {"type": "boolean"}, _same(st.booleans())),
    lambda: Kind("int", {"type": "int32"}, _same(INT)),
    lambda: Kind("long", {"type": "int64"}, _same(LONG)),
    lambda: Kind("string", {"type": "string"}, _same(_TEXTS)),
    lambda: Kind("float", {"type": "float"}, st.floats(width=32).map(lambda value: (value, shortest(value)))),
    lambda: Kind("double", {"type": "double"}, st.floats().map(lambda value: (value, special(value)))),
    lambda: Kind("bytes", {"type": "bytes"}, st.binary(max_size=5).map(lambda data: (data, _text(data)))),
    lambda: _small("int8", 8),
    lambda: _small("int16", 16),
    *(lambda name=name: _named("int", "int32", f"{_TIME}.{name}", INT) for name in ("Date", "Time", "Year")),
    *(
        lambda name=name: _named("long", "int64", f"{_TIME}.{name}", LONG)
        for name in (
            *("Timestamp", "MicroTimestamp", "NanoTimestamp", "MicroTime", "NanoTime", "MicroDuration"),
            "NanoDuration",
        )
    ),
    *(
        lambda name=name: _named("string", "string", f"{_TIME}.{name}", _TEXTS)
        for name in ("ZonedTimestamp", "ZonedTime", "IsoDate", "IsoTime", "IsoTimestamp", "Interval")
    ),
    *(
        lambda name=name: _named("string", "string", f"io.debezium.data.{name}", _TEXTS)
        for name in ("Json", "Uuid", "Xml")
    ),
    lambda: _named("int", "int32", f"{_CONNECT}.Date", INT, "date"),
    lambda: _named("int", "int32", f"{_CONNECT}.Time", INT, "time-millis"),
    lambda: _named("long", "int64", f"{_CONNECT}.Timestamp", LONG, "timestamp-millis"),
    _variable,
)


@st.composite
def kinds(draw: st.DrawFn, depth: int = 0) -> Kind:
    """Draw a type that is not optional."""
    choice = draw(st.sampled_from(["leaf"] * 6 + ["decimal", "enum"] + (["nested"] if depth < 2 else [])))
    if choice == "decimal":
        return draw(_decimals())
    if choice == "enum":
        return _enum(draw)
    if choice == "leaf":
        return draw(st.sampled_from(_LEAVES))()
    shape = draw(st.sampled_from(["array", "map", "entries", "struct"]))
    if shape == "struct":
        return draw(structs(depth + 1))
    avro, connect, values = draw(fields_of(depth + 1))
    if shape == "array":
        pairs = st.lists(values, max_size=3).map(lambda many: ([one[0] for one in many], [one[1] for one in many]))
        return Kind({"type": "array", "items": avro}, {"type": "array", "items": connect}, pairs)
    key = {"type": "string" if shape == "map" else "int32", "optional": False}
    schema = {"type": "map", "keys": key, "values": connect}
    if shape == "map":
        pairs = st.dictionaries(_TEXTS, values, max_size=3).map(
            lambda many: ({k: v[0] for k, v in many.items()}, {k: v[1] for k, v in many.items()})
        )
        return Kind({"type": "map", "values": avro}, schema, pairs)
    entry = {
        "type": "record",
        "name": f"Entry{next(_COUNTER)}",
        "namespace": "n",
        "connect.internal.type": "MapEntry",
    }
    entry |= {"fields": [{"name": "key", "type": "int"}, {"name": "value", "type": avro}]}
    entries = st.dictionaries(INT, values, max_size=3).map(
        lambda many: (
            [{"key": key, "value": value[0]} for key, value in many.items()],
            [[key, value[1]] for key, value in many.items()],
        )
    )
    return Kind({"type": "array", "items": entry}, schema, entries)


@st.composite
def fields_of(draw: st.DrawFn, depth: int = 0) -> tuple[Any, dict[str, Any], st.SearchStrategy[Pair]]:
    """Draw a type, optional or not. An optional one with a column default comes before null."""
    kind = draw(kinds(depth))
    how = draw(st.sampled_from(["required", "null first", "null last"]))
    connect = {**kind.connect, "optional": how != "required"}
    if how == "required":
        return kind.avro, connect, kind.values
    union = ["null", kind.avro] if how == "null first" else [kind.avro, "null"]
    return union, connect, st.none().map(lambda none: (none, none)) | kind.values


@st.composite
def structs(draw: st.DrawFn, depth: int = 0) -> Kind:
    """Draw a struct of one to five fields."""
    drawn = draw(st.lists(fields_of(depth), min_size=1, max_size=5))
    names = [f"f{number}" for number in range(len(drawn))]
    values = st.tuples(*(values for _, _, values in drawn)).map(
        lambda many: tuple(dict(zip(names, (one[side] for one in many), strict=True)) for side in (0, 1))
    )
    fields = [(name, avro, connect) for name, (avro, connect, _) in zip(names, drawn, strict=True)]
    return _record(f"db.n{next(_COUNTER)}.Value", fields, values)


def to_avro(schema: Any, value: Any) -> bytes:
    """Return a value of Avro without its logical type."""
    stream = BytesIO()
    schemaless_writer(stream, without_logical(schema), value)
    return stream.getvalue()


def without_logical(schema: Any) -> Any:
    """Return a schema without logical types, by which Avro's library would convert values."""
    if isinstance(schema, dict):
        return {key: without_logical(value) for key, value in schema.items() if key != "logicalType"}
    return [without_logical(one) for one in schema] if isinstance(schema, list) else schema
