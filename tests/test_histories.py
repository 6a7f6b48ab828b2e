"""Tables with `mode = "history"`, through commands: late files, new columns, rollbacks, held rows."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import Project, any_kind

from lakeward.adapters.formats.shared.change_log import retention
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.history.version_rows import surrogate_hash
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.text.literals import key_text

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.customer"]
key = ["id"]
mode = "history"
track = {{ all_but = ["seen"] }}
lateness = "30d"
columns = {{ id = "int", name = "string", city = "string", seen = "int" }}

[tables."shop.customer".history]
{history}
"""
TIMED = 'timestamp_column = "at"'
COLUMNS = ("id", "name", "city", "seen", "valid_from", "valid_to")
OLD = "first_load = 1900-01-01"


@pytest.fixture
def shop(project: Project) -> Project:
    configured(project, OLD)
    return project


def configured(project: Project, history: str, more: str = "") -> None:
    project.configure(TABLE.format(history=history) + more, source=TIMED)


def put(project: Project, day: int, *rows: str) -> None:
    lines = "".join(f"{row[0]},2026-11-{day:02} 10:00:00.000000{row[1:]}\n" for row in rows)
    project.put(f"202611{day:02}-100000000.csv", lines, "shop/customer")


def loaded(project: Project) -> None:
    """Deliver a full load, and changes of one day: an update, an insert and a delete."""
    load = "2026-11-01 10:00:00.000000,1,Ann,Oslo,1\n2026-11-01 10:00:00.000000,2,Bob,Rome,1\n"
    project.put("LOAD00000001.csv", load, "shop/customer")
    put(project, 5, "U,1,Ann,Paris,2", "I,3,Eve,Bonn,1", "D,2,Bob,Rome,1")
    project.run()


def versions(project: Project, *columns: str) -> list[Any]:
    found = project.rows("customer", columns=columns or COLUMNS)
    return [tuple(day(value) if isinstance(value, datetime) else value for value in row) for row in found]


def day(at: datetime) -> str:
    return (at if at.tzinfo is None else at.astimezone(UTC)).strftime("%Y-%m-%d")


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row[0], row[4]))


@any_kind
def test_late_changes_are_spliced_in_and_repeated_values_move_no_boundary(shop: Project) -> None:
    loaded(shop)
    assert in_order(versions(shop)) == [
        (1, "Ann", "Oslo", 1, "1900-01-01", "2026-11-05"),
        (1, "Ann", "Paris", 2, "2026-11-05", None),
        (2, "Bob", "Rome", 1, "1900-01-01", "2026-11-05"),
        (3, "Eve", "Bonn", 1, "2026-11-05", None),
    ]
    put(shop, 3, "U,1,Ann,Lyon,3")
    put(shop, 7, "U,3,Eve,Bonn,9", "I,2,Bob,Bern,1")
    (run,) = shop.run().values()
    (batch,) = run["batches"]
    assert (batch["written"], batch["removed"]) == (4, 2), "a version that stays as it is is not written"
    assert in_order(versions(shop)) == [
        (1, "Ann", "Oslo", 1, "1900-01-01", "2026-11-03"),
        (1, "Ann", "Lyon", 3, "2026-11-03", "2026-11-05"),
        (1, "Ann", "Paris", 2, "2026-11-05", None),
        (2, "Bob", "Rome", 1, "1900-01-01", "2026-11-05"),
        (2, "Bob", "Bern", 1, "2026-11-07", None),
        (3, "Eve", "Bonn", 9, "2026-11-05", None),
    ]
    assert "stored now: id 1 · name Ann · city Paris" in shop.call("explain", "shop.customer", "1").out
    (checked,) = shop.call("verify", "--history", "--json").document["tables"]
    assert (checked["keys"], checked["versions"], sum(checked["broken"].values())) == (3, 6, 0)


