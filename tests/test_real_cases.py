"""Published feeds through commands, read by the reader of the format and by DuckDB.

`case.json` of each feed says where it and its results come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import outside
import pytest
from cases import PGBENCH, TICKETING, check
from project import Project
from spark import COMPILED

pytestmark = pytest.mark.spark

EMPLOYEE = """
[tables."public.EMPLOYEE"]
key = ["id"]

[tables."public.EMPLOYEE".columns]
id = "int"
last_name = "string"
first_name = "string"
date = { type = "date", format = "d-MMM-yy" }
office = "string"
"""

INSURANCE = r"""
[tables."insurance.policy"]
key = ["policy_id"]

[tables."insurance.policy".columns]
policy_id = "bigint"
expiry_date = "date"
location_name = "string"
state_code = "string"
region_name = "string"
insured_value = "bigint"
business_type = "string"
earthquake = "string"
flood = "string"

[tables."insurance.policy".source]
load = "."
changes = "."
load_names = 'full-load\.csv'
change_names = 'cdc-load(?P<counter>\d*)\.csv'
"""

AS_USERS_RUN = "\n[spark.settings]\n" + "".join(f'"{name}" = "{value}"\n' for name, value in COMPILED.items())
"""With so many rows, compiled plans take half the time of interpreted ones."""

EVERY = pytest.mark.parametrize(
    "kind",
    [
        "iceberg",
        pytest.param("delta", marks=pytest.mark.long),
        pytest.param("hudi", marks=[pytest.mark.hudi, pytest.mark.long]),
    ],
)
"""On Iceberg in the gate: `test_equivalence.py` and the laws compare formats."""


def configure(project: Project, case: Path, tables: str, source: str = "") -> None:
    (project.folder / "landing").rmdir()
    (project.folder / "landing").symlink_to(case / "input")
    project.configure(tables, source)


def totals(tables: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {name: table["counts"] for name, table in tables.items()}


@EVERY
def test_the_employee_of_the_user_guide_is_deleted_in_the_end(project: Project, kind: str) -> None:
    """I, U, U, D of one key in one file without a header. The date is written as 4-Jun-14."""
    project.kind = kind
    case = outside.case("dms-csv-docs-employee")
    configure(project, case, EMPLOYEE)
    run = project.run()
    counts = totals(run)["public.EMPLOYEE"]
    assert (counts["read"], counts["superseded"], counts["applied"]) == (4, 3, 1)
    assert check(project.folder, "public", "EMPLOYEE", case / "expected" / "final.csv") == 0


@EVERY
def test_policies_give_the_rows_of_the_published_notebook(project: Project, kind: str) -> None:
    """A full load with a header and without Op, changes with Op and without a header, with other names."""
    project.kind = kind
    case = outside.case("dms-csv-insurance-upsert")
    configure(project, case, INSURANCE)
    counts = totals(project.run())["insurance.policy"]
    assert (counts["read"], counts["quarantined"]) == (30, 0)
    assert check(project.folder, "insurance", "policy", case / "expected" / "final.csv") == 27


@EVERY
@pytest.mark.long
def test_pgbench_equals_its_database_and_its_plan(project: Project, kind: str) -> None:
    """100,000 accounts, ties of many clients, one hot row; the history has no key."""
    project.kind = kind
    case = outside.case("derived-dms-csv-pgbench")
    configure(project, case, PGBENCH + AS_USERS_RUN, 'timestamp_column = "TIMESTAMP"\nnull_text = ""')
    planned = {table["table"]: table for table in project.call("plan", "--json").document["tables"]}
    assert not (project.folder / "lake").exists()
    run = project.run()
    assert totals(planned) == totals(run)
    for table in ("accounts", "branches", "tellers", "history"):
        name = f"pgbench_{table}"
        rows = check(project.folder, "public", name, case / "expected" / f"{name}.csv.gz")
        assert rows == {"accounts": 100_000, "branches": 1, "tellers": 10, "history": 8_000}[table]


@EVERY
def test_ticketing_equals_its_database(project: Project, kind: str) -> None:
    """Twelve tables in Parquet, 376,558 changes, keys of type DOUBLE. Types are those of the footers."""
    project.kind = kind
    case = outside.case("derived-dms-parquet-ticketing")
    tables = "\n".join(f'[tables."dms_sample.{name}"]\nkey = {key}' for name, key in TICKETING.items())
    configure(project, case, tables + AS_USERS_RUN, 'timestamp_column = "TIMESTAMP"')
    run = project.run()
    counts = totals(run)
    changes = sum(
        counts[f"dms_sample.{name}"]["read"] for name in ("sporting_event_ticket", "ticket_purchase_hist")
    )
    assert changes == 376_558 + 19_676
    for name in TICKETING:
        check(project.folder, "dms_sample", name, case / "expected" / f"{name}.csv.gz")
