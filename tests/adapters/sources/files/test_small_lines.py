"""Lines of a small batch become here the event frames that Spark makes of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from both_readers import Feed
from frames import labelled_rows
from line_feeds import IN_THE_GATE, LONG, odd_feeds, real_feeds
from plain_sources import source_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from structlog.testing import capture_logs

from lakeward.adapters.sources.files.event_frame import ODD, frame_of
from lakeward.adapters.sources.files.file_columns import File, with_schema
from lakeward.adapters.sources.files.json_lines.frames import UNDECLARED
from lakeward.adapters.sources.files.json_lines.message_warnings import NO_PLACE
from lakeward.adapters.sources.files.json_lines.other_tables import HAS_OTHER
from lakeward.adapters.sources.files.local.json_lines import SmallLines
from lakeward.adapters.sources.files.local.line_reader import read_lines_of, read_rows
from lakeward.adapters.sources.files.local.message_columns.message_form import Lines
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.decoded import OTHER_TABLE, ROWS_GONE
from lakeward.adapters.spark.frames import local_source_rows
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.adapters.spark.session.compatibility import line as line_of_spark
from lakeward.adapters.spark.sql import names
from lakeward.core.checks.log_restart import find_restarts
from lakeward.core.checks.log_steps import LogReached
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SchemaConflict, SourceError
from lakeward.core.events import Sequences
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.ports import Batch
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.schema_changes.evolution import Policies, Policy

ITEM: Final = TableName("shop", "item")
ON_LINE_3_5: Final = ("envelope with images", "dms with a prefix")
"""Feeds that the gate reads where Python takes lines apart within Spark."""


@dataclass(frozen=True)
class Read:
    """A feed as it is read here, with its table and files as Spark is to read them."""

    table: TableFiles
    files: Sequence[File]
    here: LocalFrame


def readable(feed: Feed) -> Feed:
    """Return a feed of the lines that plain Python reads, each by itself."""
    if not feed.is_apart:
        return feed
    every = read_lines_of(feed.table, feed.names)
    lines = [line for line in every if is_readable(feed.table, line)]
    assert len(lines) > (2 if LONG else 1) * (len(every) - len(lines)), "plain Python reads most lines"
    for name in feed.names:
        Path(feed.table.path_of(name)).write_text("".join(f"{line.text}\n" for line in lines), "utf-8", newline="")
    return feed


def is_readable(table: TableFiles, line: object) -> bool:
    try:
        read_rows(table, [line], {})  # type: ignore[list-item]
    except SparkNeeded:
        return False
    return True


def read(feed: Feed, spark: SparkSession) -> Read:
    items = [SourceObject(name, order, 1, 0) for order, name in enumerate(feed.names, 1)]
    lines, files = SmallLines(20_000), [File(item, feed.table.format_of(item.name)) for item in items]
    files = [*lines.with_versions(feed.table, files, Lines())]
    assert lines.spark_error is None
    table = replace(feed.table, dimension=with_schema(feed.table, files))
    return Read(table, files, LocalFrame(lines.read(table, files), lambda: spark))


def types_of(schema: pa.Schema) -> Mapping[str, str]:
    return {field.name: str(field.type).replace(" not null", "") for field in schema}


@pytest.mark.spark
@pytest.mark.lines
def test_event_frames_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """One job of Spark reads them all."""
    every = {**odd_feeds(tmp_path / "odd", spark), **real_feeds(tmp_path / "real", spark)}
    gate = ON_LINE_3_5 if line_of_spark() == "3.5" else IN_THE_GATE
    feeds = {sort: read(readable(feed), spark) for sort, feed in every.items() if LONG or sort in gate}
    assert not [sort for sort, one in feeds.items() if local_source_rows.why_spark(one.table.reading)]
    frames = []
    for sort, one in feeds.items():
        there = frame_of(one.table, one.files)
        assert types_of(one.here.rows.schema) == types_of(to_arrow_schema(there.schema)), sort
        frames += [labelled_rows(one.here.in_spark(), f"here {sort}"), labelled_rows(there, f"there {sort}")]
    found: dict[str, set[str]] = {}
    for label, row in reduce(DataFrame.unionByName, frames).collect():
        found.setdefault(label, set()).add(row)
    for sort, one in feeds.items():
        here, there = found[f"here {sort}"], found[f"there {sort}"]
        assert len(here) == one.here.rows.num_rows
        assert here == there, (sort, sorted(here - there)[:3], sorted(there - here)[:3])


SCHEMA: Final = {
    "type": "struct",
    "fields": [
        {
            "type": "struct",
            "field": "after",
            "fields": [{"type": "int32", "field": "id"}, {"type": "string", "field": "note"}],
        }
    ],
}


def message(key: int, table: str = "item", lsn: int | None = 1, **cells: object) -> str:
    source = {"schema": "shop", "table": table, "lsn": lsn}
    payload = {"op": "c", "before": None, "after": {"id": key, "note": "a", **cells}, "source": source}
    return json.dumps({"schema": SCHEMA, "payload": payload})


def dimension(types: Mapping[str, str], **renames: str) -> Dimension:
    schema = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in types.items()))
    policies = Policies(add=Policy.IGNORE, renames=renames)
    return Dimension(name=ITEM, schema=schema, key=("id",), policies=policies, sequences=Sequences.PLACES)


def batch_of(
    folder: Path, said: Mapping[str, Any], types: Mapping[str, str], *lines: str, **renames: str
) -> Batch[Frame]:
    place = folder / "shop" / "item"
    place.mkdir(parents=True)
    for number, line in enumerate(lines):
        (place / f"{number}.json").write_text(f"{line}\n", "utf-8")
    source, own = source_of(folder, said), dimension(types, **renames)
    return source.read(own, source.select_objects(own, ObjectHistory()), 1)


def test_a_value_under_the_old_name_of_a_column_is_not_ignored(tmp_path: Path) -> None:
    others = {f"a{number:03}": number for number in range(120)}
    lines = [message(1), message(2, remark="late", **others)]
    with pytest.raises(SchemaConflict, match="has the old name of a column") as raised:
        batch_of(tmp_path, {"format": "debezium"}, {"id": "int", "note": "string"}, *lines, remark="note")
    assert "1.json" in str(raised.value)
    assert raised.value.found == "remark is called note now, as `schema.rename` says"


@pytest.mark.parametrize("types", ["declared", "schema"])
def test_messages_are_read_without_spark(tmp_path: Path, types: str) -> None:
    """With all that is said of them: other tables, names that are not declared, messages without a place."""
    lines = [message(1, more=1), message(2, lsn=None), "{", message(4, "z"), message(5, "b"), message(6, "b")]
    said = {"format": "debezium", "types": types}
    declared = {} if types == "schema" else {"id": "int", "note": "string"}
    batch = batch_of(tmp_path, said, declared, "\n".join(lines), message(7, lsn=8))
    assert isinstance(batch.frame, LocalFrame)
    assert batch.frame.rows.select(["id", "note"]).to_pylist()[:2] == [
        {"id": 1, "note": "a"},
        {"id": 2, "note": "a"},
    ]
    assert batch.frame.rows.column(names.REASON).to_pylist() == [None, None, "unreadable", *["skipped"] * 3, None]
    assert batch.facts.others == OtherTables(3, (("shop.b", 2), ("shop.z", 1)))
    assert list(batch.facts.cautions.values()) == [1, 2]  # one has no place, and two have no time
    assert not {name for name in batch.frame.columns if name in (UNDECLARED, OTHER_TABLE, ODD, HAS_OTHER, NO_PLACE)}


@pytest.mark.parametrize("written", ["2026-11-21T10:00:00Z", "soon", "", 10**22, 1.5, {"at": 1}])
@pytest.mark.parametrize("form", ["envelope", "flattened", "dms-json"])
def test_times_that_cannot_be_read_are_refused(tmp_path: Path, form: str, written: Any) -> None:
    """No time at all, or 0, is none; a row whose time nobody can read would be dated by the run."""

    def line(time: Any) -> str:
        if form == "dms-json":
            at = {} if time in (None, 0) else {"timestamp": "2026-11-21T10:00:00Z" if time == 5 else time}
            metadata = {"operation": "insert", "record-type": "data", **at}
            return json.dumps({"data": {"id": 1}, "metadata": metadata})
        if form == "flattened":
            return json.dumps({"id": 1, "__op": "u", "__lsn": 7, "__source_ts_ms": time})
        return json.dumps({"op": "u", "after": {"id": 1}, "source": {"lsn": 7, "ts_ms": time}})

    said = {"format": form} if form == "dms-json" else {"format": "debezium", "form": form}
    if form == "dms-json" and written == "2026-11-21T10:00:00Z":
        written = "2026-11-21T25:00:00Z"
    batch = batch_of(tmp_path, said, {"id": "int"}, "\n".join(map(line, (written, None, 0, 5))))
    assert isinstance(batch.frame, LocalFrame)
    reasons, details = (batch.frame.rows.column(name).to_pylist() for name in (names.REASON, names.DETAIL))
    assert reasons == ["sequence", None, None, None]
    shown = written if isinstance(written, str) else json.dumps(written, separators=(",", ":"))
    field = {"envelope": "ts_ms", "flattened": "__source_ts_ms", "dms-json": "the time of metadata"}[form]
    assert details[0] == f'"{field}: {shown}" is not a commit time'


@pytest.mark.parametrize("envelope", [lambda body: body, lambda body: {"schema": {}, "payload": body}])
def test_an_image_that_is_a_text_says_whose_messages_they_are(tmp_path: Path, envelope: Any) -> None:
    """The connector for MongoDB writes rows so."""
    source = {"schema": "shop", "table": "item", "lsn": 1, "ts_ms": 5}
    bodies = [{"op": "c", "after": after, "source": source} for after in ('{"id": 1}', None, {"id": 1})]
    lines = [json.dumps(envelope(body)) for body in bodies]
    batch = batch_of(tmp_path, {"format": "debezium"}, {"id": "int"}, "\n".join(lines))
    assert isinstance(batch.frame, LocalFrame)
    text_image, no_image, right = batch.frame.rows.column(names.DETAIL).to_pylist()
    assert "as the connector for MongoDB writes it: say `documents`" in text_image
    assert (no_image, right) == ("the message has no image of the row after the change", None)


def test_documents_of_mongodb_are_read_without_keys(tmp_path: Path) -> None:
    """A line that is the value alone tells no key: deletes and updates in part have none."""
    source = {"db": "shop", "collection": "item", "ts_ms": 5000, "ord": 1}
    bodies: list[dict[str, Any]] = [
        {"op": "c", "after": '{"_id": {"$symbol": "a"}, "n": {"$numberLong": "5"}, "p": "1234"}'},
        {"op": "u", "after": '{"_id": 2}', "updateDescription": {"removedFields": ["n"]}},
        {"op": "d", "before": '{"_id": 3}', "after": None},
        {"op": "d", "after": None},
        {"op": "u", "after": None, "updateDescription": {"updatedFields": '{"n": 1}'}},
        {"op": "u", "after": '{"_id": 2, "n": {"$date": "x"}}'},
    ]
    lines = [json.dumps({"before": None, **body, "source": source}) for body in bodies]
    said = {"format": "debezium", "documents": "columns"}
    place = tmp_path / "shop" / "item"
    place.mkdir(parents=True)
    (place / "0.json").write_text("\n".join(lines), "utf-8")
    own = replace(dimension({"_id": "string", "n": "bigint", "p": "decimal(6,0)"}), key=("_id",))
    reader = source_of(tmp_path, said)
    batch = reader.read(own, reader.select_objects(own, ObjectHistory()), 1)
    assert isinstance(batch.frame, LocalFrame)
    rows = batch.frame.rows.to_pylist()
    assert [(row["_id"], row["n"], row[names.OPERATION], row[names.REASON]) for row in rows[:4]] == [
        ("a", 5, "insert", None),
        ("2", None, "update", None),
        ("3", None, "delete", None),
        (None, None, "delete", "null_key"),
    ]
    assert rows[0]["p"] == 1234  # a text is no base64 here
    assert rows[1][names.UNSET] is None
    assert {row[names.SEQUENCE] for row in rows[:4]} == {5 * 2**32 + 1}
    assert [row[names.DETAIL].split(":")[0] for row in rows[4:]] == [
        "an update has a part of its document, and no key",
        "the field n has a `$date` that is none of extended JSON",
    ]


def test_control_messages_of_gone_rows_are_counted(tmp_path: Path) -> None:
    """Those of other tables are not, nor what says nothing of rows; none becomes a row."""

    def control(word: str, table: str = "item", kind: str = "control") -> str:
        said = {"operation": word, "record-type": kind, "schema-name": "shop", "table-name": table}
        return json.dumps({"control": {}, "metadata": said})

    row = json.dumps({"data": {"id": 1}, "metadata": {"operation": "insert", "record-type": "data"}})
    lines = [
        *(control("truncate-table"), row, control("drop-table"), control("create-table"), control("add-column")),
        *(control("drop-table", "other"), control("drop-table", kind="data")),
    ]
    batch = batch_of(tmp_path, {"format": "dms-json"}, {"id": "int"}, "\n".join(lines))
    assert isinstance(batch.frame, LocalFrame)
    assert ROWS_GONE not in batch.frame.columns
    reasons = batch.frame.rows.column(names.REASON).to_pylist()
    assert reasons == ["skipped", None, *["skipped"] * 4, "unreadable"]
    [(words, rows)] = batch.facts.cautions.items()
    assert rows == 2
    assert "`lakeward truncate shop.item --at FILE`" in words


@pytest.mark.parametrize("form", ["envelope", "flattened"])
def test_connectors_and_databases_are_counted_without_spark(tmp_path: Path, form: str) -> None:
    """In any case, of rows of the table alone; a database without a schema is that of the name."""

    def line(source: Mapping[str, str]) -> str:
        if form == "envelope":
            return json.dumps({"op": "c", "before": None, "after": {"id": 1}, "source": source})
        return json.dumps({"id": 1, "__op": "c", **{f"__{name}": value for name, value in source.items()}})

    named = [("crm1", "shop", "item"), ("CRM1", "Shop", "item"), ("crm2", "shop", "item"), ("crm3", "shop", "b")]
    lines = [line({"db": db, "schema": schema, "table": table}) for db, schema, table in named]
    lines += [line({"schema": "shop", "table": "item"}), line({"db": "shop", "table": "item"})]
    lines += [line({"name": "Srv", "db": "crm1", "schema": "shop", "table": "item"})]
    lines += [line({"name": "srv", "db": "shop", "table": "item"})]
    batch = batch_of(tmp_path, {"format": "debezium", "form": form}, {"id": "int"}, "\n".join(lines))
    assert isinstance(batch.frame, LocalFrame)
    assert batch.facts.databases == {"crm1": 2, "crm2": 1, "srv.crm1": 1, "srv": 1}


def test_files_with_only_other_tables_are_refused_without_spark(tmp_path: Path) -> None:
    """Where no message tells the columns of the table."""
    said = {"format": "debezium", "types": "schema"}
    with pytest.raises(SourceError, match="messages of other tables alone") as told:
        batch_of(tmp_path, said, {}, message(4, "z"), message(5, "b"), message(6, "b"))
    assert "rows of shop.b (2), shop.z (1)" in str(told.value.found)


def test_names_in_another_case_are_refused_without_spark(tmp_path: Path) -> None:
    types = {"id": "int", "note": "string"}
    with pytest.raises(SchemaConflict, match="other letters") as told:
        batch_of(tmp_path, {"format": "json"}, types, '{"id": 1, "extra": 2}', '{"id": 2, "Note": "a"}')
    assert told.value.found == "found Note, and note is declared"


@pytest.mark.parametrize(
    ("data", "small_batch", "said", "why"),
    [
        (b"{}\n", 0, {}, "its files have 3 bytes, more than a small batch"),
        (b"{}\n{}\n", 1, {}, "its files have more than 1 row"),
        (gzip.compress(b" " * 2000), 1, {"packed": ".gz"}, "0.json.gz has more bytes than a small batch"),
        (b"", 1, {}, "its files have no lines"),
        (b'{"note": 1.5e3, "x": 1234567890123456}', 1, {}, "a number in a column of texts may be rounded"),
        (b"{}\n", 1, {"path_columns": ["note"]}, "columns are from the path of files"),
        (
            b"{}\n{}\n",
            1,
            {"format": "debezium"},
            "its files have more than 1 row, and a message has another form than the usual one",
        ),
    ],
)
def test_the_log_says_why_spark_reads_a_batch(
    tmp_path: Path, data: bytes, small_batch: int, said: dict[str, Any], why: str
) -> None:
    place = tmp_path / "shop" / "item" / ("note=a" if "path_columns" in said else "")
    place.mkdir(parents=True)
    (place / f"0.json{said.pop('packed', '')}").write_bytes(data)
    source = source_of(tmp_path, {"format": "json", **said}, small_batch=small_batch)
    own = dimension({"id": "int", "note": "string"})
    with capture_logs() as logs, pytest.raises(AssertionError, match="Spark is not needed"):
        source.read(own, source.select_objects(own, ObjectHistory()), 1)
    event = {"event": "Spark reads the batch", "log_level": "debug", "table": "shop.item"}
    assert logs == [{**event, "reason": why}]


@pytest.mark.parametrize(("told", "is_change"), [({}, True), ({"__op": "u"}, True), ({"__op": "r"}, False)])
def test_a_message_without_operation_and_position_may_be_a_change(
    tmp_path: Path, told: Mapping[str, str], is_change: bool
) -> None:
    """Its fields got lost; a table whose messages tell places stops at it."""
    said = {"format": "debezium", "form": "flattened"}
    known = json.dumps({"id": 1, "note": "a", "__op": "c", "__lsn": 10, "__source_ts_ms": 1_767_225_601_000})
    lines = [known, json.dumps({"id": 1, "note": "b", **told})]
    batch = batch_of(tmp_path, said, {"id": "int", "note": "string"}, *lines)
    spans = [span for item in batch.facts.objects for span in item.spans]
    assert [(span.has_places, span.of_reads) for span in spans] == [(True, False), (False, not is_change)]
    restarts = find_restarts([item.in_log for item in batch.facts.objects], LogReached(), [])
    assert len(restarts) == is_change


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_log_may_begin_with_a_row_that_cannot_be_applied(tmp_path: Path, is_alone: bool) -> None:
    """Else it would keep its place in the old log, and be stale once it is mended."""

    def line(key: object, lsn: int) -> str:
        time = 1_767_225_600_000 + (100 - lsn // 100) * 60_000
        place = {"lsn": lsn, "sequence": json.dumps([str(lsn), str(lsn)])}
        source = {"schema": "shop", "table": "item", "ts_ms": time, **place}
        return json.dumps({"op": "u", "before": None, "after": {"id": key, "note": key}, "source": source})

    new = [line("bad", 10), *([] if is_alone else [line(2, 12)])]
    known = [line(1, 9_000), line(2, 9_100)]
    files = ["\n".join(lines) for lines in (known, new)]
    batch = batch_of(tmp_path, {"format": "debezium"}, {"id": "int", "note": "int"}, *files)
    restarts = find_restarts([item.in_log for item in batch.facts.objects], LogReached(), [])
    assert [(one.object, one.restart.row) for one in restarts] == [("1.json", 1)]


@pytest.mark.parametrize(
    ("form", "commit", "lsn", "is_found"),
    [
        ("envelope", 1250, 2100, True),  # the last commit that was streamed lies below it
        ("envelope", None, 1990, True),  # no commit is told: the transaction was open
        ("flattened", None, 1990, True),  # nor of which snapshot the rows are
        ("envelope", 2050, 2100, False),
        ("envelope", None, 2100, False),
    ],
)
def test_a_transaction_that_a_snapshot_did_not_see_is_found(
    tmp_path: Path, form: str, commit: int | None, lsn: int, is_found: bool
) -> None:
    """It was committed behind the rows of the snapshot, and its place lies below theirs."""

    def line(operation: str, commit: int | None, lsn: int, seconds: int) -> str:
        sequence = json.dumps([None if commit is None else str(commit), str(lsn)])
        row, time = {"id": 1, "note": operation}, 1_767_225_600_000 + seconds * 1000
        if form == "flattened":
            told = {"__op": operation, "__lsn": lsn, "__sequence": sequence, "__source_ts_ms": time}
            return json.dumps({**row, **told, "__schema": "shop", "__table": "item"})
        place = {"lsn": lsn, "sequence": sequence, "ts_ms": time}
        source = {"schema": "shop", "table": "item", "snapshot": "first" if operation == "r" else "false", **place}
        return json.dumps({"op": operation, "before": None, "after": row, "source": source})

    said = {"format": "debezium", "form": form}
    lines = [line("r", None, 2000, 0), line("u", commit, lsn, 60)]
    batch = batch_of(tmp_path, said, {"id": "int", "note": "string"}, *lines)
    restarts = find_restarts([item.in_log for item in batch.facts.objects], LogReached(), [])
    assert [(one.restart.row, one.was_open) for one in restarts] == [(1, True)] * is_found
