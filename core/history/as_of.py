"""The rows of a history that were valid at an instant, as an SQL condition for the engine that reads the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakeward.core.errors import ConfigError
from lakeward.core.history.instants import value_of_instant
from lakeward.core.history.options import History
from lakeward.core.schema import Type
from lakeward.core.text.literals import text_of


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes the name of a column, a time given as text in UTC, and a time without zone."""

    quote: str
    timestamp: str
    timestamp_ntz: str

    def name(self, column: str) -> str:
        """Return the quoted name of a column."""
        return f"{self.quote}{column.replace(self.quote, 2 * self.quote)}{self.quote}"

    def literal(self, instant: int, type_: Type) -> str:
        """Return an instant as a literal of the type of the validity columns."""
        text = text_of(value_of_instant(instant, type_), type_)
        match type_.name:
            case "date":
                return f"DATE '{text}'"
            case "timestamp":
                return self.timestamp.format(text)
            case "timestamp_ntz":
                return self.timestamp_ntz.format(text)
            case _:
                return text


SPARK: Final = Dialect("`", "TIMESTAMP '{}Z'", "TIMESTAMP_NTZ '{}'")

DIALECTS: Final[Mapping[str, Dialect]] = {
    "spark": SPARK,
    "duckdb": Dialect('"', "TIMESTAMPTZ '{}+00'", "TIMESTAMP '{}'"),
    "trino": Dialect('"', "TIMESTAMP '{} UTC'", "TIMESTAMP '{}'"),
}
"""The dialects by engine. Athena accepts that of Trino."""


def valid_at(history: History, at: int, known: int | None = None, dialect: Dialect = SPARK) -> str:
    """Return the condition that a row of a history was valid at an instant.

    In a history with the option `known` the condition selects the versions believed now or, with the argument
    `known`, those believed after that batch.
    """
    form, name = history.validity_columns, dialect.name
    begins, ends, moment = name(form.valid_from), name(form.valid_to), dialect.literal(at, form.type)
    ends_after = f"{ends} {'>=' if form.closed else '>'} {moment}"
    ends_after = f"({ends_after} OR {ends} IS NULL)" if form.open_end is None else ends_after
    parts = [f"{begins} <= {moment}", ends_after]
    if history.is_bitemporal and known is None:
        parts.append(f"{name(form.known_to)} IS NULL")
    elif history.is_bitemporal:
        until = name(form.known_to)
        parts += [f"{name(form.known_from)} <= {known}", f"({until} IS NULL OR {until} > {known})"]
    return " AND ".join(parts)


def is_current(history: History, dialect: Dialect = SPARK) -> str:
    """Return the condition that a row of a history is valid now, as far as is known."""
    form = history.validity_columns
    ends = dialect.name(form.valid_to)
    if form.is_current is not None:
        condition = dialect.name(form.is_current)
    elif form.open_end is None:
        condition = f"{ends} IS NULL"
    else:
        condition = f"{ends} = {dialect.literal(form.open_end, form.type)}"
    return f"{condition} AND {dialect.name(form.known_to)} IS NULL" if history.is_bitemporal else condition


def check(table: object, history: History, at: int, known: int | None) -> None:
    """Raise ConfigError where no row can say what was valid at an instant, or what was known after a batch."""
    form = history.validity_columns
    if form.open_end is not None and at >= form.open_end:
        end = text_of(value_of_instant(form.open_end, form.type), form.type)
        raise ConfigError(
            f"{table}: nothing is known of {text_of(value_of_instant(at, form.type), form.type)}",
            found=f"its current versions end at {end} (`open_end`)",
            todo="Ask for what was before.",
        )
    if known is not None and not history.is_bitemporal:
        raise ConfigError(
            f"{table} does not keep what was known before",
            found="its history has no `known = true`",
            todo="Leave out --known: without it the rows are as known now.",
        )
