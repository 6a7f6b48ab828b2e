"""Checks of an Iceberg table's options that need no Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.adapters.formats.shared.options.refusals import reserved_property, unknown_column
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError

MODES: Final = ("write.delete.mode", "write.update.mode", "write.merge.mode")
"""The properties that tell engines how to write. lakeward follows its setting if there is one, else the last of
these."""

_OF_ICEBERG: Final = (
    *("uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary", "current-snapshot-timestamp-ms"),
    *("current-schema", "default-partition-spec", "default-sort-order"),
)
"""Iceberg's `TableProperties.RESERVED_PROPERTIES` without the format version: writers must not set them."""

_RESERVED: Final[Mapping[str, str]] = {
    "format-version": "Say it by `format_version`.",
    **dict.fromkeys(MODES, "Say it by `write_mode`: lakeward goes by that, and other engines are told so."),
    **dict.fromkeys(_OF_ICEBERG, "Take it out: Iceberg keeps that itself."),
}

_TRANSFORMS: Final = ("day", "days", "hour", "hours", "month", "months", "year", "years")
_CALL: Final = re.compile(r"^\s*(?P<name>\w+)\s*\(\s*(?:(?P<number>\d+)\s*,\s*)?(?P<column>.+?)\s*\)\s*$")


def check_options(dimension: Dimension, options: TableOptions) -> None:
    """Raise ConfigError for options with unknown columns or transforms, and for reserved properties."""
    for item in options.partition_by:
        _refuse_floating(item, dimension)
    for item in options.sort_by:
        sort_field(item, dimension)
    for name in options.properties:
        if (todo := _RESERVED.get(name)) is not None:
            raise reserved_property(dimension, name, todo)


def _refuse_floating(item: str, dimension: Dimension) -> None:
    """Raise ConfigError for partitions by floating numbers: some readers show deleted rows of partition NaN."""
    name, _, column = transform_parts(item, dimension)
    item_column = dimension.schema.find(column)
    if name == "identity" and item_column is not None and item_column.type.name in ("float", "double"):
        raise ConfigError(
            f"{dimension.name}: rows cannot be partitioned by {column}",
            found=f"it is a {item_column.type}, and some readers show rows deleted from the partition of NaN",
            todo="Name another column under `partition_by`, or declare this one as a decimal.",
        )


def transform(item: str, dimension: Dimension) -> str:
    """Return an item of `partition_by` in Spark's SQL."""
    name, number, column = transform_parts(item, dimension)
    if name == "identity":
        return quoted(column)
    return f"{name}s({quoted(column)})" if number is None else f"{name}({number}, {quoted(column)})"


def plain_transform(item: str, dimension: Dimension) -> str:
    """Return an item of `partition_by` in its normal form: `days( at )` is `day(at)`."""
    name, number, column = transform_parts(item, dimension)
    if name == "identity":
        return column
    return f"{name}({column})" if number is None else f"{name}({number}, {column})"


def transform_parts(item: str, dimension: Dimension) -> tuple[str, int | None, str]:
    """Return the name of a transform in Iceberg, its number, if it takes one, and its column.

    Raises ConfigError for an unknown transform or column.
    """
    if dimension.schema.find(item) is not None:
        return "identity", None, item
    call = _CALL.match(item)
    if call is None or dimension.schema.find(call["column"]) is None:
        raise unknown_column(dimension, "partition_by", item)
    name, number = call["name"].lower(), call["number"]
    if name in _TRANSFORMS and number is None:
        return name.rstrip("s"), None, call["column"]
    if name in ("bucket", "truncate") and number is not None:
        return name, int(number), call["column"]
    raise ConfigError(
        f"{dimension.name}: {item!r} under partition_by is no transform of Iceberg",
        todo="Transforms are day(c), hour(c), month(c), year(c), bucket(n, c), truncate(n, c), and c itself.",
    )


def sort_field(item: str, dimension: Dimension) -> tuple[str, bool]:
    """Return the column of an item of `sort_by`, and whether its order is descending."""
    name, _, direction = item.rpartition(" ")
    if direction.lower() not in ("asc", "desc") or dimension.schema.find(item) is not None:
        name, direction = item, "asc"
    if dimension.schema.find(name) is None:
        raise unknown_column(dimension, "sort_by", item)
    return name, direction.lower() == "desc"
