"""The keys of a small batch: as values of the core, as Arrow rows, and as texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

import pyarrow as pa
from pyspark.sql import SparkSession

from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.adapters.spark.sql import keys
from lakeward.core.dimension import Dimension
from lakeward.core.events import Key, canonical
from lakeward.core.text.literals import key_text, needs_java

_NAN: Final = canonical(math.nan)
_TEXT: Final = "_lakeward_text"


def keys_in(columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> list[Key | None]:
    """Return the key of each row; None where a part of it is NULL, and for a table without a key."""
    if not names:
        return [None] * len(next(iter(columns.values()), ()))
    parts = zip(*(columns[name] for name in names), strict=True)
    return [None if None in values else tuple(map(canonical, values)) for values in parts]


def key_in(values: Mapping[str, Any] | None, names: Sequence[str]) -> Key | None:
    """Return the key in a struct; None where the struct or a part of the key is NULL."""
    if values is None:
        return None
    parts = tuple(canonical(values[name]) for name in names)
    return None if None in parts else parts


def key_values(key: Key, dimension: Dimension) -> Mapping[str, Any]:
    """Return the values of a key by their columns, for Arrow: with NaN itself in place of its canonical text."""
    pairs = zip(dimension.key, key, strict=True)
    if _NAN not in key:
        return dict(pairs)
    floating = {column.name for column in dimension.schema if column.type.is_floating}
    return {name: math.nan if name in floating and part == _NAN else part for name, part in pairs}


def key_rows(keys: Iterable[Key], dimension: Dimension) -> pa.Table:
    """Return keys as rows with the columns of the key. Raises LookupError if the dimension lacks one of them."""
    listed = [key_values(key, dimension) for key in keys]
    columns = {}
    for name in dimension.key:
        column = dimension.schema.find(name)
        if column is None:
            raise LookupError(name)
        columns[name] = pa.array([values[name] for values in listed], arrow_type(column.type))
    return pa.table(columns)


@dataclass(frozen=True, slots=True)
class KeyTexts:
    """The texts of keys, exactly as Spark writes them, which looks keys up by these texts.

    The digits of most floating numbers differ between versions of Java. The texts of keys with such numbers
    therefore come from Spark (`by_key`).
    """

    dimension: Dimension
    by_key: Mapping[Key, str] = field(default_factory=dict)

    @classmethod
    def of(cls, dimension: Dimension, needed_keys: Collection[Key], spark: Callable[[], SparkSession]) -> Self:
        """Return the texts of these keys. One query is needed if one of them needs Java."""
        of_java = [key for key in needed_keys if needs_java(dimension, key)]
        if not of_java:
            return cls(dimension)
        rows = from_arrow(spark(), key_rows(of_java, dimension))
        text = f"{keys.key_text(keys.key_columns(dimension))} AS {_TEXT}"
        columns_by_name = to_arrow(rows.selectExpr("*", text)).to_pydict()
        texts = zip(keys_in(columns_by_name, dimension.key), columns_by_name[_TEXT], strict=True)
        return cls(dimension, {key: text for key, text in texts if key is not None})

    def text(self, key: Key) -> str:
        """Return the text of a key; raises KeyError for one that needs Java and was not given to `of`."""
        return self.by_key[key] if needs_java(self.dimension, key) else key_text(self.dimension, key)
