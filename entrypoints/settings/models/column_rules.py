"""Rules as the settings write them; the core's own values are made of them.

`docs/reference/settings.md` is generated from these models, and `docs/reference/column-rules.md` and
`docs/reference/quality-rules.md` explain them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
)

from lakeward.adapters.sources.landing.setting_values import zone
from lakeward.core.errors import ConfigError
from lakeward.core.schema import parse_type
from lakeward.core.shaping import column_rules as rules
from lakeward.core.shaping import reshaping_rules
from lakeward.plugins.options import NamedSecret


class Rule(BaseModel):
    """A table of the settings that knows all its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _type_name(value: str) -> str:
    try:
        parse_type(value)
    except ConfigError as error:
        raise ValueError(f"{error.what}. {error.todo}") from error
    return value


def _as_text(value: Any) -> Any:
    """Take numbers and true and false for texts: their type is that of the column."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


TypeName: TypeAlias = Annotated[str, AfterValidator(_type_name)]
Zone: TypeAlias = Annotated[str, AfterValidator(zone)]
Value: TypeAlias = Annotated[str, BeforeValidator(_as_text)]
Names: TypeAlias = Annotated[list[str], Field(min_length=1)]
Column: TypeAlias = Annotated[str, Field(description="The column.")]
To: TypeAlias = Annotated[str | None, Field(description="A new column; without it, the column itself is changed.")]
New: TypeAlias = Annotated[str, Field(description="The new column.")]
Pattern: TypeAlias = Annotated[str, Field(min_length=1, description="A pattern, as Java writes it.")]


class Rename(Rule):
    """Give a column another name."""

    rule: Literal["rename"]
    column: Column
    to: str = Field(description="Its new name.")


class Cast(Rule):
    """Give a column another type. A value that does not fit puts its row into quarantine."""

    rule: Literal["cast"]
    column: Column
    type: TypeName = Field(description="The new type; see docs/reference/types.md.")
    format: str | None = Field(None, description="How the text is written, as in `[columns]`.")
    zone: Zone = Field("UTC", description="The time zone of texts without one.")
    to: To = None


class Trim(Rule):
    """Take characters from the ends of a text."""

    rule: Literal["trim"]
    column: Column
    characters: str = Field(" ", min_length=1, description="The characters that are taken away.")
    side: Literal["both", "left", "right"] = Field("both", description="The end.")
    to: To = None


class Replace(Rule):
    """Replace each match of a pattern."""

    rule: Literal["replace"]
    column: Column
    pattern: Pattern
    by: str = Field(description="What stands there instead: `$1` to `$9` are groups, `$$` is a dollar.")
    to: To = None


class Default(Rule):
    """Put a value where there is NULL."""

    rule: Literal["default"]
    column: Column
    value: Value = Field(description="The value, of the column's type.")
    to: To = None


class Split(Rule):
    """Cut a text into several columns."""

    rule: Literal["split"]
    column: Column
    pattern: Pattern
    into: Names = Field(description="The new columns, in order. A part that is not there is NULL.")
    rest: Literal["keep", "drop"] = Field(
        "keep", description="What becomes of more parts than columns: they stay in the last one, or go."
    )


class Concat(Rule):
    """Join the texts of several columns."""

    rule: Literal["concat"]
    columns: Names = Field(description="The columns, in order.")
    to: New
    separator: str = Field("", description="What stands between them.")
    nulls: Literal["null", "skip"] = Field("null", description="Where one is NULL: all is NULL, or it is left out.")


class Constant(Rule):
    """Add a column with one value."""

    rule: Literal["constant"]
    to: New
    value: Value = Field(description="The value.")
    type: TypeName = Field("string", description="Its type.")


class Drop(Rule):
    """Leave columns out."""

    rule: Literal["drop"]
    columns: Names = Field(description="The columns.")


class Keep(Rule):
    """Leave all other columns out, those that come to be later as well."""

    rule: Literal["keep"]
    columns: Names = Field(description="The columns.")


class Hash(Rule):
    """Put the HMAC-SHA-256 of a value in its place, in hexadecimal digits."""

    rule: Literal["hash"]
    column: Column
    key: NamedSecret = Field(
        description='Where the secret is, of 16 bytes at least: `{ env = "NAME" }`, `{ file = "PATH" }`, or the '
        "same as `env:NAME`, `file:PATH`; or a [store of AWS](../how-to/aws/secrets.md).",
    )
    to: To = None


class Mask(Rule):
    """Put a character in the place of all but the last few of a text."""

    rule: Literal["mask"]
    column: Column
    keep: NonNegativeInt = Field(0, description="How many characters stay; a text of no more is masked whole.")
    character: str = Field("*", min_length=1, max_length=1, description="What the others become.")
    to: To = None


class DatePart(Rule):
    """Take a part of a date or a time, as a whole number."""

    rule: Literal["date_part"]
    column: Column
    part: Literal[
        "year", "quarter", "month", "week", "day", "day_of_week", "day_of_year", "hour", "minute", "second"
    ] = Field(description="The part; weeks and their days as ISO 8601 has them.")
    to: To = None


class Flatten(Rule):
    """Make the fields of a struct columns."""

    rule: Literal["flatten"]
    column: Column
    prefix: str | None = Field(None, description="What their names begin with; without it, the column's and `_`.")


class Sql(Rule):
    """Let an expression of Spark's SQL make a column."""

    rule: Literal["sql"]
    expression: str = Field(description="The expression: of the columns of its row, the same in each run.")
    to: str = Field(description="Its column: a new one, or one that is there.")
    type: TypeName = Field(description="The type that it gives.")


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

_OF_COLUMNS: Final = {
    kind.kind: kind
    for kind in (
        *(rules.Rename, rules.Cast, rules.Trim, rules.Replace, rules.Default, rules.Hash, rules.Mask),
        *(rules.DatePart, reshaping_rules.Split, reshaping_rules.Concat, reshaping_rules.Constant),
        *(reshaping_rules.Drop, reshaping_rules.Keep, reshaping_rules.Flatten, reshaping_rules.Sql),
    )
}


def column_rules(given: Sequence[Rule]) -> tuple[rules.Rule, ...]:
    """Return the column rules of a table as the core has them."""
    return tuple(_OF_COLUMNS[values.pop("rule")](**core_values(values)) for values in map(_written, given))


def _written(rule: Rule) -> dict[str, Any]:
    values = rule.model_dump()
    if isinstance(rule, Hash):
        values["key"] = str(rule.key)
    if isinstance(rule, Flatten) and rule.prefix is None:
        values["prefix"] = f"{rule.column}_"
    return values


def core_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a rule in the types of the core."""
    types = {"type": parse_type(values["type"])} if "type" in values else {}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in {**values, **types}.items()}
