"""Joined tables as a user has them: by settings alone, through the command line, read back by others than Spark."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import outside
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from altering import Row, alter
from dropping import drop
from joined_runs import TIMED, put, run_joined, shown
from project import Project, any_kind, iceberg_and_delta
from pyspark.sql import SparkSession

from lakeward.adapters.formats.shared.joined import joined_sources
from lakeward.adapters.formats.shared.joined.joined_table import JoinedLakeTable
from lakeward.adapters.formats.shared.operations.opened_table import FormatTable
from lakeward.core.errors import TableError
from lakeward.core.joined.plan import SourceState
from lakeward.entrypoints import container

pytestmark = pytest.mark.spark

REDSHIFT = """
[defaults]
key = ["customer_id"]

[tables."case.customer_master"]
columns.customer_id = "int"
columns.first_name = "string"
columns.last_name = "string"
columns.employer_name = "string"
columns.row_audit_ts = "timestamp"

[tables."case.customer_address"]
columns.customer_id = "int"
columns.email_id = "string"
columns.city = "string"
columns.country = "string"
columns.row_audit_ts = "timestamp"

[joined."dw.dim_customer"]
mode = "history"

[joined."dw.dim_customer".history]
validity = "run"
first_load = "2022-07-01"
closed = true
open_end = "9999-12-31"
is_current = false
valid_from = "rec_eff_dt"
valid_to = "rec_exp_dt"

[joined."dw.dim_customer".sources]
master = { table = "case.customer_master", columns = ["customer_id", "first_name", "last_name", "employer_name"] }
address = { table = "case.customer_address", on = ["customer_id"], columns = ["email_id", "city", "country"] }
"""

SHOP = """
[defaults]
key = ["id"]
lateness = "30d"

[tables]
"shop.customer".columns = { id = "int", name = "string" }
"shop.orders".columns = { id = "int", customer = "int", amount = "decimal(8,2)" }

[joined."dw.customer_summary"]
unknown = true
sources.customer = { table = "shop.customer", columns = ["id", "name"] }

[joined."dw.customer_summary".sources.orders]
table = "shop.orders"
on = ["customer"]
to = ["id"]

[joined."dw.customer_summary".sources.orders.aggregates]
orders = "count"
total = { function = "sum", column = "amount" }
most = { function = "max", column = "amount" }
newest = { function = "latest", column = "amount", by = "id" }
"""
SUMMARY = ("id", "name", "orders", "total", "most", "newest")


def summary(project: Project, *columns: str) -> list[Any]:
    found = project.rows("customer_summary", "dw", columns or SUMMARY)
    return [tuple(shown(value) for value in row) for row in found]


@any_kind
def test_a_customer_of_two_files_is_the_dimension_that_an_aws_blog_shows(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = outside.case("scd2-two-sources-redshift")
    project.configure(REDSHIFT, 'order_by = "row_audit_ts"', source_kind="files")
    ran = int(datetime(2023, 3, 19, 8, tzinfo=UTC).timestamp()) * 1_000_000
    monkeypatch.setattr(container, "clock", lambda: ran)
    for suffix in ("", "_incr"):
        for name in ("master", "address"):
            target = project.folder / "landing" / "case" / f"customer_{name}"
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "input" / f"customer_{name}_with_ts{suffix}.csv", target)
        assert run_joined(project)["batch_count"] == 1
    with (folder / "expected" / "dim_customer.csv").open(encoding="utf-8", newline="") as file:
        names, *right = list(csv.reader(file))
    rows = project.rows("dim_customer", "dw", tuple(names))
    assert sorted([str(v) if isinstance(v, int | date) else v for v in row] for row in rows) == sorted(right)
    verified = project.call("verify", "--history", "--json")
    assert [one["table"] for one in verified.document["tables"]] == ["dw.dim_customer"]
    assert (verified.code, verified.document["tables"][0]["versions"]) == (0, len(right))
    then = project.call("as-of", "dw.dim_customer", "2023-03-18", "--json").document
    assert [row["rec_eff_dt"] for row in then["first"]] == ["2022-07-01"] * then["rows"]
    assert 0 < then["rows"] < len(right)


GROUPS = """
[defaults]
key = ["id"]
{mode}