@any_kind
def test_derived_columns_follow_new_and_wider_columns(shop: Project) -> None:
    kinds = f"{OLD}\nkinds = {{ seen = 3, city = 6 }}"
    configured(shop, kinds)
    loaded(shop)
    configured(shop, kinds)
    settings = shop.folder / "lakeward.toml"
    wider = settings.read_text("utf-8").replace('seen = "int" }', 'seen = "bigint", tier = "int" }')
    settings.write_text(wider, "utf-8")
    head = "Op,at,id,name,city,seen,tier\n"
    far = 5_000_000_000
    shop.put("20261108-100000000.csv", f"{head}U,2026-11-08 10:00:00.000000,1,Ann,Nice,{far},5\n", "shop/customer")
    shop.put("20261109-100000000.csv", f"{head}U,2026-11-09 10:00:00.000000,1,Ann,Nice,4,5\n", "shop/customer")
    shop.run()
    columns = ("id", "city", "tier", "seen", "valid_from", "valid_to", "previous_seen", "current_city")
    assert in_order([row for row in versions(shop, *columns) if row[0] == 1]) == [
        (1, "Oslo", None, 1, "1900-01-01", "2026-11-05", None, "Nice"),
        (1, "Paris", None, 2, "2026-11-05", "2026-11-08", 1, "Nice"),
        (1, "Nice", 5, 4, "2026-11-08", None, far, "Nice"),
    ]


@any_kind
def test_versions_are_shown_by_day_as_the_settings_say(shop: Project) -> None:
    configured(shop, "closed = true\nopen_end = 9999-12-31\nis_current = false\nvalid_to = 'until'")
    loaded(shop)
    found = sorted(shop.rows("customer", columns=("id", "city", "valid_from", "until")))
    assert found == [
        (1, "Oslo", date(2026, 11, 1), date(2026, 11, 4)),
        (1, "Paris", date(2026, 11, 5), date(9999, 12, 31)),
        (2, "Rome", date(2026, 11, 1), date(2026, 11, 4)),
        (3, "Bonn", date(2026, 11, 5), date(9999, 12, 31)),
    ]
    put(shop, 3, "U,1,Ann,Lyon,3")
    shop.run()
    assert sorted(shop.rows("customer", columns=("id", "city", "valid_from", "until")))[:3] == [
        (1, "Lyon", date(2026, 11, 3), date(2026, 11, 4)),
        (1, "Oslo", date(2026, 11, 1), date(2026, 11, 2)),
        (1, "Paris", date(2026, 11, 5), date(9999, 12, 31)),
    ]


@any_kind
def test_after_a_late_correction_the_state_known_after_each_batch_is_readable(shop: Project) -> None:
    configured(shop, f"{OLD}\nknown = true\nkinds = {{ name = 6 }}")
    shop.put("LOAD00000001.csv", "2026-11-01 10:00:00.000000,1,Ann,Oslo,1\n", "shop/customer")
    reported = []
    for day, rows in (
        (5, ["U,1,Ann,Paris,2"]),
        (3, ["U,1,Ann,Lyon,3"]),
        (7, ["U,1,Anna,Paris,9", "I,2,Bob,Rome,1"]),
    ):
        put(shop, day, *rows)
        reported.append(reporting(shop))
    found = believed(shop)
    assert [[row[:-2] for row in found if was_known(row, batch)] for batch in (1, 2, 3)] == reported
    for batch, city in ((1, "Oslo"), (2, "Lyon"), (3, "Lyon")):
        shown = shop.call("as-of", "shop.customer", "2026-11-04", "--known", str(batch), "--json").document
        assert [row["city"] for row in shown["first"] if row["id"] == 1] == [city]
    assert "there is no batch 9 yet" in shop.call("as-of", "shop.customer", "now", "--known", "9").err
    assert [row[1:3] + row[4:] for row in reported[1]] == [
        ("Oslo", "Ann", "1900-01-01", "2026-11-03", False, "Ann"),
        ("Lyon", "Ann", "2026-11-03", "2026-11-05", False, "Ann"),
        ("Paris", "Ann", "2026-11-05", None, True, "Ann"),
    ]
    assert [(row[4][5:], row[1], *row[-2:]) for row in found if row[0] == 1] == [
        ("01-01", "Oslo", 1, 2),
        ("01-01", "Oslo", 2, 3),
        ("01-01", "Oslo", 3, None),
        ("11-03", "Lyon", 2, 3),
        ("11-03", "Lyon", 3, None),
        ("11-05", "Paris", 1, 3),
        ("11-05", "Paris", 3, None),
        ("11-07", "Paris", 3, None),
    ]
    explanation = shop.call("explain", "shop.customer", "1").out
    assert "stored now: id 1 · name Anna · city Paris" in explanation
    assert "applied before 2, which was there already: city Oslo → Lyon" in explanation


