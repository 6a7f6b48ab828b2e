"""A pipeline whose folder `state` goes with its machine: the ledger and the lease are in DynamoDB."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Command
from ledger_tables import LedgerTable
from projects import MEMORY, write
from tenancies import DynamoDb

from lakeward.adapters.memory import MemorySource, MemoryTarget
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.selection import Limits

ORDERS = TableName("shop", "orders")
TABLE = """
    [tables."shop.orders"]
    key = ["id"]
    columns = { id = "int", state = "string" }
"""


class Machines:
    """Machines that run one pipeline, one behind the other; they have source, lake and DynamoDB in common."""

    def __init__(self, lakeward: Command, folder: Path) -> None:
        self.lakeward, self.folder = lakeward, folder
        self.source, self.lake = MemorySource(Limits(files=1)), MemoryTarget()

    def put(self, order: int) -> None:
        """Deliver a file with a change."""
        operation = Operation.INSERT if order == 1 else Operation.UPDATE
        cells = {"id": 1, "state": f"state {order}"}
        event = ChangeEvent(operation=operation, position=Position(1, order, order, 1), key=(1,), cells=cells)
        self.source.put(ORDERS, order, [event])

    def run(self) -> dict[str, Any]:
        """Run on a machine that has nothing yet, and return what it says of the table."""
        self.forget()
        ended = self.lakeward("run", "--json", "--log", "off")
        (table,) = ended.document["tables"]
        return {"code": ended.code, "applied": [batch["counts"]["applied"] for batch in table["batches"]], **table}

    def ask(self, *words: str) -> Any:
        """Return what a command on another machine says."""
        self.forget()
        return self.lakeward(*words, "--json").document

    def states(self) -> list[tuple[str, str, int | None]]:
        listed = self.ask("ledger", "list", "shop.orders")["objects"]
        return [(item["name"], item["state"], item["batch"]) for item in listed]

    def forget(self) -> None:
        """Throw the folder `state` away, as a machine does that ends."""
        shutil.rmtree(self.folder / "state", ignore_errors=True)


@pytest.fixture
def machines(
    lakeward: Command,
    tmp_path: Path,
    dynamodb: DynamoDb,
    ledger_table: LedgerTable,
    monkeypatch: pytest.MonkeyPatch,
) -> Machines:
    monkeypatch.setattr(dynamodb, "clock", lambda: time.time_ns() // 1000)
    found = Machines(lakeward, tmp_path)
    monkeypatch.setattr("lakeward.adapters.memory.MemorySource", lambda **_: found.source)
    monkeypatch.setattr("lakeward.adapters.memory.MemoryTarget", lambda: found.lake)
    ledger = f'[ledger]\nkind = "dynamodb"\ntable = "{ledger_table.table}"\n'
    lease = f'[lease]\nkind = "dynamodb"\ntable = "{dynamodb.table}"\n'
    write(tmp_path, MEMORY, ledger, lease, TABLE)
    return found


def test_a_state_that_is_thrown_away_between_runs_raises_no_alarm_and_applies_nothing_twice(
    machines: Machines,
) -> None:
    machines.put(1)
    assert machines.run()["applied"] == [1]
    for order in (2, 3):
        machines.put(order)
    assert machines.run()["applied"] == [1, 1]
    again = machines.run()
    assert (again["code"], again["applied"], again["error"]) == (0, [], None)
    (table,) = machines.ask("status")["tables"]
    assert (table["batch"], table["alarms"]) == (3, [])
    assert machines.states() == [(f"{n:08d}", "applied", n) for n in (1, 2, 3)]
    assert machines.lake.tables[ORDERS].progress.totals.read == 3
    assert not (machines.folder / "state" / "ledger.db").exists()


def cannot_be_read(*_: object) -> None:
    raise SourceError("00000002 cannot be read")


def test_what_one_machine_saw_is_missed_by_the_next(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger in the folder `state` would have been lost, and the alarm with it."""
    for order in (1, 2):
        machines.put(order)
    with monkeypatch.context() as patched:
        patched.setattr(MemorySource, "read", cannot_be_read)
        assert machines.run()["code"] == 4
    assert machines.states() == [("00000001", "seen", None), ("00000002", "seen", None)]
    (failed,) = machines.ask("status")["tables"]
    assert failed["last_error"]["what"] == "00000002 cannot be read"
    del machines.source.tables[ORDERS][1]
    assert machines.run()["error"]["code"] == "LEDGER-003"
    (table,) = machines.ask("status")["tables"]
    assert [alarm["code"] for alarm in table["alarms"]] == ["LEDGER-003"]
    machines.forget()
    assert machines.lakeward("ack", "shop.orders", "LEDGER-003", "--reason", "it was empty").code == 0
    assert machines.run()["applied"] == [1]
    assert machines.states() == [("00000001", "applied", 1), ("00000002", "vanished", None)]


def test_a_ledger_is_made_anew_from_what_the_table_knows(machines: Machines, ledger_table: LedgerTable) -> None:
    for order in (1, 2):
        machines.put(order)
    machines.run()
    before = machines.ask("ledger", "list", "shop.orders")["objects"]
    assert len(before) == 2
    for item in ledger_table.items():
        key = {"ledger": {"S": "shop/shop.orders"}, "item": {"S": item}}
        ledger_table.client.delete_item(TableName=ledger_table.table, Key=key)
    assert machines.states() == []
    assert machines.ask("ledger", "rebuild")["tables"] == [{"table": "shop.orders", "objects": 2}]
    made = machines.ask("ledger", "list", "shop.orders")["objects"]
    assert made == [{**item, "first_seen": None} for item in before]
    assert machines.run()["applied"] == []


@pytest.mark.parametrize(("words", "code"), [("run", 4), ("status", 4), ("ledger list shop.orders", 1)])
def test_a_table_that_is_not_there_is_a_mistake_that_is_named(machines: Machines, words: str, code: int) -> None:
    file = machines.folder / "lakeward.toml"
    file.write_text(file.read_text("utf-8").replace('table = "ledgers-', 'table = "nowhere-'), "utf-8")
    ended = machines.lakeward(*words.split())
    assert ended.code == code
    said = ended.err + ended.out
    assert "does not exist" in said
    assert "docs/reference/ledger.md" in said
    assert "[ledger]" in said
