"""Spark reads CSV as the reference reader does: many random files in one job."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.sources.csv.layout import OPERATIONS, Layout
from lakeward.adapters.sources.csv.parser import Dialect, Record, fields, records
from lakeward.adapters.sources.csv.repeated_header import OTHER_ORDER, SAME_ORDER, find_repeat
from lakeward.adapters.sources.rows.csv_frames import WHOLE_FILES, read_csv
from lakeward.adapters.sources.rows.read_spec import NumberedFile, Reading, file_frame
from lakeward.adapters.spark.execution import parallelism
from lakeward.adapters.spark.frames.source_rows import BLANK, BROKEN, LINE, NAME, TORN, VALUE, to_events
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Column, Schema, Type

pytestmark = pytest.mark.spark

COLUMNS = ("a", "b", "c")
DIMENSION = Dimension(
    name=TableName("s", "t"), schema=Schema(tuple(Column(name, Type("string")) for name in COLUMNS)), key=("a",)
)
DIALECT, LAYOUT = Dialect(), Layout(COLUMNS, has_header=False, is_crlf=False)
DIALECTS = {
    "as DMS writes by default": Dialect(),
    "NULL is empty": Dialect(null_text=""),
    "semicolon, apostrophe, backslash N": Dialect(delimiter=";", quote="'", null_text="\\N"),
    "nothing is quoted": Dialect(quote=""),
    "characters that mean something in a pattern": Dialect(delimiter="|", quote="^", null_text="."),
    "rows end in two characters": Dialect(row_end="~~"),
    "rows end in a semicolon, nothing is quoted": Dialect(quote="", row_end=";"),
}


def read(
    spark: SparkSession,
    folder: Path,
    *files: str,
    layout: Layout = LAYOUT,
    dialect: Dialect = DIALECT,
    has_torn_rows: bool = False,
) -> DataFrame:
    paths = [str(folder / file) for file in files or ("t.csv",)]
    return read_csv(spark, paths, layout, reading(folder, dialect), has_torn_rows=has_torn_rows)


def reading(folder: Path, dialect: Dialect = DIALECT) -> Reading:
    return Reading(dimension=DIMENSION, operations=OPERATIONS, dialect=dialect, base=str(folder))


def piece(random: Random, dialect: Dialect) -> str:
    """Something that may stand between two delimiters, rightly or wrongly."""
    q, d, null = dialect.quote, dialect.delimiter, dialect.null_text
    if dialect.row_end != "\n" and random.random() < 0.2:
        return random.choice(["e\nf", "\n", "g\r\n", f"{q}h{dialect.row_end}i{q}" if q else "h"])
    return random.choice(
        [
            *("", "x", "Zoë", " ", null, f" {null}", f"{null}x", "\r", "a\tb", "\\", "$1", "NULL", "0"),
            *(q + q, f"{q}{null}{q}", f"{q}y{d}z{q}", f"{q}a{q}{q}b{q}", f"{q}l\nm{q}", f"{q}l\r\nm{q}"),
            *(f"x{q}y{q}", f"{q}x{q}y", f"{q}{q}{q}{q}", f"{q} {q}"),
            *("\0", "\0a", "x\0y", "\0a\0", f"{q}\0a{q}", f"{q}x\0y{q}", f"{q}\0{q}"),
        ]
    )


def content(random: Random, dialect: Dialect, row_end: str) -> str:
    rows = []
    for _ in range(random.randrange(12)):
        width = random.choice([3, 3, 3, 3, 3, 2, 4, 1])
        row = dialect.delimiter.join(piece(random, dialect) for _ in range(width))
        rows.append(row if not dialect.quote or row.count(dialect.quote) % 2 == 0 else row + dialect.quote)
    end = random.choice([row_end, ""]) if rows and rows[-1] else row_end
    text = row_end.join(rows) + (end if rows else "")
    return random.choice(["", "\ufeff"]) + text


def expected(text: str, dialect: Dialect, *, is_crlf: bool) -> Mapping[int, Record]:
    found = {}
    for record in records(text, dialect):
        whole = record.text.removesuffix("\r") if is_crlf else record.text
        found[record.line] = Record(record.line, whole, fields(whole, dialect))
    return found


@pytest.mark.parametrize(
    ("name", "is_crlf"),
    [
        (name, crlf)
        for name, dialect in DIALECTS.items()
        for crlf in (False, True)
        if not crlf or dialect.row_end == "\n"
    ],
)
def test_every_row_is_read_by_the_rules(spark: SparkSession, tmp_path: Path, name: str, is_crlf: bool) -> None:
    dialect, random = DIALECTS[name], Random(f"{name} {is_crlf}")
    texts = {}
    for number in range(150):
        file = f"{number:04d}.csv" + random.choice(["", ".gz"])
        texts[file] = content(random, dialect, "\r\n" if is_crlf else dialect.row_end)
        data = texts[file].encode()
        (tmp_path / file).write_bytes(gzip.compress(data) if file.endswith(".gz") else data)
    for key, value in WHOLE_FILES.items():
        spark.conf.set(key, value)
    layout = replace(LAYOUT, is_crlf=is_crlf)
    frame = read(spark, tmp_path, *texts, layout=layout, dialect=dialect, has_torn_rows=bool(dialect.quote))
    rows = {(row[NAME], row[LINE]): row for row in frame.collect()}
    wanted = {
        (file, line): record
        for file, text in texts.items()
        for line, record in expected(text, dialect, is_crlf=is_crlf).items()
    }
    assert rows.keys() == wanted.keys()
    for place, record in wanted.items():
        row = rows[place]
        assert not row[TORN]
        assert row[VALUE] == record.text
        assert row[BLANK] == (record.text == "")
        if row[BLANK]:
            continue
        if record.fields is None or len(record.fields) != len(COLUMNS):
            assert row[BROKEN], place
        else:
            assert row[BROKEN] is None, place
            assert tuple(row[name] for name in COLUMNS) == record.fields, (place, record.text)


@pytest.mark.parametrize("has_torn_rows", [False, True])
def test_rows_begin_after_the_header(spark: SparkSession, tmp_path: Path, has_torn_rows: bool) -> None:
    (tmp_path / "t.csv").write_text("\na,b,c\n1,x,y\n")
    layout = replace(LAYOUT, has_header=True, header_end=2)
    rows = read(spark, tmp_path, layout=layout, has_torn_rows=has_torn_rows)
    assert [(row[LINE], row["a"]) for row in rows.collect()] == [(3, "1")]


def test_lines_keep_their_numbers(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("\ufeffa,b,c\n" + "".join(f'{n},"x,{n}",\n' for n in range(500)), "utf-8")
    monkeypatch.setattr(parallelism, "_LARGE_BYTES", 0)
    rows = read(spark, tmp_path, layout=replace(LAYOUT, has_header=True))
    assert rows.rdd.getNumPartitions() == spark.sparkContext.defaultParallelism > 1
    found = sorted((row[LINE], row["a"], row["b"], row[BROKEN]) for row in rows.collect())
    assert found == [(n + 2, str(n), f"x,{n}", None) for n in range(500)]


@pytest.mark.parametrize("files", [("a b%20.csv", "c+d.csv"), ("x/a b%20.csv", "x/ü.csv"), ("x/1.csv", "y/1.csv")])
def test_a_row_has_the_path_of_its_file(spark: SparkSession, tmp_path: Path, files: tuple[str, ...]) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("1,2,3\n")
    rows = read(spark, tmp_path, *files)
    assert sorted(row[NAME] for row in rows.collect()) == sorted(files)


def test_a_repeated_header_is_found_as_by_the_reference(spark: SparkSession, tmp_path: Path) -> None:
    pieces = ("a", "B", " b", "c", "C\r", "\ufeffa", "\u00a0a\t", '"c"', "x", "", "NULL")
    lines = [",".join(row) for row in product(pieces, repeat=3) if any(row)]
    (tmp_path / "t.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n", newline="")
    kinds = set()
    for header in (COLUMNS, ("a", "", "c"), ()):
        rows = read(spark, tmp_path, layout=replace(LAYOUT, has_header=True, names=header)).collect()
        wanted = [find_repeat(fields(line, DIALECT) or (), header) for line in lines]
        assert [row[BROKEN] for row in rows] == wanted
        kinds.update(wanted)
    assert kinds == {None, SAME_ORDER, OTHER_ORDER}


def test_a_line_of_a_torn_row_is_flagged_unless_lines_are_joined(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('1,"a\nb",c\n2,x,y\n')
    rows = read(spark, tmp_path).orderBy(LINE).collect()
    assert [(row[LINE], row[TORN]) for row in rows] == [(1, True), (2, True), (3, False)]


def test_a_row_that_is_no_utf_8_is_refused_and_kept_in_hex(spark: SparkSession, tmp_path: Path) -> None:
    """Stored as a text, no reader of the quarantine could read it back."""
    (tmp_path / "t.csv").write_bytes(b"1,caf\xe9,c\n2,x,y\n")
    places = [NumberedFile(str(tmp_path / "t.csv"), 1, 0, is_load=True, has_op=False)]
    files = file_frame(spark, places, reading(tmp_path))
    rows = to_events(read(spark, tmp_path), files, reading(tmp_path)).orderBy(names.ROW).collect()
    assert [(row[names.DETAIL], row[names.TEXT]) for row in rows] == [
        ("the row is not valid UTF-8", "0x" + b"1,caf\xe9,c".hex().upper()),
        (None, None),
    ]
