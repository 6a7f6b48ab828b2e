"""Rows of Parquet files as frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import not_
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.landed.reading import Reading, below, escaped
from lakeward.adapters.spark import names
from lakeward.adapters.spark.casts import misfit
from lakeward.adapters.spark.inline import as_json
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.spark.rows import (
    BLANK,
    BROKEN,
    HAS_IMAGE,
    KEY_MISFIT,
    LINE,
    MISFIT,
    NAME,
    OP_TEXT,
    SEQUENCE_TEXT,
    TIME_TEXT,
    TORN,
    VALUE,
    before_column,
)
from lakeward.adapters.spark.spans import inside, is_outside
from lakeward.adapters.spark.types import ddl
from lakeward.core.schema import Column, Type

_AS_NOW: Final[Mapping[str, str]] = MappingProxyType({})


def read_parquet(
    spark: SparkSession,
    paths: Sequence[str],
    reading: Reading,
    *,
    has_op: bool,
    called: Mapping[str, str] = _AS_NOW,
) -> DataFrame:
    """Return the rows of Parquet files; of what their types hold, years alone can be none that the lake has.

    `called` says what the files call columns that have other names now.
    """
    schema = reading.dimension.schema
    time, place, prefix = reading.timestamp_column, reading.sequence_column, reading.before_prefix
    frame = spark.read.parquet(*[escaped(path) for path in paths])
    sequence = "NULL" if place is None else reading.unpadded(quoted(place), Type("string"))
    has = set(frame.columns)
    owns = [_Cell(quoted(called.get(c.name, c.name)), c, reading) for c in schema]
    before, sent, lacks = [], [own.raw for own in owns], False
    for item in reading.before_columns:
        name = f"{prefix or ''}{called.get(item.name, item.name)}"
        is_there = prefix is not None and name in has
        lacks = lacks or not is_there
        before.append(_Cell(quoted(name) if is_there else "NULL", item, reading))
        sent += [quoted(name)] if is_there else []
    of_key = [cell.column.name in reading.dimension.key for cell in (*owns, *before)]
    wrong = [cell.misfit for cell in (*owns, *before)]
    return frame.selectExpr(
        *[f"{own.value} AS {quoted(own.column.name)}" for own in owns],
        f"CAST({quoted(reading.op_column) if has_op else 'NULL'} AS string) AS {OP_TEXT}",
        f"{'string(NULL)' if time is None else f'CAST({quoted(time)} AS string)'} AS {TIME_TEXT}",
        f"CAST({sequence} AS string) AS {SEQUENCE_TEXT}",
        f"{as_json(sent)} AS {VALUE}",
        f"_metadata.row_index + 1 AS {LINE}",
        f"{below(reading.base)} AS {NAME}",
        f"{_first(compress(wrong, of_key))} AS {KEY_MISFIT}",
        f"{_first(compress(wrong, map(not_, of_key)))} AS {MISFIT}",
        f"string(NULL) AS {BROKEN}",
        *[f"false AS {name}" for name in (BLANK, TORN)],
        f"CAST(NULL AS array<string>) AS {names.UNSET}",
        f"{'boolean(NULL)' if lacks else 'true'} AS {HAS_IMAGE}",
        *[f"{cell.value} AS {before_column(index)}" for index, cell in enumerate(before)],
    )


def _first(misfits: Iterable[str | None]) -> str:
    return f"coalesce({', '.join([*filter(None, misfits), 'string(NULL)'])})"


@dataclass(frozen=True, slots=True)
class _Cell:
    """What a file has for a column of the table, as SQL."""

    raw: str
    column: Column
    reading: Reading

    @property
    def value(self) -> str:
        """The value of the column's type, NULL where that does not hold it."""
        item = self.column
        return inside(f"CAST({self.reading.unpadded(self.raw, item.type)} AS {ddl(item.type)})", item.type)

    @property
    def misfit(self) -> str | None:
        """What does not fit, in words, NULL where all does; None for a type that holds whatever files have."""
        if is_outside(self.raw, self.column.type) is None:
            return None
        return misfit(f"CAST({self.raw} AS string)", self.column, self.value)
