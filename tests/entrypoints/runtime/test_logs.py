"""Logs go to standard error, and each line says which run, table and batch it is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import shop
import structlog
from commands import Command, Ended
from projects import write

from lakeward.entrypoints.runtime.reporting.logs import bind_run_ids, configure, ids_of_run, restore_logging

TWO = (
    shop.SETTINGS
    + """
    [tables."shop.lines"]
    key = ["id"]
    columns = { id = "int", state = "string" }
"""
)


def lines(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.err.splitlines() if line.startswith("{")]


def test_every_line_of_a_run_says_which_run_table_and_batch(lakeward: Command, tmp_path: Path) -> None:
    """The run has the ID of its document, and another run has another."""
    write(tmp_path, TWO)
    ended = lakeward("run", "--log", "json", "--json")
    found = lines(ended)
    assert {line["run"] for line in found} == {ended.document["run"]}
    assert sorted((line["table"], line["batch"], line["event"]) for line in found) == [
        (table, batch, "committed") for table in ("shop.lines", "shop.orders") for batch in (1, 2)
    ]
    assert all(line["timestamp"].endswith("Z") and line["level"] == "info" for line in found)
    assert lakeward("run", "--json").document["run"] != ended.document["run"]


def test_debug_logs_every_step_of_every_batch(in_shop: Command) -> None:
    ended = in_shop("run", "--log", "json", "--debug", "--json")
    assert ended.document["command"] == "run", "logs never mix with the document"
    steps = [line for line in lines(ended) if line["event"] == "step"]
    assert [line["step"] for line in steps if line["batch"] == 2].count("commit") == 1
    assert all(line["table"] == "shop.orders" for line in steps)


@pytest.mark.parametrize(
    ("arguments", "times"),
    [
        ((), 1),
        (("--log", "text"), 1),
        (("--log", "json"), 2),
        (("--log", "off"), 1),
        (("--json",), 1),
        (("--log", "off", "--json"), 0),
    ],
)
def test_a_failure_is_said_once_to_people_unless_their_document_says_it(
    lakeward: Command, tmp_path: Path, arguments: tuple[str, ...], times: int
) -> None:
    write(tmp_path, shop.SETTINGS, '[tables."shop.broken"]\nkey = ["id"]\n')
    ended = lakeward("run", *arguments)
    assert (ended.code, ended.err.count("LOAD00000001.csv cannot be read")) == (4, times)
    for failed in (line for line in lines(ended) if line["event"] == "failed"):
        assert (failed["table"], failed["batch"], failed["level"]) == ("shop.broken", 1, "error")
        assert failed["error"] == "shop.broken: LOAD00000001.csv cannot be read"


def test_logs_are_text_where_nobody_asks_for_more(in_shop: Command) -> None:
    ended = in_shop("run")
    assert "committed" in ended.err
    assert "table=shop.orders" in ended.err
    assert "\x1b" not in ended.err


@pytest.mark.parametrize(
    "words", [["status"], ["plan"], ["quarantine", "list"], ["run", "--log", "off"]], ids=" ".join
)
def test_what_only_looks_and_a_run_whose_logs_are_off_log_nothing(in_shop: Command, words: list[str]) -> None:
    assert in_shop(*words).err == ""


@pytest.mark.parametrize("words", [["run", "--log", "off"], ["run", "shop.ordres"]], ids=" ".join)
def test_what_a_command_sets_up_ends_with_it_however_it_ends(in_shop: Command, words: list[str]) -> None:
    """Another may have called it from Python, and log as before."""
    before = structlog.get_config()
    in_shop(*words)
    assert structlog.get_config() == before
    assert structlog.contextvars.get_contextvars() == {}


def test_a_command_within_a_job_keeps_what_an_orchestrator_calls_the_run() -> None:
    undo = restore_logging()
    try:
        bind_run_ids({"dag_name": "nightly"})
        assert configure(as_json=True) != configure(as_json=True)
        assert ids_of_run() == {"dag_name": "nightly"}
    finally:
        undo()
    assert ids_of_run() == {}
