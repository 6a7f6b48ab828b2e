"""The texts of the keys of a small batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

from pyspark.sql import SparkSession

from lakeward.adapters.formats.shared.small_batches.arrow_values import key_rows, keys_in
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.adapters.spark.sql import keys
from lakeward.core.dimension import Dimension
from lakeward.core.events import Key
from lakeward.core.text.literals import key_text

_TEXT: Final = "_lakeward_text"


@dataclass(frozen=True, slots=True)
class KeyTexts:
    """Writes keys exactly as Spark does, which looks them up by these texts.

    The digits of floating numbers are Java's, and differ between its versions. Keys with such numbers therefore get
    their texts from Spark, in `made`.
    """

    dimension: Dimension
    made: Mapping[Key, str] | None = None

    @classmethod
    def of(cls, dimension: Dimension, sought: Collection[Key], spark: Callable[[], SparkSession]) -> Self:
        """Return the texts of these keys. One query is needed if floating numbers are in them."""
        columns = keys.key_columns(dimension)
        if not any(column.type.is_floating for column in columns):
            return cls(dimension)
        if not sought:
            return cls(dimension, {})
        rows = from_arrow(spark(), key_rows(sought, dimension))
        columns_by_name = to_arrow(rows.selectExpr("*", f"{keys.key_text(columns)} AS {_TEXT}")).to_pydict()
        texts = zip(keys_in(columns_by_name, dimension.key), columns_by_name[_TEXT], strict=True)
        return cls(dimension, {key: text for key, text in texts if key is not None})

    def text(self, key: Key) -> str:
        """Return the text of one of the keys given to `of`."""
        return key_text(self.dimension, key) if self.made is None else self.made[key]