[tables]
"shop.orders".columns = {{ id = "int", land = "int", amount = "int" }}

[joined."dw.by_land"]
unknown = true
{mode}

[joined."dw.by_land".sources.orders]
table = "shop.orders"
on = ["land"]
columns = ["land"]
aggregates = {{ orders = "count", total = {{ function = "sum", column = "amount" }} }}
"""


@any_kind
@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_rows_that_cannot_be_shown_are_warned_of(project: Project, mode: str) -> None:
    project.configure(GROUPS.format(mode=f'mode = "{mode}"'), f'{TIMED}\nnull_text = ""')
    put(project, "orders", 1, "I,1,49,10", "I,2,,20", "I,3,,40", "I,4,-1,80")
    warnings = run_joined(project)["warnings"]
    assert warnings == [
        "2 rows of orders (shop.orders) left out: NULL in land, and NULL is no key. A rule of that table "
        "(`default`) gives what comes a value.",
        "orders (shop.orders) has a row with the key of the unknown row, which is shown in its place: what points "
        "at nothing points there. Give the unknown row a key that none has (`unknown`).",
    ]
    if mode == "mirror":
        rows = project.rows("by_land", "dw", ("land", "total"))
        assert [(land, shown(total)) for land, total in rows] == [(-1, 80), (49, 10)]
    [status] = project.call("status", "--json").document["joined"]
    assert status["warnings"] == warnings
    assert f"⚠ dw.by_land: {warnings[0]}" in project.call("status").out
    put(project, "orders", 2, "U,2,49,20", "U,3,49,40", "D,4,-1,80")
    ended = project.call("run", "--once")
    assert (ended.code, f"⚠ dw.by_land: {warnings[0]}" in ended.out) == (0, mode == "history")
    assert len(project.call("status", "--json").document["joined"][0]["warnings"]) == 2 * (mode == "history")


def loaded(project: Project) -> None:
    put(project, "customer", 1, "I,1,Ann", "I,2,Bea")
    put(project, "orders", 2, "I,10,1,30", "I,11,1,50", "I,12,1,20", "I,13,3,7")
    assert run_joined(project)["last"]["whole"] == ["it has no rows yet"]


@any_kind
def test_a_summary_follows_updates_and_deletes_of_its_sources(project: Project) -> None:
    project.configure(SHOP, source=TIMED)
    loaded(project)
    first = [(-1, None, None, None, None, None), (1, "Ann", 3, 100, 50, 20), (2, "Bea", 0, None, None, None)]
    assert summary(project) == first
    assert run_joined(project)["last"] is None
    put(project, "orders", 3, "D,11,1,50", "U,12,2,20", "U,10,1,35")
    put(project, "customer", 3, "I,3,Cleo")
    last = run_joined(project)["last"]
    assert (last["whole"], last["since"]) == ([], {"customer": 1, "orders": 1})
    assert (last["written"], last["removed"]) == (3, 2)
    assert summary(project) == [
        first[0],
        (1, "Ann", 1, 35, 35, 35),
        (2, "Bea", 1, 20, 20, 20),
        (3, "Cleo", 1, 7, 7, 7),
    ]
    put(project, "customer", 4, "D,2,Bea", "U,1,Ann")
    ended = project.call("run", "--once", "dw.customer_summary", "--json")
    assert [one["table"] for one in ended.document["tables"]] == ["shop.customer", "shop.orders"]
    last = ended.document["joined"][0]["last"]
    assert (last["whole"], last["written"], last["removed"]) == ([], 0, 1)
    [stands] = project.call("status", "--json").document["joined"]
    assert (stands["batch"], stands["rows"], stands["passed"]) == (3, 3, {"customer": 3, "orders": 2})
    columns = 'columns = { id = "id", name = "name", called = "name" }'
    wider = SHOP.replace('columns = ["id", "name"]', columns)
    project.configure(wider, source=TIMED)
    last = run_joined(project)["last"]
    assert (last["whole"], last["written"]) == (["it is declared in another way than before"], 2)
    found = summary(project, "id", "name", "called")
    assert found == [(-1, None, None), (1, "Ann", "Ann"), (3, "Cleo", "Cleo")]
    exported = project.call("export", "dw.customer_summary", "--to", "out", "--json").document
    assert exported["rows"] == len(pq.read_table(project.folder / "out")) == 3


@pytest.mark.long
@any_kind
def test_a_source_whose_structs_get_fields_is_read_before_and_after(project: Project) -> None:
    declared = '"shop.orders".columns = { id = "int", customer = "int", amount = "decimal(8,2)" }'
    project.configure(SHOP.replace(declared, '"shop.orders" = {}'), source=TIMED)
    put(project, "customer", 1, "I,1,Ann", "I,2,Bea")

    def deliver(day: int, *rows: dict[str, Any]) -> None:
        """Deliver orders with an address, as a file that has its columns."""
        at = {"Op": "U", "amount": 5, "at": datetime(2026, 11, day, 10, tzinfo=UTC)}
        file = project.put(f"202611{day:02}-100000000.parquet", "", "shop/orders")
        pq.write_table(pa.Table.from_pylist([row | at for row in rows]), file)

    koln, ulm = {"city": "Köln"}, {"city": "Ulm"}
    deliver(2, {"id": 10, "customer": 1, "address": koln}, {"id": 11, "customer": 2, "address": ulm})
    assert run_joined(project)["last"]["whole"] == ["it has no rows yet"]
    deliver(3, {"id": 10, "customer": 2, "address": {"city": "Bonn", "zip": 53111}})
    assert run_joined(project)["last"]["whole"] == []
    assert summary(project, "id", "orders")[1:] == [(1, 0), (2, 2)]


@any_kind
def test_a_crash_between_the_commits_of_sources_and_the_joined_table_loses_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sources are `ordered`: of what is gone they remember deletes alone. Then one forgets these meanwhile."""
    project.configure(SHOP.replace('"30d"', '"ordered"'), source=TIMED)
    loaded(project)
    put(project, "orders", 3, "I,14,2,20", "D,10,1,30")

    def stops(*_: object) -> None:
        raise TableError("the machine stops")

    with monkeypatch.context() as stopped:
        stopped.setattr(JoinedLakeTable, "commit", stops)
        assert run_joined(project, code=4)["error"]["what"] == "the machine stops"
    assert "keys touched by orders 2–2" in project.call("plan").out
    put(project, "orders", 4, "D,13,3,7")
    assert "keys touched by orders 2–2, and by the next batch of shop.orders" in project.call("plan").out
    state_of, tries = joined_sources.state_of, []

    def forgets(table: FormatTable) -> SourceState | None:
        tries.append(1)
        state = state_of(table)
        return replace(state, remembers=state.now.batch) if state is not None and len(tries) == 1 else state

    monkeypatch.setattr(joined_sources, "state_of", forgets)
    last = run_joined(project)["last"]
    assert (last["since"], last["whole"], len(tries)) == ({"orders": 1}, [], 2)
    assert summary(project)[1:] == [(1, "Ann", 2, 70, 50, 20), (2, "Bea", 1, 20, 20, 20)]
    shown = project.call("status").out
    assert "customer 1, orders 3" in shown


