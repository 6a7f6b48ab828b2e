"""Query plans of frames: what Spark recognizes as cached, and what it computes again at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.sql.names import text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_identity(frame: DataFrame, by: str) -> DataFrame:
    """Return a frame whose plan differs from that of the same frame with another text, so that they share no cache.

    Spark uses a cached frame wherever two plans are equal, in any session, even if the files have changed. This
    costs nothing at run time: a condition that is equal for all rows is evaluated while planning.
    """
    return frame.where(f"{text(by)} IS NOT NULL")


def as_leaf(frame: DataFrame) -> DataFrame:
    """Return a frame of the same rows whose plan is a single step with a known size.

    Spark analyzes the whole plan of a frame at each step that is added, and plans it for each query. Cached rows
    stay cached. Each query reads all columns, so this is for frames of few rows.
    """
    from pyspark.sql import DataFrame  # noqa: PLC0415  # Spark is imported late

    spark, dataset = cast("Any", frame.sparkSession), cast("Any", frame)._jdf
    sql = spark._jvm.org.apache.spark.sql
    rows = dataset.queryExecution().toRdd()
    leaf = getattr(getattr(sql.execution, "LogicalRDD$"), "MODULE$").fromDataset(rows, dataset, False)
    datasets = sql.Dataset if line() == "3.5" else sql.classic.Dataset
    return DataFrame(datasets.ofRows(spark._jsparkSession, leaf), frame.sparkSession)
