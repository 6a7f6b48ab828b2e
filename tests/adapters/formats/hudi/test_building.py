"""Where Hudi cannot be, it says so before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from buckets import Buckets
from sparkless import no_spark

from lakeward.adapters.formats import hudi
from lakeward.adapters.formats.hudi import lake
from lakeward.adapters.spark.session import spark_session
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SetupError
from lakeward.core.ports import TableState
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type
from lakeward.plugins import Runtime

ITEM = Dimension(name=TableName("shop", "item"), schema=Schema((Column("id", Type("int")),)), key=("id",))


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(no_spark, tmp_path)


def test_another_line_names_the_extra_of_hudi(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "line", lambda: "4.1")
    made = hudi.build({"warehouse": "lake", "tables": {}}, runtime)
    assert made.table_state(ITEM) == TableState(Progress(), None)
    assert not made.schema_changes(ITEM)
    for use in (lambda: made.open(ITEM), lambda: made.key_state(ITEM, (1,))):
        with pytest.raises(SetupError, match=r"no Hudi for Spark 4\.1") as refused:
            use()
        assert "lakeward[spark-3.5,hudi]" in str(refused.value.todo)


def test_a_session_of_a_platform_is_accepted(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "line", lambda: "4.1")
    monkeypatch.setattr(spark_session, "running", object)
    assert hudi.build({"warehouse": "lake", "tables": {}}, runtime).open(ITEM).name == "shop.item"


def test_a_package_that_is_missing_is_named(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hudi.importlib.util, "find_spec", lambda name: None if name == "fastavro" else name)
    with pytest.raises(SetupError, match="need the package fastavro"):
        hudi.build({"warehouse": "lake", "tables": {}}, runtime)


def test_a_warehouse_in_s3_is_told_to_spark(s3: Buckets, runtime: Runtime) -> None:
    hudi.build({"warehouse": "s3://bucket/lake", "tables": {}}, runtime)
    assert runtime.jars == {"hudi", "s3"}
    assert runtime.settings["spark.hadoop.fs.s3a.endpoint"] == s3.endpoint
    assert not list(runtime.base.iterdir())