@any_kind
def test_all_is_made_anew_after_a_truncate_or_a_rollback_and_maintenance_changes_no_row(project: Project) -> None:
    project.configure(SHOP, source=TIMED)
    loaded(project)
    assert project.call("truncate", "shop.orders", "--at", "now").code == 0
    last = run_joined(project)["last"]
    assert last["whole"] == ["orders was truncated, loaded anew or took an older snapshot in batch 2"]
    empty = [(1, "Ann", 0, None, None, None), (2, "Bea", 0, None, None, None)]
    assert (summary(project)[1:], last["written"], last["removed"]) == (empty, 1, 1)
    [before] = project.call("rollback", "shop.orders", "--json").document["versions"]
    assert project.call("rollback", "shop.orders", "--to", before["name"]).code == 0
    last = run_joined(project)["last"]
    assert last["whole"] == ["batch 2 of orders was rolled back, dropped or has expired"]
    assert summary(project)[1] == (1, "Ann", 3, 100, 50, 20)
    maintained = {one["table"] for one in project.call("maintain", "--json").document["tables"]}
    assert maintained == {"shop.customer", "shop.orders", "dw.customer_summary"}
    assert summary(project)[1] == (1, "Ann", 3, 100, 50, 20)


TWO = """
[defaults]
key = ["id"]

[tables]
"shop.customer".columns = { id = "int", name = "string" }
"shop.address".columns = { id = "int", city = "string" }

[joined."dw.customer"]
mode = "history"
unknown = { name = "nobody" }

[joined."dw.customer".sources]
customer = { table = "shop.customer", columns = ["id", "name"] }
address = { table = "shop.address", on = ["id"], columns = ["city"] }
"""


