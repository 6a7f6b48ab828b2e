"""Conditions on rows, for readers that each have a language of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Is:
    """A column, or a field within one, named by the names that lead to it, has a value; NaN is equal to itself."""

    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class AtMost:
    """A column is no greater than a whole number."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A column is no less than a whole number."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class All:
    """All of these."""

    of: Sequence[Where]


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these."""

    of: Sequence[Where]


Where: TypeAlias = Is | AtMost | AtLeast | All | OneOf
