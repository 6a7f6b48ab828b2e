"""Conditions on rows, translated by each reader into its own language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Is:
    """A column, or the nested field at `path`, has a value. NaN equals itself."""

    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class AtMost:
    """A column is at most a whole number."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A column is at least a whole number."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class All:
    """All of these conditions hold."""

    of: Sequence[Condition]


@dataclass(frozen=True, slots=True)
class OneOf:
    """At least one of these conditions holds."""

    of: Sequence[Condition]


Condition: TypeAlias = Is | AtMost | AtLeast | All | OneOf