BELIEVED = ("id", "city", "name", "seen", "valid_from", "valid_to", "is_current", "current_name")


def reporting(project: Project) -> list[Any]:
    """Run, and return the current rows as a report would have them."""
    (run,) = project.run().values()
    assert len(run["batches"]) == 1
    return [row[:-2] for row in believed(project) if row[-1] is None]


def believed(project: Project) -> list[Any]:
    """Return all rows with the batches between which they were known, superseded ones too."""
    found = versions(project, "known_from", *BELIEVED, "known_to")
    return sorted(((*row[1:-1], row[0], row[-1]) for row in found), key=lambda row: (row[0], row[4], row[-2]))


def was_known(row: Any, batch: int) -> bool:
    since, until = row[-2:]
    return bool(since <= batch and (until is None or until > batch))


@any_kind
def test_a_history_can_be_rolled_back_and_its_options_cannot_change(shop: Project) -> None:
    loaded(shop)
    before = versions(shop)
    put(shop, 3, "U,1,Ann,Lyon,3")
    shop.run()
    listed = shop.call("rollback", "shop.customer", "--json").document["versions"]
    (name,) = [found["name"] for found in listed if found["batch"] == 1]
    assert shop.call("rollback", "shop.customer", "--to", name).code == 0
    assert in_order(versions(shop)) == in_order(before)
    shop.run()
    assert (1, "Ann", "Lyon", 3, "2026-11-03", "2026-11-05") in versions(shop)
    configured(shop, f"{OLD}\nopen_end = 9999-12-31")
    put(shop, 9, "D,3,Eve,Bonn,1")
    assert "cannot be kept in another way" in shop.fails("shop.customer")


@any_kind
def test_a_version_keeps_its_number_when_its_start_moves(shop: Project) -> None:
    configured(shop, f'{OLD}\nsurrogate = "number"')
    loaded(shop)
    first = numbers(shop)
    assert sorted(first.values()) == [1, 2, 3, 4]
    put(shop, 2, "U,1,Ann,Lyon,2")
    put(shop, 3, "U,1,Ann,Paris,2")
    shop.run()
    late = numbers(shop)
    moved = {(1, "Paris", "2026-11-03"): first.pop((1, "Paris", "2026-11-05"))}
    assert late == {**first, **moved, (1, "Lyon", "2026-11-02"): 5}
    shop.put("20261106-100000000.csv", "D,2026-11-05 10:00:00.000000,3,Eve,Bonn,1\n", "shop/customer")
    shop.run()
    assert (3, "Bonn", "2026-11-05") not in numbers(shop)
    put(shop, 7, "I,2,Bob,Bern,1")
    shop.run()
    assert numbers(shop)[2, "Bern", "2026-11-07"] == 6
    listed = shop.call("rollback", "shop.customer", "--json").document["versions"]
    (name,) = [found["name"] for found in listed if found["batch"] == 2]
    said = shop.call("rollback", "shop.customer", "--to", name, "--dry-run").out
    assert "surrogate numbers above 5 will be assigned again" in said
    configured(shop, f'{OLD}\nsurrogate = "hash"')
    put(shop, 9, "D,1,Ann,Paris,2")
    assert "its versions were made with surrogate: number" in shop.fails("shop.customer")


def numbers(project: Project) -> dict[Any, int]:
    found = versions(project, "version_key", "id", "city", "valid_from")
    assert len({row[0] for row in found}) == len(found)
    return {row[1:]: row[0] for row in found}


