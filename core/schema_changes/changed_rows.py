"""Find the rows that show a change of the columns: these go into quarantine where the policy is `quarantine`.

A row without a value there is as it would be without the change, and is applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.core.events import UNSET
from lakeward.core.schema import Schema, Type
from lakeward.core.schema_changes.evolution import Kind, SchemaChange


def shows_change(change: SchemaChange, cells: Mapping[str, Any], incoming: Schema) -> bool:
    """Return True if a row shows a change; `incoming` are the columns of its object.

    A row shows a new or retyped column or field by a value in it. It shows a missing field by a value of the column
    that lacks the field.
    """
    names = change.names[:-1] if change.kind is Kind.DROP else change.names
    if not names:
        return True
    column = incoming.find(names[0])
    return column is not None and _has_value(cells.get(names[0]), column.type, names[1:])


def _has_value(value: Any, type_: Type, names: Sequence[str]) -> bool:
    if value is None or value is UNSET:
        return False
    if not names:
        return True
    part = next(part.type for part in type_.parts if part.name == names[0])
    match type_.name:
        case "list":
            return any(_has_value(item, part, names[1:]) for item in value)
        case "map":
            return any(_has_value(item, part, names[1:]) for item in value.values())
        case _:
            return _has_value(value.get(names[0]), part, names[1:])


def without_added(changes: Sequence[SchemaChange], cells: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the cells of a row that shows none of these changes, without the added columns."""
    added = {change.path for change in changes if change.kind is Kind.ADD}
    return {name: value for name, value in cells.items() if name not in added}
