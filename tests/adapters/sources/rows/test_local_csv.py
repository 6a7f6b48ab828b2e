"""CSV of a small batch is read here as Spark reads it: whole event frames of many random files, in one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakeward.adapters.sources.csv.layout import BEFORE, IGNORED, OP, OPERATIONS, SEQUENCE, TIME, Layout
from lakeward.adapters.sources.csv.parser import Dialect, records
from lakeward.adapters.sources.rows.csv_frames import WHOLE_FILES
from lakeward.adapters.sources.rows.csv_frames import read_csv as read_in_spark
from lakeward.adapters.sources.rows.local_csv import read_csv
from lakeward.adapters.sources.rows.read_spec import NumberedFile, Reading, file_frame
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_source_rows import FilePlace, to_events, why_spark
from lakeward.adapters.spark.frames.source_rows import LINE, TORN, VALUE
from lakeward.adapters.spark.frames.source_rows import to_events as to_events_in_spark
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import ORDERED, Dimension, Match, TableName
from lakeward.core.events import Sequences
from lakeward.core.schema import UNDECLARED, Column, Schema, parse_type


def texts(*joined: str) -> Sequence[str]:
    return "|".join(joined).split("|")


TEXTS: Final = {
    "boolean": texts("true|1|F| no |2|on|TRUE|yes"),
    "int": texts("7|-2147483648|2147483648|+7| 007 |1.5|1e3|0x1F|1_0|٣|-|- 1"),
    "bigint": texts("123456789012345678|9223372036854775807|9223372036854775808|-5| 5|1.0|5L"),
    "decimal(5,2)": texts("1.2|-999.99|1000|1.239|1.2300|.5|5.|+3|1e2|00001.5|-0|.| 1 "),
    "decimal(38,0)": texts(
        "99999999999999999999999999999999999999|-99999999999999999999999999999999999999",
        "100000000000000000000000000000000000000|0|1.0|0001",
    ),
    "decimal(3,3)": texts("0.123|.5|1|0|-0.001|0.1234"),
    "float": texts("0.1|1e39|1e-50|16777217|NaN|-Infinity| 1.5|+2|1.5f|3.4028235e5|1,5|0e9"),
    "double": texts("0.1|1e308|1e999|1e-400|inf|-nan|0e5|-0|0.30000000000000004|1d| 1 |.5"),
    "date": texts(
        "2026-02-28|2026-02-30|0000-01-01|0001-01-01|9999-12-31|2026|2026-02-28 00:00:00.0",
        "2026-02-28T10:00:00| 2026-02-28 |26-2-28|1582-10-10|2026-2-28",
    ),
    "timestamp": texts(
        "2026-11-21 08:59:58.000001|2026-11-21T08:59|2026-11-21|2026-11-21 08:59:58Z",
        "2026-11-21 08:59:58+0100|2026-11-21 08:59:58.5 +01:00|2026-11-21 25:00",
        "2026-11-21 08:59:58.1234567|2026-11-21 08:59:58.1234560|0000-06-01",
        "0001-01-01 00:00:00+01|9999-12-31 23:59:59.999999|x|1700-01-01 00:00:00",
        "2026-11-21 23:59:60|2026-11-21 24:00:00|2026-11-21 08:59:58.|2026-11-21 08:59Z",
    ),
    "timestamp_ntz": texts(
        "2026-11-21 08:59:58|9999-12-31 23:59:59.999999|2026-11-21 08:59:58Z|0000-06-01",
        "1500-02-29 00:00:00| 2026-11-21 08:59 |2026-11-21T08:59:58.5",
    ),
    "string": texts("x|Zoë|| |NULL |a\tb|\\|$1|🦆"),
    "binary": texts("00ff|0x00FF|\\xcafe|0|xyz|"),
}


@dataclass(frozen=True)
class Case:
    """A table and how its files are read; the columns of a file are those of a layout."""

    reading: Reading
    columns: Sequence[str]
    is_load: bool = False
    is_crlf: bool = False
    header: str = ""

    @property
    def layout(self) -> Layout:
        lines = self.header.count("\n")
        return Layout(tuple(self.columns), bool(self.header), self.is_crlf, lines or 1)


def dimension(key: Sequence[str], types: Sequence[str], **more: Any) -> Dimension:
    schema = Schema(tuple(Column(f"c {type_}", parse_type(type_)) for type_ in types))
    return Dimension(name=TableName("s", "t"), schema=schema, key=[f"c {name}" for name in key], **more)


EVERY: Final = dimension(["bigint", "string"], [*TEXTS])
FEW: Final = dimension(["int", "string"], ["int", "string", "timestamp", "decimal(5,2)"])
PLACES: Final = replace(
    dimension(["int", "string", "double"], ["int", "string", "double", "timestamp", "decimal(5,2)"]),
    sequences=Sequences.PLACES,
    lateness=ORDERED,
)
IMAGES: Final = replace(
    dimension([], ["int", "string", "timestamp", "decimal(5,2)", "double", "float"]),
    match=Match.IMAGE,
    lateness=ORDERED,
)
OTHER: Final = replace(FEW, schema=Schema((*FEW.schema, Column("more", UNDECLARED))), key=(), keeps_text=True)


def reading(table: Dimension, **more: Any) -> Reading:
    return Reading(**{"dimension": table, "operations": OPERATIONS, "timestamp_column": "at", **more})


def befores(table: Dimension) -> list[str]:
    return [BEFORE + name for name in table.schema.names]


PARTS: Final = Dialect(no_sup_text="?", null_text="")
CASES: Final = {
    "every type": Case(reading(EVERY), [OP, TIME, *EVERY.schema.names]),
    "a full load with a header": Case(
        reading(EVERY, is_padded=True, dialect=Dialect(null_text="")),
        [TIME, *EVERY.schema.names],
        is_load=True,
        header='"at\n",a\n\n',
    ),
    "a full load with Op, rows that end in two characters": Case(
        reading(FEW, dialect=Dialect(row_end="~~", delimiter=";", quote="'")), [OP, *FEW.schema.names], is_load=True
    ),
    "rows sent in part, places, lines that end in CR LF": Case(
        reading(PLACES, dialect=PARTS, before_prefix="b_", sequence_column="place"),
        [OP, TIME, *PLACES.schema.names, SEQUENCE, *befores(PLACES)[:3]],
        is_crlf=True,
    ),
    "any number orders, and the letter is missing": Case(
        reading(PLACES, dialect=PARTS, sequence_column="place", is_any_number=True, timestamp_column=None),
        [*PLACES.schema.names, SEQUENCE],
    ),
    "images": Case(
        reading(IMAGES, dialect=PARTS, before_prefix="b_"),
        [OP, TIME, *IMAGES.schema.names, IGNORED + "1", *befores(IMAGES)],
    ),
    "every text, no quotes, other words": Case(
        reading(
            OTHER, dialect=Dialect(quote=""), timestamp_column=None, takes_other_words=True, without_op="insert"
        ),
        [OP, *OTHER.schema.names],
    ),
}
ODD: Final = {
    OP: ["I", "U", "D", "D", "U", "", "X", "[1]", " {", "i"],
    TIME: [*TEXTS["timestamp"][:3], "2026-11-21 08:59:58.1", "2026-11-21 08:59:58.1", ""],
    SEQUENCE: ["1", "20261121085958010000000000000000123", "0", "-4", "007", "x", "9" * 36, "4 ", ""],
}


def cell(random: Random, name: str, case: Case) -> str:
    """Return what stands in a column of a row: mostly a value of its type, rightly or wrongly written."""
    dialect, found = case.reading.dialect, case.reading.dimension.schema.find(name.removeprefix(BEFORE))
    texts = ODD.get(name) or TEXTS[str(found.type) if found and found.type != UNDECLARED else "string"]
    good = texts[: 2 if random.random() < 0.7 else None]
    text, q = random.choice([*good, *good, *good, dialect.null_text, dialect.no_sup_text or "?"]), dialect.quote
    if dialect.delimiter in text or (q and random.random() < 0.2):
        end = "\n" if found is not None and found.type.name == "string" else " "
        within = [text, text, text, f"{text}{q}{q}", f"{dialect.delimiter}{text}", f"{text}{end}z"]
        text = q + random.choice(within) + q
    return f"{text}{q}" if q and random.random() < 0.004 else text


def content(random: Random, case: Case) -> str:
    end = "\r\n" if case.is_crlf else case.reading.dialect.row_end
    rows = []
    for _ in range(random.randrange(8)):
        columns = [*case.columns, "c string"][: random.choice([len(case.columns)] * 25 + [2, None])]
        rows.append(case.reading.dialect.delimiter.join(cell(random, name, case) for name in columns))
        if random.random() < 0.03:
            rows.append("")
    text = case.header + end.join(rows) + random.choice([end, ""])
    return random.choice(["", "\ufeff"]) + text


def files_of(case: Case, count: int, name: str) -> Mapping[str, bytes]:
    random = Random(name)
    return {f"{number:04}.csv": content(random, case).encode() for number in range(count)}


def read_here(files: Mapping[str, bytes], case: Case) -> tuple[pa.Table, Sequence[str]]:
    """Return the events of files, and the names of those that Spark must read."""
    frames, others = [], []
    for number, (name, data) in enumerate(files.items()):
        try:
            rows = read_csv(data, case.layout, case.reading)
            file = FilePlace(number * 7, number, case.is_load, OP in case.columns)
            frames.append(to_events(rows, file, case.reading))
        except SparkNeeded:
            others.append(name)
    return pa.concat_tables(frames), others


def types_of(rows: pa.Table) -> Mapping[str, str]:
    """Return the types of columns; Spark says of some lists that nothing in them is NULL."""
    return {field.name: str(field.type).replace(" not null", "") for field in rows.schema}


@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
def test_event_frames_are_those_of_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    case = replace(case, reading=replace(case.reading, base=str(tmp_path)))
    assert why_spark(case.reading) is None
    files = files_of(case, 300, name)
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    found, others = read_here(files, case)
    assert len(others) < 60

    for key, value in WHOLE_FILES.items():
        spark.conf.set(key, value)
    numbered = [
        NumberedFile(str(tmp_path / file), number * 7, number, case.is_load, OP in case.columns)
        for number, file in enumerate(files)
        if file not in others
    ]
    rows = read_in_spark(spark, [f.path for f in numbered], case.layout, case.reading, has_torn_rows=True)
    frame = to_arrow(to_events_in_spark(rows, file_frame(spark, numbered, case.reading), case.reading))
    place = [(names.OBJECT, "ascending"), (names.ROW, "ascending")]
    assert types_of(found) == types_of(frame)
    for own, wanted in zip(found.to_pylist(), frame.sort_by(place).to_pylist(), strict=True):
        assert own[TORN] == wanted[TORN]  # which stops the table, whatever its fields are taken for
        assert own[TORN] or repr(own) == repr(wanted)
    assert len(set(found.column(names.REASON).to_pylist())) > 3


# Without Spark.

DIALECTS: Final = [Dialect(), Dialect(";", "'", "", "?"), Dialect(quote=""), Dialect(row_end="~~")]


@given(st.sampled_from(DIALECTS).flatmap(lambda d: st.tuples(st.just(d), st.text(f"{d.delimiter}{d.quote}x~\n?"))))
def test_rows_are_those_of_the_reference(given_: tuple[Dialect, str]) -> None:
    dialect, text = given_
    table = dimension([], ["string"])
    rows = read_csv(text.encode(), Layout(("c string",), False, False), reading(table, dialect=dialect))
    assert [*zip(rows.column(LINE).to_pylist(), rows.column(VALUE).to_pylist(), strict=True)] == [
        (record.line, record.text) for record in records(text, dialect)
    ]


@pytest.mark.parametrize(
    ("data", "type_", "why"),
    [
        (b"1,\xff\n", "string", "no UTF-8"),
        ("1,\uffff\n".encode(), "string", "U\\+FFFF"),
        ("\ufeff\ufeff1,x\n".encode(), "string", "byte order marks"),
        (b"1,\x017\n", "int", "control characters"),
        (b"1,2026-11-21 08:59:58+17:00\n", "timestamp", "a zone"),
    ],
)
def test_files_that_only_spark_reads_are_left_to_spark(data: bytes, type_: str, why: str) -> None:
    table = dimension([], ["int", type_])
    with pytest.raises(SparkNeeded, match=why):
        read_csv(data, Layout(("c int", f"c {type_}"), False, False), reading(table))


def test_a_quote_that_is_never_closed_makes_a_torn_row() -> None:
    table = dimension([], ["string"])
    rows = read_csv(b'a\n"b\nc\n', Layout(("c string",), False, False), reading(table))
    assert rows.select([LINE, TORN]).to_pylist() == [{LINE: 1, TORN: False}, {LINE: 2, TORN: True}]


def test_a_table_that_spark_alone_reads_says_why() -> None:
    assert "tells the operation" in str(why_spark(reading(FEW, indicator="c string")))


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [("nan", "NaN", False), ("-0", "0", False), ("1", "1.0", False), ("nan", "1", True), ("1", "2", True)],
)
def test_a_float_in_a_key_is_compared_as_spark_does(before: str, after: str, moves: bool) -> None:
    of = reading(dimension(["double"], ["double"], lateness=ORDERED), before_prefix="b_", dialect=PARTS)
    layout = Layout((OP, TIME, "c double", f"{BEFORE}c double"), False, False)
    rows = read_csv(f"U,2026-11-21 08:59:58,{after},{before}\n".encode(), layout, of)
    (old,) = to_events(rows, FilePlace(1, 0, is_load=False, has_op=True), of).column(names.OLD).to_pylist()
    assert (old is not None) == moves
