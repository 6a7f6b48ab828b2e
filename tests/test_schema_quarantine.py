"""With policy `quarantine`, rows that show a column change go into quarantine, and the table continues."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import Project

pytestmark = pytest.mark.spark

COLUMNS = 'id = "int", name = "string", price = "decimal(8,2)"'
HEADER = "Op,id,name,price"


def item(columns: str = COLUMNS, more: str = "") -> str:
    return f'[tables."shop.item"]\nkey = ["id"]\n{more}\ncolumns = {{ {columns} }}\n'


def put(project: Project, hour: int, header: str, *rows: str) -> None:
    project.put(f"20261121-{hour:02}0000000.csv", "".join(f"{line}\n" for line in (header, *rows)))


def deliver(project: Project, hour: int, columns: Mapping[str, Any]) -> None:
    folder = project.folder / "landing/shop/item"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"20261121-{hour}0000000.parquet")


def details(project: Project) -> dict[Any, str]:
    found = project.entries()
    assert {entry["reason"] for entry in found} <= {"schema"}
    return {entry["key"][0]: entry["detail"] for entry in found}


def test_rows_with_a_value_in_a_new_column_wait_until_it_is_declared(project: Project) -> None:
    """Other rows are applied. Name, type and policy in the settings are enough to replay them as written."""
    project.configure(item(more='schema = { add = "quarantine" }'))
    put(project, 10, HEADER, *[f"I,{key},a,1.00" for key in range(1, 5)])
    project.run()
    rows = ["U,1,b,2.00,7", "U,2,b,2.00,NULL", "D,3,a,1.00,9", "I,5,a,5.00,8", "U,4,b,2.00,9", "U,4,c,3.00,NULL"]
    put(project, 11, f"{HEADER},stock", *rows)
    planned = project.call("plan", "--json").document["tables"][0]
    assert planned["rejects"] == {"schema": 3}
    assert [(one["column"], one["policy"]) for one in planned["schema_changes"]] == [("stock", "quarantine")]
    assert "column stock (undeclared) is new: rows that have it go into quarantine" in project.call("plan").out
    counts = project.run(code=3)["shop.item"]["counts"]
    assert (counts["quarantined"], counts["waiting"], counts["applied"]) == (3, 1, 2)
    assert project.rows() == [(1, "a", 1), (2, "b", 2), (4, "a", 1)]
    assert details(project) == dict.fromkeys("145", "column stock (undeclared) is new")

    refused = project.call("quarantine", "replay", "shop.item")
    assert (refused.code, "the table does not follow: column stock (undeclared) is new" in refused.err) == (1, True)
    project.configure(item(more='schema = { add = "evolve" }'))
    refused = project.call("quarantine", "replay", "shop.item", "1")
    assert (refused.code, "Declare the type of stock" in refused.err) == (1, True)

    project.configure(item(f'{COLUMNS}, stock = "int"'))
    replayed = project.call("quarantine", "replay", "shop.item", "1")
    assert replayed.code == 0, replayed.err
    put(project, 12, f"{HEADER},stock", "U,5,e,6.00,1")
    assert project.run(code=3)["shop.item"]["counts"]["waiting"] == 1
    assert project.call("quarantine", "replay", "shop.item").code == 0
    rows_now = project.rows(columns=("id", "name", "price", "stock"))
    assert rows_now == [(1, "b", 2, 7), (2, "b", 2, None), (4, "c", 3, None), (5, "e", 6, 1)]
    assert project.run()["shop.item"]["progress"]["held"] == 0
    changes = project.call("status", "--schema", "--json").document["schema_changes"]
    assert [(one["column"], one["policy"], bool(one["file"])) for one in changes] == [
        ("stock", "quarantine", True),
        ("stock", "evolve", False),
    ]


def test_parquet_rows_are_read_again_with_all_their_values(project: Project) -> None:
    """A wider type, an incompatible one, a missing column and fields of lists: each holds its rows."""
    configured = '[tables."shop.item"]\nkey = ["id"]\n'
    every = "\n".join(f'{kind} = "quarantine"' for kind in ("add", "drop", "widen", "narrow", "incompatible"))
    project.configure(f'{configured}[tables."shop.item".schema]\n{every}\n')
    part = pa.struct([("name", pa.string())])
    grown = pa.struct([("name", pa.string()), ("size", pa.decimal128(30, 10))])
    then = {
        "Op": ["I"] * 5,
        "id": pa.array(range(1, 6), pa.int32()),
        "price": pa.array([1] * 5, pa.int32()),
        "parts": pa.array([[{"name": "a"}]] * 5, pa.list_(part)),
        "note": ["n"] * 5,
    }
    deliver(project, 10, then)
    project.run()
    ids = pa.array([1, 2, 3], pa.int32())
    wider = {**then, "Op": ["U", "U", "D"], "id": ids, "price": pa.array([2**40, None, 1], pa.int64())}
    exact = Decimal("0.1234567891")
    parts = [[{"name": "b", "size": exact}], [{"name": "c", "size": None}, None], [{"name": "a", "size": exact}]]
    deliver(project, 11, {**wider, "parts": pa.array(parts, pa.list_(grown)), "note": ["m"] * 3})
    lacks = {name: values for name, values in then.items() if name != "note"}
    deliver(project, 12, {**lacks, "Op": ["U"], **{n: then[n][4:] for n in ("id", "price", "parts")}})
    deliver(project, 13, {**then, "price": ["much", None, "x", "y", "z"], "Op": ["U"] * 5})
    assert project.run(code=3)["shop.item"]["counts"]["quarantined"] == 6
    assert project.rows(columns=("id", "price", "note")) == [(1, 1, "n"), (2, None, "n"), (4, 1, "n"), (5, 1, "n")]
    words = [(entry["key"][0], entry["detail"]) for entry in project.entries()]
    assert words == [
        ("1", "column price was int and is bigint; column parts.element.size (decimal(30,10)) is new"),
        ("5", "column note (string) is missing"),
        ("1", "column price was int and is string"),
        ("3", "column price was int and is string"),
        ("4", "column price was int and is string"),
        ("5", "column price was int and is string"),
    ]
    project.call("quarantine", "discard", "shop.item", "--file", "20261121-13*")
    project.configure(configured)
    replayed = project.call("quarantine", "replay", "shop.item")
    assert replayed.code == 0, replayed.err
    found = project.rows(columns=("id", "price", "note", "parts"))
    plain = [{"name": "a", "size": None}]
    assert found == [
        (1, 2**40, "m", [{"name": "b", "size": exact}]),
        (2, None, "n", plain),
        (4, 1, "n", plain),
        (5, 1, "n", plain),
    ]
    assert not project.entries()
