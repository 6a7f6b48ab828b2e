"""A line of JSON in quarantine shows what its reader made of it, whatever stands in it.

The readers take lines apart in Spark, and the quarantine takes them apart in Python. Each sort of line is drawn by
hypothesis, and Spark reads all of a format at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_sources import entry_of, source_of
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.sources.files.json_lines.frames import as_messages, json_rows, strange
from lakeward.adapters.sources.files.json_lines.quarantined_cells import cells_of_line
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.decoded import OTHER_TABLE, to_rows
from lakeward.adapters.spark.frames.source_rows import (
    BLANK,
    BROKEN,
    KEY_MISFIT,
    LINE,
    MISFIT,
    NAME,
    OP_TEXT,
    VALUE,
    before_column,
)
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import UNSET
from lakeward.core.ports import Cells
from lakeward.core.schema import Column, Schema, Type, parse_type

COLUMNS: Final = ("id", "body", "size")
UNAVAILABLE: Final = "__debezium_unavailable_value"
LINES: Final = 300

EDGES: Final = """
0 -0 0.0 -0.0 1.0 1.50 100.00 100 1e2 1E+2 1e-7 -1E-7 0.001 0.00099e0 9999999.0 1e7 12345678e0 2e-44
123456789012345678901234567890123456789 12345678901234567890123456789012345678 1e400 -1e400 1e-400
0e0 -0e5 0.1234567890123456789012345678901234567 1.12345678901234567890123456789012345678
0.00000000000000000000000000000000000001 9223372036854775807 9223372036854775808 1.0e10
2.2250738585072014E-308 4.9e-324 1.7976931348623157e308 2e23
8.41e21 1.0E23 5e-324 100000000000000000000000000000000000000.5
"""
"""Numbers, with white space between."""

number = st.one_of(
    st.sampled_from(EDGES.split()),
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
word = st.one_of(
    st.sampled_from(["", "a", "é", "\U0001f600", "\uffff", "\u2028", "\x00", "\x7f", "null"]),
    st.sampled_from([UNAVAILABLE, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", '{"id": 7}', "1", "-0", " "]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
escaped_word = st.one_of(
    word.filter(lambda text: text.isprintable()).map(lambda text: json.dumps(text, ensure_ascii=False)),
    word.map(json.dumps),
    st.sampled_from(['"\\ud800"', '"\\udc00a"', '"\\ud83d\\ude00"', '"\\ud800\\ud800"', '"\\/"']),
)


def object_of(fields: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in fields) + "}"


scalar = st.one_of(number, number, escaped_word, st.sampled_from(["null", "true", "false"]))
WRONG: Final = (
    *("01", "1.", ".5", "+1", "NaN", "-Infinity", "0x1", "True", ""),
    *("'a'", '"\t"', '"\x01"', '"\\x"', '"\\u00"'),
)
value = st.recursive(
    scalar,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(escaped_word, inner), max_size=3).map(object_of),
    ),
    max_leaves=5,
)
cell = st.integers(0, 9).flatmap(lambda drawn: value if drawn else st.sampled_from(WRONG))
field_name = st.sampled_from([f'"{n}"' for n in ("id", "body", "size", "Id", "BODY", "\\u0069d", "id ", "BI_id")])
fields = st.lists(st.tuples(field_name, cell), max_size=4)
row = fields.map(object_of)
right_row = st.builds(lambda body, size: object_of([('"id"', "1"), ('"body"', body), ('"size"', size)]), cell, cell)
image = st.one_of(right_row, right_row, row, st.sampled_from(["null", '"text"', '"{\\"id\\": 1}"', "{}"]))
behind = st.sampled_from(
    [*[""] * 20, " ", "\r", "}", ",", " x", "{}", ', "b": 1', '}, {"it": {}', "]", "} x", "],[1"]
)

envelope = st.builds(
    lambda op, before, after, more: object_of([('"op"', op), ('"before"', before), ('"after"', after), *more]),
    st.sampled_from(['"c"', '"u"', '"u"', '"d"', '"r"', "null", '"x"', "1"]),
    image,
    image,
    st.lists(st.tuples(st.sampled_from(['"Op"', '"AFTER"', '"after"', '"ts_ms"', '"payload"']), image), max_size=1),
)
wrapped = st.builds(
    lambda inner, how: {
        "plain": inner,
        "payload": object_of([('"payload"', inner)]),
        "schema": object_of([('"schema"', "null"), ('"payload"', inner)]),
        "text": object_of([('"schema"', "{}"), ('"payload"', json.dumps(inner))]),
    }[how],
    envelope,
    st.sampled_from(["plain", "plain", "payload", "schema", "text"]),
)
said = st.sampled_from([('"__op"', '"u"'), ('"__op"', '"c"'), ('"__deleted"', '"true"'), ('"__op"', "null")])
flat = st.builds(
    lambda body, how: {"plain": body, "payload": object_of([('"payload"', body)])}[how],
    st.lists(st.one_of(st.tuples(field_name, cell), said), max_size=5).map(object_of),
    st.sampled_from(["plain", "plain", "payload"]),
)
record = st.builds(
    lambda key, body, as_text, headers: object_of(
        [('"key"', key), ('"value"', json.dumps(body) if as_text else body), ('"headers"', headers)]
    ),
    st.one_of(row, st.just("null"), st.just('"{\\"id\\": 3}"'), st.just('{"payload": {"id": 4}}')),
    wrapped,
    st.booleans(),
    st.sampled_from(
        [
            "null",
            "[]",
            '{"__debezium.oldkey": "{\\"id\\": 5}"}',
            '[["__debezium.oldkey", "{\\"id\\": 6}"]]',
            '[{"key": "__debezium.oldkey", "value": "{\\"payload\\": {\\"id\\": 7}}"}]',
        ]
    ),
)
dms = st.builds(
    lambda data, said, before: object_of(
        [('"data"', data), ('"metadata"', object_of([('"operation"', said)])), ('"before-image"', before)]
    ),
    image,
    st.sampled_from(['"update"', '"update"', '"insert"', '"delete"', "null"]),
    image,
)

FORMATS: Final[Mapping[str, tuple[st.SearchStrategy[str], Mapping[str, Any]]]] = {
    "json": (st.one_of(row, right_row), {"format": "json"}),
    "json without NULLs": (row, {"format": "json", "absent": "unset"}),
    "debezium": (wrapped, {"format": "debezium"}),
    "debezium in records": (record, {"format": "debezium", "line": "record"}),
    "debezium flattened": (flat, {"format": "debezium", "form": "flattened"}),
    "dms-json": (dms, {"format": "dms-json"}),
    "dms-json with a prefix": (dms, {"format": "dms-json", "before_image_prefix": "BI_"}),
}


def drawn(lines: st.SearchStrategy[str]) -> Sequence[str]:
    """Return lines as hypothesis draws them; a line has no end of line within."""
    found: list[str] = []

    @settings(max_examples=LINES, database=None)
    @given(st.tuples(lines, behind).map("".join))
    def draw(line: str) -> None:
        if "\n" not in line:
            found.append(line)

    draw()
    return list(dict.fromkeys(found))


def table_of(told: Mapping[str, Any], spark: SparkSession, body: str = "string") -> TableFiles:
    source = source_of(Path("landing"), told, spark)
    types = {"body": parse_type(body)}
    schema = Schema(tuple(Column(name, types.get(name, Type("string"))) for name in COLUMNS))
    return source._table(Dimension(name=TableName("public", "docs"), schema=schema, key=("id",)))


def read_by_spark(table: TableFiles, lines: Sequence[str], spark: SparkSession) -> DataFrame:
    rows = [(line, "1.json", number) for number, line in enumerate(lines)]
    frame = spark.createDataFrame(rows, f"{VALUE} string, {NAME} string, {LINE} bigint").coalesce(2)
    if table.options.format == "json":
        return json_rows(frame, table.reading, {}, keeps_absent=table.options.absent == "unset")
    decoder = table.decoder
    opened = decoder.parse(as_messages(frame, table.options.line), table.dimension.source)
    own = strange(decoder.row, COLUMNS, decoder.not_columns)
    return to_rows(opened, table.reading, decoder.decode(table.reading), table.reading.written, own, OTHER_TABLE)


def _alike(cells: Cells) -> str:
    """Return cells to be compared: before Java 19 a double may have more digits than tell it (JDK-4511638)."""
    return re.sub(r"-?[0-9]+[.][0-9]+E-?[0-9]+", lambda found: repr(float(found[0])), repr(cells))


NOTHING: Final = Cells(dict.fromkeys(COLUMNS))
"""Of a message without an image no cell is known, and Spark has no word for that."""


def cells_of(row: Mapping[str, Any]) -> Cells:
    """Return the cells that Spark found."""
    unset = row.get(names.UNSET) or ()
    after = {name: UNSET if name in unset else row[name] for name in COLUMNS}
    was = row.get(before_column(0))
    return Cells(after, {} if was is None else {"id": was})


def operation_of(row: Mapping[str, Any]) -> str | None:
    """Return the operation of a row; one without a word for it updates where it does not send all."""
    said: str | None = row[OP_TEXT]
    return said if said != "upsert" else "update" if row[names.UNSET] else "read"


def in_python(table: TableFiles, line: str, operation: str | None) -> Cells:
    """Return the cells of the table's columns; others are shown beside them."""
    found = cells_of_line(table, entry_of(line, "1.json", operation))
    return replace(found, after={name: cell for name, cell in found.after.items() if name in COLUMNS})


