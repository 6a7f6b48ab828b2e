"""The one Spark session of the tests, and lakes made with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from delta_lake import LakeOfDelta
from iceberg_lake import LakeOfIceberg
from pyspark.sql import SparkSession

from lakeward.adapters.delta.options import TableOptions as DeltaTableOptions
from lakeward.adapters.delta.session import SETTINGS
from lakeward.adapters.iceberg.options import TableOptions
from lakeward.adapters.spark.session import Sessions

MakeLake = Callable[..., LakeOfIceberg]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark as a run would, on two cores."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    settings = {"spark.master": "local[2]", "spark.driver.memory": "3g", **SETTINGS}
    sessions = Sessions({"iceberg", "sqlite", "delta"}, settings, log)
    yield sessions()
    sessions.stop()


@pytest.fixture
def make_lake(spark: SparkSession, tmp_path: Path) -> MakeLake:
    """Return what makes a lake of its own, with options for its tables."""

    def make(options: TableOptions | None = None) -> LakeOfIceberg:
        folder = tmp_path / f"lake{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return LakeOfIceberg(spark, folder, options or TableOptions())

    return make


@pytest.fixture
def make_delta(spark: SparkSession, tmp_path: Path) -> Callable[..., LakeOfDelta]:
    """Return what makes a lake of Delta tables, with options for its tables."""

    def make(options: DeltaTableOptions | None = None) -> LakeOfDelta:
        folder = tmp_path / f"lake{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return LakeOfDelta(spark, folder, options or DeltaTableOptions())

    return make
