from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dms_files import content_of, rows_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tries import tries

from lakeward.adapters.sources.csv.parser import BOM, Dialect
from lakeward.adapters.sources.dms.paths.file_names import PLACES
from lakeward.adapters.sources.dms.writer import Change, DmsWriter, Style
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.rows.parquet_footers import read_footer
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Operation
from lakeward.core.schema import Column, Schema, Type, parse_type

AT = datetime(2026, 11, 20, 9, 14, 2, 123_456, UTC)
ITEM = TableName("shop", "item")
TEXTS = Schema(tuple(Column(name, Type("string")) for name in ("id", "one", "other")))
TYPED = {
    "boolean": (True, "true"),
    "int": (-7, "-7"),
    "bigint": (2**62, "4611686018427387904"),
    "float": (0.5, "0.5"),
    "double": (0.1, "0.1"),
    "decimal(12,2)": (Decimal("-3.50"), "-3.50"),
    "decimal(20,10)": (Decimal("0.0000000001"), "0.0000000001"),
    "string": ("NULL", '"NULL"'),
    "binary": (b"\x00\xff", "00ff"),
    "date": (date(2026, 2, 28), "2026-02-28"),
    "timestamp": (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02 03:04:05.000006"),
    "timestamp_ntz": (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03:04:05.000000"),
}
EVERY_TYPE = Schema(tuple(Column(f"c{number}", parse_type(text)) for number, text in enumerate(TYPED)))
VALUES = tuple(value for value, _ in TYPED.values())

DIALECTS = [
    Dialect(),
    Dialect(delimiter="\t"),
    Dialect(delimiter="|", quote="'"),
    Dialect(delimiter="^", quote="]", null_text=""),
    Dialect(delimiter="-", null_text=r"\N"),
    Dialect(quote=""),
    Dialect(delimiter=";", quote="", null_text=""),
]
PIECES = ["", "NULL", r"\N", *"a \"']^,|-;\t\r\n\\é雷", "\r\n", BOM]
SPECIAL = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
CELLS = st.none() | SPECIAL | ANY_TEXT


@st.composite
def styles(draw: st.DrawFn) -> Style:
    return Style(
        dialect=draw(st.sampled_from(DIALECTS)),
        row_end=draw(st.sampled_from(["\n", "\r\n"])),
        has_header=draw(st.booleans()),
        is_gzip=draw(st.booleans()),
        has_op_in_load=draw(st.booleans()),
        timestamp_column=draw(st.none() | st.just("committed")),
    )


def can_be_written(cell: str | None, dialect: Dialect) -> bool:
    if dialect.quote or cell is None:
        return True
    return (
        cell != dialect.null_text and not cell.startswith(BOM) and not set(cell) & {dialect.delimiter, "\r", "\n"}
    )


def writer(folder: Path, style: Style | None = None, schema: Schema = TEXTS) -> DmsWriter:
    return DmsWriter(folder, ITEM, schema, style)


def dimension(schema: Schema = TEXTS) -> Dimension:
    return Dimension(name=ITEM, schema=schema, key=(schema.names[0],))


@settings(deadline=None, max_examples=tries(100, 400))
@given(styles(), st.lists(st.tuples(ANY_TEXT.map(lambda t: f"k{t}"), CELLS, CELLS), min_size=1, max_size=5))
@example(Style(row_end="\n"), [("k", "a", "b\r")])
@example(Style(row_end="\r\n"), [("k", "a\r\nb", "b\r")])
@example(Style(), [("k", None, "NULL"), ("k", "", None)])
@example(Style(), [("k", "a, ", "b")])
def test_the_reference_reader_reads_what_is_written(style: Style, rows: list[tuple[str | None, ...]]) -> None:
    rows = [r for r in rows if all(can_be_written(cell, style.dialect) for cell in r)]
    images = [dict(zip(TEXTS.names, row, strict=True)) for row in rows]
    with TemporaryDirectory() as folder:
        one = writer(Path(folder), style)
        (loaded,) = one.load(rows, AT) or [None]
        changed = one.changes([Change(Operation.DELETE, row, AT) for row in rows], AT)
        time = None if style.timestamp_column is None else "2026-11-20 09:14:02.123456"
        op = "I" if style.has_op_in_load else None
        read = [] if loaded is None else list(rows_of(loaded, dimension(), style))
        assert read == [(op, time, image) for image in images]
        if rows or style.has_header:
            assert list(rows_of(changed, dimension(), style)) == [("D", time, image) for image in images]


@settings(deadline=None)
@given(CELLS, st.sampled_from([d for d in DIALECTS if not d.quote]))
def test_without_quotes_what_would_be_read_as_something_else_is_refused(cell: str | None, dialect: Dialect) -> None:
    with TemporaryDirectory() as folder:
        one = writer(Path(folder), Style(dialect=dialect))
        if can_be_written(cell, dialect):
            one.load([("k", cell, "b")], AT)
        else:
            with pytest.raises(ValueError, match="cannot be written without quotes"):
                one.load([("k", cell, "b")], AT)
            assert not list(one.folder.iterdir())


def test_each_type_has_its_text(tmp_path: Path) -> None:
    (path,) = writer(tmp_path, schema=EVERY_TYPE).load([VALUES, [None] * len(TYPED)], AT)
    written, nulls = content_of(path).splitlines()
    assert written == ",".join(text for _, text in TYPED.values())
    assert nulls == ",".join(["NULL"] * len(TYPED))


def test_decimals_and_numbers_are_written_exactly(tmp_path: Path) -> None:
    schema = Schema((Column("d", parse_type("decimal(38,20)")), Column("f", Type("double"))))
    rows = [(Decimal("0E-20"), 1e300), (Decimal("123456789012345678.00000000000000000001"), 5e-324)]
    (path,) = writer(tmp_path, schema=schema).load(rows, AT)
    read = [line.split(",") for line in content_of(path).splitlines()]
    assert [(Decimal(d), float(f)) for d, f in read] == rows
    assert not any("E" in d for d, _ in read)


def test_a_value_that_does_not_fit_its_type_is_refused(tmp_path: Path) -> None:
    schema = Schema((Column("price", parse_type("decimal(5,2)")),))
    with pytest.raises(pa.ArrowInvalid):
        writer(tmp_path, schema=schema).load([(Decimal("1.239"),)], AT)


def test_a_load_is_numbered_in_hexadecimal_and_goes_on(tmp_path: Path) -> None:
    rows = [(str(n), "a", "b") for n in range(20)]
    writer(tmp_path).load(rows[:18], AT, rows_per_file=2)
    last = writer(tmp_path).load(rows[18:], AT, rows_per_file=1)
    assert [path.name for path in last] == ["LOAD0000000A.csv", "LOAD0000000B.csv"]
    listed, others = Folder(tmp_path, PLACES).list(ITEM)
    assert sorted(item.order for item in listed) == list(range(1, 12))
    assert not others


def test_files_of_changes_are_named_by_the_time_they_were_closed(tmp_path: Path) -> None:
    one = writer(tmp_path, Style(is_gzip=True))
    change = [Change(Operation.INSERT, ("1", "a", "b"))]
    names = [one.changes(change, AT).name for _ in range(3)]
    assert names == ["20261120-091402123.csv.gz", "20261120-0914021231.csv.gz", "20261120-0914021232.csv.gz"]
    listed, _ = Folder(tmp_path, PLACES).list(ITEM)
    assert [item.name for item in sorted(listed, key=lambda item: item.order)] == names


def test_times_of_any_zone_are_written_in_utc(tmp_path: Path) -> None:
    at = AT.astimezone(timezone(timedelta(hours=-3)))
    one = writer(tmp_path, Style(timestamp_column="committed"))
    path = one.changes([Change(Operation.UPDATE, ("1", "a", "b"), at)], at)
    assert path.name == "20261120-091402123.csv"
    assert content_of(path) == "U,2026-11-20 09:14:02.123456,1,a,b\n"


def test_gzip_files_are_the_same_each_time(tmp_path: Path) -> None:
    (first,) = writer(tmp_path / "1", Style(is_gzip=True)).load([("1", "a", "b")], AT)
    (second,) = writer(tmp_path / "2", Style(is_gzip=True)).load([("1", "a", "b")], AT)
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) == b"1,a,b\n"


def test_no_reader_sees_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = writer(tmp_path)
    seen: list[tuple[int, list[str]]] = []

    def rows(self: DmsWriter, table: pa.Table) -> list[bytes]:
        listed, others = Folder(tmp_path, PLACES).list(ITEM)
        seen.append((len(listed), list(others)))
        return [b"whole\n"]

    monkeypatch.setattr(DmsWriter, "_csv", rows)
    one.load([("1", "a", "b")], AT)
    assert seen == [(0, [])]
    assert [path.name for path in one.folder.iterdir()] == ["LOAD00000001.csv"]


@pytest.mark.parametrize("is_gzip", [False, True])
def test_parquet_has_the_types_of_the_table(tmp_path: Path, is_gzip: bool) -> None:
    style = Style(format="parquet", timestamp_column="committed", is_gzip=is_gzip)
    one = writer(tmp_path, style, EVERY_TYPE)
    (loaded,) = one.load([VALUES], AT)
    changed = one.changes([Change(Operation.DELETE, [None] * len(TYPED), AT)], AT)
    assert (loaded.name, changed.name) == ("LOAD00000001.parquet", "20261120-091402123.parquet")
    time = Column("committed", Type("string"))
    assert read_footer(loaded, "shop.item").schema == Schema((time, *EVERY_TYPE))
    assert read_footer(changed, "shop.item").schema == Schema((Column("Op", Type("string")), time, *EVERY_TYPE))
    (row,) = pq.read_table(loaded).drop(["committed"]).to_pylist()
    assert tuple(row.values()) == VALUES


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_an_arrow_table_is_written_as_its_rows_are(tmp_path: Path, format_: str) -> None:
    style = replace(Style(timestamp_column="committed", has_header=True), format=format_)
    rows = [(str(n), None if n % 3 else "", f"a,{n}") for n in range(200_000)]
    table = pa.table([list(column) for column in zip(*rows, strict=True)], names=TEXTS.names)
    by_rows = writer(tmp_path / "rows", style).load(rows, AT, rows_per_file=150_000)
    by_table = writer(tmp_path / "table", style).load(
        table.select(["other", "one", "id"]), AT, rows_per_file=150_000
    )
    assert [path.read_bytes() for path in by_table] == [path.read_bytes() for path in by_rows]
    changes = table.append_column("Op", pa.repeat("U", len(rows)))
    changes = changes.append_column("committed", pa.repeat(pa.scalar(AT.replace(tzinfo=None)), len(rows)))
    one = writer(tmp_path / "table", style).changes(changes, AT)
    other = writer(tmp_path / "rows", style).changes([Change(Operation.UPDATE, row, AT) for row in rows], AT)
    assert one.read_bytes() == other.read_bytes()


def test_an_arrow_table_that_lacks_a_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="other"):
        writer(tmp_path).load(pa.table({"id": ["1"], "one": ["x"]}), AT)