IN_THE_GATE: Final = {"json", "debezium in records"}


@pytest.mark.spark
@pytest.mark.parametrize(
    "format_", [pytest.param(name, marks=() if name in IN_THE_GATE else pytest.mark.long) for name in FORMATS]
)
def test_a_line_in_quarantine_has_the_cells_that_its_reader_found(format_: str, spark: SparkSession) -> None:
    lines, told = FORMATS[format_]
    table, drawn_lines = table_of(told, spark), drawn(lines)
    wrong = []
    for found in read_by_spark(table, drawn_lines, spark).collect():
        row = found.asDict()
        is_no_object = any(words in (row[BROKEN] or "") for words in ("JSON object", "half of a character"))
        if row[BLANK] or (row[BROKEN] is not None and not is_no_object):
            continue
        line, operation = drawn_lines[row[LINE]], operation_of(row)
        if row[MISFIT] or row[KEY_MISFIT]:  # Spark rounds a number, and the quarantine has it as it is written
            continue
        shown, expected = in_python(table, line, operation), Cells() if is_no_object else cells_of(row)
        if _alike(shown) != _alike(expected) and not (shown == Cells() and expected == NOTHING):
            wrong.append((line, operation, shown, expected))
    assert not wrong, "\n".join(map(str, wrong[:3]))


