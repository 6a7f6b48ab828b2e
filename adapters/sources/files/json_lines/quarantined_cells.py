"""A line of JSON in quarantine, taken apart into cells as the readers of files take it apart."""

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
    """Return the cells of a line by columns of its table; none where they cannot be told apart."""
    try:
        return _cells(table, entry)
    except RecursionError:  # it is nested deeper than Python goes
        return Cells()


def _cells(table: TableFiles, entry: Entry) -> Cells:
    found = _rewritten(table, object_of(entry.text))
    match table.format_of(entry.object):
        case _ if found is None:
            return Cells()
        case "debezium":
            return _of_debezium(table, entry, found)
        case "dms-json":
            return _of_dms(table, entry, _body(table, found))
        case _:
            return Cells(_of_row(table, found), operation=_operation_in(table, found))


def row_of_message(table: TableFiles, line: Object) -> Object | None:
    """Return the row that a message leaves, column by column; None where it leaves none."""
    body = _body(table, _rewritten(table, line) or {}) or {}
    if table.options.format == "dms-json":
        return image_of(body.get("data"))
    return _images(table, body)[0]


def reading_of(table: TableFiles, entry: Entry) -> Reading:
    """Return how the cells of a line are read: as the schema in it says, where one stands beside a message."""
    found = object_of(entry.text) if table.options.format == "debezium" else None
    schema = None if found is None else (_body(table, found) or {}).get("schema")
    is_of_key = found is not None and table.options.reads_keys and is_tombstone(found.get("value"))
    if found is not None and is_of_key:
        schema = (object_in(found.get("key")) or {}).get("schema")
    columns = columns_of(json.dumps(schema), is_flat=is_of_key or table.options.form == "flattened")
    if columns is None:
        return table.reading
    renames = _new_names(table)
    described = {renames.get(column.name, column.name): column for column in columns}
    return replace(table.reading, written=writings(table.options, table.dimension, table.patterns, described))


def _rewritten(table: TableFiles, line: Object | None) -> Object | None:
    """Return a line whose message is one of MongoDB's connector as others write theirs, and any other as it is."""
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
    """Return an object, or the payload that a schema stands beside."""
    found = object_in(value) or {}
    return object_in(found.get("payload")) or found


def _new_names(table: TableFiles) -> Mapping[str, str]:
    """Return what columns are called now that the table has no more under their old names."""
    schema = table.dimension.schema
    return {old: new for old, new in table.dimension.policies.renames.items() if schema.find(old) is None}


def _called_now(table: TableFiles, row: Object) -> Object:
    """Return a row under the names of now; where both are there, the one with a value counts."""
    renames = _new_names(table)
    found = {name: value for name, value in row.items() if name not in renames}
    for old, new in renames.items():
        if old in row and found.get(new) is None:
            found[new] = row[old]
    return found


# Rows, and messages.


def _of_row(table: TableFiles, row: Object) -> Mapping[str, Written]:
    key, own = table.dimension.key, _called_now(table, row)
    after: dict[str, Written] = {}
    for column in table.dimension.schema:
        is_unset = column.name not in own and table.options.absent == "unset" and column.name not in key
        after[column.name] = UNSET if is_unset else _text_of(own.get(column.name), column, Wire.PLAIN)
    return after


def _operation_in(table: TableFiles, row: Object) -> str | None:
    """Return the word for the operation of a row; a column of the whole name comes before a path of that name."""
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


def _of_dms(table: TableFiles, entry: Entry, message: Object | None) -> Cells:
    data = image_of((message or {}).get("data"))
    if message is None or data is None:
        return Cells()
    image, prefix = image_of(message.get("before-image")) or {}, table.options.before_image_prefix
    then = image if prefix is None else {**image, **_named(data, prefix)}
    own = _called_now(table, data)
    return Cells(
        _strange(table, own)
        | {c.name: _text_of(own.get(c.name), c, Wire.PLAIN) for c in table.dimension.schema},
        _old_key(table, entry, _called_now(table, then)),
    )


def _strange(table: TableFiles, row: Object) -> dict[str, Written]:
    """Return the values that no column of the table takes: without them a row is not read anew."""
    is_flat, prefix = table.options.form == "flattened", table.options.before_image_prefix
    others = (name for name in row if table.dimension.schema.find(name) is None)
    return {
        name: text_in(row[name])
        for name in others
        if not (is_flat and is_added(name)) and not (prefix is not None and name.startswith(prefix))
    }


