"""When a run joins: once its tables are done, again where one of them went on or joining failed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from lakeward.adapters.memory import MemoryLedger
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, EngineLost, SetupError, TableError
from lakeward.core.joined.refresh import JoinJob
from lakeward.entrypoints.runtime import join_run
from lakeward.entrypoints.runtime.join_run import JoinScheduler, TableSelection, joined_of, select_tables
from lakeward.entrypoints.runtime.scheduler import TableOutcome
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.settings.configuration import validate

CUSTOMER, ORDERS, LOG = (TableName("shop", name) for name in ("customer", "orders", "log"))
DIM, SUMMARY = TableName("dw", "dim"), TableName("dw", "summary")
SETTINGS = {
    "pipeline": {"name": "shop"},
    "source": {"kind": "memory"},
    "target": {"kind": "memory"},
    "tables": {str(name): {"key": ["id"], "columns": {"id": "int"}} for name in (CUSTOMER, ORDERS, LOG)},
    "joined": {
        "dw.dim": {"sources": {"customer": {"table": "shop.customer", "columns": ["id"]}}},
        "dw.summary": {
            "sources": {
                "customer": {"table": "shop.customer", "columns": ["id"]},
                "orders": {"table": "shop.orders", "on": ["id"]},
            }
        },
    },
}
CONFIGURED = validate(SETTINGS, Path("lakeward.toml"))


@dataclass
class Lake:
    """Counts how often each table was joined; some fail, some leave keys as they stand."""

    fails: dict[TableName, Exception] = field(default_factory=dict)
    leaves: dict[TableName, TableError] = field(default_factory=dict)
    joined: list[TableName] = field(default_factory=list)

    def refresh(self, job: Any, _watch: object) -> Any:
        self.joined.append(job.name)
        if job.name in self.fails:
            raise self.fails[job.name]
        left = self.leaves.get(job.name)
        return SimpleNamespace(commit="c", written=1, removed=0, error=left, cautions=())

    def refreshed(self) -> list[TableName]:
        names, self.joined = sorted(self.joined), []
        return names


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = Lake()
    monkeypatch.setattr(join_run, "refresh", made.refresh)
    return made


def joins(stop: Stop | None = None, lost: EngineLost | None = None) -> JoinScheduler:
    def job(*, table: TableName) -> JoinJob:
        return SimpleNamespace(name=table)  # type: ignore[return-value]

    spark = SimpleNamespace(lost=lambda _what, error: lost if str(error) == "connection refused" else None)
    ledger, runtime = MemoryLedger(), SimpleNamespace(now=lambda: 7)
    container = SimpleNamespace(
        registration=lambda: None,
        configured=lambda: CONFIGURED,
        join_job=job,
        spark=lambda: spark,
        ledger=lambda: ledger,
        runtime=lambda: runtime,
    )
    return JoinScheduler(container, joined_of(CONFIGURED, CONFIGURED.tables), stop or Stop(lambda _: None))


def test_joined_tables_are_run_with_any_of_their_sources() -> None:
    assert list(joined_of(CONFIGURED, [CUSTOMER])) == [DIM, SUMMARY]
    assert list(joined_of(CONFIGURED, [ORDERS])) == [SUMMARY]
    assert list(joined_of(CONFIGURED, [LOG])) == []


def test_a_joined_table_selects_its_sources_and_a_table_its_joined_tables() -> None:
    assert select_tables(CONFIGURED, []) == TableSelection([CUSTOMER, ORDERS, LOG], [DIM, SUMMARY])
    assert select_tables(CONFIGURED, ["dw.dim"]) == TableSelection([CUSTOMER], [DIM], named=True)
    assert select_tables(CONFIGURED, ["shop.log", "DW.Summary"]) == TableSelection(
        [LOG, CUSTOMER, ORDERS], [SUMMARY], named=True
    )
    assert select_tables(CONFIGURED, ["shop.customer"]) == TableSelection([CUSTOMER], [DIM, SUMMARY], named=True)


def test_an_error_of_a_name_lists_joined_tables() -> None:
    with pytest.raises(ConfigError, match="summary is a joined table") as error:
        CONFIGURED.choose(["dw.summary"])
    assert error.value.todo == "Name one of its sources: shop.customer, shop.orders"
    with pytest.raises(ConfigError, match="dam is not configured") as error:
        select_tables(CONFIGURED, ["dw.dam"])
    assert "dw.dim" in str(error.value.todo)


def test_a_table_is_due_where_a_source_has_another_batch() -> None:
    join_scheduler = joins()
    for batches, right in [
        ({CUSTOMER: 1, ORDERS: 1}, [DIM, SUMMARY]),
        ({CUSTOMER: 1, ORDERS: 1, LOG: 7}, []),
        ({CUSTOMER: 1, ORDERS: 2}, [SUMMARY]),
        ({CUSTOMER: 2, ORDERS: 2}, [DIM, SUMMARY]),
        ({CUSTOMER: 2, ORDERS: 1}, [SUMMARY]),
    ]:
        assert join_scheduler.due_tables(batches) == right
    join_scheduler.make_all_due()
    assert join_scheduler.due_tables({CUSTOMER: 2, ORDERS: 1}) == [DIM, SUMMARY], (
        "another process may have gone back and forth"
    )


def test_a_failure_stops_no_other_table_and_is_tried_again(lake: Lake) -> None:
    join_scheduler = joins()
    lake.fails[DIM] = TableError("no space")
    for failures in (1, 2):
        assert DIM in join_scheduler.due_tables({CUSTOMER: 1})
        outcomes = [join_scheduler.refresh(table) for table in (DIM, SUMMARY)]
        assert outcomes == [TableOutcome.FAILED, TableOutcome.DONE]
        assert (str(join_scheduler.runs[DIM].error), join_scheduler.runs[DIM].failures) == ("no space", failures)
        assert join_scheduler.runs[SUMMARY].error is None
    kept = join_scheduler.container.ledger().account(str(DIM)).failure
    assert (kept.what, kept.kind, kept.at) == ("no space", "TableError", 7)
    lake.fails.clear()
    assert join_scheduler.due_tables({CUSTOMER: 1}) == [DIM]
    with capture_logs() as logs:
        assert join_scheduler.refresh(DIM) is TableOutcome.DONE
    assert (join_scheduler.runs[DIM].error, join_scheduler.runs[DIM].failures) == (None, 0)
    assert join_scheduler.container.ledger().account(str(DIM)).failure is None
    assert [line["event"] for line in logs] == ["goes on", "joined"]
    assert join_scheduler.due_tables({CUSTOMER: 1}) == []


def test_skipped_keys_are_a_failure_of_a_batch_that_was_committed(lake: Lake) -> None:
    join_scheduler = joins()
    lake.leaves[DIM] = TableError("versions of 2 keys break the rules of histories")
    with capture_logs() as logs:
        assert [join_scheduler.refresh(DIM) for _ in range(2)] == [TableOutcome.FAILED, TableOutcome.FAILED]
    run = join_scheduler.runs[DIM]
    assert (run.batches, run.failures, run.error, run.report is None) == (2, 2, lake.leaves[DIM], False)
    assert [line["event"] for line in logs if line["log_level"] in ("info", "error")].count("goes on") == 0
    lake.leaves.clear()
    assert join_scheduler.refresh(DIM) is TableOutcome.DONE
    assert (run.batches, run.failures, run.error) == (3, 0, None)


def test_a_spark_that_cannot_start_ends_the_run(lake: Lake) -> None:
    lake.fails[DIM] = SetupError("there is no Java")
    with ThreadPoolExecutor(1) as pool, pytest.raises(SetupError):
        joins().refresh_all(pool)
    assert lake.refreshed() == [DIM, SUMMARY]


def test_a_lost_engine_is_the_error_of_the_run(lake: Lake) -> None:
    lake.fails[DIM] = OSError("connection refused")
    lost = EngineLost("dw.dim: Java has ended in the middle of it")
    join_scheduler = joins(lost=lost)
    assert join_scheduler.refresh(DIM) is TableOutcome.FAILED
    assert join_scheduler.runs[DIM].error is lost


def test_no_refresh_begins_after_a_stop(lake: Lake) -> None:
    stop = Stop(lambda _: None)
    stop.ask()
    join_scheduler = joins(stop)
    with ThreadPoolExecutor(1) as pool:
        join_scheduler.refresh_all(pool)
    assert lake.refreshed() == []
    assert join_scheduler.runs == {}, "nothing is said of what was not looked at"
