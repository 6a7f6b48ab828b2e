"""Conversion of rows of lines to an Arrow table with the column types of Spark's readers.

The type of lists of names allows NULL elements, as in the tables of other readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from lakeward.adapters.sources.files.json_lines.frames import UNDECLARED
from lakeward.adapters.sources.files.local.rows import RowLists
from lakeward.adapters.sources.files.named_fields import FIELD_FLAGS
from lakeward.adapters.sources.messages.decoded import MESSAGE_FLAGS
from lakeward.adapters.spark.frames.event_frame import INITIAL
from lakeward.adapters.spark.frames.local_casts import arrow_type
from lakeward.adapters.spark.frames.local_source_rows import NAMES
from lakeward.adapters.spark.frames.source_rows import BLANK, HAS_IMAGE, LINE, TORN, RowSettings, before_column
from lakeward.adapters.spark.sql import names

_LISTS: Final = (names.UNSET, UNDECLARED)
_FLAGS: Final = (BLANK, TORN, HAS_IMAGE, *MESSAGE_FLAGS, INITIAL, *FIELD_FLAGS)


def to_table(lists: RowLists, settings: RowSettings) -> pa.Table:
    """Return rows as an Arrow table, in their order."""
    types = _types(settings)
    return pa.table({name: _column(values, types.get(name) or _type(name)) for name, values in lists.items()})


def _types(settings: RowSettings) -> Mapping[str, pa.DataType]:
    types = {column.name: column.type for column in settings.dimension.schema}
    types |= {before_column(n): column.type for n, column in enumerate(settings.before_columns)}
    return {name: arrow_type(type_) for name, type_ in types.items()}


def _type(name: str) -> pa.DataType:
    """Return the type of a column that is not a column of the table."""
    if name in _LISTS:
        return NAMES
    return pa.bool_() if name in _FLAGS else pa.int64() if name == LINE else pa.string()


def _column(values: list[Any], type_: pa.DataType) -> pa.Array:
    return pa.array(values, type_, from_pandas=False)