def _named(data: Object, prefix: str) -> Object:
    return {
        name.removeprefix(prefix): value
        for name, value in data.items()
        if name.startswith(prefix) and value is not None
    }


def _of_debezium(table: TableFiles, entry: Entry, line: Object) -> Cells:
    body, is_record = _body(table, line) or {}, table.options.line == "record"
    keys, headers = (line.get(part) if is_record else None for part in ("key", "headers"))
    images = _images(table, body)
    after = None if images[0] is None else _called_now(table, images[0])
    before, of_key = _called_now(table, images[1]), _called_now(table, _inner(keys))
    left = _called_now(table, _inner(_header(headers))) if _is_insert(table, body) else {}
    schema, key = table.dimension.schema, table.dimension.key
    if entry.operation == Operation.DELETE.value:
        image = after or {} if table.options.form == "flattened" else before
        known = {**_without_null(image), **_without_null(of_key)}
        return Cells({name: text_in(known.get(name)) if name in key else None for name in schema.names})
    if after is None:
        return Cells()
    written, words = reading_of(table, entry).written, placeholders(table.options.unavailable_value)
    cells: dict[str, Written] = {**_strange(table, after)}
    for column in schema:
        text = _text_of(after.get(column.name), column, written[column.name].wire)
        is_absent = column.name not in after and entry.operation == Operation.UPDATE.value
        if column.name not in key:
            cells[column.name] = UNSET if is_absent or text in words else text
        else:
            cells[column.name] = text_in(of_key.get(column.name)) if text in words else text
    then = left if table.options.form == "flattened" else {**_without_null(before), **_without_null(left)}
    return Cells(cells, _old_key(table, entry, then))


def _images(table: TableFiles, body: Object) -> tuple[Object | None, Object]:
    """Return the images of a row after and before its change; None where there is none after."""
    payload = body.get("payload")
    if table.options.form == "flattened":
        is_wrapped = "payload" in body and len(body) - ("schema" in body) == 1
        return object_in(payload) if is_wrapped else body, {}
    parts = _parts(body)
    return image_of(parts.get("after")), image_of(parts.get("before")) or {}


def _parts(body: Object) -> Object:
    """Return the parts of an envelope, which a schema may stand beside."""
    return {**body, **_without_null(image_of(body.get("payload")) or {})}


def _is_insert(table: TableFiles, body: Object) -> bool:
    """Whether a message says that it inserts: that of such a one alone may be half of a key change."""
    image, _ = _images(table, body)
    said = (image or {}).get("__op") if table.options.form == "flattened" else _parts(body).get("op")
    return text_in(said) == _INSERT


def _header(headers: object) -> object:
    """Return the header with the old key: headers are an object, or a list of pairs or of objects."""
    if isinstance(headers, list):
        pairs = [[h.get("key"), h.get("value")] if isinstance(h, dict) else h for h in headers]
        found = (h[1] for h in pairs if isinstance(h, list) and len(h) == 2 and h[0] == OLD_KEY_HEADER)
        return next(found, None)
    return (object_in(headers) or {}).get(OLD_KEY_HEADER)


def _old_key(table: TableFiles, entry: Entry, then: Object) -> Mapping[str, Written]:
    is_update = entry.operation == Operation.UPDATE.value
    written = reading_of(table, entry).written
    columns = [column for column in table.reading.key_columns if is_update and then.get(column.name) is not None]
    return {column.name: _text_of(then[column.name], column, written[column.name].wire) for column in columns}


def _without_null(found: Object) -> Object:
    return {name: value for name, value in found.items() if value is not None}


def _text_of(value: object, column: Column, wire: Wire) -> str | None:
    """Return the text of a value; that of a number has a point where a text of digits would be base64."""
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


def grouped(table: TableFiles, entries: Sequence[Entry]) -> Sequence[tuple[Reading, Sequence[Entry]]]:
    """Return rows with how their cells are read, each way once."""
    groups: list[tuple[Reading, list[Entry]]] = []
    for entry in entries:
        reading = reading_of(table, entry)
        same = next((some for one, some in groups if one.written == reading.written), None)
        if same is None:
            groups.append((reading, [entry]))
        else:
            same.append(entry)
    return groups
