"""Messages that are read in Arrow columns: their events are those that plain Python makes of a small batch."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from envelope_feeds import KEY, TYPES, message
from line_feeds import table_of

from lakeward.adapters.sources.files.file_columns import File, inspect_file
from lakeward.adapters.sources.files.local.json_lines import SmallLines, with_flags
from lakeward.adapters.sources.files.local.message_columns import line_parts, reader
from lakeward.adapters.sources.files.local.message_columns.cells import values_of
from lakeward.adapters.sources.files.local.message_columns.log_positions import places_and_logs
from lakeward.adapters.sources.files.local.message_columns.reader import MessageBatch
from lakeward.adapters.sources.files.local.messages.log_positions import place_and_log
from lakeward.adapters.sources.files.local.values.typed_values import reader_of
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.json.wire_format import UNITS, Wire, Writing
from lakeward.adapters.spark.frames.local_casts import SparkNeeded, arrow_type
from lakeward.core.dimension import ORDERED, Deletes, Lateness, Within
from lakeward.core.history.options import History
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import Column, Type

MESSAGES: Final = 120
DAY: Final = Within(86_400_000_000)
USUAL: Final = {"times": "microseconds", "decimals": "string"}
FEEDS: Final[Mapping[str, tuple[Mapping[str, Any], tuple[str, ...], Lateness]]] = {
    "values": (USUAL, KEY, DAY),
    "records": ({**USUAL, "line": "record", "before_images": "whole"}, KEY, ORDERED),
    "no positions": ({**USUAL, "places": "arrival"}, KEY, ORDERED),
}


@dataclass(frozen=True)
class Feed:
    """A table in a folder, to which files of lines are written."""

    table: TableFiles
    landing: Path

    def file(self, lines: Sequence[str], order: int = 1) -> File:
        written = self.landing / f"{order:02}.json"
        written.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return inspect_file(self.table, SourceObject(written.name, order, written.stat().st_size, 1))

    def small(self, files: Sequence[File]) -> pa.Table:
        return SmallLines(10**6).read(self.table, files)

    def in_columns(self, files: Sequence[File]) -> pa.Table:
        return with_flags(self.table, MessageBatch.of(self.table, files).read())


PLACES: Final[Mapping[str, Sequence[Mapping[str, str]]]] = {
    "PostgreSQL": [
        {"lsn": "42", "sequence": '["40","42"]'},
        {"lsn": "43", "sequence": '[null,"43"]'},
        {"lsn": "18446744073709551", "sequence": '["18446744073709550","18446744073709551"]'},
    ],
    "MySQL": [
        {"file": "binlog.000003", "pos": "154", "server_id": "223344"},
        {"file": "binlog.000003", "pos": "154", "row": "2", "server_id": "0"},
        {"file": "mysql-bin.1000000000", "pos": "4294967295", "row": "9999999"},
    ],
    "Oracle": [{"scn": "100", "commit_scn": "105"}, {"scn": "101"}],
    "no positions": [{}, {"snapshot": "true"}],
}
LEFT_TO_SPARK: Final[Mapping[str, Sequence[Mapping[str, str]]]] = {
    "SQL Server": [{"commit_lsn": "0000002b:00000d08:0003"}],
    "two connectors": [{"lsn": "42"}, {"file": "binlog.000003", "pos": "154"}],
    "a position that is no number": [{"lsn": "0/16B3748"}],
    "a position of 20 digits": [{"lsn": "18446744073709551615"}],
    "a binlog without a number": [{"file": "binlog", "pos": "154"}],
    "a binlog without a position": [{"file": "binlog.000003"}],
    "a binlog with a letter other than those of ASCII": [{"file": "bınlog.000003", "pos": "1"}],
}


def field_in(sources: Sequence[Mapping[str, str]]) -> Callable[[str], pa.Array]:
    return lambda name: pa.array([source.get(name) for source in sources], pa.string())


def commits_in(sources: Sequence[Mapping[str, str]]) -> pa.Array:
    lists = [json.loads(source.get("sequence", "[null]")) for source in sources]
    return pa.array([commits[0] for commits in lists], pa.string())


@pytest.mark.parametrize("sources", PLACES.values(), ids=PLACES)
def test_positions_are_those_of_plain_python(sources: Sequence[Mapping[str, str]]) -> None:
    is_read = pa.array([place % 2 == 1 for place in range(len(sources))])
    sequences, logs = places_and_logs(field_in(sources), commits_in(sources), is_read)
    expected = [place_and_log(source.get, is_read=place % 2 == 1) for place, source in enumerate(sources)]
    found = zip((str(int(text)) for text in sequences.to_pylist()), logs.to_pylist(), strict=True)
    assert [*found] == expected


@pytest.mark.parametrize("sources", LEFT_TO_SPARK.values(), ids=LEFT_TO_SPARK)
def test_other_positions_are_left_to_spark(sources: Sequence[Mapping[str, str]]) -> None:
    with pytest.raises(SparkNeeded):
        places_and_logs(field_in(sources), commits_in(sources), pa.repeat(pa.scalar(False), len(sources)))


FORMS: Final = [
    ("date", Wire.DAYS),
    ("date", Wire.PLAIN),
    *((type_, wire) for type_ in ("timestamp", "timestamp_ntz", "bigint") for wire in UNITS),
    ("timestamp", Wire.PLAIN),
    ("timestamp_ntz", Wire.PLAIN),
    ("decimal", Wire.PLAIN),
    ("decimal", Wire.UNSCALED),
    ("binary", Wire.BASE64),
]
_BOUNDS: Final = (
    *(bound * unit for bound in (-62_135_596_800, -2_208_988_800, 253_402_300_800) for unit in UNITS.values()),
    *(-719_162, -719_163, -25_567, 2_932_896, 2_932_897, 2**31, 2**63 // 10**6, 18_446_744_073_710, 10**17),
)
EDGES: Final = (
    *(str(bound + step) for bound in _BOUNDS for step in (-1, 0, 1)),
    *("0", "-0", "1500", "1.5", "+1", " 1", "", "x", "AQ==", "-1", "9" * 18, "-" + "9" * 18, "9" * 19),
    *("2026-02-28", "2026-02-30", "2026-02-28Z", "2026-02-28ZZ", "0001-01-01", "0000-01-01", "9999-12-31"),
    *("2026-02-28T12:00:00Z", "2026-02-28 12:00:00.5", "2026-02-28T12:00:00+01:00", "1899-12-31T23:59:59"),
)
"""Texts at the bounds of types and units, and in odd forms."""


@pytest.mark.parametrize(("name", "wire"), FORMS, ids=[f"{name} as {wire.value}" for name, wire in FORMS])
def test_cells_are_those_of_plain_python(name: str, wire: Wire) -> None:
    """Each text has the value that the reader of single values gives it; one that does not fit is left to Spark."""
    type_ = Type("decimal", 12, 2) if name == "decimal" else Type(name)
    column, written = Column("a", type_), Writing(wire)
    read, fitting = reader_of(type_, written), 0
    for text in EDGES:
        try:
            value = read(text)
        except SparkNeeded:
            continue
        texts = pa.array([text, None])
        if value is None:
            with pytest.raises(SparkNeeded):
                values_of(texts, column, written)
        else:
            fitting += 1
            assert values_of(texts, column, written).equals(pa.array([value, None], arrow_type(type_))), text
    assert fitting > 1


def no_spark() -> Any:
    raise AssertionError("Spark was asked for")


def feed_of(folder: Path, sort: str) -> Feed:
    said, key, lateness = FEEDS[sort]
    landing = folder / "shop" / "item"
    landing.mkdir(parents=True)
    options = {"format": "debezium", **said}
    table = table_of(folder, no_spark, "shop.item", TYPES, options, key=key, lateness=lateness)
    return Feed(table, landing)


@pytest.mark.parametrize("sort", FEEDS)
def test_events_are_those_of_a_small_batch(tmp_path: Path, sort: str) -> None:
    """Each message is read as plain Python reads it, or left to Spark. Then all that are read come together."""
    feed, random = feed_of(tmp_path, sort), Random(sort)
    lines = [message(random, is_record=sort == "records") for _ in range(MESSAGES)]
    usual = [line for line in lines if is_read_alike(feed, line)]
    assert len(usual) > MESSAGES / 2
    thirds = [feed.file(usual[third::3], order) for order, third in enumerate(range(3), 5)]
    assert feed.in_columns(thirds).equals(feed.small(thirds))


def is_read_alike(feed: Feed, line: str) -> bool:
    """Return whether a line is read in columns, with the events of a small batch."""
    files = [feed.file([line])]
    try:
        events = feed.in_columns(files)
    except SparkNeeded:
        return False
    assert events.equals(feed.small(files)), line
    return True


@pytest.mark.parametrize("day", ["-719163", "-100000", "-99999", "999999", "2932897"])
def test_a_date_is_in_a_year_of_four_digits(tmp_path: Path, day: str) -> None:
    """A date before the year 1 or after the year 9999 goes into quarantine."""
    feed = feed_of(tmp_path, "values")
    line = next(line for place in range(99) if '"day":20000' in (line := message(Random(place))))
    assert is_read_alike(feed, line)
    is_read_alike(feed, line.replace('"day":20000', f'"day":{day}'))


def test_messages_without_the_name_of_a_database_are_read(tmp_path: Path) -> None:
    feed = feed_of(tmp_path, "values")
    lines = [message(Random(place)) for place in range(20)]
    files = [
        feed.file(
            [
                line.replace('"name":"live"', '"name":null').replace('"db":"Shop"', '"db":null')
                for line in lines
                if is_read_alike(feed, line)
            ]
        )
    ]
    assert feed.in_columns(files).equals(feed.small(files))


@pytest.mark.parametrize(
    "options",
    [{"key": ()}, {"key": ("id", "rate")}, {"key": ("raw",)}, {"history": History()}, {"deletes": Deletes.SOFT}],
    ids=["no key", "a floating key", "a key of bytes", "a history", "soft deletes"],
)
def test_files_of_tables_that_spark_resolves_are_left_to_it(tmp_path: Path, options: Mapping[str, Any]) -> None:
    feed = feed_of(tmp_path, "values")
    files = [feed.file([message(Random(1))])]
    table = replace(feed.table, dimension=replace(feed.table.dimension, **options))
    with pytest.raises(SparkNeeded, match="Spark resolves"):
        replace(feed, table=table).in_columns(files)


def test_files_of_too_many_bytes_are_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed, lines = feed_of(tmp_path, "values"), [message(Random(1)), message(Random(2))]
    files = [feed.file(lines[:1], 1), feed.file(lines[1:], 2)]
    monkeypatch.setattr(reader, "MOST_BYTES", sum(file.item.size for file in files) - 3)
    with pytest.raises(SparkNeeded, match="more than"):
        feed.in_columns(files)


def test_parts_of_a_file_are_read_as_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part ends at the end of a line, and its lines are numbered on."""
    feed = feed_of(tmp_path, "values")
    lines = [line for line in (message(Random(place)) for place in range(30)) if is_read_alike(feed, line)]
    files = [feed.file(lines)]
    monkeypatch.setattr(line_parts, "_BYTES", 2_000)
    assert feed.in_columns(files).equals(feed.small(files))


def test_a_packed_file_is_read_as_the_plain_one(tmp_path: Path) -> None:
    feed = feed_of(tmp_path, "values")
    plain = feed.file(
        [line for line in (message(Random(place)) for place in range(9)) if is_read_alike(feed, line)]
    )
    packed = feed.landing / "01.json.gz"
    packed.write_bytes(gzip.compress((feed.landing / "01.json").read_bytes()))
    found = inspect_file(feed.table, SourceObject(packed.name, 1, packed.stat().st_size, 1))
    assert feed.in_columns([found]).equals(feed.in_columns([plain]))


def test_a_damaged_packed_file_is_left_to_spark(tmp_path: Path) -> None:
    feed = feed_of(tmp_path, "values")
    packed = feed.landing / "01.json.gz"
    packed.write_bytes(gzip.compress(message(Random(1)).encode())[:-9])
    found = inspect_file(feed.table, SourceObject(packed.name, 1, packed.stat().st_size, 1))
    with pytest.raises(SparkNeeded, match="cannot be read to its end"):
        feed.in_columns([found])
