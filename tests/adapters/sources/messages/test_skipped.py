"""Messages that are no rows of the table: known ones are passed over and counted, and any other is found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from plain_sources import source_of
from pyspark.sql import SparkSession

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import LakewardError
from lakeward.core.events import Operation, Sequences
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.schema import Column, Schema, parse_type

ITEM = Dimension(
    name=TableName("shop", "item"),
    schema=Schema((Column("id", parse_type("int")), Column("note", parse_type("string")))),
    key=("id",),
    sequences=Sequences.PLACES,
)


def read(spark: SparkSession | None, folder: Path, files: Sequence[Sequence[Any]], **options: Any) -> BatchFacts:
    """Read files of lines in the table's own folder, by Spark or in plain Python."""
    place = folder / "shop" / "item"
    place.mkdir(parents=True)
    for number, lines in enumerate(files):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (place / f"t+0+000000000{number}.json").write_bytes(("\n".join(texts) + "\n").encode())
    source = source_of(folder, {"format": "debezium", **options}, spark)
    batch = source.read(ITEM, source.select_objects(ITEM, ObjectHistory()), 1)
    batch.close()
    return batch.facts


def row(key: int, **source: str) -> Mapping[str, Any]:
    block = {"schema": "shop", "table": "item", "lsn": key, **source}
    return {"op": "c", "before": None, "after": {"id": key, "note": "a"}, "source": block}


