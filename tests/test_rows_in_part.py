"""Unsent cells of DMS and key changes, through commands."""

from __future__ import annotations

import pytest
from project import Project

pytestmark = pytest.mark.spark

IN_PART = 'timestamp_column = "at"\nno_sup_value = "~"\nbefore_image_prefix = "BI_"'
ITEM = """
[tables."shop.item"]
key = ["id"]
columns = { id = "int", name = "string", price = "decimal(8,2)" }
"""


@pytest.fixture
def parts(project: Project) -> Project:
    """A table whose changes have the old key, and lack unchanged cells."""
    project.configure(tables=ITEM, source=IN_PART)
    return project


def put(project: Project, clock: str, *rows: str) -> None:
    """Write a file of changes. All rows have the commit time of the file."""
    lines = [row.replace(",", f",2026-11-21 {clock}:00,", 1) for row in rows]
    project.put(f"20261121-{clock.replace(':', '')}00000.csv", "".join(f"{line}\n" for line in lines))


def test_a_cell_that_was_not_sent_keeps_the_stored_value(parts: Project) -> None:
    """Within a batch, across batches, and if the completed row comes late. A quoted text is a text."""
    put(parts, "10:00", "I,1,one,1.00,", "I,2,two,2.00,", "U,2,~,2.50,2", 'I,3,"~",1.00,', "I,4,~,2.00,")
    assert parts.run()["shop.item"]["counts"]["unset_as_null"] == 1
    put(parts, "10:20", "U,1,~,1.20,1")
    parts.run()
    put(parts, "10:10", "U,1,late,~,1")
    counts = parts.run()["shop.item"]["counts"]
    assert counts["applied"] == 1, "the late name completes the row"
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [
        (1, "late", "1.20"),
        (2, "two", "2.50"),
        (3, "~", "1.00"),
        (4, None, "2.00"),
    ]


def test_a_row_whose_key_changes_moves(parts: Project) -> None:
    """Also if two rows exchange their keys in one transaction, and with unsent cells."""
    put(parts, "10:00", "I,1,one,1.00,", "I,2,two,2.00,", "I,3,three,3.00,")
    parts.run()
    put(parts, "10:10", "U,2,one,~,1", "U,1,two,~,2", "U,9,~,~,3")
    run = parts.run()["shop.item"]
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [
        (1, "two", "2.00"),
        (2, "one", "1.00"),
        (9, "three", "3.00"),
    ]
    assert run["counts"]["applied"] == 3
    put(parts, "10:20", "U,9,nine,3.50,9")
    parts.run()
    assert parts.rows()[-1][:2] == (9, "nine")


@pytest.mark.long
def test_a_held_key_change_holds_both_keys(parts: Project) -> None:
    put(parts, "10:00", "I,1,one,1.00,", "I,2,two,2.00,")
    parts.run()
    put(parts, "10:10", "U,5,five,dear,1")
    put(parts, "10:20", "U,1,again,1.10,1", "I,5,new,5.00,", "U,2,more,2.10,2")
    run = parts.run(code=3)["shop.item"]
    assert run["progress"]["held"] == 2
    assert run["counts"]["waiting"] == 2
    assert [(key, name) for key, name, _ in parts.rows()] == [(1, "one"), (2, "more")]
    parts.call("quarantine", "discard", "shop.item", "5")
    assert [(key, name) for key, name, _ in parts.rows()] == [(1, "again"), (2, "more"), (5, "new")]


def test_before_columns_are_found_by_name_in_a_header(parts: Project) -> None:
    """Before columns of the key are enough."""
    head = "Op,at,BI_id,id,name,price,BI_name\n"
    parts.put("20261121-100000000.csv", head + "I,2026-11-21 10:00:00,,1,one,1.00,\n")
    parts.put("20261121-101000000.csv", head + "U,2026-11-21 10:10:00,1,4,~,~,one\n")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(4, "one", "1.00")]


@pytest.mark.long
def test_a_partial_row_behind_a_discarded_row_waits_for_its_row(parts: Project) -> None:
    put(parts, "10:00", "I,1,one,dear,", "U,1,~,1.10,1")
    run = parts.run(code=3)["shop.item"]
    assert (run["counts"]["waiting"], run["progress"]["held"]) == (1, 1)
    assert parts.call("quarantine", "discard", "shop.item", "1").code == 0
    assert parts.rows() == []
    put(parts, "09:00", "I,1,one,1.00,")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(1, "one", "1.10")]


def test_a_key_change_stops_a_table_whose_files_come_in_order(parts: Project) -> None:
    """Such a table cannot remember between two batches which rows a transaction has moved."""
    parts.configure(tables=ITEM + 'lateness = "ordered"\n', source=IN_PART)
    put(parts, "10:00", "I,1,one,1.00,", "I,2,two,2.00,")
    parts.run()
    put(parts, "10:10", "U,2,~,~,1")
    assert "the key of a row changes, and the table is `ordered`" in parts.fails()
    assert [key for key, _, _ in parts.rows()] == [1, 2]


