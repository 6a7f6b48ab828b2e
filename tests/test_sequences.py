"""Changes with sequence numbers of the source, through commands: their order and their copies."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import ITEM, Project

pytestmark = pytest.mark.spark

D = Decimal
NUMBERED = 'timestamp_column = "at"\nsequence_column = "change_seq"'
LOAD = "LOAD00000001.csv"
FIX = "shop.item.fix.toml"


@pytest.fixture
def numbered_table(project: Project) -> Project:
    """A table in which each change has a unique number, and the full load has none."""
    project.configure(source=NUMBERED)
    project.put(LOAD, "at,id,name,price,change_seq\n2026-11-20 22:00:00,1,loaded,1.00,\n")
    return project


def number(count: int) -> str:
    return f"2026112110000000{count:019}"


def put(project: Project, file: str, *rows: tuple[str, int, str, object]) -> None:
    """Write a file of changes with one commit time: operation, key, name, and number."""
    lines = [f"{op},2026-11-21 10:00:00,{key},{name},1.00,{place}" for op, key, name, place in rows]
    project.put(f"20261121-{file}.csv", "\n".join(["Op,at,id,name,price,change_seq", *lines, ""]))


def names(project: Project) -> list[str]:
    return [name for _, name, _ in project.rows()]


def test_the_sequence_number_orders_changes_and_identifies_copies(numbered_table: Project) -> None:
    """Neither the place in a file nor the commit time matters. The row keeps its first origin."""
    put(numbered_table, "100000000", ("U", 1, "third", number(3)), ("U", 1, "second", number(2)))
    (alarm,) = numbered_table.run(3)["shop.item"]["alarms"]
    assert alarm["code"] == "SEQUENCE-001", "a number of a change only rises"
    (row,) = numbered_table.rows(columns=("name", "_lakeward_sequence", "_lakeward_object"))
    assert row[:2] == ("third", Decimal(number(3)))
    copies = (("U", 1, "second", number(2)), ("U", 1, "third", number(3)))
    put(numbered_table, "101000000", *copies, ("I", 2, "new", number(4)))
    counts = numbered_table.run()["shop.item"]["counts"]
    assert (counts["duplicates"], counts["applied"], counts["ties"]) == (2, 1, 0)
    assert numbered_table.rows(columns=("name", "_lakeward_sequence", "_lakeward_object"))[1] == row
    put(numbered_table, "102000000", ("U", 1, "another", number(3)), *[("D", 2, "new", number(5))] * 2)
    counts = numbered_table.run()["shop.item"]["counts"]
    assert (counts["duplicates"], counts["applied"], counts["ties"]) == (1, 2, 1), "the later of a tie wins"
    assert names(numbered_table) == ["another"]
    explained = numbered_table.call("explain", "shop.item", "1")
    assert explained.code == 0, explained.err
    assert f"{number(3)} · 2026-11-21" in explained.out
    assert numbered_table.call("status").code == 0
    numbered_table.configure(source='timestamp_column = "at"')
    numbered_table.put("20261121-103000000.csv", "U,2026-11-21 11:00:00,1,by time,1.00\n")
    said = numbered_table.fails()
    assert "the order of its changes cannot be made of something else" in said
    assert "the table goes by unique numbers of the changes" in said
    numbered_table.configure(source=NUMBERED.replace("change_seq", "price"))
    assert "the table goes by `change_seq`; the settings say `price`" in numbered_table.fails()


def test_undeclared_commit_times_stop_the_table(project: Project) -> None:
    """Changes without a time are older than all with one, so all would be stale."""
    project.configure(source='timestamp_column = "at"')
    project.put("20261121-100000000.csv", "Op,at,id,name,price\nI,2026-11-21 10:00:00,1,old,1.00\n")
    project.run()
    project.configure()
    project.put("20261121-110000000.csv", "Op,id,name,price\nU,1,new,1.00\n")
    assert "by the commit time; the settings say the order of files and rows alone" in project.fails()
    project.configure(source='timestamp_column = "committed_at"')
    project.put("20261121-110000000.csv", "Op,committed_at,id,name,price\nU,2026-11-21 11:00:00,1,new,1.00\n")
    project.run()
    assert names(project) == ["new"], "the endpoint may give the column another name"


@pytest.mark.parametrize("lateness", [pytest.param("24h", marks=pytest.mark.long), "ordered"])
def test_a_copy_is_recognized_in_a_file_without_a_column(project: Project, lateness: str) -> None:
    """The stored row has a value in it, and the change does not."""
    project.configure(f'[tables."shop.item"]\nkey = ["id"]\nlateness = "{lateness}"\n', source=NUMBERED)
    whole = {"Op": ["I"], "at": ["2026-11-21 10:00:00"], "id": [1], "name": ["a"], "price": [D("1.00")]}
    part = {"Op": ["U", "I"], "at": ["2026-11-21 11:00:00"] * 2, "id": [1, 2], "name": ["b", "c"]}
    (project.folder / "landing/shop/item").mkdir(parents=True)
    deliveries = [(10, whole, [1]), (11, part, [2, 3]), (12, part, [2, 3])]
    for hour, rows, numbers in deliveries:
        table = pa.table({**rows, "change_seq": [number(n) for n in numbers]})
        pq.write_table(table, project.folder / f"landing/shop/item/20261121-{hour}0000000.parquet")
        counts = project.run()["shop.item"]["counts"]
    assert (counts["duplicates"], counts["applied"], counts["ties"]) == (2, 0, 0)
    assert project.rows() == [(1, "b", D("1.00")), (2, "c", None)]


@pytest.mark.parametrize("ties", ["quarantine", pytest.param("arrival", marks=pytest.mark.long)])
def test_a_copy_is_recognized_with_a_keep_first_column(project: Project, ties: str) -> None:
    """The row of a history does not show what was sent in a column of kind 0."""
    kept = f'mode = "history"\nlateness = "ordered"\nties = "{ties}"\nhistory.kinds = {{ name = 0 }}\n'
    project.configure(f"{ITEM}{kept}", source=NUMBERED)
    wins = ties == "arrival"
    deliveries: list[tuple[list[tuple[int, str, str]], tuple[int, int, int, int]]] = [
        ([(1, "a", "1.00"), (2, "b", "2.00")], (0, 2, 0, 0)),
        ([(2, "b", "2.00")], (1, 0, 0, 0)),
        ([(2, "b", "3.00")], (0, 1, 1, 0) if wins else (0, 0, 0, 1)),
    ]
    for hour, (rows, expected) in enumerate(deliveries):
        lines = [f"{'IU'[n - 1]},2026-11-21 10:00:0{n},1,{name},{price},{number(n)}" for n, name, price in rows]
        text = "\n".join(["Op,at,id,name,price,change_seq", *lines, ""])
        project.put(f"20261121-1{hour}0000000.csv", text)
        counts = project.run(3 if expected[3] else 0)["shop.item"]["counts"]
        assert tuple(counts[name] for name in ("duplicates", "applied", "ties", "quarantined")) == expected
    prices = [D("1.00"), D("3.00")] if wins else [D("1.00"), D("2.00")]
    assert [(name, price) for _, name, price in project.rows()] == [("a", price) for price in prices]


def test_a_sequence_that_is_no_number_is_quarantined_and_repaired(numbered_table: Project) -> None:
    """It is never read as 0 or cut off. A full load needs none."""
    wrong = ["", "0", "NULL", f"{number(1)}1", "12x", " 7"]
    rows = [("I", 10 + index, "wrong", place) for index, place in enumerate(wrong)]
    put(numbered_table, "100000000", *rows, ("U", 1, "first", number(1)), ("U", 1, "third", number(3)))
    put(numbered_table, "101000000", ("U", 1, "second", "2.0"), ("U", 1, "fourth", number(4)))
    numbered_table.run(3)
    entries = numbered_table.entries()
    assert [entry["reason"] for entry in entries] == ["sequence"] * 7
    assert entries[3]["detail"] == f'"{wrong[3]}" is not a number of up to 35 digits above 0 (column change_seq)'
    assert names(numbered_table) == ["loaded"], "what may be older waits as well"
    assert numbered_table.call("quarantine", "fix", "shop.item", "1").code == 0
    file = numbered_table.folder / FIX
    text = file.read_text("utf-8")
    assert 'sequence = ""  # its place in the order of the source: digits alone' in text
    file.write_text(text.replace('sequence = ""', 'sequence = "2.0"'), "utf-8")
    refused = numbered_table.call("quarantine", "fix", "shop.item", "--from", FIX)
    assert (refused.code, '"2.0" is not a sequence' in refused.err) == (1, True)
    file.write_text(text.replace('sequence = ""', f'sequence = "{number(5)}"'), "utf-8")
    selection = numbered_table.call("quarantine", "fix", "shop.item", "--from", FIX)
    assert selection.code == 0, selection.err
    assert numbered_table.call("quarantine", "replay", "shop.item", "1").code == 0
    assert names(numbered_table) == ["second"]


def test_a_log_position_orders_changes_that_may_share_it(project: Project) -> None:
    """Numbers of any width are compared as numbers. Log positions of SQL Server are no numbers."""
    source = 'timestamp_column = "at"\nsequence_column = "scn"\nsequence_kind = "$AR_H_STREAM_POSITION"'
    project.configure('[tables."shop.item"]\nkey = ["id"]\n', source=source)
    rows = {
        "Op": ["I", "U", "U", "U", "U"],
        "at": ["2026-11-21 10:00:00"] * 5,
        "id": [1, 1, 1, 2, 1],
        "name": ["ten", "nine", "ten as well", "none", "nine again"],
        "scn": ["10", "9", "10", "00000026:000001a0:0001", "0000009"],
    }
    (project.folder / "landing/shop/item").mkdir(parents=True)
    pq.write_table(pa.table(rows), project.folder / "landing/shop/item/20261121-100000000.parquet")
    counts = project.run(3)["shop.item"]["counts"]
    assert (counts["ties"], counts["quarantined"]) == (2, 1), "two share a place with one before them"
    assert project.rows(columns=("id", "name")) == [(1, "ten as well")]
    assert '"00000026:000001a0:0001" is not a number' in project.entries()[0]["detail"]


def test_the_sequence_column_is_no_column_of_the_table(numbered_table: Project) -> None:
    """Otherwise it would be NULL in every row."""
    numbered_table.configure(
        '[tables."shop.item"]\nkey = ["id"]\ncolumns = { id = "int", change_seq = "string" }', NUMBERED
    )
    assert "the column change_seq is declared, and `sequence_column` names it" in numbered_table.fails()
