"""Apply column rules to a row in plain Python. The Spark adapter is tested against it.

SQL expressions and formats of dates and times need Spark. Patterns have the meaning on which Java and Python agree.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final

from lakeward.core.errors import ConfigError
from lakeward.core.events import UNSET, Cell
from lakeward.core.schema import Column, Type
from lakeward.core.shaping.column_rules import (
    Cast,
    DatePart,
    Default,
    Hash,
    Mask,
    OfColumn,
    Rename,
    Replace,
    Rule,
    Trim,
    find_column,
)
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.core.shaping.reshaping_rules import Concat, Constant, Drop, Flatten, Keep, Split
from lakeward.core.shaping.shape import Shape, Step
from lakeward.core.text.values import MISFIT, from_text, to_text


@dataclass(frozen=True, slots=True)
class ShapedRow:
    """The cells of a row after the rules, and by column the texts of values that did not fit."""

    cells: Mapping[str, Cell]
    misfits: Mapping[str, str] = field(default_factory=dict)


def shape_row(cells: Mapping[str, Cell], shape: Shape, secrets: Mapping[str, bytes]) -> ShapedRow:
    """Return a row after the rules. A column that needs a cell that was not sent counts as not sent.

    `secrets` are the keys of hashes, by their names.
    """
    absent = [name for name in shape.source.names if cells.get(name, UNSET) is UNSET]
    row: dict[str, Cell] = {name: None if name in absent else cells[name] for name in shape.source.names}
    misfits: dict[str, str] = {}
    for step in shape.steps:
        for item, value in zip(step.results, _values(step, row, secrets), strict=True):
            if value is MISFIT and isinstance(step.rule, Cast) and step.needs.isdisjoint(absent):
                misfits.setdefault(item.name, misfit(row[step.rule.column], step, item))
            row[item.name] = None if value is MISFIT else value
        row = {name: row[name] for name in step.after.names}
    sent_names = shape.without(absent).names
    return ShapedRow({name: row[name] if name in sent_names else UNSET for name in row}, misfits)


def recompute(cells: Mapping[str, Cell], recomputed: RecomputedColumns) -> Mapping[str, Cell]:
    """Return the cells of a stored row, with the columns that are made of several others computed again."""
    row = {name: value for name, value in cells.items() if name not in recomputed.columns}
    computed = dict(row)
    for recompute_step in recomputed.steps:
        values = _values(
            recompute_step.step, {name: computed.get(column) for name, column in recompute_step.reads.items()}, {}
        )
        computed.update(zip(recompute_step.makes, values, strict=True))
    return {**row, **{name: computed[column] for name, column in recomputed.columns.items()}}


def misfit(value: Cell, step: Step, item: Column) -> str:
    """Return the text that describes a value that does not fit."""
    text = to_text(value, find_column(step.before, step.rule.reads(step.before)[0]).type)
    return f'"{text}" is not {item.type.with_article} (column {item.name}, rule {step.number})'


def _values(step: Step, row: Mapping[str, Cell], secrets: Mapping[str, bytes]) -> Sequence[Cell]:
    """Return the values that a rule makes, in order."""
    rule = step.rule
    match rule:
        case Drop() | Keep():
            return ()
        case Rename():
            return (row[rule.column],)
        case Constant():
            return (from_text(rule.value, rule.type),)
        case Concat():
            return (_joined(rule, [(row[name], find_column(step.before, name).type) for name in rule.columns]),)
        case Split():
            return _parts(rule, row[rule.column])
        case Flatten():
            value = row[rule.column]
            fields = value if isinstance(value, Mapping) else {}
            return [fields.get(part.name) for part in find_column(step.before, rule.column).type.parts]
        case OfColumn():
            item = find_column(step.before, rule.column)
            if isinstance(rule, Default):
                return (from_text(rule.value, item.type) if row[rule.column] is None else row[rule.column],)
            return (None if row[rule.column] is None else _apply_rule(rule, row[rule.column], item.type, secrets),)
        case _:
            raise _needs_spark(rule)


def _apply_rule(rule: OfColumn, value: Cell, type_: Type, secrets: Mapping[str, bytes]) -> Cell:
    """Return the result of a rule on one column for a value that is not NULL."""
    text = to_text(value, type_)
    match rule:
        case Cast(format=None):
            return value if type_ == rule.type else from_text(text, rule.type, rule.zone)
        case Trim(characters=characters, side=side):
            strip = {"both": text.strip, "left": text.lstrip, "right": text.rstrip}[side]
            return strip(characters)
        case Replace():
            return compiled(rule.pattern).sub(lambda match: _substitute(rule.by, match), text)
        case Mask(keep=keep, character=character):
            visible = text[-keep:] if 0 < keep < len(text) else ""
            return character * (len(text) - len(visible)) + visible
        case Hash(key=key):
            return hmac.new(secrets[key], text.encode(), hashlib.sha256).hexdigest()
        case DatePart(part=part) if isinstance(value, date):
            return _part(value, part)
        case _:
            raise _needs_spark(rule)


def _needs_spark(rule: Rule) -> ConfigError:
    return ConfigError(f"{rule.kind}: only Spark can say what it makes", todo="Use a source that reads with Spark.")


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern with the meaning that Java gives it: its classes hold ASCII alone."""
    return re.compile(pattern, re.ASCII)


GROUP: Final = re.compile(r"\$([$1-9])")
"""The parts of a replacement text that have a meaning: a group, or a dollar."""


def _substitute(by: str, match: re.Match[str]) -> str:
    return GROUP.sub(lambda token: "$" if token[1] == "$" else match[int(token[1])] or "", by)


def _parts(rule: Split, value: Cell) -> Sequence[Cell]:
    wanted = len(rule.into)
    if not isinstance(value, str):
        return [None] * wanted
    cuts = [match.span() for match in compiled(rule.pattern).finditer(value) if match.end() > match.start()]
    cuts = cuts[: wanted - 1] if rule.rest == "keep" else cuts
    starts = [0, *[end for _, end in cuts]]
    ends = [*[start for start, _ in cuts], len(value)]
    match = [value[start:end] for start, end in zip(starts, ends, strict=True)]
    return [*match, *[None] * wanted][:wanted]


def _joined(rule: Concat, values: Sequence[tuple[Cell, Type]]) -> Cell:
    texts = [to_text(value, type_) for value, type_ in values if value is not None]
    return rule.separator.join(texts) if len(texts) == len(values) or rule.nulls == "skip" else None


def _part(value: date, part: str) -> int:
    moment = value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value
    match part:
        case "quarter":
            return (moment.month + 2) // 3
        case "week":
            return moment.isocalendar().week
        case "day_of_week":
            return moment.isoweekday()
        case "day_of_year":
            return moment.timetuple().tm_yday
        case _:
            return int(getattr(moment, part))
