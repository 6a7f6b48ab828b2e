"""Arrow columns with other types and names, batch by batch: what a table beside is written anew with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def refitted(values: pa.Array, type_: pa.DataType, names: Mapping[str, str]) -> pa.Array:
    """Return values of another type: fields of structs by name, NULL where there is none of it.

    `names` says what fields of the outermost struct are called now. A struct, list or map that is NULL stays so.
    """
    if values.offset:  # Arrow makes none of these anew from a slice
        values = pa.concat_arrays([values])
    if pa.types.is_struct(type_):
        has = [names.get(field.name, field.name) for field in values.type]
        parts: dict[str, Any] = dict(zip(has, values.flatten(), strict=True))
        made = [
            refitted(parts[field.name], field.type, {})
            if field.name in parts
            else pa.nulls(len(values), field.type)
            for field in type_
        ]
        return pa.StructArray.from_arrays(made, fields=list(type_), mask=values.is_null())
    if pa.types.is_list(type_):
        items = refitted(values.values, type_.value_type, {})
        return pa.ListArray.from_arrays(values.offsets, items, type=type_, mask=values.is_null())
    if pa.types.is_map(type_):
        keys, items = refitted(values.keys, type_.key_type, {}), refitted(values.items, type_.item_type, {})
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=type_, mask=values.is_null())
    return values.cast(type_)


def rewritten(
    batch: pa.RecordBatch, schema: pa.Schema, columns: Mapping[str, str], fields: Mapping[str, Mapping[str, str]]
) -> pa.RecordBatch:
    """Return a batch with the columns of a schema; `columns` has their old names, `fields` new ones within them."""
    made = [
        refitted(batch.column(columns.get(field.name, field.name)), field.type, fields.get(field.name, {}))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(made, schema=schema)
