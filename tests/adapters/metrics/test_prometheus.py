"""Metrics for Prometheus: the text format by its grammar, and the server."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from typing import Final

import pytest
import requests

from lakeward.adapters.metrics.prometheus import CONTENT_TYPE, MetricsServer, prometheus_text
from lakeward.core.errors import SetupError
from lakeward.core.reporting.figures import PipelineFigures, TableFigures

ORDERS = TableFigures(table="shop.orders", batches=2, events_applied=8, seconds=1.5, rows=100, lag_seconds=12.5)
FIGURES = PipelineFigures(
    pipeline="shop",
    run="0123456789ab",
    at=1,
    tables=[ORDERS, TableFigures(table="shop.lines", failures=1, failing=1)],
    seconds=3.25,
    waiting=4,
)

NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL: Final = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE: Final = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
HELP: Final = re.compile(rf"# HELP ({NAME}) ([^\\\n]+)")
TYPE: Final = re.compile(rf"# TYPE ({NAME}) (counter|gauge)")
"""The grammar of prometheus.io/docs/instrumenting/exposition_formats, as far as it is used."""


def read(text: str) -> dict[str, dict[str, float]]:
    """Return samples by name and labels. Each name has HELP and TYPE once, directly before all its samples."""
    assert text.endswith("\n")
    samples: dict[str, dict[str, float]] = {}
    current = ""
    for line in text.splitlines():
        if helped := HELP.fullmatch(line):
            current = helped[1]
            assert current not in samples
            samples[current] = {}
        elif typed := TYPE.fullmatch(line):
            assert (typed[1], samples[current]) == (current, {})
            assert (typed[2] == "counter") == current.endswith("_total")
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample[1] == current
            assert sample[2] not in samples[current]
            samples[current][sample[2]] = float(sample[3])
    return samples


def test_the_text_has_each_figure_of_each_table() -> None:
    samples = read(prometheus_text(FIGURES))
    orders, lines = 'pipeline="shop",table="shop.orders"', 'pipeline="shop",table="shop.lines"'
    assert samples["lakeward_events_applied_total"] == {orders: 8, lines: 0}
    assert samples["lakeward_batches_total"] == {orders: 2, lines: 0}
    assert samples["lakeward_failures_total"] == {orders: 0, lines: 1}
    assert samples["lakeward_failing"] == {orders: 0, lines: 1}
    assert samples["lakeward_work_seconds_total"] == {orders: 1.5, lines: 0}
    assert samples["lakeward_lag_seconds"] == {orders: 12.5}
    assert samples["lakeward_rows"] == {orders: 100}
    assert samples["lakeward_run_seconds"] == {'pipeline="shop"': 3.25}
    assert samples["lakeward_tables_waiting"] == {'pipeline="shop"': 4}


def test_names_are_escaped() -> None:
    name = 'a."b\\c\nd"é'
    samples = read(prometheus_text(replace(FIGURES, tables=[replace(ORDERS, table=name)])))
    (labels,) = samples["lakeward_rows"]
    (escaped,) = re.findall(r'table="((?:[^"\\]|\\.)*)"', labels)
    plain = re.sub(r"\\(.)", lambda one: {"n": "\n"}.get(one[1], one[1]), escaped)
    assert plain == name


def test_a_pipeline_without_tables_has_figures() -> None:
    assert read(prometheus_text(replace(FIGURES, tables=[])))["lakeward_rows"] == {}


def ask(url: str, method: str = "GET") -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, url, timeout=60)


def test_the_server_shows_the_newest_figures() -> None:
    with MetricsServer("127.0.0.1", 0, replace(FIGURES, tables=[])) as server:
        assert server.url.startswith("http://127.0.0.1:")
        for figures in (server.figures, FIGURES):
            server.figures = figures
            answer = ask(server.url + "?x=1")
            assert (answer.status_code, answer.text) == (200, prometheus_text(figures))
            assert (answer.headers["Content-Type"], answer.headers["Server"].strip()) == (CONTENT_TYPE, "lakeward")
        head = ask(server.url, "HEAD")
        assert int(head.headers["Content-Length"]) == len(prometheus_text(FIGURES).encode())
        assert head.content == b""
    with pytest.raises(requests.ConnectionError):
        ask(server.url)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("POST", "/metrics", 501)])
def test_other_paths_are_not_found(method: str, path: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    with MetricsServer("127.0.0.1", 0, FIGURES) as server:
        assert ask(server.url.removesuffix("/metrics") + path, method).status_code == status
    assert capsys.readouterr().err == ""


def test_a_client_that_closes_early_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with MetricsServer("127.0.0.1", 0, FIGURES) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port), 60) as one:
                one.sendall(b"GET /metrics HT")
        assert ask(server.url).status_code == 200
    assert capsys.readouterr().err == ""


def test_a_used_port_is_an_error_that_says_what_to_do() -> None:
    with MetricsServer("127.0.0.1", 0, FIGURES) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(SetupError, match=f"port {port}") as error:
            MetricsServer("127.0.0.1", port, FIGURES)
    assert "--metrics" in str(error.value.todo)


@pytest.mark.parametrize("address", ["no.such.address.invalid", "203.0.113.1"])
def test_an_address_of_another_machine_is_an_error(address: str) -> None:
    with pytest.raises(SetupError, match=re.escape(address)):
        MetricsServer(address, 0, FIGURES)
