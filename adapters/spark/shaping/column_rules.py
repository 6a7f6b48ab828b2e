"""Column rules as Spark SQL text, with names quoted and values escaped.

`lakeward.core.shaping.cells` defines the result of each rule. Rules that read nothing that another rule changes
share one projection, since each projection costs an analysis.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakeward.adapters.spark.sql.casts import TextFormat, to_type
from lakeward.adapters.spark.sql.limits import is_not_utf8, is_outside, readable
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.schema import Column
from lakeward.core.shaping.cells import GROUP
from lakeward.core.shaping.column_rules import (
    Cast,
    DatePart,
    Default,
    Hash,
    Mask,
    OfColumn,
    Rename,
    Replace,
    Trim,
    find_column,
)
from lakeward.core.shaping.reshaping_rules import Concat, Constant, Drop, Flatten, Keep, Split, Sql
from lakeward.core.shaping.shape import Shape, Step

INNER: Final = "_lakeward_inner_"
OUTER: Final = "_lakeward_outer_"
"""Column prefixes for the pads of a hash, followed by the number of its secret. So no secret is in the text of a
query.
"""


@dataclass(slots=True)
class Layer:
    """One projection: its columns, the SQL of those that it makes, and the values that do not fit."""

    columns: tuple[str, ...] = ()
    made: dict[str, str] = field(default_factory=dict)
    misfits: list[str] = field(default_factory=list)
    key_misfits: list[str] = field(default_factory=list)

    def select(self) -> list[str]:
        """Return the columns as SQL."""
        return [f"{self.made[n]} AS {quoted(n)}" if n in self.made else quoted(n) for n in self.columns]


def layers(
    shape: Shape, of_key: frozenset[int], secrets: Sequence[str], was_sent: Callable[[Collection[str]], str]
) -> Iterator[Layer]:
    """Yield the projections that apply the rules. The rules with the numbers `of_key` make the key.

    `was_sent` returns SQL for whether a row sent some source columns: only then a misfit counts.
    """
    layer = Layer(shape.source.names)
    for step in shape.steps:
        if any(name in layer.made for name in step.rule.reads(step.before)):
            yield layer
            layer = Layer()
        layer.made.update(zip([item.name for item in step.results], values(step, secrets), strict=True))
        if isinstance(step.rule, Cast):
            place = layer.key_misfits if step.number in of_key else layer.misfits
            place.append(f"CASE WHEN {was_sent(step.needs)} THEN {misfit(step.rule, step)} END")
        if isinstance(step.rule, Sql) and (problem := _unreadable(step.rule, step.number)) is not None:
            layer.misfits.append(f"CASE WHEN {was_sent(step.needs)} THEN {problem} END")
        layer.columns = step.after.names
    if layer.made or layer.columns != shape.source.names:
        yield layer


def values(step: Step, secrets: Sequence[str]) -> list[str]:
    """Return SQL for the values that a rule makes, in order."""
    rule = step.rule
    match rule:
        case Drop() | Keep():
            return []
        case Rename():
            return [quoted(rule.column)]
        case Constant():
            return [to_type(text(rule.value), rule.type, TextFormat())]
        case Concat():
            return [_concatenated(rule, [_as_text(find_column(step.before, name)) for name in rule.columns])]
        case Split():
            limit = len(rule.into) if rule.rest == "keep" else -1
            parts = f"split({quoted(rule.column)}, {text(rule.pattern)}, {limit})"
            return [f"get({parts}, {place})" for place in range(len(rule.into))]
        case Flatten():
            return [quoted(rule.column, part.name) for part in find_column(step.before, rule.column).type.parts]
        case Sql():
            return [readable(_expression(rule), rule.type)]
        case OfColumn():
            return [_column_value(rule, find_column(step.before, rule.column), secrets)]
        case _:
            raise TypeError(rule.kind)


def _expression(rule: Sql) -> str:
    return f"(\n{rule.expression}\n)"


def _unreadable(rule: Sql, number: int) -> str | None:
    """Return SQL for why not every reader could read the value; None for a type that all can read."""
    value, rule_name = _expression(rule), f"(column {rule.to}, rule {number})"
    years = text(f'" is not {rule.type.with_article} of the years 1 to 9999 {rule_name}')
    problems = {
        is_not_utf8(value, rule.type): text(f"the text is not valid UTF-8 {rule_name}"),
        is_outside(value, rule.type): f"concat('\"', CAST({value} AS string), {years})",
    }
    cases = [f"WHEN {wrong} THEN {explanation}" for wrong, explanation in problems.items() if wrong is not None]
    return f"CASE {' '.join(cases)} END" if cases else None


def _as_text(item: Column) -> str:
    return quoted(item.name) if item.type.name == "string" else f"CAST({quoted(item.name)} AS string)"


def _concatenated(rule: Concat, texts: Sequence[str]) -> str:
    separator = text(rule.separator)
    if rule.nulls == "skip":
        return f"concat_ws({', '.join([separator, *texts])})"
    return f"concat({f', {separator}, '.join(texts)})"


def _column_value(rule: OfColumn, item: Column, secrets: Sequence[str]) -> str:
    """Return SQL for the value that a rule of one column makes."""
    column = quoted(item.name)
    match rule:
        case Cast():
            return _cast(rule, item)
        case Trim(characters=characters, side=side):
            return f"trim({_SIDES[side]} {text(characters)} FROM {column})"
        case Replace(pattern=pattern, by=by):
            return f"regexp_replace({column}, {text(pattern)}, {text(java_replacement(by))})"
        case Default(value=value):
            return f"coalesce({column}, {to_type(text(value), item.type, TextFormat())})"
        case Mask(keep=keep, character=character):
            hidden = f"repeat({text(character)}, length({column}) - {keep})"
            all_masked = f"repeat({text(character)}, length({column}))"
            masked = f"concat({hidden}, right({column}, {keep}))"
            return f"CASE WHEN length({column}) > {keep} THEN {masked} ELSE {all_masked} END"
        case Hash(key=key):
            number = secrets.index(key)
            inner = f"sha2(concat({INNER}{number}, CAST({_as_text(item)} AS binary)), 256)"
            return f"sha2(concat({OUTER}{number}, unhex({inner})), 256)"
        case DatePart(part=part):
            return _PARTS[part].format(column)
        case _:
            raise TypeError(rule.kind)


_SIDES: Final = {"both": "BOTH", "left": "LEADING", "right": "TRAILING"}
_PARTS: Final[Mapping[str, str]] = {
    **{part: f"{part}({{0}})" for part in ("year", "quarter", "month", "day", "hour", "minute", "second")},
    "week": "weekofyear({0})",
    "day_of_week": "(weekday({0}) + 1)",
    "day_of_year": "dayofyear({0})",
}


def _cast(rule: Cast, item: Column) -> str:
    column = quoted(item.name)
    if item.type == rule.type:
        return column
    if item.type.name == "float":
        return f"CAST({column} AS double)"
    if rule.type.name == "string":
        return _as_text(item) if rule.format is None else f"date_format({column}, {text(rule.format)})"
    return to_type(_as_text(item), rule.type, TextFormat(rule.format, rule.zone))


def misfit(rule: Cast, step: Step) -> str:
    """Return SQL for the explanation that a value does not fit; NULL if it fits."""
    (target,) = step.results
    item = find_column(step.before, rule.column)
    explanation = text(f'" is not {target.type.with_article} (column {target.name}, rule {step.number})')
    is_unfit = f"{quoted(item.name)} IS NOT NULL AND {_cast(rule, item)} IS NULL"
    return f"CASE WHEN {is_unfit} THEN concat('\"', {_as_text(item)}, {explanation}) END"


def java_replacement(by: str) -> str:
    r"""Return a replacement text in the syntax of Java.

    >>> java_replacement("$1 $$ \\")
    '$1 \\$ \\\\'
    """
    replacement, rest = "", 0
    for group in GROUP.finditer(by):
        replacement += _literal(by[rest : group.start()]) + (r"\$" if group[1] == "$" else group[0])
        rest = group.end()
        if group[1] != "$" and by[rest : rest + 1].isdigit():
            replacement += "\\"  # else Java reads a group number of two digits
    return replacement + _literal(by[rest:])


def _literal(by: str) -> str:
    return by.replace("\\", "\\\\").replace("$", r"\$")


def pads(secret: bytes) -> tuple[bytes, bytes]:
    """Return the bytes that the inner and the outer hash of HMAC-SHA-256 begin with (RFC 2104)."""
    block = (hashlib.sha256(secret).digest() if len(secret) > _BLOCK else secret).ljust(_BLOCK, b"\0")
    return bytes(byte ^ 0x36 for byte in block), bytes(byte ^ 0x5C for byte in block)


_BLOCK: Final = 64
