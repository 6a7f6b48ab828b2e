"""The settings with which a Spark session reads and writes Hudi tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pyspark.sql import DataFrameReader, SparkSession

from lakeward.core.errors import SetupError

EXTENSION: Final = "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
SERIALIZER: Final = "org.apache.spark.serializer.KryoSerializer"

SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.serializer": SERIALIZER,
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    # Times are written as they are, to the microsecond, in the form that other readers know.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

_OLD_LISTS: Final = "parquet.avro.write-old-list-structure"


def ready(spark: SparkSession) -> SparkSession:
    """Return a session that can write Hudi tables. Raises SetupError for one that cannot."""
    lacking = None
    if EXTENSION not in str(spark.conf.get("spark.sql.extensions", "")):
        lacking = f"`spark.sql.extensions` lacks {EXTENSION}"
    elif spark.conf.get("spark.serializer", "") != SERIALIZER:
        lacking = f"`spark.serializer` is not {SERIALIZER}"
    if lacking is not None:
        raise SetupError(
            "Spark was started without Hudi",
            found=lacking,
            todo="Start it with the settings of hudi.apache.org/docs/quick-start-guide.",
        )
    # Parquet's older form of lists, the default of its Avro writer, cannot hold NULL in a list.
    context = cast("Any", spark.sparkContext)
    context._jsc.hadoopConfiguration().set(_OLD_LISTS, "false")
    return spark


def reader(spark: SparkSession, as_of: str | None = None) -> DataFrameReader:
    """Return a reader of Hudi tables, as of an instant or of now, that lists their files.

    Hudi reads the column statistics of a metadata table through a cached frame. While Spark 3.5 computes another
    cached frame, such as the rows of a batch, the two wait for each other until a broadcast join gives up.
    """
    reader_ = ready(spark).read.format("hudi").option("hoodie.metadata.enable", "false")
    return reader_ if as_of is None else reader_.option("as.of.instant", as_of)
