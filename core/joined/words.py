"""The words in which it is said that tables cannot be joined."""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError
from lakeward.core.joined.declared import Joined
from lakeward.core.schema import Type


def wrong(joined: Joined, found: str, todo: str) -> ConfigError:
    """Return the error that a declaration does not fit its tables."""
    return ConfigError(f"{joined.name}: it cannot be joined like this", found=found, todo=todo)


def listed(names: Iterable[str]) -> str:
    """Return names as they stand in a sentence."""
    return ", ".join(names) or "nothing"


def type_in(table: Dimension, column: str) -> Type:
    """Return the type of a column that is known to be there."""
    return next(one.type for one in table.schema if one.name == column)