def versions(project: Project) -> list[Any]:
    """Return the versions of customers behind the unknown one."""
    found = project.rows("customer", "dw", ("id", "valid_from", "name", "city", "valid_to"))
    first, *others = [tuple(shown(value) for value in row) for row in found]
    assert first == (-1, "1970-01-01", "nobody", None, None)
    return others


@pytest.mark.long
@any_kind
@pytest.mark.parametrize("is_partial", [False, True])
def test_a_history_of_mirrors_begins_and_ends_with_the_changes_that_a_run_found(
    project: Project, is_partial: bool
) -> None:
    """Also where sources are `ordered` and their events may lack cells, as those of messages may."""
    tables, source = TWO, TIMED
    if is_partial:
        tables = tables.replace("[defaults]\n", '[defaults]\nlateness = "ordered"\n')
        source += '\nbefore_image_prefix = "BI_"\nno_sup_value = "~"'
    project.configure(tables, source=source)

    def change(table: str, day: int, *rows: str) -> None:
        put(project, table, day, *(f"{row},{row.split(',')[1]}" if is_partial else row for row in rows))

    change("customer", 1, "I,1,Ann", "I,2,Bea")
    change("address", 2, "I,1,Bonn")
    run_joined(project)
    change("address", 5, "U,1,Rome")
    change("customer", 9, "U,1,Anna", "D,2,Bea")
    run_joined(project)
    change("address", 12, "D,1,Rome")
    last = run_joined(project)["last"]
    assert (last["whole"], last["written"], last["removed"]) == ([], 2, 1)
    assert versions(project) == [
        (1, "2026-11-02", "Ann", "Bonn", "2026-11-09"),
        (1, "2026-11-09", "Anna", "Rome", "2026-11-12"),
        (1, "2026-11-12", "Anna", None, None),
        (2, "2026-11-01", "Bea", None, "2026-11-09"),
    ]


@iceberg_and_delta
def test_a_history_of_mirrors_keeps_its_past_where_a_source_was_dropped_and_loaded_anew(project: Project) -> None:
    project.configure(TWO, source=TIMED)
    put(project, "customer", 1, "I,1,Ann", "I,2,Bea")
    put(project, "address", 2, "I,1,Bonn", "I,2,Ulm")
    run_joined(project)
    drop(project, "address")
    (project.folder / "landing/shop/address/20261102-100000000.csv").unlink()
    project.put("LOAD00000001.csv", "2026-11-20 10:00:00.000000,1,Rome\n", "shop/address")
    last = run_joined(project)["last"]
    assert last["whole"] == ["batch 1 of address was rolled back, dropped or has expired"]
    assert versions(project) == [
        (1, "2026-11-02", "Ann", "Bonn", "2026-12-01"),
        (1, "2026-12-01", "Ann", "Rome", None),
        (2, "2026-11-02", "Bea", "Ulm", "2026-12-01"),
        (2, "2026-12-01", "Bea", None, None),
    ]


DAMAGED = pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")


