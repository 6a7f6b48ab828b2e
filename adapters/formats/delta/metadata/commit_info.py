"""The user metadata of commits, which the history of a Delta table shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

_USER_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"


@contextmanager
def setting_user_metadata(spark: SparkSession, metadata: Mapping[str, str]) -> Iterator[None]:
    """Set the user metadata of a session's commits while the context lasts; otherwise it would stay set."""
    spark.conf.set(_USER_METADATA, json.dumps(metadata))
    try:
        yield
    finally:
        spark.conf.unset(_USER_METADATA)
