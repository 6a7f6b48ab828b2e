"""Read keys as people write them into values of their types, and write them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError
from lakeward.core.events import Key, canonical
from lakeward.core.schema import Column, Type
from lakeward.core.text.values import to_text


def read_key(dimension: Dimension, texts: Sequence[str]) -> Key:
    """Return the canonical key that these texts write; raises ConfigError, which says what is expected."""
    columns = [column for name in dimension.key if (column := dimension.schema.find(name)) is not None]
    if not columns:
        raise ConfigError(
            f"{dimension.name} has no key",
            found="its rows are identified only by their place in the source",
            todo="If it should have one, name its columns under [tables], and load the table anew.",
        )
    if len(texts) != len(columns):
        raise ConfigError(
            f"{dimension.name}: {_values(len(texts))} given, and a key has {_values(len(columns))}",
            found="it is made of " + ", ".join(f"{column.name} ({column.type})" for column in columns),
            todo="Give one value after another, in that order; put quotes around one with a blank in it.",
        )
    return tuple(_read_part(dimension, column, text) for column, text in zip(columns, texts, strict=True))


def same_key(dimension: Dimension, texts: Sequence[str], other_texts: Sequence[str]) -> bool:
    """Return True if two lists of texts write the same key: -2 is -2.00 where the key is a decimal."""
    if len(texts) != len(other_texts) or len(texts) != len(dimension.key):
        return list(texts) == list(other_texts)
    columns = [dimension.schema.find(name) for name in dimension.key]
    return all(
        _same_part(column, text, other) for column, text, other in zip(columns, texts, other_texts, strict=True)
    )


def _same_part(column: Column | None, text: str, other: str) -> bool:
    """Return True if two texts write the same value of a column."""
    if text == other or column is None:
        return text == other
    try:
        return canonical(value_of(text, column.type)) == canonical(value_of(other, column.type))
    except (ValueError, KeyError, ArithmeticError):
        return False


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def _read_part(dimension: Dimension, column: Column, text: str) -> Hashable:
    """Return the canonical value of a column that a text writes; raises ConfigError."""
    try:
        return canonical(value_of(text, column.type))
    except (ValueError, KeyError, ArithmeticError) as error:
        raise ConfigError(
            f"{dimension.name}: {text!r} is no value of the key column {column.name}",
            found=f"its type is {column.type}",
            todo=_FORMS.get(column.type.name),
        ) from error


_FORMS: Final[Mapping[str, str]] = {
    "boolean": "Write true or false.",
    "date": "Write it as 2026-11-21.",
    "timestamp": "Write it as '2026-11-21 10:31:07.25', in UTC, or with an offset behind it: six digits at most.",
    "timestamp_ntz": "Write it as '2026-11-21 10:31:07.25', without a zone: six digits at most.",
    "binary": "Write it in hex, as 0xca, or as text.",
}


def value_of(text: str, type_: Type) -> object:
    """Return the value that a text writes; raises ValueError, KeyError or ArithmeticError where it writes none.

    >>> value_of("4711", Type("bigint")), value_of("1.5", Type("decimal", 8, 2))
    (4711, Decimal('1.50'))
    """
    return _READERS[type_.name](text, type_)


def text_of(value: object, type_: Type) -> str:
    r"""Return the text that writes a value of a key, for `value_of` to read.

    >>> text_of(b"\xca", Type("binary")), text_of(-0.0, Type("double"))
    ('0xca', '0.0')
    """
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return to_text(value + 0.0 if isinstance(value, float) else value, type_)


def key_text(dimension: Dimension, key: Key) -> str:
    """Return a key as a JSON list of texts, byte for byte as Spark writes it, unless it `needs_java`."""
    types = {column.name: column.type for column in dimension.schema}
    parts = (key_part_text(part, types[name]) for part, name in zip(key, dimension.key, strict=True))
    return f"[{','.join(parts)}]"


def key_part_text(part: object, type_: Type) -> str:
    """Return a canonical part of a key as a JSON text, as it stands in the text of the key."""
    whole = whole_text(part) if isinstance(part, float) and type_.name == "double" else None
    written = json.dumps(whole or text_of(part, type_), ensure_ascii=False)
    return _ESCAPED.sub(lambda match: match[0] if match[1] is None else f"\\u{match[1].upper()}", written)


def needs_java(dimension: Dimension, key: Key) -> bool:
    """Return True if a part of a key is a floating number whose digits differ between versions of Java."""
    types = {column.name: column.type.name for column in dimension.schema}
    parts = ((part, types[name]) for part, name in zip(key, dimension.key, strict=True) if isinstance(part, float))
    return any(type_ != "double" or whole_text(part) is None for part, type_ in parts)


def whole_text(number: float) -> str | None:
    """Return the text that every version of Java writes for a whole number below 2**53; None for other numbers.

    The source is `Double.toString` of Java: numbers from 10**7 on have an exponent. Neighbouring doubles of this
    size are at most 1 apart, so that no shorter digits mean the same number.

    >>> whole_text(5.0), whole_text(-12345600.0), whole_text(0.5)
    ('5.0', '-1.23456E7', None)
    """
    if not number.is_integer() or abs(number) >= 2**53:
        return None
    if abs(number) < 10**7:
        return f"{int(number)}.0"
    sign, digits = "-" if number < 0 else "", str(abs(int(number)))
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{len(digits) - 1}"


_ESCAPED: Final = re.compile(r"\\(?:u(....)|.)")


def _integer(text: str, type_: Type) -> int:
    value, bits = int(_number(text)), 31 if type_.name == "int" else 63
    if not -(2**bits) <= value < 2**bits:
        raise ValueError(text)
    return value


def _decimal(text: str, type_: Type) -> Decimal:
    number = Decimal(_number(text))
    value = number.quantize(Decimal(1).scaleb(-type_.scale), context=Context(prec=type_.precision))
    if value != number:
        raise ValueError(text)
    return value


def _number(text: str) -> str:
    """Return the text; raises ValueError for a number of Python that is none in SQL."""
    if not re.fullmatch(r"[+-]?[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?|[+-]?(inf|infinity)|nan", text, re.IGNORECASE):
        raise ValueError(text)
    return text


_DAY: Final = r"\d{4}-\d{2}-\d{2}"
_TIME: Final = rf"{_DAY}([ T]\d{{2}}:\d{{2}}(:\d{{2}}(\.\d{{1,6}}0*)?)?(Z|[+-]\d{{2}}(:?\d{{2}})?)?)?"
"""The accepted forms of dates and times: Python accepts others, and cuts digits below a microsecond."""


def _day(text: str, _: Type) -> date:
    return date.fromisoformat(_of_form(_DAY, text))


def _of_form(pattern: str, text: str) -> str:
    """Return the text; raises ValueError where it does not match the pattern."""
    if not re.fullmatch(pattern, text, re.ASCII):
        raise ValueError(text)
    return text


def _timestamp(text: str, _: Type) -> datetime:
    moment = datetime.fromisoformat(_of_form(_TIME, text))
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _without_zone(text: str, _: Type) -> datetime:
    moment = datetime.fromisoformat(_of_form(_TIME, text))
    if moment.tzinfo is not None:
        raise ValueError(text)
    return moment


_READERS: Final[Mapping[str, Callable[[str, Type], object]]] = {
    "boolean": lambda text, _: {"true": True, "false": False}[text.lower()],
    "int": _integer,
    "bigint": _integer,
    "float": lambda text, _: float(_number(text)),
    "double": lambda text, _: float(_number(text)),
    "decimal": _decimal,
    "string": lambda text, _: text,
    "binary": lambda text, _: bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode(),
    "date": _day,
    "timestamp": _timestamp,
    "timestamp_ntz": _without_zone,
}
