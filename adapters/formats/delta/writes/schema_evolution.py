"""How the schema of a Delta table changes with a commit, in the form that its log has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from lakeward.adapters.formats.delta_rs.columns import field_of, written
from lakeward.core.schema import Column
from lakeward.core.schema_changes.evolution import Kind, SchemaChange

WIDENING: Final = {"delta.enableTypeWidening": "true"}
MAPPING: Final = {"delta.columnMapping.mode": "name"}
"""The properties that let a table have wider types, and other names, over files that stay as they are."""

_UNMAPPED: Final = re.compile(r"[ ,;{}()\n\t=]")

_WITHIN: Final = {"element": "elementType", "key": "keyType", "value": "valueType"}


def properties_for(changes: Sequence[SchemaChange]) -> dict[str, str]:
    """Return the properties that a table must have before its columns change so."""
    kinds = {change.kind for change in changes}
    added = [Column(change.names[-1], change.after) for change in changes if change.after is not None]
    is_mapped = Kind.RENAME in kinds or needs_mapping(added)
    return {**(WIDENING if Kind.WIDEN in kinds else {}), **(MAPPING if is_mapped else {})}


def needs_mapping(columns: Iterable[Column]) -> bool:
    """Whether some column, or a field within one, has a name that Delta has only where columns are mapped."""
    return any(_UNMAPPED.search(column.name) or needs_mapping(column.type.parts) for column in columns)


def renamed(name: str, changes: Sequence[SchemaChange]) -> str:
    """Return what a column is called after these changes."""
    return next((change.to for change in changes if change.path == name and change.to is not None), name)


def with_changes(schema: str, changes: Sequence[SchemaChange]) -> str:
    """Return a schema, as JSON, with these changes; renames first, so that all else goes by the new names."""
    root: dict[str, Any] = json.loads(schema)
    for field in root["fields"]:
        field["name"] = renamed(field["name"], changes)
    for change in changes:
        if change.after is None or change.kind is Kind.RENAME:
            continue
        *parents, name = change.names
        within = root
        for parent in parents:
            within = _part(within, parent)
        if change.kind is Kind.ADD:
            within["fields"].append(field_of(name, change.after))
        else:
            _widen(within, name, written(change.after))
    return json.dumps(root)


def _field(type_: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(field for field in type_["fields"] if field["name"] == name)
    return found


def _part(type_: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the type of a field of a struct, or of what is in a list or map."""
    part: dict[str, Any] = _field(type_, name)["type"] if type_["type"] == "struct" else type_[_WITHIN[name]]
    return part


def _widen(type_: dict[str, Any], name: str, wider: Any) -> None:
    if type_["type"] == "struct":
        _field(type_, name)["type"] = wider
    else:
        type_[_WITHIN[name]] = wider
