"""The description of a Hudi table for readers: its location, columns and partitions, from its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.hudi.metadata.columns import META_COLUMNS, schema_of
from lakeward.adapters.formats.hudi.metadata.progress import timeline_of
from lakeward.adapters.formats.hudi.metadata.table_properties import properties_of
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.core.dimension import TableName
from lakeward.core.ports import DescribedColumn, DescribedPartition, TableDescription
from lakeward.core.schema import Type

_OF_HUDI: Final = ".hoodie"
"""The prefix of the folders in which Hudi stores metadata of a table."""


def description_of(places: Places, table: TableName) -> TableDescription | None:
    """Return the description of a table, or None if it does not exist. Raises TableError if it cannot be read."""
    schema = timeline_of(places, table).schema()
    if schema is None:
        return None
    (namespace, name), folder = places.name(table), places.at(table)
    properties = properties_of(folder)
    comments = {field["name"]: field.get("doc") for field in json.loads(schema)["fields"]}
    meta_columns = [DescribedColumn(name=name, type=Type("string")) for name in META_COLUMNS]
    others = [
        DescribedColumn(name=column.name, type=column.type, comment=comments[column.name] or None)
        for column in schema_of(schema, str(table))
    ]
    fields = properties.get("hoodie.table.partition.fields", "").split(",")
    partition_by = tuple(name.partition(":")[0] for name in fields if name)
    is_named = properties.get("hoodie.datasource.write.hive_style_partitioning") == "true"
    is_encoded = properties.get("hoodie.datasource.write.partitionpath.urlencode") == "true"
    return TableDescription(
        namespace=namespace,
        name=name,
        format="hudi",
        location=str(folder),
        columns=(*meta_columns, *others),
        partition_by=partition_by,
        partitions=tuple(
            DescribedPartition(
                values=tuple(_value(part, is_named=is_named, is_encoded=is_encoded) for part in path),
                location="/".join((str(folder), *path)),
            )
            for path in sorted(_partitions(folder, len(partition_by)))
        ),
        has_logs=properties.get("hoodie.table.type") == "MERGE_ON_READ",
    )


def _partitions(folder: Folder, depth: int) -> Iterator[tuple[str, ...]]:
    """Yield the folders of partitions at this depth, each by the names on its path."""
    names = [name for name in folder.folders() if not name.startswith(_OF_HUDI)] if depth else []
    if depth == 1:
        yield from ((name,) for name in names)
    elif depth > 1:
        for name in names:
            yield from ((name, *rest) for rest in _partitions(folder.within(name), depth - 1))


def _value(part: str, *, is_named: bool, is_encoded: bool) -> str:
    text = part.partition("=")[2] if is_named else part
    return unquote(text) if is_encoded else text
