"""The cells of quarantined JSON lines and messages, as the readers of files find them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakeward.adapters.sources.files.column_mapping import writings
from lakeward.adapters.sources.files.local.messages.debezium import is_tombstone
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.added_fields import is_added
from lakeward.adapters.sources.messages.connect_schema import columns_of
from lakeward.adapters.sources.messages.debezium import Debezium
from lakeward.adapters.sources.messages.json.extended_json import json_of
from lakeward.adapters.sources.messages.json.variant_values import (
    Number,
    Object,
    exact_text_in,
    image_of,
    number_text_in,
    object_in,
    object_of,
    text_in,
)
from lakeward.adapters.sources.messages.json.wire_format import Wire
from lakeward.adapters.sources.messages.message import OLD_KEY_HEADER, placeholders
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.core.events import UNSET, Operation
from lakeward.core.ports import Cells, Entry, Written
from lakeward.core.schema import Column

_INSERT: Final = "c"


def cells_of_line(table: TableFiles, entry: Entry) -> Cells:
    """Return the cells of a line by column; none if the line cannot be read."""
    try:
        return _cells(table, entry)
    except RecursionError:  # it is nested deeper than Python goes
        return Cells()


def _cells(table: TableFiles, entry: Entry) -> Cells:
    line = _in_usual_form(table, object_of(entry.text))
    match table.format_of(entry.object):
        case _ if line is None:
            return Cells()
        case "debezium":
            return _debezium_cells(table, entry, line)
        case "dms-json":
            return _dms_cells(table, entry, _body(table, line))
        case _:
            return Cells(_row_cells(table, line), operation=_operation_in(table, line))


def row_of_message(table: TableFiles, line: Object) -> Object | None:
    """Return the row after the change of a message, by column; None if there is none."""
    body = _body(table, _in_usual_form(table, line) or {}) or {}
    if table.options.format == "dms-json":
        return image_of(body.get("data"))
    return _images(table, body)[0]


def reading_of(table: TableFiles, entry: Entry) -> Reading:
    """Return how the cells of a line are read: by the schema in the message, if there is one."""
    line = object_of(entry.text) if table.options.format == "debezium" else None
    schema = None if line is None else (_body(table, line) or {}).get("schema")
    is_of_key = line is not None and table.options.reads_keys and is_tombstone(line.get("value"))
    if line is not None and is_of_key:
        schema = (object_in(line.get("key")) or {}).get("schema")
    columns = columns_of(json.dumps(schema), is_flat=is_of_key or table.options.form == "flattened")
    if columns is None:
        return table.reading
    renames = _renames(table)
    described = {renames.get(column.name, column.name): column for column in columns}
    return replace(table.reading, written=writings(table.options, table.dimension, table.patterns, described))


def _in_usual_form(table: TableFiles, line: Object | None) -> Object | None:
    """Return a line with the form of other connectors if its message is of MongoDB's; any other line unchanged."""
    decoder = table.decoder
    if line is None or not isinstance(decoder, Debezium) or decoder.documents is None:
        return line
    if table.options.line == "record" and "value" in line:
        value, key = text_in(line["value"]), text_in(line.get("key"))
        return {**line, "value": decoder.documents.envelope(value, key), "key": decoder.documents.key(key)}
    return object_of(decoder.documents.envelope(json_of(line)))


def _body(table: TableFiles, line: Object) -> Object | None:
    """Return the value of a message."""
    is_record = table.options.line == "record" and "value" in line
    return object_in(line["value"]) if is_record else line


def _inner(value: object) -> Object:
    """Return an object, or the `payload` in it if it is wrapped with a schema."""
    outer = object_in(value) or {}
    return object_in(outer.get("payload")) or outer


def _renames(table: TableFiles) -> Mapping[str, str]:
    """Return the present names of renamed columns, by old names that are no column of the table any more."""
    schema = table.dimension.schema
    return {old: new for old, new in table.dimension.policies.renames.items() if schema.find(old) is None}


def _with_present_names(table: TableFiles, row: Object) -> Object:
    """Return a row by present names; if it has both names of a column, the one with a value counts."""
    renames = _renames(table)
    row_now = {name: value for name, value in row.items() if name not in renames}
    for old, new in renames.items():
        if old in row and row_now.get(new) is None:
            row_now[new] = row[old]
    return row_now


# Rows, and messages.


def _row_cells(table: TableFiles, row: Object) -> Mapping[str, Written]:
    key, own = table.dimension.key, _with_present_names(table, row)
    after: dict[str, Written] = {}
    for column in table.dimension.schema:
        is_unset = column.name not in own and table.options.absent == "unset" and column.name not in key
        after[column.name] = UNSET if is_unset else _text_of(own.get(column.name), column, Wire.PLAIN)
    return after


def _operation_in(table: TableFiles, row: Object) -> str | None:
    """Return the word for the operation of a row; a column with the whole name takes precedence over a path."""
    if table.options.operation is None:
        return None
    name = table.options.operation.column
    if name in row:
        return text_in(row[name])
    root, *path = name.split(".")
    value = row.get(root)
    for part in path:
        value = (object_in(value) or {}).get(part)
    return text_in(value)


def _dms_cells(table: TableFiles, entry: Entry, message: Object | None) -> Cells:
    data = image_of((message or {}).get("data"))
    if message is None or data is None:
        return Cells()
    image, prefix = image_of(message.get("before-image")) or {}, table.options.before_image_prefix
    then = image if prefix is None else {**image, **_with_prefix(data, prefix)}
    own = _with_present_names(table, data)
    return Cells(
        _undeclared_values(table, own)
        | {c.name: _text_of(own.get(c.name), c, Wire.PLAIN) for c in table.dimension.schema},
        _old_key(table, entry, _with_present_names(table, then)),
    )


