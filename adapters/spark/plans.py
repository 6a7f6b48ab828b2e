"""Plans of frames, by which Spark knows what rows it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.adapters.spark.names import text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def told_apart(frame: DataFrame, by: str) -> DataFrame:
    """Return a frame whose plan is that of no frame by another text: rows that are kept of one are not the other's.

    Spark would take them for the same wherever two plans are equal, in whichever session, and whatever the files
    hold by then. It costs nothing: what is the same for all rows is worked out with the plan.
    """
    return frame.where(f"{text(by)} IS NOT NULL")
