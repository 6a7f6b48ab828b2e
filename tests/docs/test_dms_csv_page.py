"""`docs/reference/dms-csv.md` is the specification: the reference reader reads each of its examples."""

from __future__ import annotations

import json
import tomllib

import pytest
from pages import codes, sections, tables

from lakeward.adapters.sources.csv.layout import OP, TIME, ExpectedLayout, find_layout
from lakeward.adapters.sources.csv.parser import BOM, Dialect, records
from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.dms.paths.file_names import read_name
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import UNSET
from lakeward.core.schema import Column, Schema, Type

PAGE = "docs/reference/dms-csv.md"
SHOWN = {"␊": "\n", "␍": "\r", "␠": " ", "[BOM]": BOM}
CUSTOMER = Dimension(
    name=TableName("shop", "customer"),
    schema=Schema(tuple(Column(name, Type("string")) for name in ("id", "name", "city"))),
)


def rows_under(heading: str, *names: str) -> list[tuple[str, ...]]:
    """Return the rows of the tables under a heading that have these columns."""
    actual = tables(sections(PAGE)[heading])
    return [tuple(row[name] for name in names) for table in actual for row in table if set(row) == set(names)]


def examples() -> list[tuple[str, ...]]:
    headings = ("Rows", "Fields", "NULL and the empty text")
    return [row for heading in headings for row in rows_under(heading, "file", "settings", "reading")]


def unescape(readings: str) -> str:
    for sign, character in SHOWN.items():
        readings = readings.replace(sign, character)
    return readings


def dialect(settings: str) -> Dialect:
    keys = tomllib.loads("\n".join(codes(settings)))
    options = DmsOptions(path="landing/", **keys)
    return Dialect(options.delimiter, options.quote, options.null_text, options.no_sup_value, options.row_delimiter)


def test_the_page_has_its_examples() -> None:
    assert len(examples()) >= 20


@pytest.mark.parametrize(("file", "settings", "reading"), examples())
def test_an_example_is_read_as_the_page_says(file: str, settings: str, reading: str) -> None:
    (content,) = codes(file)
    expected = [None if row == "broken" else json.loads(row) for row in codes(reading)]
    actual = [record.fields for record in records(unescape(content), dialect(settings))]
    readings = [None if row is None else ["unset" if cell is UNSET else cell for cell in row] for row in actual]
    assert readings == expected


@pytest.mark.parametrize(("head", "load", "columns"), rows_under("Columns", "first rows", "full load", "columns"))
def test_a_layout_is_found_as_the_page_says(head: str, load: str, columns: str) -> None:
    (content,) = codes(head)
    expected = ExpectedLayout(CUSTOMER, Dialect(), "Op", "ts" if "ts" in codes(columns) else None)
    actual = find_layout("file.csv", unescape(content), expected, is_load=load == "yes")
    assert [{OP: "Op", TIME: "ts"}.get(column, column) for column in actual.columns] == codes(columns)


def test_the_names_on_the_page_are_names_of_dms() -> None:
    names = [name for (cell, *_) in rows_under("Files", "name", "what it is", "place") for name in codes(cell)]
    assert names
    assert all(read_name(name) for name in names)
