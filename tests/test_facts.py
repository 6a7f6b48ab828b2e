"""Facts that look their members up, as a user has them: they wait or get -1, and what comes late corrects them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from joined_runs import TIMED, run_joined
from project import Project, any_kind

pytestmark = pytest.mark.spark

SHOP = """
[defaults]
key = ["id"]
lateness = "30d"

[tables."shop.customer"]
mode = "history"
history.surrogate = "{surrogate}"

[tables."shop.customer".columns]
id = "int"
name = "string"

[tables."shop.orders".columns]
id = "int"
customer = "int"
ordered = "timestamp"

[joined."dw.facts".sources.orders]
table = "shop.orders"
columns = ["id", "customer"]

[joined."dw.facts".sources.customer]
table = "shop.customer"
on = ["id"]
to = ["customer"]
at = "ordered"
columns = {{ customer_key = "version_key", name = "name" }}
otherwise = {{ customer_key = -1 }}
"""
ANN, ANNA, BEA = (1, "2026-11-03"), (1, "2026-11-04"), (2, "2026-11-06")
"""Versions of customers: whose each is, and when it begins, at ten."""


def put(project: Project, table: str, name: str, *rows: str) -> None:
    """Deliver a file; of each row the day of the change is said, and it is made at ten."""
    lines = (row.replace("@", "2026-11-").replace("/", " 10:00:00.000000") for row in rows)
    project.put(f"202611{name}-100000000.csv", "".join(f"{line}\n" for line in lines), f"shop/{table}")


def begun(project: Project) -> None:
    """Put orders in place: before Ann was there, around a change of hers, and of an unknown Bea."""
    put(project, "customer", "03", "I,@03/,1,Ann")
    put(
        project,
        "orders",
        "07",
        "I,@07/,10,1,@02/",
        "I,@07/,11,1,2026-11-04 09:59:59.999999",
        "I,@07/,12,1,@04/",
        "I,@07/,13,2,@06/",
    )


def facts(project: Project) -> dict[int, Any]:
    """Return of each fact which version it has, by whose it is and since when, or the key of none, and the name."""
    members = project.rows("customer", "shop", ("version_key", "id", "valid_from"))
    versions = {key: (id_, _day(begins)) for key, id_, begins in members}
    return {id_: (versions.get(key, key), name) for id_, (key, name) in keys(project).items()}


def keys(project: Project) -> dict[int, Any]:
    """Return of each fact the key and the name of its member, as they stand."""
    return {id_: member for id_, *member in project.rows("facts", "dw", ("id", "customer_key", "name"))}


def _day(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d")


@any_kind
@pytest.mark.parametrize(
    ("surrogate", "unknown"), [("hash", "-1"), pytest.param("number", -1, marks=pytest.mark.long)]
)
def test_a_fact_has_the_version_of_its_time_and_what_comes_late_corrects_it(
    project: Project, surrogate: str, unknown: str | int
) -> None:
    """A number stays with a version whose beginning a late change moves; a hash is another then."""
    project.configure(SHOP.format(surrogate=surrogate), source=TIMED)
    begun(project)
    assert "customer as it was at orders.ordered; a row without a match has customer_key -1, name NULL" in " ".join(
        project.call("plan").out.split()
    )
    run_joined(project)
    ann, none = (ANN, "Ann"), (unknown, None)
    assert facts(project) == {10: none, 11: ann, 12: ann, 13: none}
    put(project, "customer", "09", "U,@04/,1,Anna", "I,@06/,2,Bea")
    last = run_joined(project)["last"]
    assert (last["whole"], last["since"], last["written"], last["removed"]) == ([], {"customer": 1}, 2, 2)
    assert facts(project) == {10: none, 11: ann, 12: (ANNA, "Anna"), 13: (BEA, "Bea")}
    bea, stays = keys(project)[13], surrogate == "number"
    put(project, "customer", "10", "U,@01/,1,Andy", "U,@05/,2,Bea")
    last, changed = run_joined(project)["last"], 1 if stays else 2
    assert (last["whole"], last["written"], last["removed"]) == ([], changed, changed)
    assert (facts(project)[10], facts(project)[13]) == (((1, "2026-11-01"), "Andy"), ((2, "2026-11-05"), "Bea"))
    assert (keys(project)[13] == bea) is stays
    put(project, "customer", "11", "D,@08/,1,Anna")
    put(project, "orders", "12", "I,@12/,15,1,@08/", "U,@12/,12,1,2026-11-04 09:59:59.999999", "D,@12/,13,2,@06/")
    run_joined(project)
    assert facts(project) == {10: ((1, "2026-11-01"), "Andy"), 11: ann, 12: ann, 15: none}
