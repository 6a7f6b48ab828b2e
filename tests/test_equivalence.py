"""The same feed gives equal tables on every format: values and types, as readers other than Spark find them.

Random rows of every type are changed and deleted, some of them late. The reader of each format and DuckDB must find
the rows after the last change of each key, to the microsecond and the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import outside
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_lake import by_delta_rs, by_duckdb
from deltalake import DeltaTable
from hudi_lake import by_hudi_rs
from project import Project
from pyspark.sql import SparkSession

from lakeward.adapters.spark.session.compatibility import to_arrow

pytestmark = [pytest.mark.spark, pytest.mark.lap]

Draw: TypeAlias = Callable[[Random], Any]
_MOST: Final = 2**63 - 1


def moment(random: Random) -> datetime:
    edges = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1969, 12, 31, 23, 59, 59, 1)]
    drawn = datetime(1900, 1, 1) + timedelta(microseconds=random.randrange(200 * 365 * 86_400 * 10**6))
    return random.choice([*edges, drawn])


def text(random: Random) -> str:
    return random.choice(["", "NULL", "it's", 'a,b\n"c"', "ж\u0000z", "𝄞", "x" * random.randrange(50)])


INNER: Final = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
TYPES: Final[Mapping[str, tuple[pa.DataType, Draw]]] = {
    "flag": (pa.bool_(), lambda random: random.random() < 0.5),
    "small": (pa.int32(), lambda random: random.choice([0, -(2**31), 2**31 - 1, random.randrange(100)])),
    "big": (pa.int64(), lambda random: random.choice([0, -_MOST - 1, _MOST, random.randrange(100)])),
    "single": (pa.float32(), lambda random: random.choice([0.5, math.inf, -math.inf, math.nan, -0.0, 2.0**100])),
    "double": (pa.float64(), lambda random: random.choice([0.1, math.inf, math.nan, -0.0, 5e-324, 1.7e308])),
    "price": (pa.decimal128(8, 2), lambda random: Decimal(random.randrange(-(10**8) + 1, 10**8)).scaleb(-2)),
    "wide": (pa.decimal128(38, 0), lambda random: Decimal(random.choice([-1, 1]) * random.randrange(10**38))),
    "fine": (pa.decimal128(38, 38), lambda random: Decimal(random.randrange(10**38)).scaleb(-38)),
    "note": (pa.string(), text),
    "raw": (pa.binary(), lambda random: random.randbytes(random.randrange(5))),
    "day": (pa.date32(), lambda random: random.choice([date.min, date.max, date(1582, 10, 10), date(2026, 2, 28)])),
    "at": (pa.timestamp("us", "UTC"), lambda random: moment(random).replace(tzinfo=UTC)),
    "local": (pa.timestamp("us"), moment),
    "one": (INNER, lambda random: {"a": random.choice([None, 1]), "b": random.choice([None, [], ["x", None]])}),
    "many": (pa.list_(INNER), lambda random: random.choice([[], [None], [{"a": 1, "b": []}]])),
    "named": (pa.map_(pa.string(), pa.int64()), lambda random: [("k", random.choice([None, _MOST]))]),
}
UNKNOWN_TO_HUDI_RS: Final = "local"
"""hudi-rs panics at such a column, so Spark reads a table that has one."""
KINDS: Final = {
    "iceberg": 'write_mode = "merge-on-read"',
    "iceberg, copy-on-write": 'write_mode = "copy-on-write"\npartition_by = ["day"]',
    "delta": 'write_mode = "merge-on-read"',
    "delta, copy-on-write": 'write_mode = "copy-on-write"\npartition_by = ["flag"]',
    "hudi": "buckets = 2",
    "hudi, every type": "",
    "hudi, copy-on-write": 'write_mode = "copy-on-write"\npartition_by = ["day"]\nbuckets = 1',
}
OF_LINES: Final = [
    pytest.param(
        kind,
        marks=[
            pytest.mark.hudi if "hudi" in kind else pytest.mark.lines,
            *([pytest.mark.long] if "copy-on-write" in kind else []),
        ],
    )
    for kind in KINDS
]
"""The gate has the default write mode of each format."""


def feed(seed: int, folder: Path, names: Collection[str]) -> dict[int, Mapping[str, Any]]:
    """Deliver three files of changes of thirty keys, some of them late; return the rows that they leave.

    The values of a column do not depend on the other columns, so all formats get the same feed.
    """
    random, drawn = Random(seed), {name: Random(f"{seed} {name}") for name in names}
    known = {"Op": pa.string(), "changed": pa.timestamp("us"), "id": pa.int32()}
    schema = pa.schema([*known.items(), *((name, TYPES[name][0]) for name in names)])
    left: dict[int, Mapping[str, Any]] = {}
    files: list[list[Mapping[str, Any]]] = [[], [], []]
    for number in range(180):
        key, operation = random.randrange(30), random.choice("IUUD")
        cells = {name: TYPES[name][1](own) if own.random() < 0.9 else None for name, own in drawn.items()}
        at = datetime(2026, 11, 21, 10) + timedelta(minutes=number)
        delay = random.choice([0, 0, 0, 0, 1])
        files[min(2, number // 60 + delay)].append({"Op": operation, "changed": at, "id": key, **cells})
        left.pop(key, None)
        if operation != "D":
            left[key] = cells
    folder.mkdir(parents=True, exist_ok=True)
    for hour, rows in enumerate(files, 10):
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"20261121-{hour}0000000.parquet")
    return left


def readers(project: Project, names: Collection[str], spark: SparkSession) -> Mapping[str, pa.Table]:
    """Return the table as each reader finds it."""
    lake = project.folder / "lake"
    if project.kind == "hudi":
        path = lake / "shop/item"
        if UNKNOWN_TO_HUDI_RS in names:
            return {"Spark": to_arrow(spark.newSession().read.format("hudi").load(str(path)))}
        return {"hudi-rs": by_hudi_rs(path)}
    if project.kind == "delta":
        path = str(lake / "shop/item")
        return {"delta-rs": by_delta_rs(DeltaTable(path)), "DuckDB": by_duckdb(path)}
    own = outside.by_pyiceberg(lake, "shop", "item", ["id", *names])
    with outside.duck() as duck:
        file = outside.metadata(lake, "shop", "item")
        return {"PyIceberg": own, "DuckDB": duck.execute("SELECT * FROM iceberg_scan(?)", [file]).to_arrow_table()}


def plain(value: Any) -> Any:
    """Return a value for comparison: NaN equals itself, and zero has a sign."""
    match value:
        case float():
            return repr(value)
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case _:
            return value


_TEXTS: Final = {pa.string(), pa.large_string(), pa.string_view()}
_BYTES: Final = {pa.binary(), pa.large_binary(), pa.binary_view()}


def are_equivalent(one: pa.DataType, other: pa.DataType) -> bool:
    """Return True for equivalent types: readers differ in the size of texts and in names of zones."""
    if pa.types.is_nested(one):
        both = [(one.field(i).type, other.field(i).type) for i in range(one.num_fields)]
        return one.id == other.id and all(are_equivalent(*pair) for pair in both)
    for family in (_TEXTS, _BYTES):
        if one in family:
            return other in family
    if pa.types.is_timestamp(one):
        return pa.types.is_timestamp(other) and one.unit == other.unit and bool(one.tz) == bool(other.tz)
    return bool(one == other)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
@pytest.mark.parametrize("kind", OF_LINES)
def test_every_reader_of_every_format_finds_the_rows_of_the_feed(
    project: Project, spark: SparkSession, kind: str, seed: int
) -> None:
    project.kind = kind.split(",", maxsplit=1)[0]
    table = f'[tables."shop.item"]\nkey = ["id"]\nlateness = "4h"\n{KINDS[kind]}\n'
    project.configure(table, source='max_files = 2\ntimestamp_column = "changed"')
    is_for_hudi_rs = project.kind == "hudi" and "every type" not in kind
    names = [name for name in TYPES if name != UNKNOWN_TO_HUDI_RS or not is_for_hudi_rs]
    left = feed(seed, project.folder / "landing/shop/item", names)
    project.run()
    for reader, found_there in readers(project, names, spark).items():
        for name, (type_, _) in [(name, TYPES[name]) for name in names]:
            found = found_there.schema.field(name).type
            assert are_equivalent(type_, found), f"{reader}: {name} is {found}, and not {type_}"
        rows = {row["id"]: row for row in found_there.to_pylist()}
        assert rows.keys() == left.keys()
        # PyIceberg 0.12 reads an empty list of structs where there is none.
        cells = [
            (key, name)
            for key in left
            for name in names
            if (reader, name, left[key][name]) != ("PyIceberg", "many", None)
        ]
        wrong = [
            f"{reader}: {name} of {key} is {rows[key][name]!r}, and not {left[key][name]!r}"
            for key, name in cells
            if plain(rows[key][name]) != plain(left[key][name])
        ]
        assert wrong == []
