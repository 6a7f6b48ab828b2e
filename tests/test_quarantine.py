"""Rows in quarantine, through commands: fix, replay, discard, export."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import ITEM, Project

from lakeward.adapters.formats.shared.change_log import retention

pytestmark = pytest.mark.spark

LOAD, CDC, LATER = "LOAD00000001.csv", "20261121-100000000.csv", "20261121-100000001.csv"
FIX = "shop.item.fix.toml"
D = Decimal


def correct(project: Project, **cells: str) -> Path:
    """Correct cells in the file that `fix` wrote, as an editor would."""
    file = project.folder / FIX
    lines = file.read_text("utf-8").splitlines()
    for name, value in cells.items():
        assert any(line.startswith((f'"{name}" =', f"{name} =")) for line in lines), lines
        lines = [
            f"{line.split(' =')[0]} = {value}" if line.startswith((f'"{name}" =', f"{name} =")) else line
            for line in lines
        ]
    file.write_text("\n".join(lines), "utf-8")
    return file


FLOATING = """
[tables."shop.item"]
key = ["id"]
quarantine = { max_share = 1.0 }
columns = { id = "double", name = "string", price = "decimal(8,2)" }
"""


def test_a_held_key_is_compared_by_value(project: Project) -> None:
    """Java writes 12345678 as a floating number as 1.2345678E7, and Python as 12345678.0."""
    project.configure(tables=FLOATING)
    project.put(LOAD, "12345678,a,1.00\n0.00001,b,1.00\n")
    project.run()
    project.put(CDC, "U,12345678,a,much\nU,0.00001,b,much\n")
    project.run(3)
    project.put(LATER, "U,12345678,c,2.00\nD,0.00001,b,1.00\n")
    assert project.run(3)["shop.item"]["counts"]["waiting"] == 2
    assert project.rows() == [(0.00001, "b", D("1.00")), (12345678.0, "a", D("1.00"))]
    assert project.call("quarantine", "discard", "shop.item", "--reason", "cast").code == 0
    assert project.rows() == [(12345678.0, "c", D("2.00"))]


def test_a_truncate_ends_rows_with_floating_point_keys(project: Project) -> None:
    """If ended rows are kept, the change log has each of them, by the text of its key."""
    project.configure(tables=f'{FLOATING}lateness = "4h"\ndeletes = "soft"\n', source=TIMED)
    at = "2026-11-21 10:00:00"
    project.put(LATER, f"I,{at},12345678,a,1.00\nI,{at},0.00001,b,1.00\n")
    project.run()
    assert project.call("truncate", "shop.item", "--at", "2026-11-21T12:00:00Z").code == 0
    project.put("20261121-130000000.csv", "I,2026-11-21 13:00:00,5,c,1.00\n")
    project.run()
    rows = project.rows(columns=("id", "_lakeward_deleted"))
    assert rows == [(0.00001, True), (5.0, False), (12345678.0, True)]


def refusal(project: Project, *arguments: str) -> str:
    ended = project.call("quarantine", "fix", "shop.item", *(arguments or ("--from", FIX)))
    assert ended.code == 1, ended.out
    return ended.err


def test_a_held_row_is_fixed_in_a_file_and_replayed_with_what_waited(project: Project) -> None:
    project.put(LOAD, "1,a,1.00\n2,b,2.00\n")
    project.put(CDC, 'U,1,"c, #1",not a price\nU,2,e,5.00\nU,2,f,NULL\nU,2,g,much\n')
    project.run(3)
    written = project.call("quarantine", "fix", "shop.item")
    assert "say which rows to fix" in written.err
    written = project.call("quarantine", "fix", "shop.item", "--reason", "cast")
    assert (written.code, f"Wrote {FIX}: 2 rows" in written.out) == (0, True)
    assert f"lakeward quarantine fix shop.item --from {FIX}" in written.out
    content = (project.folder / FIX).read_text("utf-8")
    assert '"name" = "c, #1"  # string' in content
    assert '"price" = "not a price"  # decimal(8,2)' in content
    assert '"id" = "1"  # int, of the key' in content
    assert '# cast: "much" is not a decimal(8,2) (column price)' in content

    error = refusal(project)
    assert "2 repaired rows do not fit the table" in error
    assert f'{CDC}, row 1: "not a price" is not a decimal(8,2) (column price)' in error
    assert f"{FIX} exists" in refusal(project, "1")

    correct(project, price='"3.50"')
    selection = project.call("quarantine", "fix", "shop.item", "--from", FIX)
    assert (selection.code, selection.out.count("repaired: ")) == (0, 2), selection.err
    assert project.rows() == [(1, "a", D("1.00")), (2, "f", None)]
    project.put(LATER, "U,1,d,4.00\nD,2,g,3.50\n")
    counts = project.run(3)["shop.item"]["counts"]
    assert counts["waiting"] == 2, "what is mended holds its key until it is replayed"
    assert [(entry["state"], entry["waits"]) for entry in project.entries()] == [("repaired", 1), ("repaired", 1)]
    assert "(repaired)" in project.call("quarantine", "show", "shop.item").out

    replayed = project.call("quarantine", "replay", "shop.item", "1")
    assert (replayed.code, "1 row that waited is settled; 1 row written, 1 removed" in replayed.out) == (0, True)
    assert project.rows() == [(1, "d", D("4.00")), (2, "f", None)]
    assert project.call("quarantine", "replay", "shop.item", "--json").document["replayed"][0]["key"] == ["2"]
    assert project.rows() == [(1, "d", D("4.00"))]
    assert project.call("quarantine", "replay", "shop.item").out == "Nothing waits to be replayed.\n"
    assert project.run()["shop.item"]["progress"]["held"] == 0
    assert "are not in quarantine" in refusal(project)


def test_a_wrong_repair_file_is_refused_and_repairs_nothing(project: Project) -> None:
    project.put(CDC, "U,1,c,not a price\nI,NULL,n,1.00\n")
    project.run(3)
    project.call("quarantine", "fix", "shop.item", "1")
    whole = (project.folder / FIX).read_text("utf-8")
    for before, after, words in (
        ('"price" = "not a price"', '"price" = 3.5', "the cell price is neither a text nor NULL"),
        ('"price" = "not a price"', '"price" = ""', '"" is not a decimal(8,2)'),
        ('"price" = "not a price"', '"prize" = "3.50"', "it has prize, which the table has not; it lacks price"),
        ('"id" = "1"', '"id" = "2"', 'it was ["1"], and is ["2"]'),
        ('"id" = "1"', '"id" = { null = true }', "the key column id cannot be NULL"),
        ('operation = "update"', 'operation = "delete"', "cannot be a row of the operation delete"),
        ('operation = "update"', 'operation = "updaet"', "Did you mean 'update'?"),
        ("row = 1", "row = 7", "row 7 is not in quarantine"),
        ("row = 1", "row = 2", "row 2 cannot be fixed"),
        ('table = "shop.item"', 'table = "shop.other"', "is not of shop.item"),
        ("[row.cells]", 'time = "2026-11-21 10:00:00"\n[row.cells]', "its commit time is known and stays"),
        ("[row.cells]", "[row.cels]", "Did you mean 'cells'?"),
        ("[[row]]", "[[row", "is not valid TOML"),
    ):
        changed = whole.replace('"not a price"  #', '"3.50"  #') if "price" not in before else whole
        changed = changed.replace(before, after)
        (project.folder / FIX).write_text(changed, "utf-8")
        assert words in refusal(project), after
    assert [entry["state"] for entry in project.entries()] == ["held", "final"]
    ended = project.call("quarantine", "replay", "shop.item", "1")
    assert (ended.code, "no row can be replayed" in ended.err) == (1, True)
    assert "What can be done: let the source write the row again, with its key" in refusal(
        project, "--at", f"{CDC}:2", "--to", "other.toml"
    )


TIMED = 'timestamp_column = "at"'


def test_a_row_without_time_or_operation_is_repaired_at_its_position(project: Project) -> None:
    project.configure(ITEM + 'lateness = "1h"\n', source=TIMED)
    project.put(LOAD, ",1,a,1.00\n,2,b,2.00\n")
    at = "2026-11-21 {}:00:00"
    project.put(
        CDC,
        f"U,{at.format(10)},1,at ten,1.00\nU,soon,1,at eleven,1.00\nX,{at.format(10)},2,gone,1.00\n"
        f"U,{at.format(12)},1,at twelve,1.00\n",
    )
    project.run(3)
    project.put(LATER, f"I,{at.format(20)},3,c,1.00\n")
    project.run(3)
    project.put("20261121-100000002.csv", f"I,{at.format(23)},4,d,1.00\n")
    table = project.run(3)["shop.item"]
    assert [name for _, name, _ in project.rows()] == ["a", "b", "c", "d"], "what may be older waits as well"
    assert project.call("quarantine", "fix", "shop.item", "--file", "20261121-*").code == 0
    file = correct(project)
    assert 'operation = ""  # insert, update, delete: which of them?' in file.read_text("utf-8")
    text = file.read_text("utf-8").replace('operation = ""', 'operation = "delete"')
    assert "`time` is not filled in" in refusal(project)
    file.write_text(text.replace('time = ""', 'time = "today"'), "utf-8")
    assert '"today" is not a commit time' in refusal(project)
    file.write_text(text.replace('time = ""', f'time = "{at.format(11)}"'), "utf-8")
    assert project.call("quarantine", "fix", "shop.item", "--from", FIX).code == 0
    repaired = project.call("quarantine", "replay", "shop.item", "--json").document
    assert repaired["progress"]["mark"] == table["progress"]["mark"]
    assert [name for _, name, _ in project.rows()] == ["at twelve", "c", "d"]
    assert project.entries() == []


def test_changes_that_a_held_row_may_meet_are_remembered_until_it_is_settled(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delete came before the row that it deletes, and both are below the low watermark."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 1)
    project.configure(ITEM + 'lateness = "4h"\n', source=TIMED)
    at = "2026-11-21 {}:00:00"
    project.put(LATER, f"I,{at.format(10)},1,a,1.00\nI,{at.format(10)},2,b,1.00\nD,{at.format(12)},1,a,1.00\n")
    project.run()
    project.put(CDC, f"U,{at.format(11)},1,late,many\nU,{at.format(11)},2,late,many\n")
    project.run(3)
    for hour in (17, 23):
        project.put(f"20261121-1000000{hour}.csv", f"I,{at.format(hour)},{hour},c,1.00\n")
        table = project.run(3)["shop.item"]
    assert table["progress"]["mark"] > "2026-11-21T12"
    project.call("quarantine", "fix", "shop.item", "--reason", "cast")
    correct(project, price='"5.00"')
    assert project.call("quarantine", "fix", "shop.item", "--from", FIX).code == 0
    assert project.call("quarantine", "replay", "shop.item").code == 0
    assert [(id_, name) for id_, name, _ in project.rows()] == [(2, "late"), (17, "c"), (23, "c")]


@pytest.mark.long
def test_a_row_repaired_below_a_truncate_ends_with_it_in_a_history(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The truncate is below the low watermark, and the change log has nothing else of the key."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 1)
    project.configure(ITEM + 'lateness = "4h"\nmode = "history"\n', source=TIMED)
    at = "2026-11-21 {}:00:00"
    project.put(LATER, f"I,{at.format(10)},1,a,1.00\nI,NULL,2,b,1.00\n")
    project.run(3)
    truncated = project.call("truncate", "shop.item", "--at", "2026-11-21T12:00:00Z", "--json")
    assert truncated.code == 0, truncated.err
    for hour in (17, 23):
        project.put(f"20261121-1000000{hour}.csv", f"I,{at.format(hour)},{hour},c,1.00\n")
        table = project.run(3)["shop.item"]
    assert table["progress"]["mark"] > "2026-11-21T12"
    project.call("quarantine", "fix", "shop.item", "--reason", "sequence")
    correct(project, time=f'"{at.format(11)}"')
    assert project.call("quarantine", "fix", "shop.item", "--from", FIX).code == 0
    assert project.call("quarantine", "replay", "shop.item").code == 0
    found = project.rows(columns=("id", "valid_from", "valid_to"))
    assert [(id_, start.hour, end and end.hour) for id_, start, end in found] == [
        (1, 10, 12),
        (2, 11, 12),
        (17, 17, None),
        (23, 23, None),
    ]


def test_a_row_of_a_parquet_file_keeps_all_digits(project: Project) -> None:
    project.configure('[tables."shop.item"]\nkey = ["id"]\n')
    moment = dt.datetime(2026, 11, 21, 10, 0, 0, 123457)
    rows = {
        "Op": ["X"],
        "id": [1],
        "at": pa.array([moment.replace(tzinfo=dt.UTC)], pa.timestamp("us", "UTC")),
        "local": pa.array([moment], pa.timestamp("us")),
        "price": [D("0.10")],
        "ratio": [0.1],
        "raw": [b"\x00\xff"],
        "name": pa.array([None], pa.string()),
    }
    (project.folder / "landing/shop/item").mkdir(parents=True)
    pq.write_table(pa.table(rows), project.folder / "landing/shop/item/20261121-100000000.parquet")
    project.run(3)
    assert project.call("quarantine", "fix", "shop.item", "1").code == 0
    text = (project.folder / FIX).read_text("utf-8")
    assert '"name" = { null = true }  # string' in text
    (project.folder / FIX).write_text(text.replace('operation = ""', 'operation = "insert"'), "utf-8")
    selection = project.call("quarantine", "fix", "shop.item", "--from", FIX)
    assert selection.code == 0, selection.err
    assert project.call("quarantine", "replay", "shop.item").code == 0
    expected = tuple(rows[name][0] for name in ("id", "price", "ratio", "raw"))
    assert project.rows(columns=("id", "price", "ratio", "raw")) == [expected]
    assert project.rows(columns=("at", "local", "name")) == [(moment.replace(tzinfo=dt.UTC), moment, None)]


def test_a_row_whose_cells_cannot_be_separated_needs_an_operator(project: Project) -> None:
    """Its file is gone, or lacks a column of the table. No value is guessed."""
    file = project.put(CDC, "U,1,c,not a price\n")
    project.run(3)
    file.unlink()
    assert project.call("quarantine", "fix", "shop.item", "1").code == 0
    text = (project.folder / FIX).read_text("utf-8")
    assert '# "price" = ""  # decimal(8,2); lakeward cannot tell which cell this is: write its value' in text
    assert "# As it was written: U,1,c,not a price" in text
    assert "it lacks id; it lacks name; it lacks price" in refusal(project)


def test_rows_are_chosen_by_reason_file_and_time_and_exported_with_their_texts(project: Project) -> None:
    project.put(LOAD, "1,a,1.00\nNULL,b,x\n2\n")
    project.put(CDC, 'U,1,"with ""quotes"", and ü",x\nU,1,d,1.00\nI,NULL,f,1.00\nI,NULL,g,1.00\n')
    project.run(3)
    listed = project.call("quarantine", "list").out
    held, final = listed.split("Final: no change waits behind them.")
    assert "cast" in held
    assert "null_key" in final
    assert "let the source write the row again, with its key" in final

    def rows(*options: str) -> list[tuple[str, int]]:
        entries = project.call("quarantine", "show", "shop.item", "--json", *options).document["entries"]
        return [(entry["object"], entry["row"]) for entry in entries]

    assert rows("--reason", "null_key") == [(LOAD, 2), (CDC, 3), (CDC, 4)]
    assert rows("--reason", "null_key", "--reason", "unreadable", "--file", "LOAD*") == [(LOAD, 2), (LOAD, 3)]
    assert rows("--before", "1h") == []
    assert len(rows("--since", "1h")) == 5
    assert rows("--at", f"{CDC}:3") == [(CDC, 3)]
    shown = project.call("quarantine", "show", "shop.item", "--limit", "2").out
    assert "… and 3 more" in shown
    assert "Did you mean 'null_key'?" in project.call("quarantine", "list", "--reason", "nul_key").err

    exported = [json.loads(line) for line in project.call("quarantine", "export", "shop.item").out.splitlines()]
    texts = ['U,1,"with ""quotes"", and ü",x', "NULL,b,x"]
    assert [row["text"] for row in exported if row["row"] in (1, 2)] == texts[::-1]
    ended = project.call("quarantine", "export", "shop.item", "1", "--format", "csv", "--to", "rows.csv")
    assert ended.code == 0
    [row] = csv.DictReader(io.StringIO((project.folder / "rows.csv").read_text("utf-8")))
    assert (row["key"], row["text"], row["waits"]) == ('["1"]', texts[0], "1")
    assert "rows.csv exists" in project.call("quarantine", "export", "shop.item", "--to", "rows.csv").err

    gone = project.call("quarantine", "discard", "shop.item", "--reason", "null_key", "--limit", "2")
    assert (gone.code, "… and 1 more is left." in gone.out) == (0, True)
    assert sorted(entry["reason"] for entry in project.entries()) == ["cast", "null_key", "unreadable"]
