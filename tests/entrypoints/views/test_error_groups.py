"""What several tables have in common is said once, with a line for each table."""

from __future__ import annotations

import pytest

from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised, SourceError
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.failures import Failure
from lakeward.entrypoints.views.error_groups import print_alarms, print_errors, print_failures

ITEM, ITEMS, OTHER = TableName("shop", "item"), TableName("shop", "items"), TableName("shop", "other")


def restart(table: TableName, file: str) -> AlarmRaised:
    todo = f"Was there a failover? `lakeward ack {table} SEQUENCE-002` says that nothing was lost."
    return AlarmRaised(
        "SEQUENCE-002", f"{table}: the log starts over", found=f"row 1 of {file}", todo=todo, about=[]
    )


def test_an_error_of_several_tables_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    other = SourceError(f"{OTHER}: the log starts over", found="elsewhere", todo="Wait.")
    print_errors([(ITEM, restart(ITEM, "a")), (OTHER, other), (ITEMS, restart(ITEMS, "b"))])
    assert capsys.readouterr().err.splitlines() == [
        "error: 2 tables: the log starts over",
        "  shop.item: row 1 of a",
        "  shop.items: row 1 of b",
        "  Was there a failover? `lakeward ack TABLE SEQUENCE-002` says that nothing was lost.",
        "  SEQUENCE-002 is explained in docs/reference/alarms.md",
        "error: shop.other: the log starts over",
        "  elsewhere",
        "  Wait.",
    ]


def test_an_error_of_one_table_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_errors([(ITEM, restart(ITEM, "a")), (ITEMS, ValueError("no"))])
    printed = capsys.readouterr().err
    assert printed.startswith("error: shop.item: the log starts over\n  row 1 of a\n")
    assert "`lakeward ack shop.item SEQUENCE-002`" in printed
    assert "error: ValueError: no\n  This is a defect of lakeward" in printed


def test_alarms_and_errors_of_runs_before_are_said_once_too(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"found": "f", "todo": "Look at it."}
    print_alarms([(name, Alarm("CLOCK-001", f"{name}: ahead", **said)) for name in (ITEM, OTHER)])
    print_failures(
        [(name, Failure("SourceError", f"{name}: cut", **said, retryable=False, at=0)) for name in (ITEM, OTHER)]
    )
    printed = capsys.readouterr().err
    assert (printed.count("Look at it."), printed.count("shop.item"), printed.count("shop.other")) == (2, 3, 3)
    assert "alarm: 2 tables: ahead\n  shop.item: f\n" in printed
    assert "  shop.other: f; shop.other failed " in printed
