"""Whether what dates the rows and changes of its sources dates all that became of a joined row, too.

A row that went leaves no date behind where its source was emptied or forgot it, and one that a full load brought
has none. What then dates the other rows is older than that, and says nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from lakeward.core.history.versions import Columns, Version
from lakeward.core.joined.declared import Way
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.plan import JoinPlan
from lakeward.core.joined.rows import Made
from lakeward.core.joined.touched import Touch


@dataclass(frozen=True, slots=True)
class Part:
    """What of a joined row comes of a source: tracked columns, and with `holds` whether there is a row at all.

    So of those that are joined to it: which of their rows are found is up to it.
    """

    columns: Columns
    holds: bool

    @classmethod
    def of(cls, joining: Joining, name: str, columns: Columns) -> Self:
        """Return what comes of a source, of the columns of the joined table of which a change is told."""
        joined, found = joining.joined, [name]
        for other in joined.others:
            found += [other] if joined.beside(other) in found else []
        sources = [joined.sources[one] for one in found]
        own = {column for one in sources for column in (*one.columns, *one.aggregates)}
        needed = (joined.sources[one].way is Way.INNER for one in found)
        tracked = tuple(column for column in columns.tracked if column in own)
        return cls(replace(columns, tracked=tracked), joined.driving in found or any(needed))

    def differs(self, last: Version, made: Made | None) -> bool:
        """Whether a joined row has become another in what is of this part."""
        if made is None or not last.is_current:
            return self.holds and last.is_current == (made is None)
        return not self.columns.same(last.cells, made.cells)


def is_dated(plan: JoinPlan, columns: Columns, last: Version, made: Made | None, touch: Touch) -> bool:
    """Whether all that became of a joined row, whose `last` version stands, is dated by its sources.

    It is not where a source that does not tell when it changed has changed it, and has no row there that says so.
    Nor is it where it was declared in another way before: no source dates that.
    """
    if plan.is_redeclared:
        return False
    joining = plan.joining
    silent = (name for name in plan.untold | touch.undated if not _says_when(joining, name, last, made))
    return not any(Part.of(joining, name, columns).differs(last, made) for name in silent)


def _says_when(joining: Joining, name: str, last: Version, made: Made | None) -> bool:
    """Whether the row of a source dates what it is now; of several, another one may have gone since the newest."""
    instant = None if made is None else made.instants.get(name)
    return instant is not None and (instant > last.reached or not joining.is_grouped(name))
