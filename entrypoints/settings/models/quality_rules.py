"""Models of quality rules in the settings, and their conversion to values of the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import Field, NonNegativeInt, model_validator

from lakeward.core.shaping import file_rules
from lakeward.core.shaping import quality_rules as quality
from lakeward.entrypoints.settings.models.column_rules import Column, Names, Pattern, Rule, Value, core_values

Name: TypeAlias = Annotated[str, Field(description="The name of the rule in output and in quarantine.")]
Action: TypeAlias = Annotated[
    Literal["quarantine", "warn"],
    Field(description="What happens to a row that breaks the rule: it goes into quarantine, or is only counted."),
]
Inputs: TypeAlias = Annotated[
    Literal["load", "changes", "all"],
    Field(description="The files that are checked: those of full loads, those of changes, or all."),
]


class NotNull(Rule):
    """No value of the columns is NULL."""

    rule: Literal["not_null"]
    columns: Names = Field(description="The columns.")
    name: Name = ""
    action: Action = "quarantine"


class InSet(Rule):
    """A value is one of a list."""

    rule: Literal["in_set"]
    column: Column
    values: Annotated[list[Value], Field(min_length=1)] = Field(description="The values, of the column's type.")
    name: Name = ""
    action: Action = "quarantine"


class Range(Rule):
    """A value lies in a range, both bounds included."""

    rule: Literal["range"]
    column: Column
    min: Value | None = Field(None, description="The least value, of the column's type.")
    max: Value | None = Field(None, description="The greatest value, of the column's type.")
    name: Name = ""
    action: Action = "quarantine"

    @model_validator(mode="after")
    def _has_a_bound(self) -> Range:
        return _check_bounds(self, self.min, self.max)


class Matches(Rule):
    """The whole text matches a pattern."""

    rule: Literal["pattern"]
    column: Column
    pattern: Pattern
    name: Name = ""
    action: Action = "quarantine"


class Length(Rule):
    """The number of characters of a text lies in a range."""

    rule: Literal["length"]
    column: Column
    min: NonNegativeInt = Field(0, description="The least number of characters.")
    max: NonNegativeInt | None = Field(None, description="The greatest number of characters.")
    name: Name = ""
    action: Action = "quarantine"

    @model_validator(mode="after")
    def _has_a_bound(self) -> Length:
        return _check_bounds(self, self.min or None, self.max)


class Unique(Rule):
    """No two rows of a file of a full load have the same key."""

    rule: Literal["unique"]
    name: Name = ""
    action: Action = "quarantine"


class Expression(Rule):
    """An expression of Spark SQL is not false."""

    rule: Literal["sql"]
    expression: str = Field(description="The expression, of type boolean. NULL does not break the rule.")
    name: Name = ""
    action: Action = "quarantine"


class RowCount(Rule):
    """The number of rows of a file lies in a range. Other files are rejected whole."""

    rule: Literal["row_count"]
    min: NonNegativeInt = Field(0, description="The least number of rows.")
    max: NonNegativeInt | None = Field(None, description="The greatest number of rows.")
    inputs: Inputs = "all"

    @model_validator(mode="after")
    def _has_a_bound(self) -> RowCount:
        return _check_bounds(self, self.min or None, self.max)


class NullShare(Rule):
    """The share of NULL in a column of a file has a maximum. Other files are rejected whole."""

    rule: Literal["null_share"]
    column: Column
    max: float = Field(ge=0, le=1, description="The greatest share of NULL, from 0 to 1.")
    inputs: Inputs = "all"


QualityRule: TypeAlias = Annotated[
    NotNull | InSet | Range | Matches | Length | Unique | Expression | RowCount | NullShare,
    Field(discriminator="rule"),
]


R = TypeVar("R", bound=Rule)


def _check_bounds(rule: R, least: object, most: object) -> R:
    if least is None and most is None:
        raise ValueError("needs `min` or `max`")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise ValueError(f"no value lies between `min` {least} and `max` {most}")
    return rule


_CORE_RULES: Final = {
    kind.kind: kind
    for kind in (
        *(quality.NotNull, quality.InSet, quality.Range, quality.Pattern, quality.Length, quality.Unique),
        *(quality.Expression, file_rules.RowCount, file_rules.NullShare),
    )
}
_OTHER_NAMES: Final = {"min": "least", "max": "most"}


def quality_rules(settings: Sequence[Rule]) -> tuple[quality.QualityRule, ...]:
    """Return the quality rules of a table as values of the core."""
    return tuple(_core_rule(rule.model_dump()) for rule in settings)


def _core_rule(keys: Mapping[str, Any]) -> quality.QualityRule:
    kind = _CORE_RULES[keys["rule"]]
    values = {_OTHER_NAMES.get(name, name): value for name, value in keys.items() if name != "rule"}
    if kind is quality.NotNull:
        values["of"] = values.pop("columns")
    if kind is file_rules.NullShare:
        values["most"] = float(values["most"])
    for name, enumeration in (("action", quality.Action), ("inputs", file_rules.Inputs)):
        if name in values:
            values[name] = enumeration(values[name])
    return kind(**core_values(values))