def _undeclared_values(table: TableFiles, row: Object) -> dict[str, Written]:
    """Return the values that no column of the table takes; a row with such values is not read again."""
    is_flat, prefix = table.options.form == "flattened", table.options.before_image_prefix
    others = (name for name in row if table.dimension.schema.find(name) is None)
    return {
        name: text_in(row[name])
        for name in others
        if not (is_flat and is_added(name)) and not (prefix is not None and name.startswith(prefix))
    }


def _with_prefix(data: Object, prefix: str) -> Object:
    return {
        name.removeprefix(prefix): value
        for name, value in data.items()
        if name.startswith(prefix) and value is not None
    }


def _debezium_cells(table: TableFiles, entry: Entry, line: Object) -> Cells:
    body, is_record = _body(table, line) or {}, table.options.line == "record"
    keys, headers = (line.get(part) if is_record else None for part in ("key", "headers"))
    images = _images(table, body)
    after = None if images[0] is None else _with_present_names(table, images[0])
    before, of_key = _with_present_names(table, images[1]), _with_present_names(table, _inner(keys))
    old_key = _with_present_names(table, _inner(_header(headers))) if _is_insert(table, body) else {}
    schema, key = table.dimension.schema, table.dimension.key
    if entry.operation == Operation.DELETE.value:
        image = after or {} if table.options.form == "flattened" else before
        last_cells = {**_without_null(image), **_without_null(of_key)}
        return Cells({name: text_in(last_cells.get(name)) if name in key else None for name in schema.names})
    if after is None:
        return Cells()
    written, words = reading_of(table, entry).written, placeholders(table.options.unavailable_value)
    cells: dict[str, Written] = {**_undeclared_values(table, after)}
    for column in schema:
        text = _text_of(after.get(column.name), column, written[column.name].wire)
        is_absent = column.name not in after and entry.operation == Operation.UPDATE.value
        if column.name not in key:
            cells[column.name] = UNSET if is_absent or text in words else text
        else:
            cells[column.name] = text_in(of_key.get(column.name)) if text in words else text
    then = old_key if table.options.form == "flattened" else {**_without_null(before), **_without_null(old_key)}
    return Cells(cells, _old_key(table, entry, then))


def _images(table: TableFiles, body: Object) -> tuple[Object | None, Object]:
    """Return the images of a row after and before its change; the first is None if there is none."""
    payload = body.get("payload")
    if table.options.form == "flattened":
        is_wrapped = "payload" in body and len(body) - ("schema" in body) == 1
        return object_in(payload) if is_wrapped else body, {}
    parts = _parts(body)
    return image_of(parts.get("after")), image_of(parts.get("before")) or {}


def _parts(body: Object) -> Object:
    """Return the parts of an envelope, which may be wrapped with a schema."""
    return {**body, **_without_null(image_of(body.get("payload")) or {})}


def _is_insert(table: TableFiles, body: Object) -> bool:
    """Return whether the operation of a message is an insert: only such a message can be half of a key change."""
    image, _ = _images(table, body)
    word = (image or {}).get("__op") if table.options.form == "flattened" else _parts(body).get("op")
    return text_in(word) == _INSERT


def _header(headers: object) -> object:
    """Return the header with the old key; headers are an object, a list of pairs, or a list of objects."""
    if isinstance(headers, list):
        pairs = [[h.get("key"), h.get("value")] if isinstance(h, dict) else h for h in headers]
        values = (h[1] for h in pairs if isinstance(h, list) and len(h) == 2 and h[0] == OLD_KEY_HEADER)
        return next(values, None)
    return (object_in(headers) or {}).get(OLD_KEY_HEADER)


def _old_key(table: TableFiles, entry: Entry, then: Object) -> Mapping[str, Written]:
    is_update = entry.operation == Operation.UPDATE.value
    written = reading_of(table, entry).written
    columns = [column for column in table.reading.key_columns if is_update and then.get(column.name) is not None]
    return {column.name: _text_of(then[column.name], column, written[column.name].wire) for column in columns}


def _without_null(object_: Object) -> Object:
    return {name: value for name, value in object_.items() if value is not None}


def _text_of(value: object, column: Column, wire: Wire) -> str | None:
    """Return the text of a value; a whole number gets a point if its digits would be read as base64."""
    match column.type.name:
        case "string" if wire is Wire.PLAIN:
            text = exact_text_in(value)
        case "int" | "bigint" | "decimal":
            text = exact_text_in(value)
        case "float" | "double":
            text = number_text_in(value)
        case _:
            text = text_in(value)
    is_digits = text is not None and isinstance(value, Number) and text.removeprefix("-").isdecimal()
    is_base64 = wire is Wire.UNSCALED and column.type.name == "decimal"
    return f"{text}.0" if is_digits and is_base64 else text


def group_by_reading(table: TableFiles, entries: Sequence[Entry]) -> Sequence[tuple[Reading, Sequence[Entry]]]:
    """Return rows grouped by how their cells are read."""
    groups: list[tuple[Reading, list[Entry]]] = []
    for entry in entries:
        reading = reading_of(table, entry)
        same = next((some for one, some in groups if one.written == reading.written), None)
        if same is None:
            groups.append((reading, [entry]))
        else:
            same.append(entry)
    return groups
