"""Versions of histories: read from stored rows and base rows, and written as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakeward.adapters.formats.shared.rows.system_columns import position_of
from lakeward.adapters.spark.history.version_rows import BEGINS, CAME_FROM, ENDS, VERSION_EPOCH
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.events import Cell, Key, Position
from lakeward.core.history.bitemporal import KnownVersion, update_known_versions
from lakeward.core.history.instants import instant_of_value
from lakeward.core.history.options import PREVIOUS_KEY, History
from lakeward.core.history.surrogate_numbers import Numbers
from lakeward.core.history.version_rows import rows as history_rows
from lakeward.core.history.versions import Version, Versions, order_versions
from lakeward.core.merge.fold import columns_of
from lakeward.core.schema import Schema
from lakeward.core.text.literals import key_text, read_key


@dataclass(frozen=True, slots=True)
class VersionReader:
    """Reads versions from rows given as mappings of columns to values."""

    dimension: Dimension
    history: History
    previous: Sequence[str]

    @classmethod
    def of(cls, dimension: Dimension, schema: Schema) -> VersionReader | None:
        """Return the reader for a dimension with these columns, or None if it keeps no history."""
        dimension = replace(dimension, schema=schema)
        columns = columns_of(dimension)
        if dimension.history is None or columns is None:
            return None
        return cls(dimension, dimension.history, columns.previous)

    def versions(self, rows: Iterable[Mapping[str, Any]]) -> Versions:
        """Return the versions of one key, in order."""
        return order_versions([self._version(row, self.begin(row), self._end(row)) for row in rows])

    def bases(self, rows: Iterable[Mapping[str, Any]]) -> Versions:
        """Return the versions of one key from base rows, in order."""
        return order_versions([self._version(row, row[BEGINS], row[ENDS]) for row in rows])

    def begin(self, row: Mapping[str, Any]) -> int:
        """Return the instant from which a stored version is valid. Raises ValueError if it has none."""
        instant = self._instant(row[self.history.validity_columns.valid_from])
        if instant is None:
            raise ValueError("a version does not say when it begins")
        return instant

    def _end(self, row: Mapping[str, Any]) -> int | None:
        shown_columns = self.history.validity_columns
        end = self._instant(row[shown_columns.valid_to])
        end = end + 1 if end is not None and shown_columns.closed else end
        if shown_columns.is_current is not None:
            return None if row[shown_columns.is_current] else end
        open_end = None if shown_columns.open_end is None else shown_columns.open_end + shown_columns.closed
        return None if end == open_end else end

    def _instant(self, value: Any) -> int | None:
        """Return the instant of a value in a validity column; the type of the column is the unit of instants."""
        return None if value is None else instant_of_value(value, self.history)

    def _version(self, row: Mapping[str, Any], begins: int, ends: int | None) -> Version:
        old = row.get(CAME_FROM, row.get(PREVIOUS_KEY))
        position = position_of(row)
        if row.get(VERSION_EPOCH) is not None:
            position = Position(row[VERSION_EPOCH], *position[1:])
        return Version(
            valid_from=begins,
            valid_to=ends,
            cells={name: row.get(name) for name in self.dimension.schema.names},
            position=position,
            reached=row[names.REACHED],
            previous={name: row.get(f"previous_{name}") for name in self.previous},
            previous_key=None if old is None else read_key(self.dimension, json.loads(old)),
        )


@dataclass(frozen=True, slots=True)
class VersionWriter:
    """Writes the versions of keys as the rows that a table has after a batch."""

    dimension: Dimension
    history: History
    batch: int
    numbers: Numbers

    def rows(self, key: Key, versions: Versions, stored: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Cell]]:
        """Yield the rows of a key after the batch. `stored` are its rows before."""
        if self.history.is_bitemporal:
            yield from self._known_rows(key, versions, stored)
            return
        cells_of_versions = history_rows(self.dimension, key, versions, self.numbers)
        for version, cells in zip(versions, cells_of_versions, strict=True):
            yield {**cells, **_place(version.position), names.REACHED: version.reached}

    def _known_rows(
        self, key: Key, versions: Versions, stored: Sequence[Mapping[str, Any]]
    ) -> Iterator[dict[str, Cell]]:
        shown_columns = self.history.validity_columns
        columns = self.history.schema(self.dimension.schema, self.dimension.key).names
        value_columns = [name for name in columns if name not in self.history.known_columns]
        known_versions = tuple(
            KnownVersion(
                {name: row.get(name) for name in value_columns}, position_of(row), row[shown_columns.known_from]
            )
            for row in stored
        )
        reached = {version.position: version.reached for version in versions}
        reached |= {position_of(row): row[names.REACHED] for row in stored if position_of(row) not in reached}
        for known_version in update_known_versions(
            self.dimension, key, known_versions, versions, self.batch, self.numbers
        ):
            row = dict(known_version.row(self.history, columns))
            yield {**row, **_place(known_version.position), names.REACHED: reached[known_version.position]}


def _place(position: Position) -> dict[str, Cell]:
    return dict(zip(names.POSITION, position, strict=True))


def base_row_columns(dimension: Dimension, version: Version) -> dict[str, Cell]:
    """Return the columns of a base row that describe a version, besides its cells."""
    old = version.previous_key
    return {
        VERSION_EPOCH: version.position.epoch,
        BEGINS: version.valid_from,
        ENDS: version.valid_to,
        names.REACHED: version.reached,
        CAME_FROM: None if old is None else key_text(dimension, old),
        **{f"previous_{name}": value for name, value in version.previous.items()},
    }
