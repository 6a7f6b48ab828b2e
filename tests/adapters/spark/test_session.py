"""What the settings may say of Spark, and what not; no JVM is started."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from lakeward.adapters.spark.session import SETTINGS, Sessions
from lakeward.core.errors import ConfigError


@pytest.mark.parametrize("name", SETTINGS)
def test_what_data_means_is_not_for_the_settings_to_say(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Sessions(set(), {name: "something"}, tmp_path / "spark.log")
    assert name in raised.value.what


def test_anything_else_is(tmp_path: Path) -> None:
    sessions = Sessions(set(), {"spark.sql.autoBroadcastJoinThreshold": "1MB"}, tmp_path / "spark.log")
    assert sessions.settings["spark.sql.autoBroadcastJoinThreshold"] == "1MB"


def started(folder: Path, java: object, *, archives: bool = False) -> Any:
    """Sessions that have started a Java that does not answer any more."""

    def refuse() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    sessions: Any = Sessions(set(), {}, folder / "spark.log", archives=archives)
    gateway = SimpleNamespace(proc=java, shutdown=refuse)
    sessions._first, sessions._ours = (
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
    assert killed.has_ended(ConnectionRefusedError())
    assert killed.has_ended(cut_off)
    assert not killed.has_ended(ValueError("the file cannot be read"))
    assert not started(tmp_path, SimpleNamespace(wait=live)).has_ended(cut_off)
