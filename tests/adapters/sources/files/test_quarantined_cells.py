"""A line of JSON in quarantine shows the cells that its reader found in it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from plain_sources import entry_of, source_of

from lakeward.adapters.sources.files.source import FilesSource
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import RepairError
from lakeward.core.events import UNSET
from lakeward.core.ports import Cells, Entry
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.schema_changes.evolution import Policies

DOCS = {"id": "int", "body": "string", "size": "int"}
UNAVAILABLE = "__debezium_unavailable_value"


RENAMED = {"no": "int", "title": "string"}


def written(text: object, *given: Any, **settings: Any) -> Cells:
    source, dimension, entry = waiting(text, *given, **settings)
    return source.cells(dimension, entry)


def waiting(
    text: object,
    done: str = "update",
    columns: Mapping[str, str] = DOCS,
    renames: Mapping[str, str] | None = None,
    name: str = "1.json",
    **settings: Any,
) -> tuple[FilesSource, Dimension, Entry]:
    """Return a source with a row of it in quarantine."""
    source = source_of(Path("landing"), {"format": "debezium", **settings})
    schema = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in columns.items()))
    dimension = Dimension(
        name=TableName("public", "docs"),
        schema=schema,
        key=(next(iter(columns)),),
        policies=Policies(renames=renames or {}),
    )
    return source, dimension, entry_of(text if isinstance(text, str) else json.dumps(text), name, done)


@pytest.mark.parametrize(("written", "is_told"), [(5, True), (6, False)], ids=["before", "since"])
@pytest.mark.parametrize("is_headed", [True, False])
def test_the_header_of_a_rewritten_file_is_not_used(
    tmp_path: Path, written: int, is_told: bool, is_headed: bool
) -> None:
    """Its columns may stand in another order than those of the row."""
    source = source_of(tmp_path, {"header": is_headed})
    schema = Schema((Column("id", parse_type("int")), Column("v", parse_type("string"))))
    dimension = Dimension(name=TableName("shop", "item"), schema=schema, key=("id",))
    file = tmp_path / "shop" / "item" / "1.csv"
    file.parent.mkdir(parents=True)
    file.write_text("v,id\n1,x\n" if is_headed else "1,x\n", "utf-8")
    os.utime(file, (written, written))
    entry = entry_of("1,x", "1.csv", "read", row=2, since=5_500_000)
    cells = {"v": "1", "id": "x"} if is_headed else {"id": "1", "v": "x"}
    assert source.cells(dimension, entry).after == (cells if is_told or not is_headed else {})


def test_a_cell_that_was_not_logged_or_is_missing_in_an_update_was_not_sent() -> None:
    found = written({"op": "u", "before": None, "after": {"id": 1, "body": UNAVAILABLE}})
    assert found.after == {"id": "1", "body": UNSET, "size": UNSET}
    assert written({"op": "c", "after": {"id": 1}}, "insert").after == {"id": "1", "body": None, "size": None}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"n": 1, "a": [1.50, None, True, "é"]}, '{"a":[1.5,null,true,"é"],"n":1}'),
        (100.00, "100"),
        (12345678901234567890123, "12345678901234567890123"),
        (1e-07, "1.0E-7"),
        (True, "true"),
    ],
)
def test_json_in_a_text_is_what_its_reader_made_of_it(value: object, text: str) -> None:
    assert written({"op": "u", "after": {"id": 1, "body": value}}).after["body"] == text


def test_the_old_key_of_a_key_change_is_known() -> None:
    after = {"id": 2, "body": "b", "size": "x"}
    assert written({"op": "u", "before": {"id": 1}, "after": after}).before == {"id": "1"}
    for headers in (
        {"__debezium.oldkey": '{"id":1}'},
        [["__debezium.oldkey", '{"schema":{},"payload":{"id":1}}']],
        [{"key": "__debezium.oldkey", "value": '{"id":1}'}],
    ):
        record = {"key": {"id": 2}, "value": {"op": "c", "after": after}, "headers": headers}
        assert written(record, line="record").before == {"id": "1"}
    moved = {"data": {"id": 2, "body": "b", "BI_id": 1}, "metadata": {"operation": "update"}}
    found = written(moved, format="dms-json", before_image_prefix="BI_")
    assert (found.after, found.before) == ({"id": "2", "body": "b", "size": None}, {"id": "1"})


def test_a_column_has_the_name_of_now() -> None:
    """A row waited in quarantine while columns were renamed."""
    renames = {"id": "no", "name": "title"}
    row, named = {"id": 2, "name": "b"}, {"columns": RENAMED, "renames": renames}
    wanted = {"no": "2", "title": "b"}
    found = written({"op": "u", "before": {"id": 1, "name": "a"}, "after": row}, **named)
    assert (found.after, found.before) == (wanted, {"no": "1"})
    assert written({**row, "__op": "u"}, form="flattened", **named).after == wanted
    assert written(row, format="json", **named).after == wanted
    assert written({**row, "no": 3}, format="json", **named).after == {"no": "3", "title": "b"}
    moved = {"data": row, "before-image": {"id": 1}, "metadata": {"operation": "update"}}
    found = written(moved, format="dms-json", **named)
    assert (found.after, found.before) == (wanted, {"no": "1"})
    record = {"key": {"id": 2}, "value": {"op": "d", "before": {"id": 0}}}
    assert written(record, "delete", line="record", **named).after == {"no": "2", "title": None}
    record = {"key": {"id": 2}, "value": {"op": "u", "after": {"id": UNAVAILABLE, "name": "b"}}}
    assert written(record, line="record", **named).after == wanted
    headers = {"__debezium.oldkey": '{"id": 1}'}
    record = {"value": {"op": "c", "after": row}, "headers": headers}
    assert written(record, line="record", **named).before == {"no": "1"}


def test_a_column_that_has_the_old_name_again_keeps_its_value() -> None:
    columns = {"id": "int", "body": "string", "text": "string"}
    line = {"op": "u", "after": {"id": 1, "body": "new", "text": "old"}}
    found = written(line, columns=columns, renames={"body": "text"})
    assert found.after == {"id": "1", "body": "new", "text": "old"}


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ({"op": "u", "after": {"id": 1, "more": 5}}, {}),
        ({"id": 1, "more": 5, "__op": "u", "__lsn": 7}, {"form": "flattened"}),
        ({"data": {"id": 1, "more": 5, "BI_id": 1}}, {"format": "dms-json", "before_image_prefix": "BI_"}),
    ],
)
def test_a_value_that_no_column_takes_is_among_the_cells(line: object, settings: Mapping[str, Any]) -> None:
    """So that a row is not read anew without it; what a transform, or DMS, adds is no value of the row."""
    found = written(line, columns={"id": "int"}, **settings)
    assert found.after == {"id": "1", "more": "5"}


def test_a_column_may_be_called_as_those_of_an_image_before_are() -> None:
    columns = {"id": "int", "BI_tool": "string"}
    line = {"data": {"id": 1, "BI_tool": "x"}}
    found = written(line, columns=columns, format="dms-json", before_image_prefix="BI_")
    assert found.after == {"id": "1", "BI_tool": "x"}


PATH_TYPES = {"id": "int", "dt": "date"}


@pytest.mark.parametrize(
    ("line", "settings", "is_lost"),
    [
        ({"id": 1}, {"format": "json"}, True),
        ({"id": 1}, {"format": "json", "path_columns": ["dt"]}, False),
        ({"id": 1, "dt": None}, {"format": "json"}, False),
        ({"op": "u", "after": {"id": 1}}, {}, False),
    ],
)
def test_a_value_that_the_path_alone_has_is_not_left_out(
    line: object, settings: Mapping[str, Any], is_lost: bool
) -> None:
    source, dimension, entry = waiting(line, columns=PATH_TYPES, name="dt=2026-01-02/1.json", **settings)
    assert source.cells(dimension, entry).after["id"] == "1", "it can be fixed all the same"
    if not is_lost:
        assert source._cells_to_read_anew(dimension, entry) == source.cells(dimension, entry)
        return
    with pytest.raises(RepairError, match="cannot be read anew"):
        source._cells_to_read_anew(dimension, entry)


def test_a_delete_has_only_its_key() -> None:
    columns = {"id": "int", "source": "string"}
    line = {"op": "d", "after": None, "before": {"id": 1, "source": "web"}, "source": {"db": "x"}}
    assert written(line, "delete", columns).after == {"id": "1", "source": None}
    record = {"key": '{"id": 1}', "value": {**line, "before": {"id": 0}}}
    assert written(record, "delete", line="record").after["id"] == "1"


def test_columns_may_be_called_as_the_parts_of_a_message_are() -> None:
    columns = {"id": "int", "value": "int", "payload": "string", "data": "string", "after": "string"}
    row = {"id": 1, "value": 5, "payload": "p", "data": "d", "after": "a"}
    texts = {**row, "id": "1", "value": "5"}
    envelope = {"op": "u", "after": row}
    assert written(envelope, columns=columns).after == texts
    assert written({"schema": None, "payload": envelope}, columns=columns).after == texts
    assert written({"key": None, "value": json.dumps(envelope)}, columns=columns, line="record").after == texts
    assert written({**row, "__op": "u"}, columns=columns, form="flattened").after == texts
    assert written(row, columns=columns, format="json").after == texts


NO_OBJECTS = ("{broken", "0x7bff", "", "[]", "null", '{"id": 1, "body": "\\ud800"}', '{"id": 1, "id": 1}')


@pytest.mark.parametrize("format_", ["json", "debezium", "dms-json"])
@pytest.mark.parametrize(
    "line",
    [
        *NO_OBJECTS,
        '{"id": 1, "body": {"a": 1, "a": 2}}',
        '{"id": NaN}',
        '{"id": 1}}',
        *(f'{{"id": 1, "body": {"[" * depth}{"]" * depth}}}' for depth in (700, 100_000)),
    ],
    ids=lambda line: line[:40],
)
def test_a_line_that_spark_cannot_read_as_an_object_has_no_cells(format_: str, line: str) -> None:
    assert written(line, format=format_) == Cells()


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ('{"id": 1, "body": [-1e400]}', '["-Infinity"]'),
        ('{"id": 1, "body": "\\ud83d\\ude00"}', "\U0001f600"),
        ('{"id": 1, "body": ["\\u001f"]}', '["\\u001F"]'),
        *((f'{{"id": 1, "body": {number}}}', number) for number in ("1e400", "5e-324", "9" * 39)),
    ],
)
def test_a_value_is_shown_as_spark_has_it_unless_spark_rounds_it(line: str, body: str) -> None:
    assert written(line, format="json").after["body"] == body


def test_a_key_that_an_object_lacks_is_what_the_settings_say() -> None:
    assert written({"id": 1}, format="json").after["body"] is None
    assert written({"id": 1}, format="json", absent="unset").after["body"] is UNSET


def test_a_number_that_is_no_base64_has_a_point() -> None:
    columns = {"id": "int", "size": "decimal(20,0)"}
    after = {"id": 1, "size": 12345678}
    assert written({"op": "u", "after": after}, columns=columns).after["size"] == "12345678.0"
    assert written({"op": "u", "after": after}, columns=columns, decimals="string").after["size"] == "12345678"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ({"_cdc": {"op": "D"}}, "D"),
        ({"_cdc": '{"op": "D"}'}, "D"),
        ({"_cdc": {"op": "U"}, "_cdc.op": "D"}, "D"),
        ({"_cdc": {"op": {"code": "D"}}}, '{"code":"D"}'),
        ({"_cdc": {"OP": "D"}}, None),
        ({"_cdc": "D"}, None),
        ({}, None),
    ],
)
def test_the_word_for_the_operation_is_found_by_its_path(line: dict[str, Any], word: str | None) -> None:
    operation = {"column": "_cdc.op", "delete": ["D"]}
    assert written({"id": 1, **line}, format="json", operation=operation).operation == word


DOCUMENT = {"_id": "string", "n": "bigint", "at": "timestamp"}


def test_a_document_of_mongodb_has_its_fields_as_cells() -> None:
    """A field that a whole document lacks is NULL; what an update in part does not have was not sent."""
    source = {"db": "public", "collection": "docs", "ts_ms": 5000, "ord": 1}
    after = '{"_id": {"$oid": "67ab25755c0d5ac87eb8c632"}, "n": {"$numberLong": "5"}}'
    whole = {"op": "u", "after": after, "source": source}
    said = {"columns": DOCUMENT, "documents": "columns"}
    cells = {"_id": "67ab25755c0d5ac87eb8c632", "n": "5", "at": None}
    assert written(whole, **said).after == cells
    record = {"key": {"id": "5"}, "value": json.dumps(whole)}
    assert written(record, line="record", **said).after == cells
    part = {"op": "u", "after": None, "updateDescription": {"removedFields": ["at"]}, "source": source}
    found = written({"key": '{"id": "5"}', "value": part}, line="record", **said)
    assert found.after == {"_id": "5", "n": UNSET, "at": None}
    gone = {"key": '{"id": "5"}', "value": {"op": "d", "after": None, "source": source}}
    assert written(gone, "delete", line="record", **said).after == {"_id": "5", "n": None, "at": None}
    part["updateDescription"] = {"updatedFields": '{"n.a": 1}'}
    assert written({"key": '{"id": "5"}', "value": part}, line="record", **said) == Cells()
