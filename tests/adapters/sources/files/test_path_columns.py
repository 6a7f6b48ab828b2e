"""Columns in the path of a file: what its folders say, and what stops a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_sources import entry_of, source_of
from pydantic import ValidationError

from lakeward.adapters.sources.files.file_columns import inspect_file, with_schema
from lakeward.adapters.sources.files.options import FilesOptions, FilesTableOptions
from lakeward.adapters.sources.files.paths.path_columns import (
    HIVE_NULL,
    count_unused_path_values,
    folder_values,
    path_cells,
)
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Place, Places
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.events import UNSET
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import Column, Schema, parse_type

NAME = TableName("shop", "item")
COLUMNS = {"dt": "date", "id": "bigint", "name": "string"}


def no_spark() -> None:
    raise AssertionError("Spark is not needed")


@dataclass
class Landing:
    """A landing folder of one table."""

    folder: Path

    def put(self, name: str, content: str | bytes) -> str:
        file = self.folder / "shop/item" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def parquet(self, file: str, **columns: list[Any]) -> str:
        self.put(file, b"")
        pq.write_table(pa.table(columns), self.folder / "shop/item" / file)
        return file

    def table(self, columns: Mapping[str, str] = COLUMNS, **options: Any) -> TableFiles:
        said = FilesOptions.model_validate({"path": ".", **options})
        schema = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in columns.items()))
        dimension = Dimension(name=NAME, schema=schema, key=("id", "dt"))
        folder = Folder(self.folder, Places(said.place()))
        return TableFiles(spark=no_spark, folder=folder, dimension=dimension, options=said)  # type: ignore[arg-type]


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)


def names_of(table: TableFiles, name: str) -> list[str]:
    return list(with_schema(table, [inspect_file(table, SourceObject(name, 1, 1, 1))]).schema.names)


def refusal(table: TableFiles, name: str) -> str:
    with pytest.raises(SchemaConflict) as refused:
        names_of(table, name)
    assert "Nothing of this batch was applied; other tables go on." in str(refused.value.todo)
    return str(refused.value)


FILES = {
    "a.csv": "id,name\n1,Ada\n",
    "b.csv": "1,Ada\n2,Bob\n",
    "c.json": '{"id": 1, "name": "Ada"}\n{"id": 2, "name": "Bob"}\n',
}


@pytest.mark.parametrize("file", [*FILES, "d.parquet"])
def test_a_column_that_is_in_the_path_alone_stops_the_table_until_the_settings_take_it_from_there(
    landing: Landing, file: str
) -> None:
    name = f"dt=2026-01-01/{file}"
    if file in FILES:
        landing.put(name, FILES[file])
    else:
        landing.parquet(name, id=[1], name=["Ada"])
    words = refusal(landing.table(), name)
    assert f"{name} lacks a column that its path has" in words
    assert 'Set `path_columns = ["dt"]`' in words
    table = landing.table(path_columns=["dt"], order_by="dt")
    assert names_of(table, name) == ["dt", "id", "name"]
    assert path_cells(table, name) == {"dt": "2026-01-01"}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("a.json", '{"id": 1, "dt": null}\n{"id": 2}\n'),
        ("a.csv", "id,name,dt\n1,Ada,\n2,Bob,\n"),
        ("b.csv", ",1,Ada\n"),
    ],
)
def test_a_column_without_a_value_in_any_line_is_in_the_path_alone(
    landing: Landing, file: str, content: str
) -> None:
    name = landing.put(f"dt=2026-01-01/{file}", content)
    assert "the file has no value of dt" in refusal(landing.table(), name)
    name = landing.put(f"dt=2026-01-02/{file}", "" if file == "a.json" else "id,name,dt\n")
    names_of(landing.table(), name)  # no row lacks a value where there is no row


def test_a_column_of_parquet_that_is_null_throughout_is_in_the_path_alone(landing: Landing) -> None:
    for nulls in ([None, None], pa.array([None, None], pa.date32())):
        name = landing.parquet("dt=2026-01-01/a.parquet", id=[1, 2], name=["a", "b"], dt=nulls)
        assert "the file has no value of dt" in refusal(landing.table(), name)
    for values in ([None, date(2026, 1, 1)], []):
        name = landing.parquet(
            "dt=2026-01-01/a.parquet", id=[1, 2][: len(values)], dt=pa.array(values, pa.date32())
        )
        assert "dt" in names_of(landing.table(), name)


def test_the_path_of_the_tables_folder_counts_as_well(landing: Landing) -> None:
    """Of that above it as well, and a folder below it says more."""
    landing.folder = landing.folder / "dt=2026-01-01"
    name = landing.put("a.csv", "id,name\n1,Ada\n")
    assert "the file has no value of dt" in refusal(landing.table(), name)
    assert path_cells(landing.table(path_columns=["dt"]), name) == {"dt": "2026-01-01"}
    assert path_cells(landing.table(path_columns=["dt"]), "dt=2026-02-02/a.csv") == {"dt": "2026-02-02"}
    landing.put("../city=Bonn/a.json", '{"id": 1, "dt": "2026-01-01"}\n')
    table = landing.table({**COLUMNS, "city": "string"})
    own = Place(table.folder.places.others.names, "shop/city=Bonn", "shop/city=Bonn")
    table = replace(table, folder=replace(table.folder, places=Places(own)))
    assert "no value of city" in refusal(table, "a.json")


@pytest.mark.parametrize(
    ("format_", "message"),
    [
        ("debezium", '{"op": "c", "after": {"id": 1, "name": "Ada"%s}, "source": {}}'),
        ("dms-json", '{"data": {"id": 1, "name": "Ada"%s}, "metadata": {"operation": "insert"}}'),
    ],
)
def test_a_column_that_no_message_has_is_in_the_path_alone(landing: Landing, format_: str, message: str) -> None:
    table, name = landing.table(format=format_), "dt=2026-01-01/a.json"
    landing.put(name, message % "")
    assert "take dt out of `columns`" in refusal(table, name)
    landing.put(name, message % "" + "\n" + message % ', "dt": "2026-01-01"')
    assert "dt" in names_of(table, name)
    landing.put(name, '{"op": "d", "before": {"id": 1}, "after": null}')  # a delete leaves no row
    assert "dt" in names_of(table, name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dt=2026-01-01/a.csv", "id,name,dt\n1,Ada,2026-01-01\n"),
        ("dt=2026-01-01/a.csv", "2026-01-01,1,Ada\n"),
        ("dt=2026-01-01/a.json", '{"id": 1}\n{"id": 2, "dt": "2026-01-01"}\n'),
        ("year=2026/a.json", '{"id": 1}\n'),
        ("dt-2026/a.json", '{"id": 1}\n'),
    ],
)
def test_a_file_that_has_its_columns_is_read_as_ever(landing: Landing, name: str, content: str) -> None:
    landing.put(name, content)
    assert names_of(landing.table(), name) == ["dt", "id", "name"]


def test_a_column_that_is_in_the_file_too_stops_the_table(landing: Landing) -> None:
    table = landing.table(path_columns=["dt"])
    for name in (
        landing.parquet("dt=2026-01-01/a.parquet", id=[1], name=["Ada"], dt=["2026-01-01"]),
        landing.put("dt=2026-01-01/a.csv", "id,name,dt\n1,Ada,2026-01-01\n"),
    ):
        assert "nothing says which of the two values is meant" in refusal(table, name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.csv", "its path has no folder `dt=…`"),
        ("dt=1/dt=2/a.csv", "its path has several folders `dt=…`"),
        ("dt=%FF/a.csv", "a value in its path is no UTF-8"),
    ],
)
def test_a_path_that_does_not_tell_a_column_stops_the_table(landing: Landing, name: str, words: str) -> None:
    landing.put(name, "id,name\n1,Ada\n")
    assert words in refusal(landing.table(path_columns=["dt"]), name)


def test_a_column_of_the_path_is_declared(landing: Landing) -> None:
    with pytest.raises(ConfigError, match="names 'day', which is not declared"):
        path_cells(landing.table(path_columns=["day"]), "day=1/a.csv")


def test_settings_of_path_columns_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValidationError, match="names a column twice"):
        FilesOptions(path=".", path_columns=["dt", "DT"])
    with pytest.raises(ValidationError, match="`path_columns` is not for messages"):
        FilesOptions(path=".", format="debezium", path_columns=["dt"])
    said = FilesOptions(path=".", path_columns=["dt"])
    with_own = said.with_own(FilesTableOptions(format="debezium"))
    assert FilesOptions.model_validate(with_own).path_columns == []
    assert said.with_own(FilesTableOptions(format="json"))["path_columns"] == ["dt"]


def test_a_row_in_quarantine_shows_the_values_of_its_path(landing: Landing) -> None:
    """A replay reads them again: else the row would come back with NULL there."""
    landing.put("dt=2026-01-01/a.csv", "id,name\nx,Ada\n")
    settings = {"path_columns": ["dt"], "absent": "unset"}
    source, dimension = source_of(landing.folder, settings), landing.table(**settings).dimension
    of_csv = source.cells(dimension, entry_of("x,Ada", "dt=2026-01-01/a.csv", "read", row=2))
    assert of_csv.after == {"dt": "2026-01-01", "id": "x", "name": "Ada"}
    of_json = source.cells(dimension, entry_of('{"id": "x"}', f"dt={HIVE_NULL}/a.json", "read"))
    assert of_json.after == {"dt": None, "id": "x", "name": UNSET}


@given(st.text(min_size=1).filter(lambda value: value != HIVE_NULL))
def test_any_text_is_a_value_as_hive_writes_it(value: str) -> None:
    """Hive encodes what a path may not have, one byte after the other."""
    written = "".join(f"%{byte:02X}" for byte in value.encode("utf-8", errors="surrogatepass"))
    if any("\ud800" <= character <= "\udfff" for character in value):
        with pytest.raises(ValueError, match="utf-8"):
            folder_values(f"dt={written}/a.csv")
    else:
        assert folder_values(f"dt={written}/a.csv") == [("dt", value)]


def test_text_that_is_no_percent_code_is_unchanged() -> None:
    assert folder_values("DT=a+b%zz=c/x=/=y/part=0.csv") == [("dt", "a+b%zz=c"), ("x", "")]


def test_rows_of_folders_that_no_column_takes_are_counted_where_no_columns_are_declared() -> None:
    own, paths = (
        Schema((Column("id", parse_type("int")), Column("y", parse_type("int")))),
        {"y=1/dt=2/a": 3, "dt=%FF/b": 1, "c": 5},
    )
    ((words, rows),) = count_unused_path_values(Schema(()), own, paths).items()
    assert ("'dt'" in words, rows) == (True, 3)
    assert count_unused_path_values(own, own, paths) == {}
    assert count_unused_path_values(Schema(()), own, {"y=1/a": 3, "b": 1}) == {}
