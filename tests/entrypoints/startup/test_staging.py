"""Where sources stage files by default: on the disk, or beside a lake in S3 where Spark runs on other machines."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.adapters.spark.session import spark_session
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.settings.configuration import validate


def staging(warehouse: str, **spark: Any) -> str | None:
    """Return where a pipeline stages files, by its warehouse and its Spark."""
    settings = {
        "pipeline": {"name": "shop"},
        "source": {"kind": "memory"},
        "target": {"kind": "delta", "warehouse": warehouse},
        "tables": {"shop.item": {"key": ["id"], "columns": {"id": "int"}}},
        "spark": spark,
    }
    found: str | None = Container(configured=validate(settings, Path("lakeward.toml"))).runtime().staging
    return found


@pytest.mark.parametrize(
    ("warehouse", "master", "expected"),
    [
        ("s3://shop-lake/tables/", "yarn", "s3://shop-lake/tables/_staging"),
        ("s3a://shop-lake", "spark://master:7077", "s3://shop-lake/_staging"),
        ("s3://shop-lake/tables", "local[*]", None),
        ("s3://shop-lake/tables", "local-cluster[2,1,1024]", None),
        ("/mnt/shared/lake", "yarn", None),
    ],
)
def test_files_are_staged_where_all_of_spark_sees_them(
    monkeypatch: pytest.MonkeyPatch, warehouse: str, master: str, expected: str | None
) -> None:
    monkeypatch.setattr(spark_session, "running", lambda: None)
    assert staging(warehouse, master=master) == expected
    assert staging(warehouse, settings={"spark.master": master}) == expected
    with pytest.raises(ConfigError, match="is no URL of a bucket"):
        staging("s3://shop-lake/a//tables", master="yarn")


def test_the_spark_of_a_platform_counts_and_not_that_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    given = SimpleNamespace(sparkContext=SimpleNamespace(master="yarn"))
    monkeypatch.setattr(spark_session, "running", lambda: given)
    assert staging("s3://shop-lake/tables", master="local[*]") == "s3://shop-lake/tables/_staging"
