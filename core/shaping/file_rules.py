"""Quality rules of inputs: conditions on a whole file. A file that breaks one is rejected as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeAlias

from lakeward.core.text.numbers import format_count


class Inputs(Enum):
    """The inputs that a rule checks: files of a full load, files of changes, or both."""

    LOAD = "load"
    CHANGES = "changes"
    ALL = "all"

    def has(self, *, is_load: bool) -> bool:
        """Return True if the rule checks an input."""
        return self is Inputs.ALL or (self is Inputs.LOAD) == is_load


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """The number of rows of an input is within these bounds; lines that are not rows do not count."""

    least: int = 0
    most: int | None = None
    inputs: Inputs = Inputs.ALL

    kind: ClassVar[str] = "row_count"


@dataclass(frozen=True, slots=True, kw_only=True)
class NullShare:
    """The share of NULL in a column of an input is at most this.

    Deletes and rows that cannot be applied are not counted.
    """

    column: str
    most: float
    inputs: Inputs = Inputs.ALL

    kind: ClassVar[str] = "null_share"


InputRule: TypeAlias = RowCount | NullShare


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The figures of one input: its rows, those that leave values, and the number of NULLs by column."""

    name: str
    is_load: bool
    rows: int
    valued: int = 0
    nulls: Mapping[str, int]


def find_breaches(
    rules: Sequence[object], inputs: Sequence[Input], absent: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Return the inputs that break a rule, in order, each with a text; `absent` are columns that they lack."""
    breaches: list[tuple[str, str]] = []
    numbered = [(number, rule) for number, rule in enumerate(rules, 1) if isinstance(rule, RowCount | NullShare)]
    for item in inputs:
        for number, rule in numbered:
            breach = _breach(rule, item, absent) if rule.inputs.has(is_load=item.is_load) else None
            if breach:
                breaches.append((item.name, f"quality rule {number}, {rule.kind}: {breach}"))
    return breaches


def _breach(rule: InputRule, figures: Input, absent: Collection[str]) -> str | None:
    if isinstance(rule, RowCount):
        if figures.rows < rule.least:
            return f"it has {format_count(figures.rows, 'row')}, and {rule.least:,} are the least"
        is_over = rule.most is not None and figures.rows > rule.most
        return f"it has {format_count(figures.rows, 'row')}, and {rule.most:,} are the most" if is_over else None
    if rule.column in absent or not figures.valued:
        return None
    nulls = figures.nulls.get(rule.column, 0)
    if nulls <= rule.most * figures.valued:
        return None
    share = f"{100 * nulls / figures.valued:.3g} %"
    most = f"{100 * rule.most:.3g} % are the most"
    return f"{rule.column} is NULL in {nulls:,} of {format_count(figures.valued, 'row')} ({share}), and {most}"
