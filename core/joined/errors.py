"""Errors of declarations of joined tables."""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError
from lakeward.core.joined.declaration import Joined
from lakeward.core.schema import Type


def declaration_error(joined: Joined, found: str, todo: str) -> ConfigError:
    """Return the error that a declaration does not fit its tables."""
    return ConfigError(f"{joined.name}: it cannot be joined like this", found=found, todo=todo)


def list_names(names: Iterable[str]) -> str:
    """Return names for a sentence."""
    return ", ".join(names) or "nothing"


def column_type(table: Dimension, column: str) -> Type:
    """Return the type of a column that must exist."""
    return next(one.type for one in table.schema if one.name == column)
