"""Which rows show a change of the columns: those go into quarantine where its policy is `quarantine`.

A row that has no value there is as it would be without the change, and goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.core.events import UNSET
from lakeward.core.schema import Schema, Type
from lakeward.core.schema_changes.evolution import Kind, SchemaChange


def shows(change: SchemaChange, cells: Mapping[str, Any], incoming: Schema) -> bool:
    """Whether a row that leaves values shows a change; `incoming` are the columns of its object.

    It has a value in the column or field that is new or of another type; where one is missing,
    it has the value that lacks it.
    """
    names = change.names[:-1] if change.kind is Kind.DROP else change.names
    if not names:
        return True
    column = incoming.find(names[0])
    return column is not None and _has(cells.get(names[0]), column.type, names[1:])


def _has(value: Any, type_: Type, names: Sequence[str]) -> bool:
    if value is None or value is UNSET:
        return False
    if not names:
        return True
    part = next(part.type for part in type_.parts if part.name == names[0])
    match type_.name:
        case "list":
            return any(_has(item, part, names[1:]) for item in value)
        case "map":
            return any(_has(item, part, names[1:]) for item in value.values())
        case _:
            return _has(value.get(names[0]), part, names[1:])


def without(changes: Sequence[SchemaChange], cells: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the cells of a row that shows none of these changes, as if they were not there."""
    new = {change.path for change in changes if change.kind is Kind.ADD}
    return {name: value for name, value in cells.items() if name not in new}