def altered(project: Project, spark: SparkSession, mode: str) -> list[Row]:
    """Make a joined history of which each customer has three versions, and prolong the first ones.

    These end with the second day of the next one. The versions from before that are returned.
    """
    project.configure(TWO.replace("[defaults]\n", f'[defaults]\nmode = "{mode}"\n'), source=TIMED)
    put(project, "address", 1, "I,1,Bonn")
    for day in (1, 3, 5):
        put(project, "customer", day, f"U,1,Ann {day}", f"U,2,Bea {day}")
        run_joined(project)

    def prolong(rows: Sequence[Row]) -> None:
        for first in {row["id"]: row for row in reversed(rows) if row["id"] > 0}.values():
            first["valid_to"] = datetime(2026, 11, 4, 10, tzinfo=UTC)

    return alter(project, spark, prolong, "dw.customer")


@pytest.mark.long
@iceberg_and_delta
@DAMAGED
def test_keys_whose_versions_others_altered_are_skipped_until_they_are_put_right(
    project: Project, spark: SparkSession
) -> None:
    before, columns = altered(project, spark, "mirror"), ("id", "valid_from", "valid_to")
    stored = project.rows("customer", "dw", columns)
    put(project, "customer", 7, "U,1,Ann 7", "U,3,Cleo")
    customer = run_joined(project, code=4)
    assert (customer["error"]["what"], customer["error"]["found"]) == (
        "dw.customer: versions of 1 key break the rules of histories",
        '["1"]: two versions are valid at once (valid_from = 2026-11-03 10:00:00)',
    )
    assert (customer["last"]["batch"], customer["last"]["written"]) == (4, 1)
    [*others, (key, _, ends)] = project.rows("customer", "dw", columns)
    assert (others, key, ends) == (stored, 3, None)

    def put_right(rows: Sequence[Row]) -> None:
        was = {(row["id"], row["valid_from"]): row for row in before}
        for row in rows:
            row.update(was.get((row["id"], row["valid_from"]), {}))

    alter(project, spark, put_right, "dw.customer")
    run_joined(project)
    assert [row for row in versions(project) if row[0] in (1, 3)] == [
        (1, "2026-11-01", "Ann 1", "Bonn", "2026-11-03"),
        (1, "2026-11-03", "Ann 3", "Bonn", "2026-11-05"),
        (1, "2026-11-05", "Ann 5", "Bonn", "2026-11-07"),
        (1, "2026-11-07", "Ann 7", "Bonn", None),
        (3, "2026-11-07", "Cleo", None, None),
    ]
    assert project.call("verify", "--history", "dw.customer").code == 0


@pytest.mark.long
@iceberg_and_delta
@DAMAGED
def test_altered_versions_of_a_history_of_histories_are_made_anew_with_the_next_change_of_a_source(
    project: Project, spark: SparkSession
) -> None:
    altered(project, spark, "history")
    put(project, "customer", 7, "U,1,Ann 7")
    assert project.call("verify", "--history", "dw.customer").code != 0
    run_joined(project)
    assert project.call("verify", "--history", "dw.customer").code == 0


def test_a_row_whose_old_key_was_deleted_late_leaves_the_joined_table(project: Project) -> None:
    """A late delete of the first key names that alone; the row of the last key is gone, for it lacks a cell."""
    tables = TWO.replace("[defaults]\n", '[defaults]\nlateness = "30d"\n')
    project.configure(tables, f'{TIMED}\nno_sup_value = "~"\nbefore_image_prefix = "BI_"')
    put(project, "customer", 1, "I,1,Ann,", "I,2,Bea,")
    put(project, "address", 2, "I,1,Bonn,")
    run_joined(project)
    put(project, "customer", 5, "U,9,~,1", "U,8,~,9")
    run_joined(project)
    others = [(1, "2026-11-02", "2026-11-05"), (2, "2026-11-01", None)]
    assert [(key, begins, ends) for key, begins, *_, ends in versions(project)] == [
        *others,
        (8, "2026-11-05", None),
    ]
    put(project, "customer", 4, "D,1,~,")
    assert run_joined(project)["last"]["whole"] == []
    assert [(key, begins, ends) for key, begins, *_, ends in versions(project)] == others
