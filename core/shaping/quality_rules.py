"""Quality rules of rows: conditions that each row must meet.

They read the columns of the table, after all column rules. A row that breaks one is quarantined, or only counted.
Deletes are not checked, because they leave no values. Rules of inputs are in `lakeward.core.shaping.file_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final, TypeAlias

from lakeward.core.errors import ConfigError
from lakeward.core.events import Cell, canonical
from lakeward.core.schema import Schema
from lakeward.core.shaping.cells import compiled
from lakeward.core.shaping.column_rules import WITH_TEXT, expect, expect_value, find_column
from lakeward.core.shaping.file_rules import InputRule, NullShare
from lakeward.core.text.suggestions import nearest
from lakeward.core.text.values import from_text

ORDERED_TYPES: Final = (
    "int",
    "bigint",
    "decimal",
    "float",
    "double",
    "date",
    "timestamp",
    "timestamp_ntz",
    "string",
)


class Action(Enum):
    """What happens to a row that breaks a rule: it is quarantined, or it is applied and counted."""

    QUARANTINE = "quarantine"
    WARN = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """A condition on each row. `name` is for people; its default is the rule and its columns."""

    name: str = ""
    action: Action = Action.QUARANTINE

    kind: ClassVar[str]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return ()

    @property
    def label(self) -> str:
        """The name of the rule for people."""
        return self.name or f"{self.kind}({', '.join(self.columns)})"

    def check(self, schema: Schema) -> None:
        """Raise ConfigError where the rule does not fit the columns, all of which exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotNull(RowRule):
    """None of the columns is NULL."""

    of: tuple[str, ...]

    kind: ClassVar[str] = "not_null"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return self.of


@dataclass(frozen=True, slots=True, kw_only=True)
class OfOneColumn(RowRule):
    """A rule on one column; NULL never breaks it."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)


@dataclass(frozen=True, slots=True, kw_only=True)
class InSet(OfOneColumn):
    """The value is one of these, written as texts."""

    values: tuple[str, ...]

    kind: ClassVar[str] = "in_set"

    def check(self, schema: Schema) -> None:
        """Raise ConfigError for values of another type."""
        item = find_column(schema, self.column)
        expect(item, (*WITH_TEXT, "float", "double"))
        for value in self.values:
            expect_value(value, item.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range(OfOneColumn):
    """The value is at least `least` and at most `most`, written as texts; NaN is greater than any number."""

    least: str | None = None
    most: str | None = None

    kind: ClassVar[str] = "range"

    def check(self, schema: Schema) -> None:
        """Raise ConfigError for bounds of another type."""
        item = find_column(schema, self.column)
        expect(item, ORDERED_TYPES)
        for bound in (self.least, self.most):
            if bound is not None:
                expect_value(bound, item.type)
        least, most = ((None if b is None else from_text(b, item.type)) for b in (self.least, self.most))
        if least is not None and most is not None and rank(least) > rank(most):
            raise ConfigError(
                f"no value lies between {self.least} and {self.most}", todo="Let `min` be the lesser of the two."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(OfOneColumn):
    """The whole text matches a pattern."""

    pattern: str

    kind: ClassVar[str] = "pattern"

    def check(self, schema: Schema) -> None:
        """Raise ConfigError for a column that is no text."""
        expect(find_column(schema, self.column), ("string",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Length(OfOneColumn):
    """The number of characters of the text is within these bounds."""

    least: int = 0
    most: int | None = None

    kind: ClassVar[str] = "length"

    def check(self, schema: Schema) -> None:
        """Raise ConfigError for a column that is no text."""
        expect(find_column(schema, self.column), ("string",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique(RowRule):
    """No other row of the same file of a full load has the row's key."""

    kind: ClassVar[str] = "unique"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression(RowRule):
    """An expression of Spark's SQL is true or NULL. `reads` are its columns, as Spark's parser finds them."""

    expression: str
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "sql"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the parser found."""
        return self.reads

    @property
    def label(self) -> str:
        """What the rule is called."""
        return self.name or self.expression


QualityRule: TypeAlias = RowRule | InputRule


def check(rules: Sequence[QualityRule], schema: Schema, key: Sequence[str]) -> None:
    """Raise ConfigError, with the rule's number, where a rule does not fit the columns of the table."""
    for number, rule in enumerate(rules, 1):
        try:
            _check(rule, schema, key)
        except ConfigError as error:
            message = f"quality rule {number}, {rule.kind}: {error.what}"
            raise ConfigError(message, found=error.found, todo=error.todo) from error


def _check(rule: QualityRule, schema: Schema, key: Sequence[str]) -> None:
    for name in columns_of(rule):
        if schema.find(name) is None:
            raise ConfigError(
                f"the table has no column {name!r}",
                found="after the column rules the columns are " + ", ".join(schema.names),
                todo=nearest(name, schema.names),
            )
    if isinstance(rule, Unique) and not key:
        raise ConfigError("the table has no key", todo="Name one under [tables], or take the rule out.")
    if isinstance(rule, RowRule):
        rule.check(schema)


def columns_of(rule: QualityRule) -> tuple[str, ...]:
    """Return the columns that a rule reads."""
    match rule:
        case RowRule():
            return rule.columns
        case NullShare():
            return (rule.column,)
        case _:
            return ()


def is_broken(rule: RowRule, cells: Mapping[str, Cell], schema: Schema) -> bool:
    """Return True if a row breaks a rule.

    `Unique` compares rows of a file, and `Expression` needs Spark: neither can be checked here.
    """
    if isinstance(rule, NotNull):
        return any(cells[name] is None for name in rule.of)
    value = cells[rule.columns[0]]
    if value is None:
        return False
    type_ = find_column(schema, rule.columns[0]).type
    match rule:
        case InSet(values=values):
            return canonical(value) not in {canonical(from_text(text, type_)) for text in values}
        case Range(least=least, most=most):
            below = least is not None and rank(value) < rank(from_text(least, type_))
            return below or (most is not None and rank(value) > rank(from_text(most, type_)))
        case Pattern(pattern=pattern):
            return compiled(pattern).fullmatch(str(value)) is None
        case Length(least=shortest, most=longest):
            return len(str(value)) < shortest or (longest is not None and len(str(value)) > longest)
        case _:
            raise TypeError(rule.kind)


def rank(value: Cell) -> tuple[bool, object]:
    """Return the sort key of a value, in the order of Spark: NaN is greater than any number."""
    return (value != value, value)  # noqa: PLR0124  # only NaN differs from itself
