"""A Hudi table in files, written without Hudi, for readers without Spark."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.adapters.formats.hudi.metadata.columns import META_COLUMNS
from lakeward.adapters.formats.hudi.metadata.timeline import PROGRESS
from lakeward.core.progress import Progress

INSTANT: Final = "20261122000001000"
_STATS: Final = {
    "type": "record",
    "name": "HoodieWriteStat",
    "fields": [
        *({"name": name, "type": ["null", "string"], "default": None} for name in ("fileId", "path")),
        *(
            {"name": name, "type": ["null", "long"], "default": None}
            for name in ("numWrites", "numDeletes", "fileSizeInBytes")
        ),
    ],
}
_COMMIT: Final = {
    "type": "record",
    "name": "HoodieCommitMetadata",
    "fields": [
        {
            "name": "partitionToWriteStats",
            "type": ["null", {"type": "map", "values": {"type": "array", "items": _STATS}}],
            "default": None,
        },
        {
            "name": "partitionToReplaceFileIds",
            "type": ["null", {"type": "map", "values": {"type": "array", "items": "string"}}],
            "default": None,
        },
        {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}], "default": None},
    ],
}
_TYPES: Final[Mapping[str, pa.DataType]] = {"long": pa.int64(), "string": pa.string(), "double": pa.float64()}


def write_table(
    put: Callable[[str, bytes], None],
    fields: Sequence[Mapping[str, Any]],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    partition_by: str = "",
    kind: str = "COPY_ON_WRITE",
) -> None:
    """Write a table in one commit: its Avro fields, and the rows of each partition by the name of its folder.

    `put` writes a file by its path in the table.
    """
    properties = {
        "hoodie.table.name": "orders",
        "hoodie.table.type": kind,
        "hoodie.table.version": "8",
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": partition_by,
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        "hoodie.populate.meta.fields": "true",
    }
    put(".hoodie/hoodie.properties", "\n".join(f"{name}={value}" for name, value in properties.items()).encode())
    stats = {}
    for number, (partition, some) in enumerate(rows.items()):
        folder = f"{partition}/" if partition else ""
        name = f"{folder}0000000{number}-0000-0000-0000-000000000000-0_0-1-1_{INSTANT}.parquet"
        stats[partition] = [{"fileId": name.rpartition("/")[2].partition("_")[0], "path": name}]
        put(name, _parquet(fields, some, partition, name))
        put(f"{folder}.hoodie_partition_metadata", b"commitTime=1\npartitionDepth=1\n")
    schema = json.dumps({"type": "record", "name": "orders", "fields": [*_meta(), *fields]})
    extra = {"schema": schema, PROGRESS: Progress(batch=1).to_json()}
    content = commit_metadata(partitionToWriteStats=stats, extraMetadata=extra)
    put(f".hoodie/timeline/{INSTANT}_{INSTANT}.commit", content)


def commit_metadata(**fields: Mapping[str, Any]) -> bytes:
    """Return the Avro file of a commit with these fields of its metadata."""
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(_COMMIT), [fields])
    return written.getvalue()


def _meta() -> Sequence[Mapping[str, Any]]:
    return [{"name": name, "type": ["null", "string"]} for name in META_COLUMNS]


def _parquet(
    fields: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], partition: str, file: str
) -> bytes:
    of_hudi = (INSTANT, f"{INSTANT}_0", "0", partition, file)
    columns = {name: [value] * len(rows) for name, value in zip(META_COLUMNS, of_hudi, strict=True)}
    types = {name: pa.string() for name in META_COLUMNS}
    for field in fields:
        columns[field["name"]] = [row[field["name"]] for row in rows]
        types[field["name"]] = _TYPES[field["type"][1]]
    written = io.BytesIO()
    pq.write_table(pa.table(columns, pa.schema([*types.items()])), written)
    return written.getvalue()
