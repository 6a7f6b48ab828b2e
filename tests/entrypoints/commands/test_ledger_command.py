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
    _, *lines, counts = lakeward("ledger", "list", "shop.orders").out.splitlines()
    listed = [" ".join(line.split()[:3]) for line in lines[:3]]
    assert listed == [
        f"LOAD0000000{n}.csv {state} {n},000" for n, state in ((1, "applied"), (2, "applied"), (3, "seen"))
    ]
    assert counts == "2 applied · 1 seen"
    last = lakeward("ledger", "list", "shop.orders", "--limit", "1").out
    assert ("LOAD00000003.csv" in last, "LOAD00000001.csv" in last) == (True, False)
    assert last.splitlines()[-1] == "2 applied · 1 seen (the last 1 are shown)"


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
