"""The queue in a SQLite file: its laws, dead letters, and damaged files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tenancies import Clock

from lakeward.adapters.queues.sqlite import FILE, SqliteQueue, build
from lakeward.core.errors import ConfigError, StoreUnreachable
from lakeward.core.ports import Notice
from lakeward.plugins import Runtime
from lakeward.plugins.testing import QueueUnderTest, queue_contract

MINUTE = 60_000_000


def queue_in(folder: Path, clock: Clock | None = None, receives: int = 99) -> SqliteQueue:
    return SqliteQueue(folder / "state" / FILE, clock or Clock(), MINUTE, receives)


def in_sqlite(tmp_path: Path) -> QueueUnderTest:
    clock = Clock()
    return QueueUnderTest(
        open=lambda: queue_in(tmp_path, clock),
        ring=queue_in(tmp_path, clock).add,
        pass_time=lambda part: clock.advance(part * MINUTE),
    )


TestSqlite = queue_contract(in_sqlite)


def rows(folder: Path, table: str) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(folder / "state" / FILE)) as db:
        return db.execute(f"SELECT name, receives FROM {table} ORDER BY id").fetchall()


def test_a_row_that_another_program_inserts_is_a_notice(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    assert queue.receive() == []
    with closing(sqlite3.connect(queue.file)) as db:
        db.execute("INSERT INTO notices (name) VALUES ('shop.orders')")
        db.commit()
    assert [notice.table for notice in queue.receive()] == ["shop.orders"]


def test_notices_are_received_in_order_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeward.adapters.queues.sqlite._MAX_RECEIVED", 2)
    queue = queue_in(tmp_path)
    for name in ("a.a", "b.b", "c.c"):
        queue.add(name)
    assert [[notice.table for notice in queue.receive()] for _ in range(3)] == [["a.a", "b.b"], ["c.c"], []]


def test_a_receipt_is_not_used_again(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    queue.add("a.a")
    first = queue.receive()
    queue.acknowledge(first)
    queue.add("a.a")
    queue.acknowledge(first)
    assert len(queue.receive()) == 1


def test_a_notice_received_too_often_is_a_dead_letter_with_one_warning(tmp_path: Path) -> None:
    queue = queue_in(tmp_path, receives=2)
    queue.add("a.a")
    queue.add("b.b")
    for _ in range(2):
        notices = queue.receive()
        queue.give_back([notice for notice in notices if notice.table == "a.a"])
        queue.acknowledge([notice for notice in notices if notice.table == "b.b"])
    with capture_logs() as logs:
        assert (queue.receive(), queue.receive()) == ([], [])
    assert [(entry["log_level"], entry["tables"]) for entry in logs] == [("warning", ["a.a"])]
    assert (rows(tmp_path, "notices"), rows(tmp_path, "dead_letters")) == ([], [("a.a", 2)])


def test_a_hidden_notice_is_no_dead_letter(tmp_path: Path) -> None:
    clock = Clock()
    queue = queue_in(tmp_path, clock, receives=1)
    queue.add("a.a")
    notices = queue.receive()
    for _ in range(3):
        clock.advance(0.9 * MINUTE)
        queue.extend(notices)
        assert queue.receive() == []
    assert rows(tmp_path, "dead_letters") == []


@pytest.mark.parametrize("spoil", ["text", "pages", "schema"])
def test_the_error_for_a_damaged_file_says_to_delete_it(tmp_path: Path, spoil: str) -> None:
    queue = queue_in(tmp_path)
    queue.file.parent.mkdir()
    if spoil == "text":
        queue.file.write_text("not a database, but some text that is long enough to be none" * 20, "utf-8")
    elif spoil == "pages":
        queue.add("a.a")
        with queue.file.open("r+b") as file:
            file.seek(100)
            file.write(b"\xff" * 4000)
    else:
        with closing(sqlite3.connect(queue.file)) as db:
            db.execute("CREATE TABLE notices (table_name TEXT)")
    for use in (queue.receive, lambda: queue.acknowledge([Notice("a.a", "1")])):
        with pytest.raises(StoreUnreachable, match=r"^the queue .*queue\.db is damaged, or not a queue") as raised:
            use()
        assert str(raised.value.todo).startswith(
            "Delete the file: the next run creates it again. No change is lost"
        )
    queue.file.unlink()
    assert queue.receive() == []


def test_an_inaccessible_file_is_not_called_damaged(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    queue.file.mkdir(parents=True)
    with pytest.raises(StoreUnreachable, match=r"the queue .*queue\.db cannot be used"):
        queue.receive()


def test_the_options_of_the_queue_are_read(tmp_path: Path) -> None:
    clock = Clock()
    runtime = Runtime(lambda: None, state=tmp_path, now=clock)
    queue = build({"tables": ["a.a"], "visibility": "2m", "max_receives": 3}, runtime)
    assert (queue.file, queue.visibility, queue.max_receives) == (tmp_path / FILE, 2 * MINUTE, 3)
    assert not queue.file.exists()


@pytest.mark.parametrize("visibility", ["5", "59s", "13h", "1d"])
def test_a_visibility_out_of_range_is_refused(visibility: str) -> None:
    with pytest.raises(ConfigError, match='from "1m" to "12h"'):
        build({"tables": [], "visibility": visibility}, Runtime(lambda: None))
