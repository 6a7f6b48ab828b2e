"""The ledgers: the one in memory and the one in SQLite do the same."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lakeward.adapters.memory import MemoryLedger
from lakeward.adapters.sqlite_ledger import FILE, SqliteLedger, build
from lakeward.core.alarms import Alarm
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.events import Position
from lakeward.core.ledger import Account, Notes, ObjectRecord, ObjectState, SourceObject
from lakeward.core.ports import Ledger
from lakeward.plugins import Runtime

TABLE = "shop.orders"


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return MemoryLedger() if request.param == "memory" else SqliteLedger(tmp_path / "state" / FILE)


def record(order: int, state: ObjectState = ObjectState.SEEN, **rest: Any) -> ObjectRecord:
    return ObjectRecord(object=SourceObject(f"f{order}", order, 10, 5, rest.pop("etag", None)), state=state, **rest)


def states(ledger: Ledger) -> dict[str, str]:
    return {found.object.name: found.state.value for found in ledger.objects(TABLE)}


def test_an_empty_ledger_knows_nothing(ledger: Ledger) -> None:
    assert ledger.account(TABLE) == Account()
    assert list(ledger.objects(TABLE)) == []


def test_what_is_written_is_read_back_whole_and_in_order(ledger: Ledger) -> None:
    place = Position(1, -(2**63), 2**62, 1)
    applied = record(
        2**62, ObjectState.APPLIED, etag="x", first_seen=7, batch=3, rows=9, least=place, greatest=place
    )
    ledger.write(TABLE, Notes(records=[applied, record(1, first_seen=8)]))
    ledger.write("shop.lines", Notes(records=[record(5)]))
    assert list(ledger.objects(TABLE)) == [record(1, first_seen=8), applied]
    assert list(ledger.objects(TABLE, ObjectState.APPLIED)) == [applied]
    assert ledger.account(TABLE).waiting == {"f1": record(1).object}


def test_the_time_when_an_object_was_first_seen_stays(ledger: Ledger) -> None:
    ledger.write(TABLE, Notes(records=[record(1, first_seen=8)]))
    ledger.write(TABLE, Notes(records=[record(1, ObjectState.APPLIED, batch=1)]))
    (found,) = ledger.objects(TABLE)
    assert (found.first_seen, found.batch, found.state) == (8, 1, ObjectState.APPLIED)


def test_a_state_follows_only_those_that_it_may_follow(ledger: Ledger) -> None:
    ledger.write(TABLE, Notes(records=[record(n, ObjectState.APPLIED) for n in (1, 2, 3)]))
    ledger.write(TABLE, Notes(states={ObjectState.ARCHIVED: ["f1"]}))
    ledger.write(TABLE, Notes(states={ObjectState.VANISHED: ["f1", "f2", "f9"]}))
    assert states(ledger) == {"f1": "archived", "f2": "vanished", "f3": "applied"}
    ledger.write(TABLE, Notes(states={ObjectState.APPLIED: ["f1", "f2"]}))
    assert states(ledger) == {"f1": "archived", "f2": "applied", "f3": "applied"}


def test_what_is_not_said_stays(ledger: Ledger) -> None:
    alarm = Alarm("LEDGER-005", "what", "found", "todo")
    acked = {"LEDGER-001": frozenset({"a", "b"})}
    ledger.write(TABLE, Notes(listed=5, batch=2, alarms=[alarm], acked=acked, checked={"f1": 4}))
    ledger.write(TABLE, Notes(checked={"f1": 5, "f2": 1}))
    known = Account(checked={"f1": 5, "f2": 1}, listed=5, batch=2, alarms=(alarm,), acked=acked)
    assert ledger.account(TABLE) == known
    ledger.write(TABLE, Notes(alarms=(), acked={}))
    assert ledger.account(TABLE) == Account(checked=known.checked, listed=5, batch=2)


def test_anew_forgets_a_table_and_no_other(ledger: Ledger) -> None:
    for table in (TABLE, "shop.lines"):
        ledger.write(table, Notes(records=[record(1)], listed=5, batch=2))
    ledger.write(TABLE, Notes(anew=True, records=[record(2)], batch=1))
    assert states(ledger) == {"f2": "seen"}
    assert ledger.account(TABLE).listed is None
    assert ledger.account("shop.lines").batch == 2


# SQLite.


def test_reading_makes_no_file(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "state" / FILE)
    ledger.account(TABLE)
    assert list(tmp_path.iterdir()) == []


def test_another_process_reads_what_was_written(tmp_path: Path) -> None:
    SqliteLedger(tmp_path / FILE).write(TABLE, Notes(records=[record(1)]))
    assert states(SqliteLedger(tmp_path / FILE)) == {"f1": "seen"}


def test_a_note_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / FILE)
    ledger.write(TABLE, Notes(records=[record(1)]))
    spoilt = SourceObject("f2", 2, "x" * 10, 1, b"")  # type: ignore[arg-type]
    spoilt_order = SourceObject("f3", None, 1, 1)  # type: ignore[arg-type]
    bad = [ObjectRecord(object=item, state=ObjectState.SEEN) for item in (spoilt, spoilt_order)]
    with pytest.raises(TableError, match="cannot be used"):
        ledger.write(TABLE, Notes(records=bad))
    assert states(ledger) == {"f1": "seen"}


def test_threads_share_it(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / FILE)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: ledger.write(f"shop.t{n % 4}", Notes(records=[record(n)])), range(40)))
    assert sum(len(list(ledger.objects(f"shop.t{n}"))) for n in range(4)) == 40


@pytest.mark.parametrize("spoil", ["text", "version"])
def test_a_file_that_is_no_ledger_is_named_and_may_be_deleted(tmp_path: Path, spoil: str) -> None:
    file = tmp_path / FILE
    if spoil == "text":
        file.write_text("not a database, and long enough to be told from an empty one" * 20, "utf-8")
    else:
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA user_version = 99")
        db.close()
    ledger = SqliteLedger(file)
    for use in (lambda: ledger.account(TABLE), lambda: ledger.write(TABLE, Notes(batch=1))):
        with pytest.raises(TableError, match=r"ledger\.db cannot be used") as refused:
            use()
        assert "delete the file" in str(refused.value.todo)


def test_it_has_no_keys_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ledger"):
        build({"state": tmp_path, "path": "x"}, Runtime(lambda: None, tmp_path))
