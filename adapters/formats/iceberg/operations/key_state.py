"""The state of one key, read with PyIceberg only.

Tables are filtered by the key, and statistics exclude whole files. Of the remaining files only the columns of the
key are read, and all columns of those with a match. For 5 million unordered rows that takes half a second.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    IsNaN,
    LessThanOrEqual,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.progress import commits_of
from lakeward.adapters.formats.shared.operations import key_state as known
from lakeward.adapters.formats.shared.operations.key_state import Entry, entries_of
from lakeward.adapters.formats.shared.rows.conditions import All, AtLeast, AtMost, Condition, OneOf
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import TableError
from lakeward.core.events import Key, canonical
from lakeward.core.operations.key_state import BatchCommit, KeyState
from lakeward.core.progress import Progress

_NAN = canonical(float("nan"))


def read_key_state(catalog: IcebergCatalog, dimension: Dimension, key: Key) -> KeyState:
    """Return the state of a key as of the last commit of ours."""
    table = catalog.load(dimension.name)
    commits = [] if table is None else list(commits_of(table))
    if not commits:
        return KeyState(key=key, progress=Progress())
    at = {p.batch: BatchCommit(snapshot.timestamp_ms * 1000, str(snapshot.snapshot_id)) for snapshot, p in commits}
    return known.read_key_state(_Finder(catalog, dimension.name), dimension, key, commits[0][1], at)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds rows of a table and its side tables."""

    catalog: IcebergCatalog
    table: TableName

    def columns(self, suffix: str = "") -> Collection[str]:
        """Return the names of the columns; none if the table does not exist."""
        table = self.catalog.load(self.table, suffix)
        return () if table is None else table.schema().column_names

    def rows(self, where: Condition, suffix: str = "") -> Sequence[Entry]:
        """Return the rows that meet a condition, with all columns. Only files with a match are read in full."""
        table = self.catalog.load(self.table, suffix)
        if table is None:
            return []
        condition = _expression(where, table.schema())
        try:
            tasks = list(table.scan(row_filter=condition).plan_files())
        except ValueError as error:  # another engine has written what PyIceberg does not read
            raise TableError(
                f"{self.table}: a key of the table cannot be looked up",
                found=f"{error}: another writer left equality deletes",
                todo="Write them into its files: `CALL system.rewrite_data_files(…, options => "
                "map('delete-file-threshold', '1'))` in Spark.",
            ) from error
        narrow = ArrowScan(table.metadata, table.io, table.schema().select(names.ROW), condition)
        holding = [task for task in tasks if narrow.to_table([task]).num_rows]
        rows = ArrowScan(table.metadata, table.io, table.schema(), condition).to_table(holding)
        return entries_of(rows)


def _expression(where: Condition, schema: Schema) -> BooleanExpression:
    """Return a condition as an Iceberg expression."""
    match where:
        case All(of=parts):
            return reduce(And, [_expression(part, schema) for part in parts])
        case OneOf(of=parts):
            return reduce(Or, [_expression(part, schema) for part in parts])
        case AtMost(name=name, value=value):
            return LessThanOrEqual(term=Reference(name), value=literal(value))
        case AtLeast(name=name, value=value):
            return GreaterThanOrEqual(term=Reference(name), value=literal(value))
    path = ".".join(where.path)
    if where.value == _NAN and isinstance(schema.find_type(path), FloatType | DoubleType):
        return IsNaN(term=Reference(path))
    return EqualTo(term=Reference(path), value=literal(where.value))
