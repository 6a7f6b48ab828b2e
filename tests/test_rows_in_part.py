"""Cells that DMS did not send, and keys that changed, as a user meets them."""

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
    """A table whose changes are sent with the key as it was, and without what did not change."""
    project.configure(tables=ITEM, source=IN_PART)
    return project


def put(project: Project, clock: str, *rows: str) -> None:
    """Write a file of changes; a row is given without its commit time, which is the file's."""
    lines = [row.replace(",", f",2026-11-21 {clock}:00,", 1) for row in rows]
    project.put(f"20261121-{clock.replace(':', '')}00000.csv", "".join(f"{line}\n" for line in lines))


def test_a_cell_that_was_not_sent_keeps_what_stands(parts: Project) -> None:
    """Within a batch, across batches, and where the row that it completes comes late."""
    put(parts, "10:00", "I,1,one,1.00,", "I,2,two,2.00,", "U,2,~,2.50,2")
    parts.run()
    put(parts, "10:20", "U,1,~,1.20,1")
    parts.run()
    put(parts, "10:10", "U,1,late,~,1")
    counts = parts.run()["shop.item"]["counts"]
    assert counts["applied"] == 1, "the late name completes the row"
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [
        (1, "late", "1.20"),
        (2, "two", "2.50"),
    ]


def test_a_quoted_text_is_a_text(parts: Project) -> None:
    put(parts, "10:00", 'I,1,"~",1.00,', "I,2,~,2.00,")
    counts = parts.run()["shop.item"]["counts"]
    assert [name for _, name, _ in parts.rows()] == ["~", None]
    assert counts["unset_as_null"] == 1


def test_a_row_whose_key_changes_moves(parts: Project) -> None:
    """Also when two rows exchange their keys in one transaction, and when parts are not sent."""
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


def test_a_part_of_a_row_that_is_not_there_waits_for_it(parts: Project) -> None:
    put(parts, "10:10", "U,1,~,1.10,1")
    assert parts.run()["shop.item"]["counts"]["waiting"] == 1
    assert parts.rows() == []
    put(parts, "10:00", "I,1,one,1.00,")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(1, "one", "1.10")]


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


def test_columns_of_before_are_found_by_name_in_a_header(parts: Project) -> None:
    """Those of other columns than the key are not needed."""
    head = "Op,at,BI_id,id,name,price,BI_name\n"
    parts.put("20261121-100000000.csv", head + "I,2026-11-21 10:00:00,,1,one,1.00,\n")
    parts.put("20261121-101000000.csv", head + "U,2026-11-21 10:10:00,1,4,~,~,one\n")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(4, "one", "1.00")]


def test_a_part_that_waited_behind_a_row_that_is_given_up_waits_for_its_row(parts: Project) -> None:
    put(parts, "10:00", "I,1,one,dear,", "U,1,~,1.10,1")
    run = parts.run(code=3)["shop.item"]
    assert (run["counts"]["waiting"], run["progress"]["held"]) == (1, 1)
    assert parts.call("quarantine", "discard", "shop.item", "1").code == 0
    assert parts.rows() == []
    put(parts, "09:00", "I,1,one,1.00,")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(1, "one", "1.10")]


def test_a_key_change_stops_a_table_whose_files_come_in_order(parts: Project) -> None:
    """Between two batches it would forget which rows a transaction has moved."""
    parts.configure(tables=ITEM + 'lateness = "ordered"\n', source=IN_PART)
    put(parts, "10:00", "I,1,one,1.00,", "I,2,two,2.00,")
    parts.run()
    put(parts, "10:10", "U,2,~,~,1")
    assert "the key of a row changes, and the table is `ordered`" in parts.fails()
    assert [key for key, _, _ in parts.rows()] == [1, 2]


def test_a_row_of_the_full_load_is_kept_as_it_was_for_a_part_that_comes_late(parts: Project) -> None:
    parts.put("LOAD00000001.csv", "I,2026-11-21 08:00:00,1,one,1.00,\nI,2026-11-21 08:00:00,2,two,2.00,\n")
    parts.run()
    put(parts, "10:20", "U,1,~,1.20,1", "U,2,~,2.20,2")
    parts.run()
    put(parts, "10:10", "U,1,late,~,1", "D,2,two,2.00,")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(1, "late", "1.20")]


def test_parts_are_remembered_when_the_settings_tell_of_no_parts_any_more(parts: Project) -> None:
    put(parts, "10:00", "I,1,one,1.00,")
    put(parts, "10:20", "U,1,~,1.20,1")
    parts.run()
    parts.configure(tables=ITEM, source='timestamp_column = "at"')
    put(parts, "10:10", "U,1,late,9.90")
    parts.run()
    assert [(key, name, str(price)) for key, name, price in parts.rows()] == [(1, "late", "1.20")]


def test_a_mended_row_that_waits_behind_another_is_not_lost(parts: Project) -> None:
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
