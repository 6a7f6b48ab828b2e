"""The Arrow types of columns."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from lakeward.adapters.spark.sql.types import to_spark
from lakeward.core.schema import Type


def arrow_type(type_: Type) -> pa.DataType:
    """Return the Arrow type in which Spark sends a column of this type; sessions are in UTC."""
    match type_.name:
        case "timestamp":
            return pa.timestamp("us", tz="UTC")
        case "list":
            return pa.list_(arrow_type(type_.parts[0].type))
        case "map":
            key, value = (arrow_type(part.type) for part in type_.parts)
            return pa.map_(key, value)
        case "struct":
            return pa.struct([pa.field(part.name, arrow_type(part.type)) for part in type_.parts])
        case _:
            return to_arrow_type(to_spark(type_))
