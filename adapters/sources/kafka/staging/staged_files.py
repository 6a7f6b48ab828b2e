"""The source of staged files: that of plain files, which also reads large batches of messages with schemas here."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.local.json_lines import SmallLines, with_flags
from lakeward.adapters.sources.files.local.message_columns.reader import read_columns
from lakeward.adapters.sources.files.source import FilesSource
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.kafka.staging.payloads import without_schemas
from lakeward.adapters.spark.frames.local_casts import SparkNeeded


class StagedFiles(FilesSource):
    """The source of staged files of messages. Large batches of messages with schemas are read in Arrow columns."""

    __slots__ = ()

    def _read_lines(self, table: TableFiles, files: Sequence[File], lines: SmallLines) -> pa.Table:
        """Return the events of lines that this process reads; raises SparkNeeded if Spark must read them."""
        described = without_schemas(table, files) if self.small_batch else None
        if described is None:
            return super()._read_lines(table, files, lines)
        try:
            return lines.read(table, files)
        except SparkNeeded as needed:
            reason = str(needed)
        try:
            return with_flags(table, read_columns(described, files))
        except SparkNeeded as needed:
            raise SparkNeeded(f"{reason}, and {needed}") from needed
