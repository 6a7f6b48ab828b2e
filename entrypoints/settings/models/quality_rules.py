"""Models of quality rules in the settings, and their conversion to values of the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

from pydantic import Field, NonNegativeInt, model_validator

from lakeward.core.shaping import file_rules
from lakeward.core.shaping import quality_rules as quality
from lakeward.entrypoints.settings.models.column_rules import Column, Names, Pattern, Rule, Value, core_values

Name: TypeAlias = Annotated[str, Field(description="What the rule is called where it is shown.")]
Action: TypeAlias = Annotated[
    Literal["quarantine", "warn"],
    Field(description="What becomes of the row: it waits, or is only counted."),
]
Inputs: TypeAlias = Annotated[
    Literal["load", "changes", "all"],
    Field(description="The files that are meant: of a full load, of changes, or all."),
]


class NotNull(Rule):
    """No value is NULL."""

    rule: Literal["not_null"]
    columns: Names = Field(description="The columns.")
    name: Name = ""
    action: Action = "quarantine"


class InSet(Rule):
    """A value is one of a few."""

    rule: Literal["in_set"]
    column: Column
    values: Annotated[list[Value], Field(min_length=1)] = Field(description="The values, of the column's type.")
    name: Name = ""
    action: Action = "quarantine"


class Range(Rule):
    """A value lies between two, both included."""

    rule: Literal["range"]
    column: Column
    min: Value | None = Field(None, description="The least, of the column's type.")
    max: Value | None = Field(None, description="The greatest.")
    name: Name = ""
    action: Action = "quarantine"

    @model_validator(mode="after")
    def _has_a_bound(self) -> Range:
        return _bounded(self, self.min, self.max)


class Matches(Rule):
    """A whole text matches a pattern."""

    rule: Literal["pattern"]
    column: Column
    pattern: Pattern
    name: Name = ""
    action: Action = "quarantine"


class Length(Rule):
    """A text has so many characters."""

    rule: Literal["length"]
    column: Column
    min: NonNegativeInt = Field(0, description="The least.")
    max: NonNegativeInt | None = Field(None, description="The greatest.")
    name: Name = ""
    action: Action = "quarantine"

    @model_validator(mode="after")
    def _has_a_bound(self) -> Length:
        return _bounded(self, self.min or None, self.max)


class Unique(Rule):
    """No two rows of a file of a full load have the same key."""

    rule: Literal["unique"]
    name: Name = ""
    action: Action = "quarantine"


class Expression(Rule):
    """An expression of Spark's SQL is not false."""

    rule: Literal["sql"]
    expression: str = Field(description="The expression, which is true or false.")
    name: Name = ""
    action: Action = "quarantine"


class RowCount(Rule):
    """A file has so many rows; else it is rejected whole."""

    rule: Literal["row_count"]
    min: NonNegativeInt = Field(0, description="The least.")
    max: NonNegativeInt | None = Field(None, description="The greatest.")
    inputs: Inputs = "all"

    @model_validator(mode="after")
    def _has_a_bound(self) -> RowCount:
        return _bounded(self, self.min or None, self.max)


class NullShare(Rule):
    """Of the values of a file not too many are NULL; else it is rejected whole."""

    rule: Literal["null_share"]
    column: Column
    max: float = Field(ge=0, le=1, description="The greatest share, from 0 to 1.")
    inputs: Inputs = "all"


QualityRule: TypeAlias = Annotated[
    NotNull | InSet | Range | Matches | Length | Unique | Expression | RowCount | NullShare,
    Field(discriminator="rule"),
]


R = TypeVar("R", bound=Rule)


def _bounded(rule: R, least: object, most: object) -> R:
    if least is None and most is None:
        raise ValueError("needs `min` or `max`")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise ValueError(f"nothing lies between `min` {least} and `max` {most}")
    return rule


_OF_QUALITY: Final = {
    kind.kind: kind
    for kind in (
        *(quality.NotNull, quality.InSet, quality.Range, quality.Pattern, quality.Length, quality.Unique),
        *(quality.Expression, file_rules.RowCount, file_rules.NullShare),
    )
}
_OTHER_NAMES: Final = {"min": "least", "max": "most"}


def quality_rules(given: Sequence[Rule]) -> tuple[quality.QualityRule, ...]:
    """Return the quality rules of a table as the core has them."""
    made = []
    for values in (rule.model_dump() for rule in given):
        kind = _OF_QUALITY[values.pop("rule")]
        named = {_OTHER_NAMES.get(name, name): value for name, value in values.items()}
        if kind is quality.NotNull:
            named["of"] = named.pop("columns")
        if kind is file_rules.NullShare:
            named["most"] = float(named["most"])
        for name, word in (("action", quality.Action), ("inputs", file_rules.Inputs)):
            if name in named:
                named[name] = word(named[name])
        made.append(kind(**core_values(named)))
    return tuple(made)
