"""Names and literals in Spark SQL, always quoted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakeward.core.events import Sequences
from lakeward.core.schema import Type

if TYPE_CHECKING:
    from pyspark.sql import Column

PREFIX: Final = "_lakeward_"
"""The prefix of every column that lakeward adds; source columns may not have it."""

OPERATION: Final = "_lakeward_operation"
EPOCH: Final = "_lakeward_epoch"
SEQUENCE: Final = "_lakeward_sequence"
OBJECT: Final = "_lakeward_object"
ROW: Final = "_lakeward_row"
BATCH: Final = "_lakeward_batch"
TIME: Final = "_lakeward_time"
ARRIVAL: Final = "_lakeward_arrival"
REASON: Final = "_lakeward_reason"
DETAIL: Final = "_lakeward_detail"
TEXT: Final = "_lakeward_text"
UNSET: Final = "_lakeward_unset"
CAME_SINCE: Final = "_lakeward_came_since"
OLD: Final = "_lakeward_old"
IMAGE: Final = "_lakeward_image"
TRANSACTION: Final = "_lakeward_transaction"
REACHED: Final = "_lakeward_reached"
INSTANT: Final = "_lakeward_instant"

POSITION: Final = (EPOCH, SEQUENCE, OBJECT, ROW)


def sequence_type(sequences: Sequences) -> Type:
    """Return the type of the sequence column. Its text is also the type in Spark SQL."""
    return Type("decimal", 38, 0) if sequences.are_wide else Type("bigint")


def quoted(*parts: str) -> str:
    """Return a name of several parts in the quotes of Spark SQL.

    >>> quoted("lake", "odd `name`")
    '`lake`.`odd ``name```'
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def text(value: str) -> str:
    r"""Return a text as a literal of Spark SQL.

    >>> text("it's \\ here")
    "'it\\'s \\\\ here'"
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def column(name: str) -> Column:
    """Return the column of exactly this name, with any characters."""
    from pyspark.sql import functions as F  # noqa: PLC0415  # this module is also used without Spark

    return F.col(quoted(name))
