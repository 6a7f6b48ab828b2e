"""Plain files of a small batch are read here as Spark reads them: whole event frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import plain_sources
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.sources.files.file_columns import inspect_files, leading_alike, with_schema
from lakeward.adapters.sources.files.local.event_frame import read_here
from lakeward.adapters.sources.files.local.json_lines import SmallLines
from lakeward.adapters.sources.files.source import FilesSource
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import LocalFrame, in_spark
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Sequences
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.schema import Column, Schema, parse_type

NAME: Final = TableName("shop", "item")


@dataclass(frozen=True)
class Case:
    """Settings of a source, the types of a table's columns, and texts that stand in those of its files."""

    options: Mapping[str, Any]
    types: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)
    is_parquet: bool = False


TIMES: Final = "2026-01-02 03:04:05|2026-01-02|2026-01-02T03:04:05.25|x|"
CASES: Final = {
    "a column that is none of the table's tells the operation": Case(
        {"operation": {"column": "op", "delete": ["x", "gone"]}, "order_by": "at"},
        {"id": "int", "a": "string", "at": "timestamp"},
        {"id": "1|2|3|x|", "a": "b|c|", "at": TIMES, "op": "x|gone|new|{1}||X| gone"},
    ),
    "columns of the table tell operation, order and time": Case(
        {
            "operation": {"column": "op", "insert": ["i"], "update": ["u"], "delete": ["d"]},
            "order_by": "n",
            "time": "day",
            "null_text": "",
        },
        {"id": "int", "op": "string", "n": "decimal(10,0)", "day": "date"},
        {"id": "1|2|3", "op": "i|u|d|z|", "n": "5|-1|0|x|", "day": "2026-01-02|1970-01-01|"},
    ),
    "Parquet": Case({"format": "parquet", "order_by": "n", "time": "at"}, {}, is_parquet=True),
}


def write(folder: Path, case: Case, random: Random) -> None:
    folder.mkdir(parents=True)
    for number in range(60):
        count = random.randrange(1, 8)
        if case.is_parquet:
            times = pa.array([random.randrange(2**44) for _ in range(count)], pa.timestamp("ms"))
            rows = pa.table({"id": range(count), "n": random.sample(range(99), count), "at": times})
            pq.write_table(rows, folder / f"{number:03}.parquet")
            continue
        cells = {name: texts.split("|") for name, texts in case.texts.items()}
        lines = [",".join(cells), *(",".join(map(random.choice, cells.values())) for _ in range(count))]
        (folder / f"{number:03}.csv").write_text("\n".join(lines) + "\n", "utf-8")


def source_of(case: Case, folder: Path, spark: SparkSession | None) -> FilesSource:
    return plain_sources.source_of(folder, case.options, spark, small_batch=20_000)


def dimension(case: Case) -> Dimension:
    schema = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in case.types.items()))
    return Dimension(name=NAME, schema=schema, key=("id",), sequences=Sequences.PLACES)


@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
def test_event_frames_are_those_of_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    write(tmp_path / "shop" / "item", case, Random(name))
    frames = []
    for session, small_batch in ((None, 20_000), (spark, 0)):
        source = source_of(case, tmp_path, session)
        source.small_batch = small_batch
        table = source._table(dimension(case))
        objects = source.select_objects(table.dimension, ObjectHistory()).objects
        files = leading_alike(inspect_files(table, objects, None))
        assert len(files) > 50
        table = replace(table, dimension=with_schema(table, files))
        frames.append(source._frame(table, files, ObjectSelection(), SmallLines(small_batch)))
    here, by_spark = frames
    assert isinstance(here, LocalFrame)
    place = [(names.OBJECT, "ascending"), (names.ROW, "ascending")]
    wanted = to_arrow(in_spark(by_spark)).sort_by(place)
    assert {f.name: str(f.type).replace(" not null", "") for f in here.rows.schema} == {
        f.name: str(f.type).replace(" not null", "") for f in wanted.schema
    }
    for own, other in zip(here.rows.to_pylist(), wanted.to_pylist(), strict=True):
        assert repr(own) == repr(other)
    assert len(set(here.rows.column(names.OPERATION).to_pylist())) > (0 if case.is_parquet else 1)


@pytest.mark.parametrize(
    ("options", "types", "row", "why"),
    [
        ({"order_by": "at"}, {"id": "int", "at": "date"}, "1,1899-01-01", "before 1900"),
        ({"operation": {"column": "n", "delete": ["1"]}}, {"id": "int", "n": "int"}, "1,1", "is no text"),
        ({"path_columns": ["n"]}, {"id": "int", "a": "string", "n": "int"}, "1,x", "paths of files"),
        ({"format": "json"}, {"id": "int", "a": "string"}, '{"id": 1}', "neither CSV nor Parquet"),
    ],
)
def test_other_files_are_left_to_spark(
    tmp_path: Path, options: Mapping[str, Any], types: Mapping[str, str], row: str, why: str
) -> None:
    case = Case(options, types)
    name = "a.json" if "format" in options else "a.csv"
    file = tmp_path / "shop" / "item" / ("n=1" if "path_columns" in options else "") / name
    file.parent.mkdir(parents=True)
    header = ",".join([*types][:2]) + "\n"
    file.write_text(f"{row}\n" if "format" in options else f"{header}{row}\n", "utf-8")
    source = source_of(case, tmp_path, None)
    table = source._table(dimension(case))
    files = inspect_files(table, source.select_objects(table.dimension, ObjectHistory()).objects, None)
    with pytest.raises(SparkNeeded, match=why):
        read_here(table, files, 20_000)
