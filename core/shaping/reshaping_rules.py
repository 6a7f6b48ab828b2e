"""Rules that change which columns there are: they split, join, add, drop or flatten columns, or use Spark's SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakeward.core.schema import Column, Schema, Type
from lakeward.core.shaping.column_rules import TEXT, WITH_TEXT, Rule, expect, expect_value, find_column


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Rule):
    """A text split at each match of a pattern. The last part keeps the remainder, unless `rest` is "drop".

    A missing part is NULL.
    """

    column: str
    pattern: str
    into: tuple[str, ...]
    rest: str = "keep"

    kind: ClassVar[str] = "split"

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """Return the column that is split; it stays."""
        return (self.column,)

    def may_make(self, name: str) -> bool:
        """Return whether a part has this name."""
        return name in self.into

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return one column for each part."""
        expect(find_column(schema, self.column), ("string",))
        return tuple(Column(name, TEXT) for name in self.into)


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Rule):
    """The texts of several columns, joined by a separator; NULL where one is NULL, unless `nulls` is "skip"."""

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
            expect(find_column(schema, name), WITH_TEXT)
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
        """Return the columns, so that a misspelt name is an error."""
        return self.columns

    def makes(self, schema: Schema) -> tuple[Column, ...]:
        """Return nothing."""
        return ()

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns."""
        return self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(Rule):
    """The only columns of the table; columns that are new at the source are left out, too."""

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
    """The fields of a nested column as columns of their own, named `prefix` and the name of the field."""

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
        """Return one column for each field."""
        item = find_column(schema, self.column)
        expect(item, ("struct",))
        return tuple(Column(self.prefix + part.name, part.type) for part in item.type.parts)

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Return the nested column."""
        return (self.column,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sql(Rule):
    """The result of an expression of Spark's SQL, which must have this type. Plain Python cannot compute it.

    `columns` are those that it reads, as Spark's parser finds them.
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
