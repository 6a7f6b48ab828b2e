"""Findings in declarations of joined tables, and the error of the first one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.schema import Type

Findings: TypeAlias = Iterator[tuple[str, str]]
"""What is wrong in a declaration: what was found, and what to do. The first one is the error."""


def refuse(joined: JoinDeclaration, findings: Findings) -> None:
    """Raise ConfigError with the first finding, if there is one."""
    for found, todo in findings:
        raise ConfigError(f"{joined.name}: it cannot be joined like this", found=found, todo=todo)


def list_names(names: Iterable[str]) -> str:
    """Return names for a sentence."""
    return ", ".join(names) or "nothing"


def column_type(table: Dimension, column: str) -> Type:
    """Return the type of a column that must exist."""
    return next(one.type for one in table.schema if one.name == column)
