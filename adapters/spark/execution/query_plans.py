"""Plans of frames: by which Spark knows what rows it keeps, and which it works out again with each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.sql.names import text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def told_apart(frame: DataFrame, by: str) -> DataFrame:
    """Return a frame whose plan is that of no frame by another text: rows that are kept of one are not the other's.

    Spark would take them for the same wherever two plans are equal, in whichever session, and whatever the files
    hold by then. It costs nothing: what is the same for all rows is worked out with the plan.
    """
    return frame.where(f"{text(by)} IS NOT NULL")


def as_leaf(frame: DataFrame) -> DataFrame:
    """Return a frame of the same rows whose plan is one step, with the size that Spark knows of them.

    Spark checks the whole plan of a frame with each step that is added to it, and plans it with each query. Rows
    that are kept stay so. Each query reads all their columns: this is for frames of few rows.
    """
    from pyspark.sql import DataFrame  # noqa: PLC0415  # Spark is imported late

    spark, made = cast("Any", frame.sparkSession), cast("Any", frame)._jdf
    sql = spark._jvm.org.apache.spark.sql
    rows = made.queryExecution().toRdd()
    leaf = getattr(getattr(sql.execution, "LogicalRDD$"), "MODULE$").fromDataset(rows, made, False)
    datasets = sql.Dataset if line() == "3.5" else sql.classic.Dataset
    return DataFrame(datasets.ofRows(spark._jsparkSession, leaf), frame.sparkSession)
