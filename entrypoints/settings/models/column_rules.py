"""Models of column rules in the settings, and their conversion to values of the core.

`docs/reference/settings.md` is generated from these models; `docs/reference/column-rules.md` explains them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeInt

from lakeward.adapters.sources.landing.setting_values import zone
from lakeward.core.errors import ConfigError
from lakeward.core.schema import parse_type
from lakeward.core.shaping import column_rules as rules
from lakeward.core.shaping import reshaping_rules
from lakeward.entrypoints.settings.models.values import Strict
from lakeward.plugins.options import NamedSecret


class Rule(Strict):
    """A rule of a table: a table of keys with `rule`."""


def _type_name(value: str) -> str:
    try:
        parse_type(value)
    except ConfigError as error:
        raise ValueError(f"{error.what}. {error.todo}") from error
    return value


def _as_text(value: Any) -> Any:
    """Return numbers and booleans as text: the type of their column decides how it is read."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


TypeName: TypeAlias = Annotated[str, AfterValidator(_type_name)]
Zone: TypeAlias = Annotated[str, AfterValidator(zone)]
Value: TypeAlias = Annotated[str, BeforeValidator(_as_text)]
Names: TypeAlias = Annotated[list[str], Field(min_length=1)]
Column: TypeAlias = Annotated[str, Field(description="The column.")]
To: TypeAlias = Annotated[
    str | None, Field(description="A new column for the result. Without it, the column itself is changed.")
]
New: TypeAlias = Annotated[str, Field(description="The new column.")]
Pattern: TypeAlias = Annotated[str, Field(min_length=1, description="A regular expression of Java.")]


class Rename(Rule):
    """Rename a column."""

    rule: Literal["rename"]
    column: Column
    to: str = Field(description="Its new name.")


class Cast(Rule):
    """Convert a column to another type. A row with a value that does not fit goes into quarantine."""

    rule: Literal["cast"]
    column: Column
    type: TypeName = Field(description="The new type; see docs/reference/types.md.")
    format: str | None = Field(None, description="How the text is written; see `format` of `[columns]`.")
    zone: Zone = Field("UTC", description="The time zone of times without one, such as `Europe/Berlin`.")
    to: To = None


class Trim(Rule):
    """Remove characters from the ends of a text."""

    rule: Literal["trim"]
    column: Column
    characters: str = Field(" ", min_length=1, description="The characters to remove.")
    side: Literal["both", "left", "right"] = Field("both", description="The ends to trim.")
    to: To = None


class Replace(Rule):
    """Replace each match of a pattern in a text."""

    rule: Literal["replace"]
    column: Column
    pattern: Pattern
    by: str = Field(description="The replacement. `$1` to `$9` are groups of the pattern, `$$` is a dollar.")
    to: To = None


class Default(Rule):
    """Replace NULL by a value."""

    rule: Literal["default"]
    column: Column
    value: Value = Field(description="The value, of the column's type.")
    to: To = None


class Split(Rule):
    """Split a text into several columns."""

    rule: Literal["split"]
    column: Column
    pattern: Pattern
    into: Names = Field(description="The new columns, in order. Columns without a part are NULL.")
    rest: Literal["keep", "drop"] = Field(
        "keep", description="What happens to parts beyond the last column: it keeps them, or they are dropped."
    )


class Concat(Rule):
    """Concatenate the texts of several columns."""

    rule: Literal["concat"]
    columns: Names = Field(description="The columns, in order.")
    to: New
    separator: str = Field("", description="The text between two values.")
    nulls: Literal["null", "skip"] = Field(
        "null", description="What happens if a value is NULL: the result is NULL, or the value is skipped."
    )


class Constant(Rule):
    """Add a column with a constant value."""

    rule: Literal["constant"]
    to: New
    value: Value = Field(description="The value.")
    type: TypeName = Field("string", description="The type of the column.")


class Drop(Rule):
    """Drop columns."""

    rule: Literal["drop"]
    columns: Names = Field(description="The columns.")


class Keep(Rule):
    """Drop all other columns, including columns that are added to the source later."""

    rule: Literal["keep"]
    columns: Names = Field(description="The columns.")


class Hash(Rule):
    """Replace a value by its HMAC-SHA-256, in hexadecimal digits."""

    rule: Literal["hash"]
    column: Column
    key: NamedSecret = Field(
        description='Where the secret is: `{ env = "NAME" }`, `{ file = "PATH" }`, the same written as `env:NAME` '
        "or `file:PATH`, or a [store of AWS](../how-to/aws/secrets.md). The secret has at least 16 bytes.",
    )
    to: To = None


class Mask(Rule):
    """Replace all but the last characters of a text."""

    rule: Literal["mask"]
    column: Column
    keep: NonNegativeInt = Field(
        0, description="The number of last characters that are kept. A text that is not longer is masked whole."
    )
    character: str = Field("*", min_length=1, max_length=1, description="The character that replaces the others.")
    to: To = None


class DatePart(Rule):
    """Extract a part of a date or time, as a whole number."""

    rule: Literal["date_part"]
    column: Column
    part: Literal[
        "year", "quarter", "month", "week", "day", "day_of_week", "day_of_year", "hour", "minute", "second"
    ] = Field(description="The part. Weeks and days of the week are those of ISO 8601.")
    to: To = None


class Flatten(Rule):
    """Turn the fields of a struct into columns."""

    rule: Literal["flatten"]
    column: Column
    prefix: str | None = Field(
        None, description="The prefix of the new columns. Without it: the name of the column and `_`."
    )


class Sql(Rule):
    """Compute a column by an expression of Spark SQL."""

    rule: Literal["sql"]
    expression: str = Field(
        description="The expression. It may use the columns of its row, and must be deterministic."
    )
    to: str = Field(description="The column for the result, new or existing.")
    type: TypeName = Field(description="The type of the result.")


ColumnRule: TypeAlias = Annotated[
    Rename
    | Cast
    | Trim
    | Replace
    | Default
    | Split
    | Concat
    | Constant
    | Drop
    | Keep
    | Hash
    | Mask
    | DatePart
    | Flatten
    | Sql,
    Field(discriminator="rule"),
]

_CORE_RULES: Final = {
    kind.kind: kind
    for kind in (
        *(rules.Rename, rules.Cast, rules.Trim, rules.Replace, rules.Default, rules.Hash, rules.Mask),
        *(rules.DatePart, reshaping_rules.Split, reshaping_rules.Concat, reshaping_rules.Constant),
        *(reshaping_rules.Drop, reshaping_rules.Keep, reshaping_rules.Flatten, reshaping_rules.Sql),
    )
}


def column_rules(settings: Sequence[Rule]) -> tuple[rules.Rule, ...]:
    """Return the column rules of a table as values of the core."""
    return tuple(_CORE_RULES[values.pop("rule")](**core_values(values)) for values in map(_values_of, settings))


def _values_of(rule: Rule) -> dict[str, Any]:
    """Return the keys of a rule, with text for a secret name and the default for a prefix."""
    values = rule.model_dump()
    if isinstance(rule, Hash):
        values["key"] = str(rule.key)
    if isinstance(rule, Flatten) and rule.prefix is None:
        values["prefix"] = f"{rule.column}_"
    return values


def core_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a rule with lists as tuples and names of types as types."""
    types = {"type": parse_type(values["type"])} if "type" in values else {}
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in {**values, **types}.items()
    }
