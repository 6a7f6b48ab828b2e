"""Data files of Delta tables that this process reads itself, for small batches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from lakeward.adapters.formats.delta.metadata.column_mapping import MODE, PHYSICAL_NAME
from lakeward.adapters.formats.delta.writes.data_files import Add, DataFiles
from lakeward.adapters.formats.delta.writes.deletion_vectors import read_vector
from lakeward.adapters.formats.delta_rs.columns import column_of
from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.adapters.formats.shared.storage.parquet_files import StoredFile, read_rows

_READ: Final = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Table features that this process can read."""

_DEFAULT: Final = "EXISTS_DEFAULT"
_LEGACY: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_VERSION: Final = b"org.apache.spark.version"


def find_rows(files: DataFiles, keys: pa.Table, wanted: Sequence[str]) -> pa.Table | None:
    """Return the wanted columns of a snapshot's rows with these keys, with their places in files.

    Returns None if only Spark can read them.
    """
    metadata = action_fields(files.snapshot.metadata())
    fields = {field["name"]: field for field in json.loads(metadata["schemaString"])["fields"]}
    wanted_fields = [fields[name] for name in wanted if name in fields]
    adds = files.by_url if _is_read(metadata, action_fields(files.snapshot.protocol()), wanted_fields) else None
    if adds is None:
        return None
    columns = [column_of(field, str(files.table)) for field in wanted_fields]
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
    names = partial(
        _names, {field["name"]: field["metadata"].get(PHYSICAL_NAME, field["name"]) for field in wanted_fields}
    )
    return read_rows([_stored(files.table, url, add) for url, add in adds.items()], names, schema, keys)


def action_fields(action: Any) -> Mapping[str, Any]:
    """Return the fields of an action of a log."""
    ((_, fields),) = json.loads(str(action.json())).items()
    return dict(fields)


def _is_read(metadata: Mapping[str, Any], protocol: Mapping[str, Any], fields: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether this process can read everything that a table has."""
    return (
        not metadata["partitionColumns"]
        and {*protocol.get("readerFeatures", ())} <= _READ
        and metadata["configuration"].get(MODE, "none") in ("none", "name")
        and not any(_DEFAULT in field["metadata"] for field in fields)
    )


def _stored(table: Folder, url: str, add: Add) -> StoredFile:
    return StoredFile(url, partial(table.open, add["path"]), partial(read_vector, table, add.get("deletionVector")))


def _names(physical: Mapping[str, str], schema: pa.Schema) -> Mapping[str, str]:
    """Return the names of columns in a file. Raises ArrowInvalid for files with times of an older calendar."""
    file_metadata = schema.metadata or {}
    if any(name in file_metadata for name in _LEGACY) or file_metadata.get(_VERSION, b"3") < b"3":
        raise pa.ArrowInvalid("times of the calendar before 1582: Spark knows to read them")
    return {name: own for name, own in physical.items() if own in schema.names}
