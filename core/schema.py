"""Columns and their types.

Types are declared, never guessed. Their names are lakeward's own and map to each table
format; `docs/reference/types.md` lists them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lakeward.core.errors import ConfigError

SCALARS = (
    "boolean",
    "int",
    "bigint",
    "float",
    "double",
    "decimal",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)


@dataclass(frozen=True, slots=True)
class Type:
    """A column type: a scalar, or a list, map or struct of `parts`.

    `timestamp` is a point in time (UTC), `timestamp_ntz` a wall-clock time without zone.
    """

    name: str
    precision: int = 0
    scale: int = 0
    parts: tuple[Column, ...] = ()

    def __str__(self) -> str:
        match self.name:
            case "decimal":
                return f"decimal({self.precision},{self.scale})"
            case "list":
                return f"list<{self.parts[0].type}>"
            case "map":
                return f"map<{self.parts[0].type}, {self.parts[1].type}>"
            case "struct":
                return f"struct<{', '.join(f'{_name(part.name)}: {part.type}' for part in self.parts)}>"
            case _:
                return self.name

    @property
    def with_article(self) -> str:
        """The type with its article, for a sentence: `a date`, `an int`."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self}"

    @property
    def is_floating(self) -> bool:
        """Whether its values are floating-point numbers, whose digits as text depend on the writer."""
        return self.name in ("float", "double")

    @property
    def is_nested(self) -> bool:
        """Whether values of the type have parts."""
        return bool(self.parts)


UNDECLARED: Final = Type("undeclared")
"""The type of a column that a header names and nobody declares. No table has it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A named, typed column. Every column but a key's may be NULL."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table, in order."""

    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """Return the column of that exact name, or None."""
        return next((column for column in self.columns if column.name == name), None)


_WITHIN: Final = (("int", "bigint"), ("float", "double"))


WIDER: Final = (
    "A wider type may be declared for these alone: bigint for int, double for float, and a decimal with as many "
    "digits or more on both sides of the point for a decimal, int or bigint."
)
"""The types that `is_within` accepts for a declared column, as a text."""


def is_within(type_: Type, other: Type) -> bool:
    """Return True if every value of a type is exactly a value of another, so that it may be read as that.

    >>> is_within(parse_type("decimal(10,2)"), parse_type("decimal(14,4)"))
    True
    >>> is_within(parse_type("decimal(10,2)"), parse_type("decimal(10,4)"))
    False
    """
    if type_ == other or (type_.name, other.name) in _WITHIN:
        return True
    digits = {"int": 10, "bigint": 19, "decimal": type_.precision - type_.scale}.get(type_.name)
    if other.name != "decimal" or digits is None:
        return False
    return type_.scale <= other.scale and digits <= other.precision - other.scale


_PLAIN: Final = r"\d*[^\W\d]\w*"
_TOKEN: Final = re.compile(rf"\s*(?:(?P<name>{_PLAIN}|`(?:[^`]|``)*`)|(?P<number>\d+)|(?P<mark>[<>(),:]))")


def _name(name: str) -> str:
    """Return the name of a part as `parse_type` reads it, in backticks where it is not a plain word."""
    return name if re.fullmatch(_PLAIN, name) else "`" + name.replace("`", "``") + "`"


def parse_type(text: str) -> Type:
    """Return the type that a text such as `decimal(12,2)` or `struct<a: int, b: list<string>>` describes.

    Raises ConfigError, which lists the types, where the text is not a type.
    """
    parser = _TypeParser(text)
    parsed = parser.type()
    parser.end()
    return parsed


class _TypeParser:
    """A recursive-descent parser of types."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        rest = 0
        while match := _TOKEN.match(text, rest):
            self.tokens.append(match.group(0).strip())
            rest = match.end()
        if text[rest:].strip():
            raise self.error()
        self.tokens.append("")

    def error(self) -> ConfigError:
        return ConfigError(
            f"{self.text!r} is not a type",
            todo=f"Types are {', '.join(SCALARS)}, and list<…>, map<…, …>, struct<name: type, …>. A decimal is "
            "written as decimal(12,2), of 1 to 38 digits, from none to all of them behind the point.",
        )

    def take(self, *expected: str) -> str:
        token = self.tokens.pop(0)
        if not token or (expected and token not in expected):
            raise self.error()
        return token

    def end(self) -> None:
        if self.tokens != [""]:
            raise self.error()

    def type(self) -> Type:
        name = self.take().lower()
        match name:
            case "decimal":
                return self.decimal()
            case "list":
                self.take("<")
                element = self.type()
                self.take(">")
                return Type("list", parts=(Column("element", element),))
            case "map":
                self.take("<")
                key = self.type()
                self.take(",")
                value = self.type()
                self.take(">")
                return Type("map", parts=(Column("key", key), Column("value", value)))
            case "struct":
                return self.struct()
            case _ if name in SCALARS:
                return Type(name)
        raise self.error()

    def decimal(self) -> Type:
        self.take("(")
        precision = self.number()
        self.take(",")
        scale = self.number()
        self.take(")")
        if not (1 <= precision <= 38 and scale <= precision):
            raise self.error()
        return Type("decimal", precision, scale)

    def number(self) -> int:
        token = self.take()
        if not token.isdigit():
            raise self.error()
        return int(token)

    def name(self) -> str:
        token = self.take()
        return token[1:-1].replace("``", "`") if token.startswith("`") else token

    def struct(self) -> Type:
        self.take("<")
        parts: list[Column] = []
        while True:
            name = self.name()
            self.take(":")
            parts.append(Column(name, self.type()))
            if self.take(",", ">") == ">":
                return Type("struct", parts=tuple(parts))


def find_case_clash(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that differ only in case, or None. Most readers cannot distinguish them.

    >>> find_case_clash(["id", "Name", "name"]), find_case_clash(["id", "id"])
    (('Name', 'name'), None)
    """
    by_lower_case: dict[str, str] = {}
    for name in names:
        other = by_lower_case.setdefault(name.lower(), name)
        if other != name:
            return other, name
    return None
