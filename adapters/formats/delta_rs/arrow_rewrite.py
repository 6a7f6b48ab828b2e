"""Convert Arrow columns to other types and names, batch by batch, when a side table is rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def convert_array(values: pa.Array, type_: pa.DataType, names: Mapping[str, str]) -> pa.Array:
    """Return values in another type: struct fields by name, NULL for missing ones.

    `names` are new names of fields of the outermost struct. A struct, list or map that is NULL stays NULL.
    """
    if values.offset:  # Arrow cannot rebuild nested arrays from a slice
        values = pa.concat_arrays([values])
    if pa.types.is_struct(type_):
        names_now = [names.get(field.name, field.name) for field in values.type]
        parts: dict[str, Any] = dict(zip(names_now, values.flatten(), strict=True))
        arrays = [
            convert_array(parts[field.name], field.type, {})
            if field.name in parts
            else pa.nulls(len(values), field.type)
            for field in type_
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(type_), mask=values.is_null())
    if pa.types.is_list(type_):
        items = convert_array(values.values, type_.value_type, {})
        return pa.ListArray.from_arrays(values.offsets, items, type=type_, mask=values.is_null())
    if pa.types.is_map(type_):
        keys, items = (
            convert_array(values.keys, type_.key_type, {}),
            convert_array(values.items, type_.item_type, {}),
        )
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=type_, mask=values.is_null())
    return values.cast(type_)


def convert_batch(
    batch: pa.RecordBatch, schema: pa.Schema, columns: Mapping[str, str], fields: Mapping[str, Mapping[str, str]]
) -> pa.RecordBatch:
    """Return a batch with the columns of a schema; `columns` are their old names, `fields` new names inside."""
    arrays = [
        convert_array(batch.column(columns.get(field.name, field.name)), field.type, fields.get(field.name, {}))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
