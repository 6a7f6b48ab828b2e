"""Figures of runs: lines for CloudWatch that sum up to what was done, and Prometheus beside one that follows."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from commands import Command, Ended
from failing_sources import FailingPipeline

from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised, SetupError, SourceError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.reporting.alarms import Alarm
from lakeward.entrypoints.commands import run as running
from lakeward.entrypoints.runtime.join_run import JoinRun
from lakeward.entrypoints.runtime.reporting.metrics import RunMetrics
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.settings.models.sections import MetricsSettings

ORDERS, LINES = TableName("shop", "orders"), TableName("shop", "lines")
NOW = 1_796_083_200_000_000
CLOUDWATCH = '[metrics]\nformat = "cloudwatch"\nnamespace = "acme"\n'


class Pipeline(FailingPipeline):
    """A pipeline that writes its figures."""

    def put(self, table: TableName, order: int, *others: Any) -> None:
        """Deliver an object with two rows, a minute old, and others."""
        rows = [
            ChangeEvent(
                operation=Operation.UPDATE,
                position=Position(1, order, order, row),
                key=(row,),
                cells={"id": row, "state": None},
                time=self.now - 60_000_000,
            )
            for row in (1, 2)
        ]
        self.source.put(table, order, [*rows, *others])


@pytest.fixture
def pipeline(lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    found = Pipeline(lakeward, tmp_path, monkeypatch)
    found.configure(CLOUDWATCH)
    return found


def lines(ended: Ended) -> list[dict[str, Any]]:
    """Return the lines for CloudWatch that stand in what is printed to standard error."""
    return [found for line in ended.err.splitlines() if "_aws" in (found := as_json(line))]


def as_json(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    return found


def sums(found: list[dict[str, Any]], table: str | None) -> Counter[str]:
    """Return the sums of counters of a table, or of the pipeline."""
    names = ("Batches", "EventsRead", "EventsApplied", "EventsQuarantined", "Failures")
    total: Counter[str] = Counter()
    for one in found:
        if one.get("Table") == table:
            total.update({name: one[name] for name in names})
    return total


# CloudWatch.


def test_without_the_setting_nothing_is_written(pipeline: Pipeline) -> None:
    pipeline.configure()
    pipeline.put(ORDERS, 1)
    assert lines(pipeline.run()) == []


def test_a_run_writes_a_line_for_the_pipeline_and_each_table_beside_its_document(pipeline: Pipeline) -> None:
    for order in (1, 2):
        pipeline.put(ORDERS, order, *([Reject(Position(1, 2, 2, 9), Reason.CAST, ((9,),))] if order == 2 else []))
    ended = pipeline.run(0, "--json")
    assert (ended.code, ended.document["exit_code"]) == (3, 3)
    of_pipeline, orders, of_lines = lines(ended)
    assert [one["_aws"]["CloudWatchMetrics"][0]["Namespace"] for one in (of_pipeline, orders)] == ["acme", "acme"]
    names = ("Batches", "EventsRead", "EventsQuarantined", "HeldKeys")
    assert [orders[name] for name in names] == [2, 5, 1, 1]
    assert (orders["Table"], orders["Rows"], orders["Failing"]) == ("shop.orders", 2, 0)
    assert orders["LagSeconds"] == 60.0
    assert (of_lines["Table"], of_lines["Batches"]) == ("shop.lines", 0)
    assert "Table" not in of_pipeline
    assert (of_pipeline["EventsRead"], of_pipeline["LagSeconds"]) == (5, 60.0)
    assert of_pipeline["RunSeconds"] >= 0
    assert {one["Run"] for one in (of_pipeline, orders, of_lines)} == {ended.document["run"]}


def test_tables_need_not_have_metrics_of_their_own(pipeline: Pipeline) -> None:
    pipeline.configure(CLOUDWATCH + "per_table = false\n")
    pipeline.put(ORDERS, 1)
    (line,) = lines(pipeline.run())
    assert line["Batches"] == 1


def test_tables_that_fail_and_alarms_are_counted(pipeline: Pipeline) -> None:
    pipeline.source.errors = {
        ORDERS: SourceError("00000001 cannot be read"),
        LINES: AlarmRaised("LEDGER-001", "00000001 came late"),
    }
    of_pipeline, *tables = lines(pipeline.run())
    assert (of_pipeline["Failures"], of_pipeline["Failing"], of_pipeline["Alarms"]) == (2, 2, 1)
    assert {one["Table"]: one["Alarms"] for one in tables} == {"shop.orders": 0, "shop.lines": 1}


def test_a_run_that_cannot_go_on_is_a_failure_of_the_pipeline(pipeline: Pipeline) -> None:
    pipeline.source.errors = {ORDERS: SetupError("there is no Java")}
    ended = pipeline.run()
    assert ended.code == 1
    of_pipeline, *tables = lines(ended)
    assert {one["Table"]: one["Failures"] for one in tables}["shop.orders"] == 1
    assert of_pipeline["Failures"] == 2, "the turn, and the run as a whole"


def test_what_was_done_until_a_run_cannot_go_on_is_written(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise SetupError("there is no Java")

    pipeline.put(ORDERS, 1)
    monkeypatch.setattr(running.JoinScheduler, "refresh_all", fails)
    of_pipeline, *tables = lines(pipeline.run())
    assert {one["Table"]: one["EventsRead"] for one in tables} == {"shop.orders": 2, "shop.lines": 0}
    assert (of_pipeline["EventsRead"], of_pipeline["Failures"]) == (2, 1)


def test_the_lag_is_that_of_the_newest_commit_where_nothing_is_new(pipeline: Pipeline) -> None:
    pipeline.put(ORDERS, 1)
    pipeline.run()
    pipeline.now += 3_600_000_000
    (_, orders, _) = lines(pipeline.run())
    assert orders["Batches"] == 0
    assert orders.get("LagSeconds", 60.0) == 60.0


# While it follows.


def test_a_follower_writes_with_each_batch_and_what_it_writes_adds_up(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    for order in (1, 2, 3):
        pipeline.put(ORDERS, order)
    pipeline.source.errors = {LINES: SourceError("00000001 cannot be read")}
    ended = pipeline.follow(3, "--json", poll="10s")
    found = lines(ended)
    (orders,) = [one for one in ended.document["tables"] if one["table"] == "shop.orders"]
    expected = {"Batches": 3, "EventsRead": 6, "EventsApplied": orders["counts"]["applied"]}
    assert {name: sums(found, "shop.orders")[name] for name in expected} == expected
    assert sums(found, "shop.lines")["Failures"] >= 4, "at once, and after 10, 30 and 70 seconds"
    both = sums(found, "shop.orders") + sums(found, "shop.lines")
    assert sums(found, None) == both
    assert len([one for one in found if one.get("Table") == "shop.orders"]) == 4, "three batches, and the end"
    assert [one["Rows"] for one in found if one.get("Table") is None][-1] == 2


def made(capsys: pytest.CaptureFixture[str], **how: Any) -> tuple[RunMetrics, Callable[[], list[dict[str, Any]]]]:
    """Return what measures, and what reads the lines that it has written."""
    settings = MetricsSettings(format="cloudwatch")
    found = RunMetrics("shop", settings, lambda: NOW, clock=lambda: 0.0, **how)
    return found, lambda: [as_json(line) for line in capsys.readouterr().err.splitlines()]


def test_seconds_of_turns_without_a_batch_are_in_the_next_line(capsys: pytest.CaptureFixture[str]) -> None:
    measuring, read = made(capsys)
    orders, other = TableRun(ORDERS, is_begun=True), TableRun(LINES, is_begun=True)
    for batches, seconds, of_others in ((1, 5.0, 0), (1, 12.0, 1), (2, 13.0, 1)):
        orders.batches, orders.seconds, other.batches = batches, seconds, of_others
        measuring.measure([orders, other], (), 0)
    written = read()
    assert [one["Seconds"] for one in written if one.get("Table") == "shop.orders"] == [5.0, 8.0]
    orders.seconds = 14.5
    measuring.end([orders, other], ())
    written += read()
    for table in ("shop.orders", None):
        assert sum(one["Seconds"] for one in written if one.get("Table") == table) == 14.5


def test_an_error_that_ends_it_finds_what_was_done_since_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    server = SimpleNamespace(figures=None)
    measuring, read = made(capsys, server=server)
    orders = TableRun(ORDERS, is_begun=True, batches=1, seconds=5.0)
    measuring.measure([orders], (), 0)
    orders.batches, orders.seconds = 3, 9.0
    measuring.fail()
    of_pipeline, of_orders = read()[-2:]
    assert (of_orders["Batches"], of_orders["Seconds"]) == (2, 4.0)
    assert (of_pipeline["Batches"], of_pipeline["Failures"]) == (2, 1)
    assert [(one.table, one.batches) for one in server.figures.tables] == [("shop.orders", 3)]


def test_a_joined_table_that_is_not_registered_has_an_alarm(capsys: pytest.CaptureFixture[str]) -> None:
    measuring, read = made(capsys)
    alarm = Alarm("CATALOG-001", "dw.dim is not registered as it is", found="", todo="")
    measuring.end((), [JoinRun(TableName("dw", "dim"), alarms=[alarm])])
    assert [one["Alarms"] for one in read()] == [1, 1]


def ask(url: str) -> str:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, timeout=60).text


def test_prometheus_reads_a_follower_until_it_ends(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    url: list[str] = []
    read: list[str] = []
    usual = RunMetrics.serving

    def serving(self: Any, port: int | None) -> Any:
        found = usual(self, port)
        url.append(self.server.url)
        return found

    monkeypatch.setattr(RunMetrics, "serving", serving)
    pipeline.configure()
    pipeline.put(ORDERS, 1)
    ended = pipeline.follow(1, "--metrics", "0", meanwhile=lambda _: read.append(ask(url[0])))
    assert ended.code == 0, ended.err
    said = [as_json(line) for line in ended.err.splitlines()]
    assert [one["url"] for one in said if one.get("event") == "metrics"] == url
    value = re.search(r'^lakeward_events_read_total\{pipeline="shop",table="shop.orders"\} (\S+)$', read[-1], re.M)
    assert value is not None
    assert value[1] == "2"
    lag = re.search(r'^lakeward_lag_seconds\{pipeline="shop",table="shop.orders"\} (\S+)$', read[-1], re.M)
    assert lag is not None
    assert float(lag[1]) == 60.0
    with pytest.raises(requests.ConnectionError):
        ask(url[0])


def test_a_port_is_for_one_that_follows(pipeline: Pipeline) -> None:
    ended = pipeline.run(0, "--metrics", "9090")
    assert ended.code == 2
    assert "--metrics is for --follow" in ended.err


def test_a_port_that_is_taken_ends_it_before_anything_is_applied(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.put(ORDERS, 1)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        ended = pipeline.follow(3, "--metrics", str(one.getsockname()[1]))
    assert ended.code == 1
    assert {table.progress.batch for table in pipeline.lake.tables.values()} <= {0}
