"""What the history of a Delta table shows of a commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

_USER_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"


@contextmanager
def said_by(spark: SparkSession, what: Mapping[str, str]) -> Iterator[None]:
    """Let the commits of a session say this, while the context lasts: it would stick to the session."""
    spark.conf.set(_USER_METADATA, json.dumps(what))
    try:
        yield
    finally:
        spark.conf.unset(_USER_METADATA)