def test_a_row_of_the_full_load_is_remembered_for_a_late_partial_row(parts: Project) -> None:
    parts.put("LOAD00000001.csv", "I,2026-11-21 08:00:00,1,one,1.00,\nI,2026-11-21 08:00:00,2,two,2.00,\n")
    parts.run()
    put(parts, "10:20", "U,1,~,1.20,1", "U,2,~,2.20,2")
    parts.run()
    put(parts, "10:10", "U,1,late,~,1", "D,2,two,2.00,")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(1, "late", "1.20")]


def test_partial_rows_stay_remembered_after_the_settings_exclude_them(parts: Project) -> None:
    put(parts, "10:00", "I,1,one,1.00,")
    put(parts, "10:20", "U,1,~,1.20,1")
    parts.run()
    parts.configure(tables=ITEM, source='timestamp_column = "at"')
    put(parts, "10:10", "U,1,late,9.90")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(1, "late", "1.20")]


def test_a_missing_column_of_a_file_is_remembered_as_not_sent(parts: Project) -> None:
    whole, narrow = "Op,at,BI_id,id,name,price\n", "Op,at,BI_id,id,price\n"
    parts.put("20261121-100000000.csv", whole + "I,2026-11-21 10:00:00,,1,one,1.00\n")
    parts.put("20261121-102000000.csv", narrow + "U,2026-11-21 10:20:00,1,1,1.20\n")
    parts.run()
    parts.put("20261121-101000000.csv", whole + "U,2026-11-21 10:10:00,1,1,late,9.90\n")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(1, "late", "1.20")]


def test_a_repaired_row_that_waits_behind_another_is_not_lost(parts: Project) -> None:
    put(parts, "10:00", "I,1,one,1.00,", "U,1,~,dear,1", "U,1,two,cheap,1", "U,1,~,3.00,1")
    parts.run(code=3)
    parts.call("quarantine", "fix", "shop.item", "--at", "20261121-100000000.csv:3")
    file = parts.folder / "shop.item.fix.toml"
    file.write_text(file.read_text("utf-8").replace('= "cheap"', '= "2.00"'), "utf-8")
    assert parts.call("quarantine", "fix", "shop.item", "--from", file.name).code == 0
    assert parts.call("quarantine", "replay", "shop.item").code == 0
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(1, "one", "1.00")]
    assert parts.call("quarantine", "discard", "shop.item", "1").code == 0
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(1, "two", "3.00")]


FIX = "shop.item.fix.toml"


def taken_back(parts: Project, text: str, *changes: tuple[str, str]) -> str:
    """Return a repair file with these changes, and return the errors."""
    for before, after in changes:
        assert before in text, text
        text = text.replace(before, after)
    (parts.folder / FIX).write_text(text, "utf-8")
    return parts.call("quarantine", "fix", "shop.item", "--from", FIX).err


@pytest.mark.long
def test_a_partial_row_is_repaired_without_sending_more_cells(parts: Project) -> None:
    """Also if its row comes after the repair, and if an operator marks unsent cells."""
    put(parts, "10:00", "I,1,one,1.00,", "I,2,two,2.00,")
    parts.run()
    put(parts, "10:20", "U,1,~,dear,1", "U,2,more,dear,2", "U,3,~,dear,3")
    parts.run(code=3)
    put(parts, "10:10", "U,1,late,~,1", "U,2,late,2.20,2")
    parts.run(code=3)
    assert parts.call("quarantine", "fix", "shop.item", "--reason", "cast").code == 0
    text = (parts.folder / FIX).read_text("utf-8")
    assert '"name" = { sent = false }  # string' in text
    assert taken_back(parts, text, ('"dear"', '"9.00"'), ('"more"', "{ sent = false }")) == ""
    assert parts.call("quarantine", "replay", "shop.item").code == 0
    listed = parts.call("quarantine", "list", "--json")
    assert (listed.code, [one["key"] for one in listed.document["waiting"]]) == (0, [["3"]])
    assert "not sent: name" in parts.call("quarantine", "show", "shop.item", "3").out
    assert "Waiting: they send a part of a row" in parts.call("quarantine", "list").out
    assert "waiting for its row" in parts.call("explain", "shop.item", "3").out
    replayed = parts.call("explain", "shop.item", "1", "--json").document["events"]
    assert [(one["verdict"], one["batch"], one["not_sent"]) for one in replayed] == [
        ("applied", 1, []),
        ("applied", 3, ["price"]),
        ("applied", 4, ["name"]),
    ]
    put(parts, "10:15", "I,3,three,3.00,")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [
        (1, "late", "9.00"),
        (2, "late", "9.00"),
        (3, "three", "9.00"),
    ]
    assert parts.call("quarantine", "list", "--json").document["waiting"] == []


