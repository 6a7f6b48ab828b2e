"""Entries of the Glue Data Catalog for tables, in the form that Athena, Spark and Trino expect.

Delta: docs.aws.amazon.com/athena/latest/ug/delta-lake-tables.html. Athena needs only the location; Spark and Trino
read `path` of the serde. Hudi: the form of its own sync (hudi.apache.org/docs/syncing_aws_glue_data_catalog).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lakeward.adapters.registrations.glue.hive_types import hive_type
from lakeward.core.errors import ConfigError
from lakeward.core.ports import DescribedColumn, TableDescription
from lakeward.core.schema import find_case_clash

_MAX_COMMENT: Final = 255
"""The largest number of characters of a column comment in Glue."""

_MAX_DESCRIPTION: Final = 2048
"""The largest number of characters of a table description in Glue."""

_MAX_PROPERTY: Final = 4000
"""The largest number of characters of a property in a metastore of Hive."""

_SEQUENCE_FILES: Final = {
    "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
}
"""The formats that Spark writes for a table with a format of its own; Hive cannot read it."""

_LAZY: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_OPEN_CSV: Final = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
_NO_ESCAPE: Final = "\u0001"
"""An escape character that no file contains: DMS doubles quotes, and a backslash is an ordinary character."""

_HUDI_CLASSES: Final = "org.apache.hudi.hadoop."
_PARQUET_CLASSES: Final = "org.apache.hadoop.hive.ql.io.parquet."


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The entry of a table in Glue, with its storage descriptor and parameters in the form of the Glue API.

    `partitions` has the storage descriptor of each partition by its values.
    """

    name: str
    storage: Mapping[str, Any]
    parameters: Mapping[str, str]
    partition_keys: Sequence[Mapping[str, str]] = ()
    comment: str = ""
    partitions: Mapping[tuple[str, ...], Mapping[str, Any]] = field(default_factory=dict)

    @property
    def location(self) -> str:
        """The URL of the folder of the table."""
        return str(self.storage["Location"])


def entry_of(table: TableDescription) -> Entry:
    """Return the entry of a table; raises ConfigError for columns that Glue does not allow."""
    _check_columns(table)
    builders = {"hudi": _hudi_entry, "parquet": _parquet_entry, "csv": _csv_entry}
    return builders.get(table.format, _delta_entry)(table)


def _check_columns(table: TableDescription) -> None:
    names = find_case_clash(column.name for column in table.columns)
    if names is not None:
        raise ConfigError(
            f"{table.namespace}.{table.name} cannot be registered: two of its columns would have one name",
            found=f"names in the Glue Data Catalog are in lower case: {names[0]} and {names[1]}",
            todo="Rename one of the two in the source or by a column rule.",
        )


def _delta_entry(table: TableDescription) -> Entry:
    return Entry(
        name=table.name.lower(),
        storage={
            "Columns": _columns(table.columns),
            "Location": table.location,
            **_SEQUENCE_FILES,
            "SerdeInfo": {
                "SerializationLibrary": _LAZY,
                "Parameters": {"serialization.format": "1", "path": table.location},
            },
        },
        parameters={
            "EXTERNAL": "TRUE",
            "classification": "delta",
            "table_type": "DELTA",
            "spark.sql.sources.provider": "delta",
        },
        comment=_one_line(table.comment or "", _MAX_DESCRIPTION),
    )


def _hudi_entry(table: TableDescription) -> Entry:
    keys = [column for name in table.partition_by for column in table.columns if column.name == name]
    others = [column for column in table.columns if column.name not in table.partition_by]
    reader = "realtime.HoodieParquetRealtimeInputFormat" if table.has_logs else "HoodieParquetInputFormat"
    storage = {
        "Columns": _columns(others),
        "Location": table.location,
        "InputFormat": f"{_HUDI_CLASSES}{reader}",
        "OutputFormat": f"{_PARQUET_CLASSES}MapredParquetOutputFormat",
        "SerdeInfo": {
            "SerializationLibrary": f"{_PARQUET_CLASSES}serde.ParquetHiveSerDe",
            "Parameters": {
                "serialization.format": "1",
                "path": table.location,
                "hoodie.query.as.ro.table": "false",
            },
        },
    }
    return Entry(
        name=table.name.lower(),
        storage=storage,
        parameters={
            "EXTERNAL": "TRUE",
            "classification": "hudi",
            "spark.sql.sources.provider": "hudi",
            "hudi.metadata-listing-enabled": "FALSE",  # lakeward writes no metadata table
            **_spark_schema([*others, *keys], [column.name for column in keys]),
        },
        partition_keys=_columns(keys),
        comment=_one_line(table.comment or "", _MAX_DESCRIPTION),
        partitions={
            partition.values: {**storage, "Location": partition.location} for partition in table.partitions or ()
        },
    )