ROUNDED: Final = {
    "123456789012345678901234567890123456789012": True,
    "1.79769e400": True,
    "-1e400": True,
    "0.1234567890123456789012345678901234567890123": True,
    "1.00000000000000000000000000000000000000000001": True,
    "9.007199254740993e15": True,
    "1e-400": True,
    "1.10": False,
    "-0.0": False,
    "1e2": False,
    "12345678901234567890123456789012345678": False,
    '"1.2345678901234568E41"': False,
    '"Infinity"': False,
    "0.5": False,
}
"""Values of JSON, and whether a parser that makes doubles of them takes digits away."""


@pytest.mark.spark
def test_a_number_that_is_rounded_is_no_text(spark: SparkSession) -> None:
    """Its row goes into quarantine, where the number stands as it is written."""
    told = {"json": '{"id": "1", "body": %s}', "debezium": '{"op": "c", "after": {"id": "1", "body": %s}}'}
    told |= {"dms-json": '{"data": {"id": "1", "body": %s}, "metadata": {"operation": "insert"}}'}
    for format_, line in told.items():
        table, lines = table_of({"format": format_}, spark), [line % value for value in ROUNDED]
        for row in read_by_spark(table, lines, spark).collect():
            value = [*ROUNDED][row[LINE]]
            assert bool(row[MISFIT]) is ROUNDED[value], (format_, value, row[MISFIT], row["body"])
            shown = in_python(table, lines[row[LINE]], "insert").after["body"]
            assert shown == (value if ROUNDED[value] else row["body"]), (format_, value)


LONG_FRACTION: Final = "0.1000000000000000055511151231257827021181583404541015625"

ALTERED: Final = {
    "double": {
        "1e400": True,
        "-1e400": True,
        "1" + "0" * 320: True,
        "1e-400": True,
        "0." + "0" * 330 + "1": True,
        "0e-400": False,
        "0.0": False,
        "1e308": False,
        "5e-324": False,
        LONG_FRACTION: False,
        '"Infinity"': False,
        "9.007199254740993e15": False,
    },
    "decimal(38,18)": {
        "1.2345678901234567891e1": True,
        "0.1234567890123456789012345678901234567890123": True,
        "0.99999999999999999e0": True,
        "4.99999999999999999999999999999999999999999999": True,
        "1e-400": True,
        LONG_FRACTION: True,
        "1.25e1": False,
        "2.342361e+06": False,
        "0.123456789012345678": False,
    },
    "int": {
        "0.99999999999999999e0": True,
        "1.00000000000000001e2": True,
        "5.00000000000000000000000000000000000000001": True,
        "-1e-324": True,
        "0." + "0" * 400 + "1": True,
        "0e-400": False,
        "1.23456700000000e7": False,
        "12": False,
    },
}
"""Values of JSON by the type of their column, and whether a parser that makes doubles has another number there."""


@pytest.mark.spark
def test_a_number_that_the_parser_alters_is_no_number(spark: SparkSession) -> None:
    """Its row goes into quarantine, where the number stands as it is written, so that it does not fit there."""
    told = {"json": '{"id": "1", "body": %s}', "debezium": '{"op": "c", "after": {"id": "1", "body": %s}}'}
    for type_, values in ALTERED.items():
        for format_, line in told.items():
            table = table_of({"format": format_}, spark, type_)
            lines = [line % value for value in values]
            for row in read_by_spark(table, lines, spark).collect():
                value = [*values][row[LINE]]
                assert bool(row[MISFIT]) is values[value], (type_, format_, value, row[MISFIT], row["body"])
                shown = in_python(table, lines[row[LINE]], "insert").after["body"]
                assert shown == value or not values[value], (type_, format_, value, shown)