@pytest.mark.long
@any_kind
@pytest.mark.parametrize("kind", [3, 6])
def test_derived_columns_of_the_change_log_are_renamed_with_their_column(
    shop: Project, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    """The change log has only the base row of the key when another change comes."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 1)
    settings = TABLE.format(history=f"kinds = {{ city = {kind} }}").replace("30d", "24h")
    shop.configure(settings, source=TIMED)
    shop.put("LOAD00000001.csv", "2026-11-01 10:00:00.000000,1,Ann,Rome,1\n", "shop/customer")
    put(shop, 5, "U,1,Ann,Oslo,2")
    shop.run()
    for day in (10, 12):
        put(shop, day, f"U,2,Bob,Bern,{day}")
        shop.run()
    put(shop, 13, "U,1,Ann,Oslo,3")
    shop.run()
    rename = 'schema.rename = { city = "town" }\n\n[tables."shop.customer".history]'
    renamed = settings.replace("city", "town").replace('\n[tables."shop.customer".history]', rename)
    shop.configure(renamed, source=TIMED)
    shop.put("20261113-110000000.csv", "U,2026-11-13 11:00:00.000000,1,Ann,Oslo,4\n", "shop/customer")
    shop.run()
    made = {3: "previous_town", 6: "current_town"}[kind]
    found = [row for row in versions(shop, "id", "town", made, "seen") if row[0] == 1]
    before = [] if kind == 3 else [(1, "Rome", "Oslo", 1)]
    assert sorted(found, key=lambda row: row[3]) == [*before, (1, "Oslo", "Rome" if kind == 3 else "Oslo", 4)]


@any_kind
def test_a_column_named_by_options_stays_when_the_source_drops_it(shop: Project) -> None:
    """Without the column of valid times, existing rows continue and none begins, also if nothing older comes."""
    settings = TABLE.format(history='validity = { column = "seen" }\ntype = "int"').replace("30d", "ordered")
    shop.configure(settings.replace('{ all_but = ["seen"] }', '["city"]'), source=TIMED)
    shop.put("LOAD00000001.csv", "2026-11-01 10:00:00.000000,1,Ann,Oslo,1\n", "shop/customer")
    shop.run()
    shop.put("20261105-100000000.csv", "Op,at,id,name,seen\nU,2026-11-05 10:00:00,1,Anna,5\n", "shop/customer")
    shop.run()
    assert versions(shop) == [(1, "Anna", "Oslo", 5, 1, None)]
    rows = ("U,{},1,Anna,Paris", "U,{},2,Bob,Rome", "I,{},3,Eve,Bonn", "U,{},3,Eve,Bern")
    lines = "\n".join(("Op,at,id,name,city", *(row.format(f"2026-11-06 10:00:0{n}") for n, row in enumerate(rows))))
    shop.put("20261106-100000000.csv", f"{lines}\n", "shop/customer")
    counts = shop.run(3)["shop.customer"]["counts"]
    assert (counts["applied"], counts["quarantined"], counts["waiting"]) == (1, 2, 1)
    assert versions(shop) == [(1, "Anna", "Oslo", 5, 1, 5), (1, "Anna", "Paris", 5, 5, None)]
    refused = {entry["reason"]: entry["detail"] for entry in shop.entries()}
    assert set(refused) == {"undated", "incomplete_row"}
    assert refused["undated"] == "the column seen, from which versions are dated, was not sent with a new row"


@any_kind
@pytest.mark.parametrize("end", ["", "open_end = 9999-12-31"])
def test_a_day_after_the_last_possible_one_is_refused(shop: Project, end: str) -> None:
    settings = TABLE.format(history=f'type = "date"\n{end}')
    shop.configure(settings, source=f'{TIMED}\nsource_zone = "Europe/Berlin"')
    far = datetime(9999, 12, 31, 23, 30, tzinfo=UTC)
    rows = [(datetime(2026, 11, 5, 23, 30, tzinfo=UTC), 1), (far, 2)]
    listed = [{"Op": "I", "at": at, "id": key, "name": "Ann", "city": "Oslo", "seen": 1} for at, key in rows]
    types = {"Op": pa.string(), "at": pa.timestamp("us", "UTC"), "id": pa.int32(), "name": pa.string()}
    schema = pa.schema({**types, "city": pa.string(), "seen": pa.int32()})
    folder = shop.folder / "landing/shop/customer"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(listed, schema), folder / "20261105-100000000.parquet")
    shop.run(3)
    last = date(9999, 12, 31) if end else None
    assert versions(shop, "id", "valid_from", "valid_to") == [(1, date(2026, 11, 6), last)]
    (entry,) = shop.entries()
    assert entry["reason"] == "undated"
    assert ("at which current versions end" if end else "outside of what a date shows") in entry["detail"]


@any_kind
def test_rows_without_a_valid_time_wait_and_are_repaired(shop: Project) -> None:
    configured(shop, 'validity = { column = "seen" }\ntype = "decimal(20,0)"\nopen_end = 99')
    settings = shop.folder / "lakeward.toml"
    wide = settings.read_text("utf-8").replace('seen = "int"', 'seen = "decimal(20,0)"')
    settings.write_text(wide, "utf-8")
    shop.put("LOAD00000001.csv", "2026-11-01 10:00:00.000000,1,Ann,Oslo,1\n", "shop/customer")
    put(shop, 5, "U,1,Ann,Paris,NULL", "I,2,Bob,Rome,7", "I,3,Cid,Nice,99", f"I,4,Dan,Nice,{2**63}")
    put(shop, 6, "U,1,Ann,Lyon,9")
    shop.run(3)
    assert sorted(shop.rows("customer", columns=("id", "city", "valid_from"))) == [(1, "Oslo", 1), (2, "Rome", 7)]
    entry, behind, beyond = shop.entries()
    assert "lies outside of what a decimal(20,0) shows" in beyond["detail"]
    assert "is not before 99, at which current versions end" in behind["detail"]
    assert (entry["reason"], entry["waits"]) == ("undated", 1)
    assert "the column seen, from which versions are dated, is NULL" in entry["detail"]
    assert shop.call("quarantine", "fix", "shop.customer", "1", "--to", "fix.toml").code == 0
    fix = shop.folder / "fix.toml"
    assert shop.call("quarantine", "fix", "shop.customer", "--from", "fix.toml").code == 0
    ended = shop.call("quarantine", "replay", "shop.customer")
    assert ended.code == 1
    assert "20261105-100000000.csv, row 1 as it was repaired does not say from when it counts" in ended.err
    fix.write_text(fix.read_text("utf-8").replace('"seen" = { null = true }', '"seen" = "4"'), "utf-8")
    assert shop.call("quarantine", "fix", "shop.customer", "--from", "fix.toml").code == 0
    assert shop.call("quarantine", "replay", "shop.customer").code == 0
    assert sorted(shop.rows("customer", columns=("id", "city", "valid_from", "valid_to"))) == [
        (1, "Lyon", 9, 99),
        (1, "Oslo", 1, 4),
        (1, "Paris", 4, 9),
        (2, "Rome", 7, 99),
    ]


MOVED = """
[tables."shop.customer"]
key = ["id"]
mode = "history"
lateness = "24h"
columns = { id = "int", name = "string" }
"""


@any_kind
def test_an_ended_version_of_a_key_change_is_not_written_again(project: Project) -> None:
    project.configure(MOVED, source=f'{TIMED}\nbefore_image_prefix = "BI_"')

    def put(minute: int, row: str) -> None:
        line = row.replace(",", f",2026-11-21 10:{minute}:00,", 1)
        project.put(f"20261121-10{minute}00000.csv", f"{line}\n", "shop/customer")

    for minute, row in {10: "I,1,one,", 20: "U,2,one,1", 30: "U,2,two,2"}.items():
        put(minute, row)
    project.run()
    put(40, "U,2,three,2")
    (run,) = project.run().values()
    (batch,) = run["batches"]
    assert (batch["written"], batch["removed"]) == (2, 1)
    assert project.rows("customer", columns=("id", "name")) == [(1, "one"), (2, "one"), (2, "three"), (2, "two")]


NAMED = """
[tables."shop.customer"]
key = ["id", "place"]
mode = "history"
columns = { id = "int", place = "string" }
history.previous_key = true
history.surrogate = "hash"
"""


@any_kind
def test_keys_of_any_characters_are_written_as_the_core_writes_them(project: Project) -> None:
    project.configure(NAMED, source=f'{TIMED}\nbefore_image_prefix = "BI_"')
    places = ["Köln", "東京 🚉", "ESC\x1b", "\\u001b", "Bonn"]
    moves = [("I", places[0], ""), *[("U", place, before) for before, place in pairwise(places)]]
    lines = [
        f"{op},2026-11-21 10:00:0{n},1,{at},{'1' if before else ''},{before}\n"
        for n, (op, at, before) in enumerate(moves)
    ]
    project.put("20261121-101000000.csv", "Op,at,id,place,BI_id,BI_place\n" + "".join(lines), "shop/customer")
    project.run()
    schema = Schema((Column("id", Type("int")), Column("place", Type("string"))))
    dimension = Dimension(name=TableName("shop", "customer"), schema=schema, key=("id", "place"))
    began = 1_000_000 * int(datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp())
    expected = {
        place: (
            None if before is None else key_text(dimension, (1, before)),
            surrogate_hash(dimension, (1, place), began + n * 1_000_000),
        )
        for n, (before, place) in enumerate(pairwise([None, *places]))
    }
    found = project.rows("customer", columns=("place", "_previous_key", "version_key"))
    assert {place: tuple(told) for place, *told in found} == expected


BY_COLUMN = """
[tables."shop.customer"]
key = ["id"]
mode = "history"
columns = { id = "int", city = "string", changed = "timestamp" }
history.validity = { column = "changed" }
"""
PERIODS = ("id", "city", "valid_from", "valid_to")


@any_kind
def test_events_without_a_valid_time_end_rows_at_the_time_of_the_run(project: Project) -> None:
    """The column has the same valid time as before, which would end the rows where they began."""
    project.configure(BY_COLUMN)
    first = {1: "1,Oslo,2026-11-01 10:00:00", 2: "2,Rome,2026-11-05 10:00:00", 3: "3,Bonn,2026-11-02 10:00:00"}
    load, today = "LOAD00000001.csv", "2026-12-01"

    def delivered(name: str, hour: int, *lines: str) -> None:
        at = datetime(2026, 11, 21, hour, tzinfo=UTC).timestamp()
        os.utime(project.put(name, "".join(f"{line}\n" for line in lines), "shop/customer"), (at, at))

    delivered(load, 9, *first.values())
    delivered("20261121-100000000.csv", 10, f"D,{first[3]}")
    project.run()
    assert project.call("reload", "shop.customer").code == 0
    delivered(load, 12, first[1])
    assert project.call("load-complete", "shop.customer").code == 0
    project.run()
    ended = [(2, "Rome", "2026-11-05", today), (3, "Bonn", "2026-11-02", today)]
    assert sorted(versions(project, *PERIODS)) == [(1, "Oslo", "2026-11-01", None), *ended]
    said = project.call("truncate", "shop.customer", "--at", "now", "--yes")
    assert "older rows have ended, 0 rows are current, of 3 versions" in said.out
    assert sorted(versions(project, *PERIODS)) == [(1, "Oslo", "2026-11-01", today), *ended]


@any_kind
def test_a_truncate_ends_rows_at_its_time_and_moves_no_later_change(project: Project) -> None:
    configured(project, "")
    put(project, 5, "I,1,Ann,Oslo,1", "I,2,Bob,Rome,1")
    put(project, 8, "U,1,Ann,Paris,2")
    project.run()
    assert project.call("truncate", "shop.customer", "--at", "2026-11-06T10:00:00Z", "--yes").code == 0
    put(project, 7, "U,1,Ann,Lyon,3")
    project.run()
    ended = [(1, "Oslo", "2026-11-05", "2026-11-06"), (1, "Lyon", "2026-11-07", "2026-11-08")]
    gone = (2, "Rome", "2026-11-05", "2026-11-06")
    assert sorted(versions(project, *PERIODS), key=lambda row: (row[0], row[2])) == [
        *ended,
        (1, "Paris", "2026-11-08", None),
        gone,
    ]
    put(project, 10, "I,4,Eve,Bern,1")
    assert project.call("truncate", "shop.customer", "--at", "20261110-100000000.csv", "--yes").code == 0
    project.run()
    assert sorted(versions(project, *PERIODS), key=lambda row: (row[0], row[2])) == [
        *ended,
        (1, "Paris", "2026-11-08", "2026-11-10"),
        gone,
        (4, "Bern", "2026-11-10", None),
    ]
