"""The source `files` of a folder, and rows of its tables in quarantine, without a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from feed_reader import session
from pyspark.sql import SparkSession

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.source import FilesSource
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Places
from lakeward.core.dimension import TableName
from lakeward.core.ports import Entry


def source_of(
    folder: Path,
    settings: Mapping[str, Any],
    spark: SparkSession | None = None,
    formats: Mapping[TableName, Mapping[str, str]] | None = None,
    small_batch: int | None = None,
) -> FilesSource:
    """Return the source of a landing folder; without Spark it reads small batches, with it none, unless told."""
    options = FilesOptions.model_validate({"path": str(folder), **settings})
    size = small_batch if small_batch is not None else 20_000 if spark is None else 0
    places = Folder(folder, Places(options.place()))
    return FilesSource(options, places, partial(session, spark), formats or {}, small_batch=size)


def entry_of(text: str, file: str = "1.json", operation: str | None = "update", **other: Any) -> Entry:
    """Return a row in quarantine with a cell that does not fit."""
    place = {"row": 1, "epoch": 1, "sequence": 9, "order": 1, "batch": 2, "since": 0}
    reason = {"key": "[1]", "reason": "cast", "detail": ""}
    return Entry(**{**reason, **place, "object": file, "operation": operation, "text": text, **other})
