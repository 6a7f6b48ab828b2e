"""New and wider fields of structs, lists and maps: the table follows by path, or says why it stops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import Project

pytestmark = pytest.mark.spark

THEN = pa.struct([("city", pa.string()), ("zip", pa.int32())])
NOW = pa.struct([("zip", pa.int64()), ("land", pa.string()), ("city", pa.string())])


def configure(project: Project, more: str = "", source: str = "") -> None:
    project.configure(f'[tables."shop.item"]\nkey = ["id"]\n{more}\n', source)


def deliver(project: Project, hour: int, rows: Sequence[Sequence[Any]], inner: pa.DataType) -> None:
    """Deliver rows with operation, key, commit time, and the contents of a struct, a list and a map."""
    columns = [("Op", pa.string()), ("id", pa.int32()), ("at", pa.timestamp("us"))]
    columns += [("one", inner), ("many", pa.list_(inner)), ("named", pa.map_(pa.string(), inner))]
    names = [name for name, _ in columns]
    whole = [
        dict(zip(names, [op, key, at * 1_000_000, value, [value, None], [("k", value)]], strict=True))
        for op, key, at, value in rows
    ]
    folder = project.folder / "landing/shop/item"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(whole, pa.schema(columns)), folder / f"20261121-{hour}0000000.parquet")


def rows(project: Project) -> dict[int, Any]:
    found = project.rows(columns=("id", "one", "many", "named"))
    for _, one, many, named in found:
        assert many == [one, None]
        assert dict(named) == {"k": one}
    return {key: one for key, one, _, _ in found}


@pytest.mark.parametrize(
    "kind",
    [
        "iceberg",
        pytest.param("delta", marks=pytest.mark.long),
        pytest.param("hudi", marks=[pytest.mark.hudi, pytest.mark.long]),
    ],
)
@pytest.mark.parametrize("layout", ["", pytest.param('write_mode = "copy-on-write"', marks=pytest.mark.long)])
def test_fields_are_added_and_widened_by_path(project: Project, kind: str, layout: str) -> None:
    """Change log and waiting events follow: a late event and a row behind a held key have the new fields."""
    project.kind = kind
    source = 'timestamp_column = "at"'
    configure(project, layout, source)
    deliver(project, 10, [("I", 1, 10, {"city": "a", "zip": 1}), ("I", 2, 10, None), ("X", 3, 10, None)], THEN)
    deliver(project, 11, [("I", 3, 20, {"city": "w", "zip": 3})], THEN)
    project.run(code=3)
    deliver(project, 12, [("U", 1, 30, {"city": "b", "zip": 2**40, "land": "x"})], NOW)
    deliver(project, 13, [("U", 3, 30, {"city": "v", "zip": 2**41, "land": "y"})], NOW)
    changes = project.call("plan", "--json").document["tables"][0]["schema_changes"]
    assert [(one["kind"], one["column"]) for one in changes] == [
        ("add", "one.land"),
        ("widen", "one.zip"),
        ("add", "many.element.land"),
        ("widen", "many.element.zip"),
        ("add", "named.value.land"),
        ("widen", "named.value.zip"),
    ]
    project.run(code=3)
    deliver(project, 14, [("U", 1, 25, {"city": "late", "zip": 5}), ("U", 2, 25, {"city": "c", "zip": 6})], THEN)
    refused = project.fails()
    assert "column many.element.land (string) is missing" in refused
    assert "one.land" not in refused
    (project.folder / "landing/shop/item/20261121-140000000.parquet").unlink()
    project.call("quarantine", "discard", "shop.item", "3")
    assert rows(project) == {
        1: {"city": "b", "zip": 2**40, "land": "x"},
        2: None,
        3: {"city": "v", "zip": 2**41, "land": "y"},
    }
    output = project.call("status", "--schema").out
    assert "many.element.land" in output


def test_a_late_file_may_lack_fields_of_structs(project: Project) -> None:
    """An updated row keeps stored fields at any depth. A new row, or one without the struct, has NULL.

    An update creates a row only if its struct is NULL, because then it lacks no field.
    """
    inner = pa.struct([("zip", pa.int32()), ("geo", pa.struct([("lat", pa.float64()), ("long", pa.float64())]))])
    then = pa.struct([("zip", pa.int64()), ("geo", pa.struct([("long", pa.float64())])), ("land", pa.string())])
    configure(project)
    folder = project.folder / "landing/shop/item"
    folder.mkdir(parents=True)

    def send(hour: int, operations: str, values: Sequence[Any], type_: pa.DataType) -> None:
        ids = range(1, len(values) + 1)
        columns = {"Op": list(operations), "id": pa.array(ids, pa.int32()), "one": pa.array(values, type_)}
        pq.write_table(pa.table(columns), folder / f"20261121-{hour}0000000.parquet")

    def whole(zip_: int, land: str | None, geo: Any) -> Any:
        return {"zip": zip_, "geo": geo, "land": land}

    place, moved = {"lat": 1.5, "long": 2.5}, whole(2, "x", {"long": 3.5})
    send(10, "IIIII", [{"zip": 1, "geo": place}] * 3 + [None, {"zip": 1, "geo": None}], inner)
    project.run()
    send(11, "UUUUUI", [moved, whole(2, "x", None), None, moved, moved, moved], then)
    planned = project.call("plan", "--json").document["tables"][0]
    assert "The files lack one.geo.lat, or" in " ".join(planned["warnings"])
    project.run()
    kept, new = {"lat": 1.5, "long": 3.5}, {"lat": None, "long": 3.5}
    stands = [whole(2, "x", kept), whole(2, "x", None), None, *[whole(2, "x", new)] * 3]
    assert [value for _, value in project.rows(columns=("id", "one"))] == stands
    configure(project, 'schema = { narrow = "evolve" }')
    send(12, "UUUUUUIUU", [*[{"zip": 3, "geo": place}] * 8, None], inner)
    counts = project.run()["shop.item"]["counts"]
    assert (counts["applied"], counts["quarantined"], counts["update_on_missing"]) == (8, 1, 1)
    assert [(*one["key"], one["reason"]) for one in project.entries()] == [("8", "incomplete_row")]
    lands = ["x", "x", None, "x", "x", "x", None]
    stands = [*[whole(3, land, place) for land in lands], None]
    assert [value for _, value in project.rows(columns=("id", "one"))] == stands


@pytest.mark.parametrize("project", ["iceberg", pytest.param("delta", marks=pytest.mark.long)], indirect=True)
def test_a_null_list_of_structs_stays_null_in_the_change_log(project: Project) -> None:
    """The core resolves a late change without the column. The row keeps the value of the change before it."""
    configure(project, source='timestamp_column = "at"')
    inner = pa.struct([("zip", pa.int32())])
    values: list[Any] = [None, [], [None], [{"zip": None}], [{"zip": 1}]]
    folder = project.folder / "landing/shop/item"
    folder.mkdir(parents=True)

    def send(hour: int, operation: str, at: int, note: str, more: dict[str, Any]) -> None:
        count = len(values)
        columns = {
            "Op": [operation] * count,
            "id": pa.array(range(count), pa.int32()),
            "at": pa.array([at * 1_000_000] * count, pa.timestamp("us")),
            "note": [note] * count,
        }
        pq.write_table(pa.table(columns | more), folder / f"20261121-{hour}0000000.parquet")

    keyed = [None if value is None else [(str(n), one) for n, one in enumerate(value)] for value in values]
    nested = {
        "many": pa.array(values, pa.list_(inner)),
        "named": pa.array(keyed, pa.map_(pa.string(), inner)),
        "within": pa.array([{"many": value} for value in values], pa.struct([("many", pa.list_(inner))])),
    }
    send(10, "I", 10, "a", nested)
    project.run()
    send(11, "U", 30, "c", {})
    project.run()
    send(12, "U", 20, "b", {})
    assert project.call("plan", "--json").document["tables"][0]["way"] == "core"
    project.run()
    assert project.call("export", "shop.item", "--to", "out").code == 0
    found = pq.read_table(project.folder / "out").sort_by("id")  # PyIceberg would read NULL as empty
    assert found["note"].to_pylist() == ["c"] * len(values)
    assert found.select([*nested]).to_pydict() == pa.table(nested).to_pydict()


CODE = "a:string>) = reflect('java.lang.System','getProperty','user.home') OR CAST(NULL AS struct<b"


def test_fields_may_have_any_name(project: Project) -> None:
    """Names are quoted in SQL, and batch records are read with them too."""
    then = pa.struct([("zip-code", pa.int32()), ("first line", pa.string())])
    now = pa.struct(
        [("first line", pa.string()), ("zip-code", pa.int64()), (CODE, pa.string()), ("`", pa.string())]
    )
    configure(project, 'lateness = "24h"', 'timestamp_column = "at"')
    deliver(project, 10, [("I", 1, 10, {"zip-code": 1, "first line": "x"})], then)
    project.run()
    deliver(project, 11, [("U", 1, 20, {"zip-code": 2, "first line": "y", CODE: "c", "`": "d"})], now)
    project.run()
    deliver(project, 12, [("I", 2, 15, {"zip-code": 3})], now)
    project.run()
    assert rows(project) == {
        1: {"zip-code": 2, "first line": "y", CODE: "c", "`": "d"},
        2: {"zip-code": 3, "first line": None, CODE: None, "`": None},
    }
    assert f"one.{CODE}" in project.call("status", "--schema", "--json").out


def test_a_path_has_policies_of_its_own(project: Project) -> None:
    ignore = '[tables."shop.item".schema.columns]\none = { add = "ignore" }\nmany = { add = "ignore" }\n'
    configure(project)
    deliver(project, 10, [("I", 1, 0, {"city": "a", "zip": 1})], THEN)
    project.run()
    configure(project, f'{ignore}"named.value" = {{ widen = "fail" }}')
    deliver(project, 11, [("U", 1, 0, {"city": "b", "zip": 2, "land": "x"})], NOW)
    assert "column named.value.zip was int and is bigint" in project.fails()
    configure(project, f'{ignore}named = {{ add = "ignore" }}')
    project.run()
    assert rows(project) == {1: {"city": "b", "zip": 2}}
    assert "Ignored, as `schema.add` says" not in project.call("plan").out