def _parquet_entry(table: TableDescription) -> Entry:
    return Entry(
        name=table.name.lower(),
        storage={
            "Columns": _columns(table.columns),
            "Location": table.location,
            "InputFormat": f"{_PARQUET_CLASSES}MapredParquetInputFormat",
            "OutputFormat": f"{_PARQUET_CLASSES}MapredParquetOutputFormat",
            "SerdeInfo": {
                "SerializationLibrary": f"{_PARQUET_CLASSES}serde.ParquetHiveSerDe",
                "Parameters": {"serialization.format": "1"},
            },
        },
        parameters={"EXTERNAL": "TRUE", "classification": "parquet"},
        comment=_one_line(table.comment or "", _MAX_DESCRIPTION),
    )


def _csv_entry(table: TableDescription) -> Entry:
    form = table.csv
    if form is None:
        raise LookupError(f"the description of {table.name} has no form of its CSV files")
    open_csv = {
        "SerializationLibrary": _OPEN_CSV,
        "Parameters": {"separatorChar": form.delimiter, "quoteChar": form.quote, "escapeChar": _NO_ESCAPE},
    }
    lazy = {
        "SerializationLibrary": _LAZY,
        "Parameters": {
            "field.delim": form.delimiter,
            "serialization.format": form.delimiter,
            "serialization.null.format": form.null_text,
        },
    }
    header = {"skip.header.line.count": "1"} if form.has_header else {}
    return Entry(
        name=table.name.lower(),
        storage={
            "Columns": _columns(table.columns),
            "Location": table.location,
            "InputFormat": "org.apache.hadoop.mapred.TextInputFormat",
            "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            "SerdeInfo": open_csv if form.quote else lazy,
        },
        parameters={"EXTERNAL": "TRUE", "classification": "csv", **header},
        comment=_one_line(table.comment or "", _MAX_DESCRIPTION),
    )


def _columns(columns: Sequence[DescribedColumn]) -> list[Mapping[str, str]]:
    return [dict(_column(column)) for column in columns]


def _column(column: DescribedColumn) -> Iterator[tuple[str, str]]:
    yield "Name", column.name.lower()
    yield "Type", hive_type(column.type, column.name)
    if column.comment:
        yield "Comment", _one_line(column.comment, _MAX_COMMENT)


def _one_line(text: str, limit: int) -> str:
    """Return a text on one line, of at most `limit` characters.

    >>> _one_line("two   lines", 20), _one_line("too long", 6)
    ('two lines', 'too l…')
    """
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _spark_schema(columns: Sequence[DescribedColumn], partition_by: Sequence[str]) -> Mapping[str, str]:
    """Return the properties from which Spark reads the columns, with their case.

    The text is split into parts that a metastore accepts.
    """
    from lakeward.adapters.formats.delta_rs.columns import field_of  # noqa: PLC0415  # Delta writes types as Spark does

    fields = [
        {**field_of(column.name, column.type), "metadata": {"comment": column.comment} if column.comment else {}}
        for column in columns
    ]
    text = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
    parts = [text[start : start + _MAX_PROPERTY] for start in range(0, len(text), _MAX_PROPERTY)]
    prefix = "spark.sql.sources.schema"
    return {
        f"{prefix}.numParts": str(len(parts)),
        **{f"{prefix}.part.{number}": part for number, part in enumerate(parts)},
        **({f"{prefix}.numPartCols": str(len(partition_by))} if partition_by else {}),
        **{f"{prefix}.partCol.{number}": name for number, name in enumerate(partition_by)},
    }
