"""Which line of Spark is installed, and what stands in for what the older one lacks.

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
"""The lines that lakeward has jars for, the default one first."""


def line() -> str:
    """Return the line of the installed pyspark, or the default one where there is none.

    Raises SetupError where it is another Spark.
    """
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        if find_spec("pyspark") is None:
            return LINES[0]
        import pyspark  # noqa: PLC0415  # a platform's own, which was not installed as a package

        found = pyspark.__version__
    minor = ".".join(found.split(".")[:2])
    if minor not in LINES:
        raise SetupError(
            f"lakeward has no jars for Spark {minor}",
            found=f"pyspark {found} is installed",
            todo=f"Install one of the lines {' and '.join(LINES)}, each in a virtual environment of its own: "
            "pip install 'lakeward[spark]' or 'lakeward[spark-3.5]'.",
        )
    return minor


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return all rows of a frame; `DataFrame.toArrow` came with Spark 4.0 (SPARK-47365)."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  # Spark is imported late

    collect = cast("Any", frame)._collect_as_arrow
    return pa.Table.from_batches(collect(), schema=to_arrow_schema(frame.schema))


def from_arrow(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows as a frame; `createDataFrame` takes Arrow since Spark 4.0 (SPARK-48220).

    A time without a zone stays one: by default Spark would take it for one of the session's zone. Batches without a
    row are left out: Spark would stop at one that is not the first, and pass over all rows behind it.
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
    """Return a field with some metadata at each field of its structs: PySpark expects it of one called `wkb`."""
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_described(part) for part in type_])
    elif pa.types.is_map(type_):
        type_ = pa.map_(_described(type_.key_field), _described(type_.item_field))
    elif pa.types.is_list(type_):
        type_ = pa.list_(_described(type_.value_field))
    return field.with_type(type_).with_metadata(field.metadata or {"": ""})


def read_text(spark: SparkSession, paths: Sequence[str], row_end: str) -> DataFrame:
    """Return the lines of files, by a plan that is equal to another's of the same files.

    Before Spark 4.0 what it reads text by is equal to itself alone, and no two plans that have one each are alike.
    """
    read = spark.read.text(list(paths), lineSep=row_end)
    if line() != "3.5":
        return read
    from pyspark.sql import DataFrame  # noqa: PLC0415  # Spark is imported late

    session = cast("Any", spark)
    found = cast("Any", read)._jdf.queryExecution().analyzed().relation()
    kept = [getattr(found, name)() for name in ("location", "partitionSchema", "dataSchema", "bucketSpec")]
    datasources = session._jvm.org.apache.spark.sql.execution.datasources
    made = datasources.HadoopFsRelation(
        *kept, _text_format(session.sparkContext._gateway), found.options(), found.sparkSession()
    )
    return DataFrame(session._jsparkSession.baseRelationToDataFrame(made), spark)


@cache
def _text_format(gateway: Any) -> Any:
    return gateway.jvm.org.apache.spark.sql.execution.datasources.text.TextFileFormat()


def condition_of(error: BaseException) -> str:
    """Return the name of the condition that Spark raised, or '' where it has none."""
    ask = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    return (ask() if ask is not None else None) or ""


def silence(*loggers: str) -> None:
    """Let loggers of PySpark print nothing, where it has them: they came with Spark 4.0."""
    if find_spec("pyspark.logger") is None:
        return
    from pyspark.logger import PySparkLogger  # noqa: PLC0415  # there is none in Spark 3.5

    for name in loggers:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def is_valid_utf8(value: str) -> str:
    """Return the condition, as SQL, that a text is valid UTF-8; the function for it came with Spark 4.0.

    Before that, what is not valid UTF-8 is decoded as the replacement character, and so as other bytes.
    """
    if line() != "3.5":
        return f"is_valid_utf8({value})"
    sent = f"CAST({value} AS binary)"
    return f"encode(decode({sent}, 'UTF-8'), 'UTF-8') = {sent}"
