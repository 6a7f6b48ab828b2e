"""Errors for options of tables that every format refuses."""

from __future__ import annotations

import difflib

from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError


def unknown_column(dimension: Dimension, option: str, name: str, todo: str | None = None) -> ConfigError:
    """Return the error for an option that names an unknown column. `todo` is for names that resemble no column."""
    similar = difflib.get_close_matches(name, dimension.schema.names, n=1)
    return ConfigError(
        f"{dimension.name}: {name!r} under {option} names no column",
        found="the columns are " + ", ".join(dimension.schema.names),
        todo=f"Did you mean {similar[0]!r}?" if similar else todo,
    )


def reserved_property(dimension: Dimension, name: str, todo: str) -> ConfigError:
    """Return the error for a property that lakeward or the format decides."""
    return ConfigError(f"{dimension.name}: {name} is not for `properties` to say", todo=todo)
