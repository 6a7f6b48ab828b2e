"""Decide whether the dates of source rows and changes date the whole change of a joined row.

A row that disappeared leaves no date where its source was emptied or has forgotten the delete, and a row of a full
load has none. The dates of other rows are then older than the change, and do not date it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from lakeward.core.history.versions import Columns, Version
from lakeward.core.joined.declared import JoinType
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.plan import JoinPlan
from lakeward.core.joined.rows import JoinedRow
from lakeward.core.joined.touched import ChangeDates


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The part of a joined row that comes from a source: tracked columns and, with `holds`, its existence.

    It includes the sources that are joined to that one, because it decides which of their rows are found.
    """

    columns: Columns
    holds: bool

    @classmethod
    def of(cls, joining: Joining, name: str, columns: Columns) -> Self:
        """Return the part that comes from a source, limited to tracked columns of the joined table."""
        joined, found = joining.joined, [name]
        for other in joined.others:
            found += [other] if joined.beside(other) in found else []
        sources = [joined.sources[one] for one in found]
        own = {column for one in sources for column in (*one.columns, *one.aggregates)}
        needed = (joined.sources[one].way is JoinType.INNER for one in found)
        tracked = tuple(column for column in columns.tracked if column in own)
        return cls(replace(columns, tracked=tracked), joined.driving in found or any(needed))

    def differs(self, last: Version, made: JoinedRow | None) -> bool:
        """Return True if a joined row has changed in this part."""
        if made is None or not last.is_current:
            return self.holds and last.is_current == (made is None)
        return not self.columns.same(last.cells, made.cells)


def is_dated(plan: JoinPlan, columns: Columns, last: Version, made: JoinedRow | None, touch: ChangeDates) -> bool:
    """Return True if the sources date the whole change of a joined row, whose stored version is `last`.

    They do not where the change comes from a source that does not date it and has no row there that does, nor where
    the table was declared differently before.
    """
    if plan.is_redeclared:
        return False
    joining = plan.joining
    silent = (name for name in plan.untold | touch.undated if not _says_when(joining, name, last, made))
    return not any(SourceColumns.of(joining, name, columns).differs(last, made) for name in silent)


def _says_when(joining: Joining, name: str, last: Version, made: JoinedRow | None) -> bool:
    """Return True if the row of a source dates its present state.

    Of several rows, another may have been removed later.
    """
    instant = None if made is None else made.instants.get(name)
    return instant is not None and (instant > last.reached or not joining.is_grouped(name))
