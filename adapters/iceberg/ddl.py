"""Making Iceberg tables, and knowing them again."""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import (
    DecimalType,
    IcebergType,
    ListType,
    MapType,
    StructType,
)
from pyspark.sql import SparkSession

from lakeward.adapters.iceberg.java import Jvm
from lakeward.adapters.iceberg.options import TableOptions
from lakeward.adapters.spark import names
from lakeward.adapters.spark.names import quoted, text
from lakeward.adapters.spark.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.schema import Column, Schema, Type

SYSTEM_COLUMNS: Final[Mapping[str, str]] = {
    names.EPOCH: "int",
    names.SEQUENCE: "bigint",
    names.OBJECT: "bigint",
    names.ROW: "bigint",
    names.BATCH: "bigint",
}
"""What lakeward adds to each row: the position of its last event, and the batch that changed it."""

RESERVED: Final = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
"""Iceberg's own names for what a row has beside its columns."""

_TRANSFORMS: Final = ("day", "days", "hour", "hours", "month", "months", "year", "years")
_CALL: Final = re.compile(r"^\s*(?P<name>\w+)\s*\(\s*(?:(?P<number>\d+)\s*,\s*)?(?P<column>.+?)\s*\)\s*$")
_MAKING_NAMESPACE: Final = threading.Lock()
"""The catalog looks whether a namespace is there and then makes it, which two tables at once must not."""

_PER_COLUMN: Final = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.stats-enabled.column.",
)


def create(spark: SparkSession, name: Sequence[str], columns: Mapping[str, str], **clauses: str) -> None:
    """Create a table; `clauses` are its LOCATION, and what else follows the columns."""
    catalog, namespace, _ = name
    with _MAKING_NAMESPACE:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(catalog, namespace)}")
    listed = ", ".join(f"{quoted(column)} {type_}" for column, type_ in columns.items())
    parts = "".join(f" {clause}" for clause in clauses.values() if clause)
    spark.sql(f"CREATE TABLE {quoted(*name)} ({listed}) USING iceberg{parts}")


def create_main(
    spark: SparkSession, name: Sequence[str], location: str, dimension: Dimension, options: TableOptions
) -> None:
    """Create the table that mirrors a dimension."""
    properties = {
        "format-version": str(options.format_version),
        **{f"write.{command}.mode": options.write_mode for command in ("delete", "update", "merge")},
        **options.properties,
    }
    columns = {**{c.name: ddl(c.type) for c in dimension.schema}, **SYSTEM_COLUMNS}
    partitions = ", ".join(_transform(item, dimension) for item in options.partition_by)
    create(
        spark,
        name,
        columns,
        partitions=f"PARTITIONED BY ({partitions})" if partitions else "",
        location=f"LOCATION {text(location)}",
        properties=tblproperties(properties),
    )
    if options.sort_by:
        _order(Jvm(spark).table(*name), dimension, options.sort_by)


def tblproperties(properties: Mapping[str, str]) -> str:
    """Return properties as SQL writes them."""
    listed = ", ".join(f"{text(name)} = {text(value)}" for name, value in properties.items())
    return f"TBLPROPERTIES ({listed})"


def _transform(item: str, dimension: Dimension) -> str:
    if dimension.schema.find(item) is not None:
        return quoted(item)
    call = _CALL.match(item)
    if call is None or dimension.schema.find(call["column"]) is None:
        raise _unknown_column(item, dimension, "partition_by")
    column, name = quoted(call["column"]), call["name"].lower()
    if name in _TRANSFORMS and call["number"] is None:
        return f"{name.rstrip('s')}s({column})"
    if name in ("bucket", "truncate") and call["number"] is not None:
        return f"{name}({call['number']}, {column})"
    raise ConfigError(
        f"{dimension.name}: {item!r} under partition_by is no transform of Iceberg",
        todo="Transforms are day(c), hour(c), month(c), year(c), bucket(n, c), truncate(n, c), and c itself.",
    )


def _order(table: Any, dimension: Dimension, sort_by: Sequence[str]) -> None:
    order = table.replaceSortOrder()
    for item in sort_by:
        name, _, direction = item.rpartition(" ")
        if direction.lower() not in ("asc", "desc") or dimension.schema.find(item) is not None:
            name, direction = item, "asc"
        if dimension.schema.find(name) is None:
            raise _unknown_column(item, dimension, "sort_by")
        (order.desc if direction.lower() == "desc" else order.asc)(name)
    order.commit()


def _unknown_column(item: str, dimension: Dimension, where: str) -> ConfigError:
    near = difflib.get_close_matches(item, dimension.schema.names, n=1)
    return ConfigError(
        f"{dimension.name}: {item!r} under {where} names no column",
        found="the columns are " + ", ".join(dimension.schema.names),
        todo=f"Did you mean {near[0]!r}?" if near else None,
    )


def check_options(jvm: Jvm, dimension: Dimension, options: TableOptions) -> None:
    """Refuse, before anything is written, what the table could not be made with."""
    for item in options.partition_by:
        _transform(item, dimension)
    reserved = [name for name in dimension.schema.names if name in RESERVED or name.startswith(names.PREFIX)]
    if reserved:
        raise ConfigError(
            f"{dimension.name}: a column is called {reserved[0]!r}, and Iceberg or lakeward use that name",
            todo="Let DMS rename it (a transformation rule `rename-column`). Nothing was applied.",
        )
    known = set(known_properties(jvm))
    for name in options.properties:
        if name not in known and not name.startswith(_PER_COLUMN):
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(
                f"{dimension.name}: Iceberg knows no table property {name!r}",
                todo=f"Did you mean {near[0]!r}?" if near else "See iceberg.apache.org/docs/latest/configuration.",
            )


def known_properties(jvm: Jvm) -> Iterator[str]:
    """Return the table properties that the running Iceberg knows, from its own list of them."""
    loader = jvm.gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    listed = jvm.gateway.jvm.java.lang.Class.forName("org.apache.iceberg.TableProperties", True, loader)
    for field in listed.getFields():
        if field.getType().getName() == "java.lang.String" and not field.getName().endswith("_DEFAULT"):
            yield str(field.get(None))


def columns_of(schema: IcebergSchema, table: str) -> Schema:
    """Return the columns of a table of ours; raises TableError where it is not one."""
    found = {field.name: field.field_type for field in schema.fields}
    lacking = [name for name in SYSTEM_COLUMNS if name not in found]
    if lacking:
        raise TableError(
            f"{table}: the lake has a table of that name, and lakeward did not make it",
            found=f"it lacks the column {lacking[0]}",
            todo="Choose another `namespace` under [target], or drop the table if nobody needs it.",
        )
    own = [Column(name, _type(type_)) for name, type_ in found.items() if name not in SYSTEM_COLUMNS]
    return Schema(tuple(own))


_SCALARS: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}


def _type(found: IcebergType) -> Type:
    match found:
        case DecimalType(precision=precision, scale=scale):
            return Type("decimal", precision, scale)
        case ListType(element_type=element):
            return Type("list", parts=(Column("element", _type(element)),))
        case MapType(key_type=key, value_type=value):
            return Type("map", parts=(Column("key", _type(key)), Column("value", _type(value))))
        case StructType(fields=fields):
            return Type("struct", parts=tuple(Column(f.name, _type(f.field_type)) for f in fields))
        case _:
            return Type(_SCALARS.get(str(found), str(found)))
