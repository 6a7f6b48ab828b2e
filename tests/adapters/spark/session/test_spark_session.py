"""What the settings may say of Spark, and what not; no JVM is started."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark import java_gateway
from pyspark.errors import PySparkException

from lakeward.adapters.spark.session import spark_session
from lakeward.adapters.spark.session.spark_session import SETTINGS, Sessions
from lakeward.core.errors import ConfigError, EngineExhausted, EngineLost, TableError


@pytest.mark.parametrize("name", SETTINGS)
def test_what_data_means_is_not_for_the_settings_to_say(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Sessions(set(), {name: "something"}, tmp_path / "spark.log")
    assert name in raised.value.what


def test_anything_else_is(tmp_path: Path) -> None:
    sessions = Sessions(set(), {"spark.sql.autoBroadcastJoinThreshold": "1MB"}, tmp_path / "spark.log")
    assert sessions.settings["spark.sql.autoBroadcastJoinThreshold"] == "1MB"


def test_no_folder_is_left_where_a_run_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes one for tables that it would keep itself, empty as it stays."""
    monkeypatch.chdir(tmp_path)
    folder = Sessions(set(), {}, Path("state/spark.log")).configuration["spark.sql.warehouse.dir"]
    assert folder == f"{tmp_path}/state/spark-warehouse", "Java may be in another folder"
    given = Sessions(set(), {"spark.sql.warehouse.dir": "/elsewhere"}, Path("state/spark.log"))
    assert given.configuration["spark.sql.warehouse.dir"] == "/elsewhere"


def test_java_is_started_without_a_fork_of_python_and_passes_over_ctrl_c() -> None:
    """A fork waits for the locks of logging and of imports, which other threads may hold."""

    def fail() -> None:
        raise AssertionError

    module: Any = java_gateway
    given = module.Popen
    with spark_session._starting_by_exec():
        said = "kill -INT $$; echo alive: $0; env"
        given_names = {"stdout": subprocess.PIPE, "env": {**os.environ, "a.b": "odd"}, "text": True}
        process = module.Popen(["/bin/bash", "-c", said, "a word"], preexec_fn=fail, **given_names)
    lines = process.communicate()[0].splitlines()
    assert lines[0] == "alive: a word"
    assert "a.b=odd" in lines
    assert module.Popen is given


def started(folder: Path, java: object, *, archives: bool = False) -> Any:
    """Sessions that have started a Java that does not answer any more."""

    def refuse() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    sessions: Any = Sessions(set(), {"spark.driver.memory": "1g"}, folder / "spark.log", archives=archives)
    gateway = SimpleNamespace(proc=java, shutdown=refuse)
    sessions._first, sessions._has_started = (
        SimpleNamespace(stop=refuse, sparkContext=SimpleNamespace(_gateway=gateway)),
        True,
    )
    return sessions


@pytest.mark.parametrize("archives", [False, True])
def test_a_java_that_was_killed_is_stopped_without_an_error(tmp_path: Path, archives: bool) -> None:
    sessions = started(tmp_path, SimpleNamespace(), archives=archives)
    sessions.stop()
    assert sessions._first is None, "the next to ask for one would be given the session of a dead Java"


def test_what_a_killed_java_leads_to_is_told_from_any_other_error(tmp_path: Path) -> None:
    def live(seconds: float) -> None:
        raise subprocess.TimeoutExpired("java", seconds)

    killed = started(tmp_path, SimpleNamespace(wait=lambda _seconds: -9))
    cut_off = ValueError("the file cannot be read")
    cut_off.__cause__ = Py4JError("An error occurred while calling o23.collect")
    for error in (ConnectionRefusedError(), cut_off):
        found = killed.lost("shop.item", error)
        assert found.what == "shop.item: Java has ended in the middle of it"
        assert found.retryable
    assert killed.lost("shop.item", ValueError("the file cannot be read")) is None
    assert started(tmp_path, SimpleNamespace(wait=live)).lost("shop.item", cut_off) is None


SHUT_DOWN = "org.apache.spark.SparkException: Job 15 cancelled because SparkContext was shut down"
OUT_OF_MEMORY = "Task 3 in stage 1.0 failed 1 times: java.lang.OutOfMemoryError: Java heap space"


@pytest.mark.parametrize(
    ("said", "code", "kind"),
    [(SHUT_DOWN, 52, EngineExhausted), (SHUT_DOWN, 143, EngineLost), (OUT_OF_MEMORY, None, EngineExhausted)],
)
def test_the_end_of_java_is_explained(tmp_path: Path, said: str, code: int | None, kind: type[EngineLost]) -> None:
    error = TableError("shop.item: the table could not be written")
    error.__cause__ = PySparkException(said)
    found = started(tmp_path, SimpleNamespace(wait=lambda _seconds: code)).lost("shop.item", error)
    assert type(found) is kind
    assert found.retryable == (kind is EngineLost)
    if kind is EngineExhausted:
        assert found.found == "its heap is 1g"


def test_each_table_has_a_fair_share_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[tuple[str, str]] = []
    context = SimpleNamespace(setLocalProperty=lambda name, value: pools.append((name, value)))
    conf = SimpleNamespace(isModifiable=lambda _: False)
    first = SimpleNamespace(newSession=lambda: SimpleNamespace(sparkContext=context, conf=conf))
    monkeypatch.setattr(spark_session, "_make_active", lambda _: None)
    sessions: Any = Sessions(set(), {}, tmp_path / "spark.log")
    sessions._first, both = first, Barrier(2)

    def work() -> tuple[int, int]:
        both.wait(30)
        return id(sessions()), id(sessions())

    with ThreadPoolExecutor(2) as threads:
        found = [future.result() for future in [threads.submit(work) for _ in range(2)]]
    assert all(one == again for one, again in found)
    assert {name for name, _ in pools} == {"spark.scheduler.pool"}
    assert len(pools) == len({pool for _, pool in pools}) == 2
    assert spark_session.LOCAL["spark.scheduler.mode"] == "FAIR"
