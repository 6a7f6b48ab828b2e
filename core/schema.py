"""Columns, their types, and how two schemas differ.

Types are declared, never guessed. Their names are lakeward's own and map to each table
format; `docs/types.md` lists them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
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
                return f"struct<{', '.join(f'{part.name}: {part.type}' for part in self.parts)}>"
            case _:
                return self.name

    @property
    def is_nested(self) -> bool:
        """Whether values of the type have parts."""
        return bool(self.parts)


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


class Kind(Enum):
    """How a column differs between two schemas."""

    ADD = "add"
    DROP = "drop"
    WIDEN = "widen"
    NARROW = "narrow"
    RETYPE = "incompatible"


class Policy(Enum):
    """What becomes of a schema change: the table follows, or does as if it were not there, or stops."""

    EVOLVE = "evolve"
    IGNORE = "ignore"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What becomes of each kind of change of a table's columns; an incompatible type always stops it."""

    add: Policy = Policy.EVOLVE
    drop: Policy = Policy.EVOLVE
    widen: Policy = Policy.EVOLVE
    narrow: Policy = Policy.FAIL

    def of(self, kind: Kind) -> Policy:
        """Return what becomes of a change of that kind."""
        policies = {Kind.ADD: self.add, Kind.DROP: self.drop, Kind.WIDEN: self.widen, Kind.NARROW: self.narrow}
        return policies.get(kind, Policy.FAIL)


FOLLOWING: Final = Policies()
"""The policies of a table whose settings say nothing of them."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One difference: column `path` was `before` and is `after` (None where it is not there)."""

    kind: Kind
    path: str
    before: Type | None
    after: Type | None

    def __str__(self) -> str:
        match self.kind:
            case Kind.ADD:
                return f"column {self.path} ({self.after}) is new"
            case Kind.DROP:
                return f"column {self.path} ({self.before}) is missing"
            case _:
                return f"column {self.path} was {self.before} and is {self.after}"


def compare(current: Schema, incoming: Schema) -> tuple[SchemaChange, ...]:
    """Return what must change for `current` to become `incoming`; order does not count."""
    before = {column.name: column.type for column in current}
    after = {column.name: column.type for column in incoming}
    added = [SchemaChange(Kind.ADD, name, None, type_) for name, type_ in after.items() if name not in before]
    dropped = [SchemaChange(Kind.DROP, name, type_, None) for name, type_ in before.items() if name not in after]
    retyped = [
        SchemaChange(_kind(type_, after[name]), name, type_, after[name])
        for name, type_ in before.items()
        if name in after and after[name] != type_
    ]
    return (*added, *dropped, *retyped)


_WIDER = {("int", "bigint"), ("float", "double")}


def _kind(before: Type, after: Type) -> Kind:
    if _is_wider(before, after):
        return Kind.WIDEN
    return Kind.NARROW if _is_wider(after, before) else Kind.RETYPE


def _is_wider(narrow: Type, wide: Type) -> bool:
    """Whether every value of one type is one of the other, in a manner that table formats can follow in place.

    Those are the promotions of iceberg.apache.org/spec/#schema-evolution, format 2.
    """
    if narrow.name == wide.name == "decimal":
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    return (narrow.name, wide.name) in _WIDER


@dataclass(frozen=True, slots=True)
class Evolution:
    """What a batch makes of the columns of a table: those it has afterwards, and how they came about.

    `absent` are columns of the table that the batch has not: they keep their values on an
    update, and are NULL on an insert. `ignored` are columns of the batch that the table does
    not take. `refused` are the changes that no policy allows.
    """

    schema: Schema
    changes: tuple[SchemaChange, ...] = ()
    absent: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    refused: tuple[SchemaChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A change as it is remembered: when it was made (microseconds since 1970), with which object, and how."""

    at: int
    object: str
    change: SchemaChange
    policy: Policy


def evolve(current: Schema, incoming: Schema, policies: Policies, key: Sequence[str] = ()) -> Evolution:
    """Return what becomes of a table's columns under a batch's; a column of the key cannot go."""
    columns = {column.name: column.type for column in current}
    changes, absent, ignored, refused = [], [], [], []
    for change in compare(current, incoming):
        policy = policies.of(change.kind)
        if policy is Policy.FAIL or (change.kind is Kind.DROP and change.path in key):
            refused.append(change)
        elif change.kind is Kind.DROP:
            absent.append(change.path)
        elif change.kind is Kind.ADD and policy is Policy.IGNORE:
            ignored.append(change.path)
        elif change.kind is not Kind.NARROW and change.after is not None:
            columns[change.path] = change.after
            changes.append(change)
    schema = Schema(tuple(Column(name, type_) for name, type_ in columns.items()))
    return Evolution(schema, tuple(changes), tuple(absent), tuple(ignored), tuple(refused))


_TOKEN = re.compile(r"\s*(?:(?P<name>[^\W\d]\w*|`(?:[^`]|``)+`)|(?P<number>\d+)|(?P<mark>[<>(),:]))")


def parse_type(text: str) -> Type:
    """Read a type such as `decimal(12,2)` or `struct<a: int, b: list<string>>`.

    Raises ConfigError, with the names that exist, where the text is no type.
    """
    parser = _TypeParser(text)
    parsed = parser.type()
    parser.end()
    return parsed


class _TypeParser:
    """Recursive descent over the handful of tokens a type is made of."""

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
            todo=f"Types are {', '.join(SCALARS)} (decimal as decimal(12,2)), and list<…>, map<…, …>, "
            "struct<name: type, …>.",
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

    def struct(self) -> Type:
        self.take("<")
        parts: list[Column] = []
        while True:
            name = self.take().strip("`").replace("``", "`")
            self.take(":")
            parts.append(Column(name, self.type()))
            if self.take(",", ">") == ">":
                return Type("struct", parts=tuple(parts))
