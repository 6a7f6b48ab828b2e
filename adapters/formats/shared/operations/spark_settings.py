"""Settings of a Spark session for the time of one operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def spark_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings of a session while the context lasts; those that were not set before are unset again."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value_before in before.items():
            if value_before is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value_before)
