"""The laws of the ledgers in memory and in SQLite, and tests of the SQLite file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from lakeward.adapters.ledgers.sqlite import FILE, SqliteLedger, build
from lakeward.adapters.memory import MemoryLedger
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.ledger.objects import Notes, ObjectRecord, ObjectState, SourceObject
from lakeward.core.ports import Ledger
from lakeward.core.reporting.failures import Failure
from lakeward.plugins import Runtime
from lakeward.plugins.testing import ledger_contract

TABLE = "shop.orders"


@pytest.fixture
def memory() -> MemoryLedger:
    return MemoryLedger()


TestMemory = ledger_contract(lambda memory: lambda: memory)
TestSqlite = ledger_contract(lambda tmp_path: lambda: SqliteLedger(tmp_path / "state" / FILE))


def record(order: int, state: ObjectState = ObjectState.SEEN, **rest: Any) -> ObjectRecord:
    return ObjectRecord(object=SourceObject(f"f{order}", order, 10, 5, rest.pop("etag", None)), state=state, **rest)


def states(ledger: Ledger) -> dict[str, str]:
    return {record.object.name: record.state.value for record in ledger.objects(TABLE)}


def test_reading_creates_no_file(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "state" / FILE)
    ledger.account(TABLE)
    assert list(tmp_path.iterdir()) == []


def test_a_note_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / FILE)
    ledger.write(TABLE, Notes(records=[record(1)]))
    spoilt = SourceObject("f2", 2, "x" * 10, 1, b"")  # type: ignore[arg-type]
    spoilt_order = SourceObject("f3", None, 1, 1)  # type: ignore[arg-type]
    bad = [ObjectRecord(object=item, state=ObjectState.SEEN) for item in (spoilt, spoilt_order)]
    with pytest.raises(TableError, match="cannot be used"):
        ledger.write(TABLE, Notes(records=bad))
    assert states(ledger) == {"f1": "seen"}


@pytest.mark.parametrize("spoil", ["text", "version"])
def test_the_error_for_an_invalid_file_names_it_and_says_to_delete_it(tmp_path: Path, spoil: str) -> None:
    file = tmp_path / FILE
    if spoil == "text":
        file.write_text("not a database, and long enough to be told from an empty one" * 20, "utf-8")
    else:
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA user_version = 99")
        db.close()
    ledger = SqliteLedger(file)
    for use in (lambda: ledger.account(TABLE), lambda: ledger.write(TABLE, Notes(batch=1))):
        with pytest.raises(TableError, match=r"ledger\.db cannot be used") as raised:
            use()
        assert "delete the file" in str(raised.value.todo)


def test_a_ledger_of_an_earlier_version_keeps_its_content(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / FILE)
    ledger.write(TABLE, Notes(records=[record(1)], batch=3))
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("DROP TABLE failures")
        db.execute("DROP TABLE verdicts")
        db.execute("DROP TABLE sent")
        db.execute("PRAGMA user_version = 2")
    db.close()
    assert (ledger.account(TABLE).batch, states(ledger)) == (3, {"f1": "seen"})
    failure = Failure("TableError", "what", None, None, retryable=False, at=9)
    ledger.write(TABLE, Notes(has_ended=True, failure=failure))
    assert (ledger.account(TABLE).batch, ledger.account(TABLE).failure) == (3, failure)


def test_the_ledger_has_no_settings_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ledger"):
        build({"state": tmp_path, "path": "x"}, Runtime(lambda: None, tmp_path))
