"""Messages with schemas, of many tables in one folder: what has none of the table does not stand still."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from plain_sources import source_of
from pyspark.sql import SparkSession

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Operation, Sequences
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.schema import Column, Schema, parse_type

RARE = Dimension(name=TableName("shop", "rare"), schema=Schema(()), key=("id",), sequences=Sequences.PLACES)


def message(table: str, *columns: tuple[str, str]) -> str:
    fields = [{"field": name, "type": type_} for name, type_ in columns]
    after = {name: 7 if type_ == "int64" else "x" for name, type_ in columns}
    value = {"after": after, "op": "c", "source": {"schema": "shop", "table": table, "lsn": 1}}
    return json.dumps({"schema": {"fields": [{"field": "after", "fields": fields}]}, "payload": value}) + "\n"


def test_files_without_a_message_of_the_table_are_passed_over(engine: SparkSession | None, tmp_path: Path) -> None:
    """A table that is there has its columns from itself, and one that is not yet from the first message of it."""
    for number, table in enumerate(("often", "often", "often", "rare", "often")):
        line = message(table, ("id", "int64"), ("note", "string"))
        (tmp_path / f"t+0+000000000{number}.json").write_text(line, "utf-8")
    source = source_of(tmp_path, {"folder": "", "format": "debezium", "types": "schema", "max_files": 2}, engine)
    selection = source.select_objects(RARE, ObjectHistory())
    assert (len(selection.objects), selection.files_left) == (2, 3)

    new = source.read(RARE, selection, 1)
    assert len(new.facts.objects) == 4, "up to the first that tells columns, by as many as a batch may have"
    assert new.facts.operations == {Operation.INSERT: 1}
    assert [(c.name, str(c.type)) for c in new.facts.schema] == [("id", "bigint"), ("note", "string")]
    new.close()

    columns = Schema(tuple(Column(name, parse_type(text)) for name, text in (("id", "int"), ("more", "string"))))
    declared = replace(RARE, schema=Schema((Column("id", parse_type("bigint")),)))
    there = source.read(declared, replace(selection, columns=columns), 1)
    assert len(there.facts.objects) == 2
    assert there.facts.operations == {}
    assert [(c.name, str(c.type)) for c in there.facts.schema] == [("id", "bigint"), ("more", "string")]
    there.close()