def test_a_message_without_an_operation_is_skipped_only_if_it_is_known(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    known = [
        {"ts_ms": 5},
        {"schema": {"type": "struct"}, "payload": {"ts_ms": 5}},
        {"status": "BEGIN", "id": "7", "event_count": None, "data_collections": None, "ts_ms": 5},
        {"source": {"db": "shop"}, "databaseName": "shop", "ddl": "ALTER TABLE item", "tableChanges": []},
        {"op": "m", "source": {"lsn": 5}, "message": {"prefix": "p", "content": "YQ=="}},
        row(2, table="other"),
        "null",
        "null\r",
        "\r",
    ]
    unknown = [
        {"id": 3, "note": "flattened", "__op": "c"},
        {"ts_ms": 5, "id": 4},
        {"id": 5, "status": "new"},
        {"id": 6, "ddl": "CREATE TABLE item", "databaseName": "shop"},
    ]
    lines = [json.dumps(row(1)) + "\r", *known, *unknown]
    found = read(engine, tmp_path, [lines])
    assert found.operations == {Operation.INSERT: 1}
    assert (found.skipped, found.rejects) == (len(known), {Reason.UNREADABLE: len(unknown)})


def test_flattened_messages_of_no_table_are_no_rows(engine: SparkSession | None, tmp_path: Path) -> None:
    """They tell no operation, and have no more fields than such messages have."""
    fields = {"__op": "c", "__lsn": 1, "__source_ts_ms": 5}
    own = {"id": 1, "note": "a", **fields}
    none = [
        {"status": "END", "id": "7", "event_count": 1, "data_collections": [], "ts_ms": 5},
        {"payload": {"ts_ms": 5}},
        {"source": {"db": "shop"}, "databaseName": "shop", "ddl": "ALTER TABLE item", "tableChanges": []},
    ]
    found = read(engine, tmp_path, [[own, *none]], form="flattened")
    assert (found.operations, found.skipped, found.rejects) == ({Operation.INSERT: 1}, len(none), {})


def test_a_column_whose_name_begins_as_those_of_a_transform_is_a_column(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    """`__v` is of Mongoose. Declared or in a schema it is read, else it stops the table."""
    row = {"id": 1, "note": "a", "__v": 4, "__op": "c", "__lsn": 1, "__source_ts_ms": 5, "__transaction_id": "7"}
    with pytest.raises(LakewardError) as raised:
        read(engine, tmp_path / "undeclared", [[row]], form="flattened")
    assert "__v" in str(raised.value.found)
    kinds = {"id": "int32", "__v": "int32", "__lsn": "int64", "__source_ts_ms": "int64"}
    fields = [{"field": name, "type": kinds.get(name, "string"), "optional": True} for name in row]
    line = {"schema": {"type": "struct", "fields": fields}, "payload": row}
    found = read(engine, tmp_path, [[line]], form="flattened", types="schema")
    assert list(found.schema.names) == ["id", "note", "__v"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ([{"id": 1, "note": "a", "__op": "c"}], {}, "has no operation, as one that was flattened"),
        ([row(1, schema="public"), {"ts_ms": 5}], {}, "t+0+0000000001.json has messages of other tables alone"),
        (
            [{"key": {"id": 1}, "topic": "cdc.orders", "value": {"id": 1, "note": "a", "__op": "c", "__lsn": 1}}],
            {"line": "record", "form": "flattened"},
            "t+0+0000000001.json has messages of other tables alone",
        ),
    ],
)
def test_a_file_without_a_row_of_the_table_stops_it(
    spark: SparkSession, tmp_path: Path, lines: Sequence[Any], options: Mapping[str, str], said: str
) -> None:
    own = {"id": 1, "note": "a", "__op": "c", "__lsn": 1} if "form" in options else row(1)
    with pytest.raises(LakewardError) as raised:
        read(spark, tmp_path, [[own], lines], **options)
    assert said in f"{raised.value} {raised.value.found}"


def test_skipped_tombstones_are_reported_if_no_message_is_a_delete(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    """ExtractNewRecordState makes tombstones of deletes by default; empty lines are none."""
    kept = {"id": 1, "note": "a", "__op": "c", "__deleted": "false", "__lsn": 1, "__source_ts_ms": 5}
    gone = {"id": 2, "__op": "d", "__deleted": "true", "__lsn": 2, "__source_ts_ms": 6}
    read_alone = {"id": 1, "note": "a", "__op": "r", "__lsn": 1}
    changes_alone = {name: value for name, value in kept.items() if name != "__deleted"}
    dropped = [{**changes_alone, "id": key} for key in (1, 2)]
    feeds = {
        "tombstones": [kept, "null", "null"],
        "empty": [kept, "", ""],
        "rewrite": [kept, gone, "null"],
        "snapshot": [read_alone],
        "drop": [*dropped, read_alone, {**kept, "__table": "other"}],
        "told": [*dropped, {"id": 2, "__op": "d", "__lsn": 2, "__source_ts_ms": 6}],
    }
    cautions = {
        name: read(engine, tmp_path / name, [lines], form="flattened").cautions for name, lines in feeds.items()
    }
    assert [*cautions.pop("tombstones").values()] == [2]
    [(words, changes)] = cautions.pop("drop").items()
    assert ("`__deleted`" in words, changes) == (True, 2)
    assert cautions == {"empty": {}, "rewrite": {}, "snapshot": {}, "told": {}}


def test_updates_that_may_leave_an_old_key_are_reported(engine: SparkSession | None, tmp_path: Path) -> None:
    """Messages have the key of their source, and an update may change what is the key of this table."""

    def update(key: Mapping[str, Any] | None, before: Mapping[str, Any] | None, lsn: int = 1) -> Mapping[str, Any]:
        return {"key": key, "value": {**row(lsn), "op": "u", "before": before}}

    feeds = {
        "another": [update({"uuid": "a"}, None), update({"uuid": "a"}, {"uuid": "a"}, 2)],
        "own": [update({"id": 1}, None)],
        "in the image": [update({"uuid": "a"}, {"id": 1})],
        "none": [update(None, None)],
        "inserts": [{"key": {"uuid": "a"}, "value": row(1)}],
    }
    cautions = {
        name: sum(
            count
            for words, count in read(engine, tmp_path / name, [lines], line="record").cautions.items()
            if "REPLICA IDENTITY FULL" in words
        )
        for name, lines in feeds.items()
    }
    assert cautions == {"another": 2, "own": 0, "in the image": 0, "none": 0, "inserts": 0}


def test_another_word_than_true_or_false_for_a_deleted_row_is_refused(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    """Such a row would be left with NULL in its columns."""
    words = ["true", True, "TRUE", "false", False, None, "1", 1, "yes"]
    lines = [{"id": key, "__op": "u", "__deleted": word, "__lsn": key + 1} for key, word in enumerate(words)]
    found = read(engine, tmp_path, [lines], form="flattened")
    assert found.operations == {Operation.DELETE: 3, Operation.UPDATE: 3}
    assert found.rejects == {Reason.OPERATION: 3}
