"""What the Glue Data Catalog is told of a table, in the form in which Athena, Spark and Trino look for it.

Delta: docs.aws.amazon.com/athena/latest/ug/delta-lake-tables.html; the location is all that Athena needs, and Spark
and Trino read the serde's `path`. Hudi: what its own sync tells Glue
(hudi.apache.org/docs/syncing_aws_glue_data_catalog).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lakeward.adapters.registrations.glue.hive_types import hive_type
from lakeward.core.errors import ConfigError
from lakeward.core.ports import DescribedColumn, TableDescription
from lakeward.core.schema import alike

_COMMENT: Final = 255
"""How many characters Glue takes of a comment."""

_DESCRIPTION: Final = 2048
"""How many it takes of a description."""

_PART: Final = 4000
"""How many Hive's metastore takes of a property."""

_SEQUENCE_FILES: Final = {
    "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
}
"""What Spark writes for a table of a format of its own: Hive reads none of it."""

_LAZY: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_OPEN_CSV: Final = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
_NO_ESCAPE: Final = "\u0001"
"""A character that no file has: DMS doubles quotes, and a backslash is one."""

_OF_HUDI: Final = "org.apache.hudi.hadoop."
_PARQUET: Final = "org.apache.hadoop.hive.ql.io.parquet."


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The entry of a table: what Glue calls it, its storage descriptor, and the rest of what it is told."""

    name: str
    storage: Mapping[str, Any]
    parameters: Mapping[str, str]
    partition_keys: Sequence[Mapping[str, str]] = ()
    comment: str = ""
    partitions: Mapping[tuple[str, ...], Mapping[str, Any]] = field(default_factory=dict)

    @property
    def location(self) -> str:
        """The URL of its folder."""
        return str(self.storage["Location"])


def entry_of(table: TableDescription) -> Entry:
    """Return the entry of a table; raises ConfigError for columns that Glue cannot have."""
    _check_columns(table)
    made = {"hudi": _of_hudi, "parquet": _of_parquet, "csv": _of_csv}
    return made.get(table.format, _of_delta)(table)


def _check_columns(table: TableDescription) -> None:
    both = alike(column.name for column in table.columns)
    if both is not None:
        raise ConfigError(
            f"{table.namespace}.{table.name} cannot be registered: two of its columns would be one",
            found=f"the Glue Data Catalog writes names in small letters: {both[0]} and {both[1]}",
            todo="Give one of the two another name.",
        )


def _of_delta(table: TableDescription) -> Entry:
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
        comment=_plain(table.comment or "", _DESCRIPTION),
    )


def _of_hudi(table: TableDescription) -> Entry:
    keys = [column for name in table.partition_by for column in table.columns if column.name == name]
    others = [column for column in table.columns if column.name not in table.partition_by]
    reader = "realtime.HoodieParquetRealtimeInputFormat" if table.has_logs else "HoodieParquetInputFormat"
    storage = {
        "Columns": _columns(others),
        "Location": table.location,
        "InputFormat": f"{_OF_HUDI}{reader}",
        "OutputFormat": f"{_PARQUET}MapredParquetOutputFormat",
        "SerdeInfo": {
            "SerializationLibrary": f"{_PARQUET}serde.ParquetHiveSerDe",
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
            "hudi.metadata-listing-enabled": "FALSE",  # lakeward keeps no metadata table within the table
            **_spark_schema([*others, *keys], [column.name for column in keys]),
        },
        partition_keys=_columns(keys),
        comment=_plain(table.comment or "", _DESCRIPTION),
        partitions={
            partition.values: {**storage, "Location": partition.location} for partition in table.partitions or ()
        },
    )


def _of_parquet(table: TableDescription) -> Entry:
    return Entry(
        name=table.name.lower(),
        storage={
            "Columns": _columns(table.columns),
            "Location": table.location,
            "InputFormat": f"{_PARQUET}MapredParquetInputFormat",
            "OutputFormat": f"{_PARQUET}MapredParquetOutputFormat",
            "SerdeInfo": {
                "SerializationLibrary": f"{_PARQUET}serde.ParquetHiveSerDe",
                "Parameters": {"serialization.format": "1"},
            },
        },
        parameters={"EXTERNAL": "TRUE", "classification": "parquet"},
        comment=_plain(table.comment or "", _DESCRIPTION),
    )


def _of_csv(table: TableDescription) -> Entry:
    form = table.csv
    if form is None:
        raise LookupError(f"{table.name} is CSV of no form")
    quoted = {"separatorChar": form.delimiter, "quoteChar": form.quote, "escapeChar": _NO_ESCAPE}
    plain = {
        "field.delim": form.delimiter,
        "serialization.format": form.delimiter,
        "serialization.null.format": form.null_text,
    }
    serde = {"SerializationLibrary": _OPEN_CSV, "Parameters": quoted}
    lazy = {"SerializationLibrary": _LAZY, "Parameters": plain}
    header = {"skip.header.line.count": "1"} if form.has_header else {}
    return Entry(
        name=table.name.lower(),
        storage={
            "Columns": _columns(table.columns),
            "Location": table.location,
            "InputFormat": "org.apache.hadoop.mapred.TextInputFormat",
            "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            "SerdeInfo": serde if form.quote else lazy,
        },
        parameters={"EXTERNAL": "TRUE", "classification": "csv", **header},
        comment=_plain(table.comment or "", _DESCRIPTION),
    )


def _columns(columns: Sequence[DescribedColumn]) -> list[Mapping[str, str]]:
    return [dict(_column(column)) for column in columns]


def _column(column: DescribedColumn) -> Iterator[tuple[str, str]]:
    yield "Name", column.name.lower()
    yield "Type", hive_type(column.type, column.name)
    if column.comment:
        yield "Comment", _plain(column.comment, _COMMENT)


def _plain(text: str, most: int) -> str:
    """Return a text on one line, of at most so many characters.

    >>> _plain("two   lines", 20), _plain("too long", 6)
    ('two lines', 'too l…')
    """
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _spark_schema(columns: Sequence[DescribedColumn], partition_by: Sequence[str]) -> Mapping[str, str]:
    """Return the columns as Spark looks for them, with their letters, cut into parts that a metastore takes."""
    from lakeward.adapters.formats.delta_rs.columns import field_of  # noqa: PLC0415  # Delta writes types as Spark does

    fields = [
        {**field_of(one.name, one.type), "metadata": {"comment": one.comment} if one.comment else {}}
        for one in columns
    ]
    text = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
    parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
    prefix = "spark.sql.sources.schema"
    return {
        f"{prefix}.numParts": str(len(parts)),
        **{f"{prefix}.part.{number}": part for number, part in enumerate(parts)},
        **({f"{prefix}.numPartCols": str(len(partition_by))} if partition_by else {}),
        **{f"{prefix}.partCol.{number}": name for number, name in enumerate(partition_by)},
    }
