"""Rules that change which columns there are: they cut, join, add, drop or flatten, or ask Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakeward.core.schema import Column, Schema, Type
from lakeward.core.shaping.column_rules import TEXT, WITH_TEXT, Rule, expect, expect_value, known


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Rule):
    """A text cut at each match of a pattern; what lies behind the last part stays in it, unless `rest` is "drop".

    A part that is not there is NULL.
    """

    column: str
    pattern: str
    into: tuple[str, ...]
    rest: str = "keep"

    kind: ClassVar[str] = "split"

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return the column that is cut; it stays."""
        return (self.column,)

    def may_make(self, name: str) -> bool:
        """Return whether a part has this name."""
        return name in self.into

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return a column a part."""
        expect(known(schema, self.column), ("string",))
        return tuple(Column(name, TEXT) for name in self.into)


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Rule):
    """The texts of several columns with a separator between them; NULL where one is, unless `nulls` is "skip"."""

    columns: tuple[str, ...]
    to: str
    separator: str = ""
    nulls: str = "null"

    kind: ClassVar[str] = "concat"

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that are joined; they stay."""
        return self.columns

    def may_make(self, name: str) -> bool:
        """Return whether its column has this name."""
        return name == self.to

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return the new column."""
        for name in self.columns:
            expect(known(schema, name), WITH_TEXT)
        return (Column(self.to, TEXT),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Rule):
    """A column that has the same value in each row, written as text."""

    to: str
    value: str
    type: Type = TEXT

    kind: ClassVar[str] = "constant"
    keeps_apart: ClassVar[bool] = True

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def may_make(self, name: str) -> bool:
        """Return whether its column has this name."""
        return name == self.to

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return the new column."""
        expect(Column(self.to, self.type), (*WITH_TEXT, "float", "double"))
        expect_value(self.value, self.type)
        return (Column(self.to, self.type),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Rule):
    """Columns that the table does not get."""

    columns: tuple[str, ...]

    kind: ClassVar[str] = "drop"

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns: one that is not there may be misspelt."""
        return self.columns

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return nothing."""
        return ()

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns."""
        return self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(Rule):
    """The only columns that the table gets, those that are new at the source left out too."""

    columns: tuple[str, ...]

    kind: ClassVar[str] = "keep"

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns."""
        return self.columns

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return nothing."""
        return ()

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Return all others."""
        return tuple(name for name in schema.names if name not in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flatten(Rule):
    """The fields of a nested column as columns of their own, each called as `prefix` and its name."""

    column: str
    prefix: str

    kind: ClassVar[str] = "flatten"
    keeps_apart: ClassVar[bool] = True

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return the nested column."""
        return (self.column,)

    def may_make(self, name: str) -> bool:
        """Return whether a field may have this name."""
        return name.startswith(self.prefix)

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return a column a field."""
        item = known(schema, self.column)
        expect(item, ("struct",))
        return tuple(Column(self.prefix + part.name, part.type) for part in item.type.parts)

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Return the nested column."""
        return (self.column,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sql(Rule):
    """What an expression of Spark's SQL gives, which must be of that type; plain Python cannot say it.

    `columns` are those that it reads: only Spark's parser can tell.
    """

    expression: str
    to: str
    type: Type
    columns: tuple[str, ...] = ()

    kind: ClassVar[str] = "sql"

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that the parser found."""
        return self.columns

    def may_make(self, name: str) -> bool:
        """Return whether its column has this name."""
        return name == self.to

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return its column, which may be one that is there."""
        return (Column(self.to, self.type),)