@pytest.mark.long
def test_a_key_change_is_repaired_with_its_old_key(parts: Project) -> None:
    """It holds both its keys, and others through later key changes, which are named. The old key stays."""
    put(parts, "10:00", "I,1,one,1.00,", "I,2,two,2.00,")
    parts.run()
    put(parts, "10:10", "U,5,~,dear,1", "X,7,~,7.00,2")
    put(parts, "10:20", "U,6,six,~,5", "I,1,again,1.10,", "U,6,~,6.60,6")
    assert parts.run(code=3)["shop.item"]["progress"]["held"] == 5
    entries = {entry["key"][0]: entry for entry in parts.entries()}
    found = [entries["5"][name] for name in ("old_key", "holds", "waits")]
    assert found == [["1"], [["5"], ["1"], ["6"]], 3]
    assert entries["7"]["holds"] == [["7"], ["2"]], "nobody knows its operation: it may be a change of a key"
    shown = parts.call("quarantine", "show", "shop.item", "6").out
    assert "1 → 5 also holds 6" in shown
    explanation = parts.call("explain", "shop.item", "6")
    assert (explanation.code, "waiting: key 5 is held" in explanation.out, "waiting for 1" in explanation.out) == (
        3,
        True,
        True,
    )
    assert parts.call("quarantine", "fix", "shop.item", "--file", "*").code == 0
    text = (parts.folder / FIX).read_text("utf-8")
    right = [('"dear"', '"5.00"')]
    for before, after, said in (
        ('"id" = "1"  # before', '"id" = "3"  # before', "has another old key now"),
        ('[row.old_key]\n"id" = "1"  # before the change\n', "", "its old key is not told"),
        ('"id" = "5"', '"id" = { sent = false }', "cannot be one that was not sent"),
    ):
        assert said in taken_back(parts, text, *right, (before, after))
    assert taken_back(parts, text, *right) == ""
    assert parts.call("quarantine", "replay", "shop.item").code == 0
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [
        (1, "again", "1.10"),
        (6, "six", "6.60"),
        (7, "two", "7.00"),
    ]
    assert parts.call("status", "--json").document["tables"][0]["held"] == 0


@pytest.mark.long
def test_a_plan_says_why_rows_will_be_refused(parts: Project) -> None:
    """Reasons that only the table knows: too late, a partial row alone, an undecided key change, no key."""
    ordered, bare = (ITEM.replace("shop.item", name) for name in ("shop.inorder", "shop.bare"))
    tables = ITEM + 'lateness = "1h"\n' + ordered + 'lateness = "ordered"\n' + bare.replace('key = ["id"]\n', "")
    parts.configure(tables=tables, source=IN_PART)
    at = "2026-11-21 {}:00"
    for clock, rows in (("10:00", "I,{t},1,one,1.00,\nI,{t},2,two,2.00,\n"), ("14:00", "I,{t},9,nine,9.00,\n")):
        parts.put(f"20261121-{clock.replace(':', '')}00000.csv", rows.format(t=at.format(clock)))
        for other in ("inorder", "bare"):
            (parts.folder / "landing/shop" / other).mkdir(parents=True, exist_ok=True)
        parts.run()
    late, now = at.format("10:00"), at.format("14:10")
    parts.put(
        "20261121-150000000.csv",
        f"U,{late},1,late,1.10,1\nU,{now},2,~,~,1\nU,{now},2,which,~,2\nI,{now},5,five,dear,\n",
    )
    parts.put("20261121-150000000.csv", f"U,{now},1,~,1.00,1\nI,{now},2,two,2.00,\n", "shop/inorder")
    parts.put("20261121-150000000.csv", f"I,{now},1,a,1.00\nU,{now},1,b,1.00\nD,{now},1,b,1.00\n", "shop/bare")
    planned = parts.call("plan", "--json").document["tables"]
    assert {table["table"]: table["rejects"] for table in planned} == {
        "shop.item": {"cast": 1, "too_late": 1, "key_shift": 1},
        "shop.inorder": {"incomplete_row": 1},
        "shop.bare": {"no_key": 2},
    }
    assert "into quarantine: 1 cast · 1 too_late · 1 key_shift" in parts.call("plan", "shop.item").out
    parts.run(code=3)
    found = sorted((entry["table"], entry["reason"]) for entry in parts.entries())
    assert found == [
        ("shop.bare", "no_key"),
        ("shop.bare", "no_key"),
        ("shop.inorder", "incomplete_row"),
        ("shop.item", "cast"),
        ("shop.item", "key_shift"),
        ("shop.item", "too_late"),
    ]


