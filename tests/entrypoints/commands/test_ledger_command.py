"""The ledger as its command shows it, without Spark."""

from __future__ import annotations

from pathlib import Path

import small_lake
from commands import Command
from projects import write

from lakeward.adapters.ledgers.sqlite import SqliteLedger
from lakeward.core.ledger.objects import Notes, ObjectRecord, ObjectState, SourceObject

S = ObjectState


def note(folder: Path, states: dict[int, ObjectState]) -> None:
    write(folder, small_lake.SETTINGS)
    records = [
        ObjectRecord(object=SourceObject(f"LOAD0000000{n}.csv", n, 1000 * n, 5), state=state, first_seen=n, rows=n)
        for n, state in states.items()
    ]
    SqliteLedger(folder / "state" / "ledger.db").write("shop.orders", Notes(records=records))


def test_files_are_listed_in_order_with_what_became_of_them(lakeward: Command, tmp_path: Path) -> None:
    note(tmp_path, {3: S.SEEN, 1: S.APPLIED, 2: S.APPLIED})
    ended = lakeward("ledger", "list", "shop.orders")
    assert [line.split()[:3] for line in ended.out.splitlines()[1:4]] == [
        ["LOAD00000001.csv", "applied", "1,000"],
        ["LOAD00000002.csv", "applied", "2,000"],
        ["LOAD00000003.csv", "seen", "3,000"],
    ]
    assert ended.out.splitlines()[4] == "2 applied · 1 seen"


def test_the_last_files_are_shown_and_all_are_counted(lakeward: Command, tmp_path: Path) -> None:
    note(tmp_path, {1: S.APPLIED, 2: S.VANISHED, 3: S.APPLIED})
    said = lakeward("ledger", "list", "shop.orders", "--limit", "1").out
    assert "LOAD00000003.csv" in said
    assert "LOAD00000001.csv" not in said
    assert said.splitlines()[-1] == "2 applied · 1 vanished (the last 1 are shown)"


def test_a_state_may_be_asked_for_alone(lakeward: Command, tmp_path: Path) -> None:
    note(tmp_path, {1: S.APPLIED, 2: S.VANISHED})
    document = lakeward("ledger", "list", "shop.orders", "--state", "vanished", "--json").document
    assert [item["name"] for item in document["objects"]] == ["LOAD00000002.csv"]
    assert document["states"] == {"vanished": 1}


def test_a_ledger_that_is_not_there_is_not_made(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, small_lake.SETTINGS)
    assert "The ledger has no such file" in lakeward("ledger", "list", "shop.orders").out
    assert not (tmp_path / "state").exists()


def test_a_table_that_is_not_configured_is_refused(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, small_lake.SETTINGS)
    ended = lakeward("ack", "shop.ordrs", "LEDGER-001")
    assert (ended.code, "Did you mean 'shop.orders'" in ended.err) == (1, True)
