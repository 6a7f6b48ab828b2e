"""The line of the installed Spark, and replacements for functions that the older line lacks.

A line is a minor version of Spark with the jars that were tested with it (docs/decisions/0027).
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from lakeward.core.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

LINES: Final = ("4.1", "3.5")
"""The lines that lakeward has jars for; the default is first."""


def line() -> str:
    """Return the line of the installed pyspark, or the default line if there is none.

    Raises SetupError for any other Spark.
    """
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        if find_spec("pyspark") is None:
            return LINES[0]
        import pyspark  # noqa: PLC0415  # of a platform, not installed as a package

        installed = pyspark.__version__
    minor = ".".join(installed.split(".")[:2])
    if minor not in LINES:
        raise SetupError(
            f"lakeward has no jars for Spark {minor}",
            found=f"pyspark {installed} is installed",
            todo=f"Install one of the lines {' and '.join(LINES)}, each in a virtual environment of its own: "
            "pip install 'lakeward[spark]' or 'lakeward[spark-3.5]'.",
        )
    return minor


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return all rows of a frame; `DataFrame.toArrow` exists since Spark 4.0 (SPARK-47365)."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  # Spark is imported late

    collect = cast("Any", frame)._collect_as_arrow
    return pa.Table.from_batches(collect(), schema=to_arrow_schema(frame.schema))


def from_arrow(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows as a frame; `createDataFrame` accepts Arrow since Spark 4.0 (SPARK-48220).

    A time without a zone stays one: by default Spark would take it for a time in the zone of the session. Empty
    batches are removed: Spark stops at an empty batch that is not the first, and ignores all rows after it.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  # Spark is imported late

    schema = from_arrow_schema(pa.schema(map(_described, rows.schema)), prefer_timestamp_ntz=True)
    rows = pa.Table.from_batches([batch for batch in rows.to_batches() if batch.num_rows], rows.schema)
    if line() != "3.5":
        return spark.createDataFrame(rows, schema)
    from pyspark.sql import DataFrame  # noqa: PLC0415
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer  # noqa: PLC0415

    if not rows.num_rows:
        return spark.createDataFrame([], schema)
    context, utils = cast("Any", spark.sparkContext), cast("Any", spark)._jvm.PythonSQLUtils
    read = context._serialize_to_jvm(
        rows.to_batches(), ArrowStreamSerializer(), utils.readArrowStreamFromFile, context._jvm.ArrowIteratorServer
    )
    return DataFrame(utils.toDataFrame(read, schema.json(), cast("Any", spark)._jsparkSession), spark)


def _described(field: pa.Field) -> pa.Field:
    """Return a field with metadata at each field of its structs: PySpark expects it of a field called `wkb`."""
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_described(part) for part in type_])
    elif pa.types.is_map(type_):
        type_ = pa.map_(_described(type_.key_field), _described(type_.item_field))
    elif pa.types.is_list(type_):
        type_ = pa.list_(_described(type_.value_field))
    return field.with_type(type_).with_metadata(field.metadata or {"": ""})


def read_text(spark: SparkSession, paths: Sequence[str], row_end: str) -> DataFrame:
    """Return the lines of files, by a plan that equals other plans for the same files.

    Before Spark 4.0 a text format equals only itself, so two plans with a format each are never equal.
    """
    read = spark.read.text(list(paths), lineSep=row_end)
    if line() != "3.5":
        return read
    from pyspark.sql import DataFrame  # noqa: PLC0415  # Spark is imported late

    session = cast("Any", spark)
    relation = cast("Any", read)._jdf.queryExecution().analyzed().relation()
    properties = [getattr(relation, name)() for name in ("location", "partitionSchema", "dataSchema", "bucketSpec")]
    datasources = session._jvm.org.apache.spark.sql.execution.datasources
    new_relation = datasources.HadoopFsRelation(
        *properties, _text_format(session.sparkContext._gateway), relation.options(), relation.sparkSession()
    )
    return DataFrame(session._jsparkSession.baseRelationToDataFrame(new_relation), spark)


@cache
def _text_format(gateway: Any) -> Any:
    return gateway.jvm.org.apache.spark.sql.execution.datasources.text.TextFileFormat()


def condition_of(error: BaseException) -> str:
    """Return the name of the condition that Spark raised, '' if it has none."""
    getter = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    return (getter() if getter is not None else None) or ""


def silence(*loggers: str) -> None:
    """Silence loggers of PySpark, if it has them: they exist since Spark 4.0."""
    if find_spec("pyspark.logger") is None:
        return
    from pyspark.logger import PySparkLogger  # noqa: PLC0415  # does not exist in Spark 3.5

    for name in loggers:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def is_valid_utf8(value: str) -> str:
    """Return SQL for whether a text is valid UTF-8; `is_valid_utf8` exists since Spark 4.0.

    Before that, invalid bytes are decoded to the replacement character, and so encoded to other bytes.
    """
    if line() != "3.5":
        return f"is_valid_utf8({value})"
    sent = f"CAST({value} AS binary)"
    return f"encode(decode({sent}, 'UTF-8'), 'UTF-8') = {sent}"