def test_rules_see_the_cells_that_were_sent(project: Project) -> None:
    """Unsent cells keep the values of the rules, also with late rows and key changes."""
    rules = """
[[tables."shop.item".rules]]
rule = "split"
column = "name"
pattern = ","
into = ["first", "last"]
[[tables."shop.item".rules]]
rule = "default"
column = "price"
value = "0.50"
[[tables."shop.item".rules]]
rule = "cast"
column = "price"
type = "string"
to = "words"
[[tables."shop.item".rules]]
rule = "drop"
columns = ["name"]
"""
    project.configure(tables=ITEM + rules, source=IN_PART)
    put(project, "10:00", 'I,1,"a,b",1.00,', 'I,2,"c,d",NULL,', "I,3,e,~,")
    put(project, "10:20", "U,1,~,1.20,1", 'U,2,"f,g",~,2', "U,7,~,~,3")
    run = project.run()["shop.item"]
    assert run["counts"]["unset_as_null"] == 0, "a rule made a value of what was not sent"
    columns = ("id", "first", "last", "price", "words")
    found = [
        (key, first, last, str(price), words) for key, first, last, price, words in project.rows(columns=columns)
    ]
    assert found == [(1, "a", "b", "1.20", "1.20"), (2, "f", "g", "0.50", "0.50"), (7, "e", None, "0.50", "0.50")]
    put(project, "10:10", 'U,1,"h,i",~,1')
    project.run()
    assert project.rows(columns=("id", "first", "last"))[0] == (1, "h", "i")
    several = """
[[tables."shop.item".rules]]
rule = "sql"
expression = "concat(name, price)"
to = "both"
type = "string"
"""
    project.configure(tables=ITEM + several, source=IN_PART)
    put(project, "10:30", "U,1,~,1.30,1")
    assert "the column both is made of name, which the rows of the table do not have yet" in project.fails()


def with_rules(*rules: str) -> str:
    return ITEM + "rules = [\n" + "".join(f"  {{ {rule} }},\n" for rule in rules) + "]\n"


LABEL = 'rule = "concat", columns = ["name", "price"], to = "label", separator = " "'
LOUD = 'rule = "sql", expression = "upper(label) || \'!\'", to = "loud", type = "string"'


HIDDEN = 'rule = "mask", column = "name", to = "hidden", keep = 1'


@pytest.mark.long
def test_a_derived_column_is_recomputed_from_the_stored_row(parts: Project) -> None:
    """With a completed row, a key change, and a repair that marks unsent cells."""
    parts.configure(tables=with_rules(LABEL, LOUD, HIDDEN), source=IN_PART)
    put(parts, "10:00", "I,1,one,1.00,", "I,2,two,2.00,")
    parts.run()
    put(parts, "10:10", "U,1,~,1.10,1", "U,2,zwei,~,2", "U,2,more,dear,2", "U,9,~,~,1")
    parts.run(code=3)
    columns = ("id", "label", "loud", "hidden")
    assert parts.rows(columns=columns) == [
        (2, "zwei 2.00", "ZWEI 2.00!", "***i"),
        (9, "one 1.10", "ONE 1.10!", "**e"),
    ]
    assert parts.call("quarantine", "fix", "shop.item", "2").code == 0
    text = (parts.folder / FIX).read_text("utf-8")
    assert taken_back(parts, text, ('"dear"', '"2.50"'), ('"more"', "{ sent = false }")) == ""
    assert parts.call("quarantine", "replay", "shop.item").code == 0
    assert parts.rows(columns=columns)[0] == (2, "zwei 2.50", "ZWEI 2.50!", "***i")


def test_a_derived_column_without_its_input_stops_the_table(parts: Project) -> None:
    """First the rules drop its input. When they keep it, stored rows do not have it yet."""
    parts.configure(tables=with_rules(LABEL, 'rule = "drop", columns = ["name"]'), source='timestamp_column = "at"')
    parts.put("LOAD00000001.csv", "2026-11-21 09:00:00,1,one,1.00\n")
    parts.run()
    rows = [(1, "one 1.00")]
    parts.configure(tables=with_rules(LABEL, 'rule = "drop", columns = ["name"]'), source=IN_PART)
    put(parts, "10:00", "U,1,~,1.10,1")
    assert "rule 2, drop, takes away name, so that it is not known of the row that stands" in parts.fails()
    assert "rule 2, drop, takes away name" in parts.call("plan").err
    parts.configure(tables=with_rules(LABEL), source=IN_PART)
    assert "is made of name, which the rows of the table do not have yet" in (said := parts.fails())
    assert "Load the table anew" in said
    assert parts.rows(columns=("id", "label")) == rows
