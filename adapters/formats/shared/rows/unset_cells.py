"""Cells, and fields of nested cells, that an event did not send."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.events import UNSET, Cell


def quoted_paths(listed: Iterable[str] | None) -> set[str]:
    """Return the quoted paths of cells that were not sent, given as column names or as quoted paths of fields."""
    return {name if name.startswith("`") and "`.`" in name else quoted(name) for name in listed or ()}


def with_unset(value: Any, path: str, not_sent: Collection[str]) -> Cell:
    """Return a cell with UNSET in place of itself, or of fields within it, that were not sent.

    `not_sent` are paths whose names are quoted.
    """
    if path in not_sent:
        return UNSET
    if not isinstance(value, dict):
        return value
    return {name: with_unset(part, f"{path}.{quoted(name)}", not_sent) for name, part in value.items()}


def unset_paths(column: str, value: Cell) -> Iterable[str]:
    """Return what was not sent of a cell: the name of its column, or the quoted paths of fields within it."""
    return [column] if value is UNSET else _unset_fields(value, quoted(column))


def _unset_fields(value: Cell, path: str) -> Iterable[str]:
    """Yield the quoted paths of the fields within a value that were not sent."""
    if value is UNSET:
        yield path
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _unset_fields(part, f"{path}.{quoted(name)}")


def without_unset(value: Cell) -> Any:
    """Return a cell for Arrow: NULL in place of cells that were not sent."""
    if value is UNSET:
        return None
    if isinstance(value, dict):
        return {name: without_unset(part) for name, part in value.items()}
    return value
