"""The one Spark session of the tests, and lakes made with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from delta_lake import LakeOfDelta
from hudi_lake import LakeOfHudi
from iceberg_lake import LakeOfIceberg
from pyspark.sql import SparkSession
from resolution_switches import use_spark

from lakeward.adapters.formats.delta.options import TableOptions as DeltaTableOptions
from lakeward.adapters.formats.delta.session import SETTINGS as DELTA
from lakeward.adapters.formats.hudi.options import TableOptions as HudiTableOptions
from lakeward.adapters.formats.hudi.session import SETTINGS as HUDI
from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.session.spark_session import JAVA, Sessions

MakeLake = Callable[..., LakeOfIceberg]
L = TypeVar("L")

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings that let Spark interpret plans, as it does if generated code does not compile.

Compiling plans of a few rows takes longer than interpreting them. Tests with `compiled` compile them, and most
processes of their own.
"""

_OTHERWISE = {"-XX:+UseParallelGC": "-XX:+UseSerialGC"}
_QUICKLY = (
    *("-XX:TieredStopAtLevel=1", "-Ddelta.log.cacheSize=25", *(_OTHERWISE.get(one, one) for one in JAVA)),
    *("-XX:ReservedCodeCacheSize=256m", "-XX:-UseCodeCacheFlushing", "-XX:MetaspaceSize=512m"),
    "-Djdk.lang.Process.launchMechanism=VFORK",
)
QUICKLY_COMPILED = {"spark.driver.extraJavaOptions": " ".join(_QUICKLY), "spark.sql.ui.explainMode": "simple"}
"""Settings for short runs: counting and optimizing code costs more than it gains.

A parallel collector would take cores of other tests, and Delta caches the logs of 10,000 tables by default. With
one compiler, Java reserves 48 MB for compiled code: it would remove code of a thousand tests, and compile it again.
It would collect garbage each time that the classes outgrow a small limit. Hadoop starts `chmod` for each file that
it writes, and VFORK does so without a helper process. Spark describes each plan for its web UI, which is hidden.
"""

_HEAP = "-Xms1g -Xmn384m"
"""The heap begins as large as it becomes: growing it takes a full collection each time."""

QUICK = ", ".join(f'"{name}" = "{value}"' for name, value in {**QUICKLY_COMPILED, **INTERPRETED}.items())
"""Both as the lines of `settings` under `[spark]`, for commands that start Spark in a process of their own."""

COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""The default settings of Spark."""


@pytest.fixture(params=["core", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long])])
def engine(request: pytest.FixtureRequest) -> SparkSession | None:
    """The reader of files: None for plain Python in the gate, and also Spark in the long suite.

    Laws compare both: test_small_lines, test_csv_frames, test_local_parquet, test_local_survey.
    """
    return request.getfixturevalue("spark") if request.param == "spark" else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark as a run would, on two cores."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    settings = {"spark.master": "local[2]", "spark.driver.memory": "3g"}
    settings |= {**QUICKLY_COMPILED, **INTERPRETED, **DELTA}
    settings["spark.driver.extraJavaOptions"] += f" {_HEAP}"
    jars = {"iceberg", "sqlite", "delta", "postgresql", "mariadb"}
    if line() == "3.5":  # one session for all formats: Hudi's tables are found by path
        extensions = {"spark.sql.extensions": f"{HUDI['spark.sql.extensions']},{DELTA['spark.sql.extensions']}"}
        settings, jars = {**HUDI, **settings, **extensions}, jars | {"hudi"}
    sessions = Sessions(jars, settings, log)
    session = sessions()
    # A session loads its catalog at first use, with the settings of the active session: now its own.
    session.sql("SHOW TABLES").collect()
    yield session
    sessions.stop()


@pytest.fixture
def active(spark: SparkSession) -> SparkSession:
    """Return that session as the active one, whose settings formats read. Commands activate their own."""
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]
    return spark


@pytest.fixture
def compiled(active: SparkSession) -> Iterator[None]:
    """Compile the plans of a test, as Spark does by default."""
    for name, value in COMPILED.items():
        active.conf.set(name, value)
    yield
    for name, value in INTERPRETED.items():
        active.conf.set(name, value)


@pytest.fixture
def make_lake(active: SparkSession, tmp_path: Path) -> MakeLake:
    """Return a function that makes a lake of its own, with options for its tables."""
    return _maker(LakeOfIceberg, TableOptions, active, tmp_path)


@pytest.fixture
def make_delta(active: SparkSession, tmp_path: Path) -> Callable[..., LakeOfDelta]:
    """Return a function that makes a lake of Delta tables, with options for its tables."""
    return _maker(LakeOfDelta, DeltaTableOptions, active, tmp_path)


@pytest.fixture
def make_hudi(active: SparkSession, tmp_path: Path) -> Callable[..., LakeOfHudi]:
    """Return a function that makes a lake of Hudi tables, with options for its tables."""
    return _maker(LakeOfHudi, HudiTableOptions, active, tmp_path)


def _maker(
    kind: Callable[..., L], defaults: Callable[[], object], spark: SparkSession, path: Path
) -> Callable[..., L]:
    def make(options: object = None) -> L:
        folder = path / f"lake{len(list(path.iterdir()))}"
        folder.mkdir()
        return kind(spark, folder, options or defaults())

    return make


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark resolve every batch, as it does with large ones."""
    use_spark(monkeypatch)
