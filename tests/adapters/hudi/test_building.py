"""Where Hudi cannot be, it says so before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.adapters import hudi
from lakeward.core.errors import ConfigError, SetupError
from lakeward.plugins import Runtime


def no_spark() -> object:
    raise AssertionError("Spark was asked for")


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(no_spark, tmp_path)  # type: ignore[arg-type]


def test_on_another_line_it_says_which_extra_has_hudi(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hudi, "line", lambda: "4.1")
    with pytest.raises(SetupError, match=r"no Hudi for Spark 4\.1") as refused:
        hudi.build({"warehouse": "lake", "tables": {}}, runtime)
    assert "lakeward[spark-3.5,hudi]" in str(refused.value.todo)


def test_a_package_that_is_missing_is_named(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hudi.importlib.util, "find_spec", lambda name: None if name == "fastavro" else name)
    with pytest.raises(SetupError, match="need the package fastavro"):
        hudi.build({"warehouse": "lake", "tables": {}}, runtime)


def test_a_warehouse_in_s3_is_refused(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hudi, "line", lambda: "3.5")
    with pytest.raises(ConfigError, match="cannot hold Hudi tables yet"):
        hudi.build({"warehouse": "s3://bucket/lake", "tables": {}}, runtime)
    assert not list(runtime.base.iterdir())
