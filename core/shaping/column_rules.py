"""Column rules: how the columns of a source become those of a table.

A rule is a value. This module and `lakeward.core.shaping.reshaping_rules` define which columns it reads, makes and
removes; `lakeward.core.shaping.cells` defines in plain Python which cells it makes. `lakeward.core.shaping.shape`
combines the rules of a table, and `docs/reference/column-rules.md` explains each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.text.values import MISFIT, from_text

TEXT: Final = Type("string")
WITH_TEXT: Final = ("string", "int", "bigint", "decimal", "boolean", "date", "timestamp", "timestamp_ntz")
"""Types whose values have one text form, the same everywhere."""

TIME_PARTS: Final = ("hour", "minute", "second")


class Rule(ABC):
    """The base class of rules: the columns that they read, make and remove.

    A rule that `keeps_apart` makes different values of different values, so that it may be applied to a key. `kind`
    is its name in the settings.
    """

    __slots__ = ()

    kind: ClassVar[str]
    keeps_apart: ClassVar[bool] = False

    @abstractmethod
    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that it reads; they must exist."""

    @abstractmethod
    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return the columns that it makes or changes; raises ConfigError where a type does not fit."""

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that it removes."""
        return ()

    def may_make(self, name: str) -> bool:
        """Return whether the rule may make or change a column of this name."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class OfColumn(Rule):
    """A rule that changes one column; with `to` it makes another one and leaves the first unchanged."""

    column: str
    to: str | None = None

    takes: ClassVar[tuple[str, ...]] = ("string",)

    @property
    def target(self) -> str:
        """The column that holds the result."""
        return self.column if self.to is None else self.to

    def may_make(self, name: str) -> bool:
        """Return whether its target has this name."""
        return name == self.target

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return its column."""
        return (self.column,)

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return the column with its new type."""
        item = find_column(schema, self.column)
        expect(item, self.takes)
        return (Column(self.target, self.type_of(item)),)

    def type_of(self, item: Column) -> Type:
        """Return the type of a column after the rule."""
        return item.type


def find_column(schema: Schema, name: str) -> Column:
    """Return a column that must exist."""
    column = schema.find(name)
    if column is None:
        raise KeyError(name)
    return column


def expect(item: Column, types: tuple[str, ...]) -> None:
    """Raise ConfigError where a column has none of these types."""
    if item.type.name not in types:
        listed = " or ".join((", ".join(types[:-1]), types[-1])) if len(types) > 1 else types[0]
        raise ConfigError(
            f"it takes a {listed}",
            found=f"the column {item.name} is {item.type}",
            todo="Cast the column first, or name another one.",
        )


def expect_value(value: str, type_: Type) -> None:
    """Raise ConfigError where a text is not a value of a type."""
    if from_text(value, type_) is MISFIT:
        raise ConfigError(f"{value!r} is no {type_}", todo="docs/reference/types.md says what each type accepts.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename(Rule):
    """A column under another name."""

    column: str
    to: str

    kind: ClassVar[str] = "rename"
    keeps_apart: ClassVar[bool] = True

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return the column."""
        return (self.column,)

    def may_make(self, name: str) -> bool:
        """Return whether the new name is this one."""
        return name == self.to

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return it under its new name."""
        return (Column(self.to, find_column(schema, self.column).type),)

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Return it under its old name."""
        return (self.column,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(OfColumn):
    """A column converted to another type through its text. A value that does not fit is a reject, never NULL.

    `format` is how the text is written, in the old or the new type; times without a zone are in `zone`.
    """

    type: Type
    format: str | None = None
    zone: str = "UTC"

    kind: ClassVar[str] = "cast"
    takes: ClassVar[tuple[str, ...]] = (*WITH_TEXT, "float")
    keeps_apart: ClassVar[bool] = True

    def type_of(self, item: Column) -> Type:
        """Return the new type; raises ConfigError for types that no text leads to."""
        is_text = item.type.name == "string" or self.type.name == "string"
        wider_float = item.type.name == "float" and self.type.name == "double"
        if self.type.is_nested or (item.type.name == "float" and not wider_float):
            raise ConfigError(
                f"there is no cast from {item.type} to {self.type}", found=f"the column {item.name} is {item.type}"
            )
        if self.type.name == "binary" and item.type.name != "string":
            raise ConfigError(f"there is no cast from {item.type} to binary", todo="Cast it to string first.")
        if self.format is not None and not (is_text and self._has_format(item)):
            raise ConfigError(
                f"a cast from {item.type} to {self.type} has no format",
                found=f"format is {self.format!r}",
                todo="Leave it out.",
            )
        return self.type

    def _has_format(self, item: Column) -> bool:
        written = self.type if item.type.name == "string" else item.type
        return written.name in ("date", "timestamp", "timestamp_ntz", "binary") and written != item.type


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim(OfColumn):
    """A text without certain characters at its ends."""

    characters: str = " "
    side: str = "both"

    kind: ClassVar[str] = "trim"
    keeps_apart: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace(OfColumn):
    """A text in which each match of a pattern is replaced by `by`: $1 to $9 are groups, $$ is a dollar."""

    pattern: str
    by: str

    kind: ClassVar[str] = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Default(OfColumn):
    """A column in which NULL is replaced by this value, written as text."""

    value: str

    kind: ClassVar[str] = "default"
    takes: ClassVar[tuple[str, ...]] = (*WITH_TEXT, "float", "double")

    def type_of(self, item: Column) -> Type:
        """Return the type unchanged; raises ConfigError where the value does not fit it."""
        expect_value(self.value, item.type)
        return item.type


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask(OfColumn):
    """A text of which only the last `keep` characters stay readable.

    A text of at most that length is masked whole.
    """

    keep: int = 0
    character: str = "*"

    kind: ClassVar[str] = "mask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hash(OfColumn):
    """The HMAC-SHA-256 of a value's text in UTF-8, as 64 lower-case hexadecimal digits.

    `key` names the place of the secret, as `env:NAME`.
    """

    key: str

    kind: ClassVar[str] = "hash"
    takes: ClassVar[tuple[str, ...]] = WITH_TEXT
    keeps_apart: ClassVar[bool] = True

    def type_of(self, item: Column) -> Type:
        """Return a text's type."""
        return TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class DatePart(OfColumn):
    """A part of a date or a time, as a whole number; points in time are in UTC."""

    part: str

    kind: ClassVar[str] = "date_part"
    takes: ClassVar[tuple[str, ...]] = ("date", "timestamp", "timestamp_ntz")

    def type_of(self, item: Column) -> Type:
        """Return the type of a whole number; raises ConfigError for the hour of a date."""
        if item.type.name == "date" and self.part in TIME_PARTS:
            raise ConfigError(f"a date has no {self.part}", found=f"the column {item.name} is {item.type}")
        return Type("int")
