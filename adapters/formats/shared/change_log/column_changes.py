"""Changes of a table's columns since an event was remembered: new names, and columns that came later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from lakeward.adapters.formats.shared.change_log.batch_record import BatchRecord
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.schema_changes.evolution import SchemaChange

ComingColumns: TypeAlias = Mapping[int, Sequence[SchemaChange]]
"""The columns and fields that a table gets with the current batch, by its number."""
NO_COMING_COLUMNS: Final[ComingColumns] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The changes of columns by the batches of these `records`, the `renames` of now, and `coming_columns`."""

    records: Mapping[int, BatchRecord]
    renames: Mapping[str, str]
    coming_columns: ComingColumns

    def with_added(self, listed: str, of: str) -> str:
        """Return SQL for a list of names with the current names.

        In events that meet the condition `of`, columns and fields that came later are added to the list.
        """
        for batch, remembered in sorted(self.records.items()):
            is_before = f"{names.BATCH} < {batch}"
            listed = _called_now(listed, remembered.renames, is_before)
            listed = _without(listed, remembered.added, f"{of} AND {is_before}")
        listed = _called_now(listed, self.renames, "true")
        for batch, added in self.coming_columns.items():
            listed = _without(listed, added, f"{of} AND {names.BATCH} < {batch}")
        return listed


def _called_now(listed: str, renames: Mapping[str, str], condition: str) -> str:
    """Return SQL for a list of names, with new names in the place of old ones in rows that meet a condition."""
    if not renames:
        return listed
    branches = []
    for old, new in renames.items():
        branches.append(f"WHEN x = {text(old)} AND {condition} THEN {text(new)}")
        within = f"concat({text(quoted(new))}, substring(x, {len(quoted(old)) + 1}))"
        branches.append(f"WHEN startswith(x, {text(quoted(old) + '.')}) AND {condition} THEN {within}")
    return f"transform({listed}, x -> CASE {' '.join(branches)} ELSE x END)"


def _without(listed: str, added: Sequence[SchemaChange], condition: str) -> str:
    """Return SQL for a list of names, with the `added` columns and fields in rows that meet a condition."""
    if not added:
        return listed
    lacking = ", ".join(text(quoted(*change.names) if change.is_nested else change.path) for change in added)
    more = f"array_union(coalesce({listed}, CAST(array() AS array<string>)), array({lacking}))"
    return f"CASE WHEN {condition} THEN {more} ELSE {listed} END"
