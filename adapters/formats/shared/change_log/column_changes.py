"""What became of the columns of a table since an event came: it has the names of then, and not what came later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from lakeward.adapters.formats.shared.change_log.batch_record import BatchRecord
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.schema_changes.evolution import SchemaChange

Coming: TypeAlias = Mapping[int, Sequence[SchemaChange]]
"""The columns and fields that a table gets with a batch that is worked out, by its number."""
NOTHING_COMES: Final[Coming] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ColumnsSince:
    """What the batches of these `records` made of the columns, the `renames` of now, and what is `coming`."""

    records: Mapping[int, BatchRecord]
    renames: Mapping[str, str]
    coming: Coming

    def with_added(self, listed: str, of: str) -> str:
        """Return names as columns are called now; of events `of` a condition also those that came later."""
        for batch, remembered in sorted(self.records.items()):
            is_before = f"{names.BATCH} < {batch}"
            listed = _called_now(listed, remembered.renames, is_before)
            listed = _without(listed, remembered.added, f"{of} AND {is_before}")
        listed = _called_now(listed, self.renames, "true")
        for batch, added in self.coming.items():
            listed = _without(listed, added, f"{of} AND {names.BATCH} < {batch}")
        return listed


def _called_now(listed: str, renames: Mapping[str, str], condition: str) -> str:
    """Return a list of names with the new ones in the place of old ones, in rows that meet a condition, as SQL."""
    if not renames:
        return listed
    words = []
    for old, new in renames.items():
        words.append(f"WHEN x = {text(old)} AND {condition} THEN {text(new)}")
        within = f"concat({text(quoted(new))}, substring(x, {len(quoted(old)) + 1}))"
        words.append(f"WHEN startswith(x, {text(quoted(old) + '.')}) AND {condition} THEN {within}")
    return f"transform({listed}, x -> CASE {' '.join(words)} ELSE x END)"


def _without(listed: str, added: Sequence[SchemaChange], condition: str) -> str:
    """Return a list of names with those that updates lack which meet a condition, as SQL."""
    if not added:
        return listed
    lacking = ", ".join(text(quoted(*change.names) if change.is_nested else change.path) for change in added)
    more = f"array_union(coalesce({listed}, CAST(array() AS array<string>)), array({lacking}))"
    return f"CASE WHEN {condition} THEN {more} ELSE {listed} END"
