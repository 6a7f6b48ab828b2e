"""Changes of a Delta table's schema in the JSON of its log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from lakeward.adapters.formats.delta.metadata.column_mapping import MODE
from lakeward.adapters.formats.delta_rs.columns import field_of, type_json
from lakeward.core.schema import Column
from lakeward.core.schema_changes.evolution import Kind, SchemaChange

WIDENING: Final = {"delta.enableTypeWidening": "true"}
MAPPING: Final = {MODE: "name"}
"""The properties that allow wider types and new names of columns without rewriting files."""

_UNMAPPED: Final = re.compile(r"[ ,;{}()\n\t=]")

_WITHIN: Final = {"element": "elementType", "key": "keyType", "value": "valueType"}


def properties_for(changes: Sequence[SchemaChange]) -> dict[str, str]:
    """Return the properties that a table needs before its columns change so."""
    kinds = {change.kind for change in changes}
    added = [Column(change.names[-1], change.after) for change in changes if change.after is not None]
    is_mapped = Kind.RENAME in kinds or needs_mapping(added)
    return {**(WIDENING if Kind.WIDEN in kinds else {}), **(MAPPING if is_mapped else {})}


def needs_mapping(columns: Iterable[Column]) -> bool:
    """Return whether a column or nested field has a name that Delta allows only with column mapping."""
    return any(_UNMAPPED.search(column.name) or needs_mapping(column.type.parts) for column in columns)


def name_after(name: str, changes: Sequence[SchemaChange]) -> str:
    """Return the name of a column after these changes."""
    return next((change.to for change in changes if change.path == name and change.to is not None), name)


def with_changes(schema: str, changes: Sequence[SchemaChange]) -> str:
    """Return a schema (JSON) with these changes; renames come first, so that the others use the new names."""
    root: dict[str, Any] = json.loads(schema)
    for field in root["fields"]:
        field["name"] = name_after(field["name"], changes)
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
            _widen(within, name, type_json(change.after))
    return json.dumps(root)


def _field(type_: dict[str, Any], name: str) -> dict[str, Any]:
    field_: dict[str, Any] = next(field for field in type_["fields"] if field["name"] == name)
    return field_


def _part(type_: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the type of a struct's field, or of the elements of a list or map."""
    part: dict[str, Any] = _field(type_, name)["type"] if type_["type"] == "struct" else type_[_WITHIN[name]]
    return part


def _widen(type_: dict[str, Any], name: str, wider: Any) -> None:
    if type_["type"] == "struct":
        _field(type_, name)["type"] = wider
    else:
        type_[_WITHIN[name]] = wider
