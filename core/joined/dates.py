"""The instant from which a joined row counts where its sources are mirrors, and whether they date a whole change.

A row that was removed leaves no date where its source was emptied or has forgotten the delete, and a row of a full
load has none. The dates of other rows are then older than the change, and do not date it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position, Sequences
from lakeward.core.history.instants import instant_of, valid_instant_range, value_of_instant
from lakeward.core.history.options import ByColumn, ByRun, ByTime, History
from lakeward.core.history.versions import Columns, Version, Versions
from lakeward.core.joined.aggregates import Cells
from lakeward.core.joined.declaration import JoinType, Source
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.plan import JoinPlan
from lakeward.core.joined.rows import JoinedRow
from lakeward.core.joined.touched_keys import ChangeDates
from lakeward.core.text.literals import text_of

BEGINNING: Final = 0
"""The instant from which the unknown row is valid: 1970, or the number 0."""

BEYOND_OPEN_END: Final = "a version begins or ends at the open end, or behind it"
"""Why a key is left unchanged whose versions cannot be shown."""

_CHANGED: Final = Position(1, 0, 0, 0)
_LOADED: Final = Position(1, LOAD_SEQUENCE, 0, 0)


def source_time(position: Position, sequences: Sequences) -> int | None:
    """Return the source time of a row of a mirror, in microseconds since 1970, or None where its position has none.

    Rows of a full load have none, nor have rows of a source whose sequences are not commit times.
    """
    is_time = sequences is Sequences.TIMES and position.sequence not in (0, LOAD_SEQUENCE)
    return position.sequence if is_time else None


def row_instant(history: History, source: Source, cells: Cells | None, time: int | None) -> int | None:
    """Return the instant from which a row of a mirror counts, in the unit of the joined history, or None.

    `cells` are those of the row, None if it was deleted; `time` is the source time of its last change, in
    microseconds since 1970. A row is dated by the validity column of its source, if that has one. An instant at
    which no version may begin, such as a "never" at the open end, is None.
    """
    validity = ByTime() if source.validity is None or cells is None else ByColumn(source.validity)
    if isinstance(validity, ByTime) and time is None:
        return None
    event = ChangeEvent(operation=Operation.UPDATE, position=_CHANGED, cells=cells or {}, time=time)
    instant = instant_of(event, replace(history, validity=validity), time or 0)
    least, most = valid_instant_range(history)
    return instant if instant is not None and least <= instant <= most else None


def change_instant(
    instant: int | None, history: History, ran: int, *, is_first: bool, is_dated: bool = True
) -> int | None:
    """Return the instant from which a joined row counts.

    `instant` is the greatest instant of its source rows and changes (None: unknown). The run `ran`, in microseconds
    since 1970, dates it by option, and where nothing dates it or not all of it (`is_dated`). Rows of the first
    batch of the table may begin at a given instant.
    """
    has_first_load = is_first and history.first_load is not None
    is_known = instant is not None and not has_first_load and not isinstance(history.validity, ByRun)
    if is_known and is_dated:
        return instant
    event = ChangeEvent(operation=Operation.READ, position=_LOADED if is_first else _CHANGED)
    run_instant = instant_of(event, history, ran)
    return run_instant if run_instant is None or instant is None or not is_known else max(run_instant, instant)


def open_end_violation(history: History, versions: Versions) -> str | None:
    """Return why versions cannot be shown, because one begins or ends at or after the open end; else None.

    The current version is shown to end at the open end. A version that ended there would look current as well, and
    one that began there would end where it begins. Sources without an open end, or with a later one, may have such
    instants.
    """
    columns, end = history.validity_columns, history.validity_columns.open_end
    for version in versions:
        if end is not None and max(version.valid_from, version.valid_to or version.valid_from) >= end:
            begins = text_of(value_of_instant(version.valid_from, columns.type), columns.type)
            return f"{BEYOND_OPEN_END} ({columns.valid_from} = {begins})"
    return None


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The part of a joined row that comes from a source: tracked columns and, with `is_required`, its existence.

    It includes the sources that are joined to that one, because it decides which of their rows are found.
    """

    columns: Columns
    is_required: bool

    @classmethod
    def of(cls, joining: JoinDefinition, name: str, columns: Columns) -> Self:
        """Return the part that comes from a source, limited to tracked columns of the joined table."""
        joined, names = joining.joined, [name]
        for other in joined.others:
            names += [other] if joined.parent(other) in names else []
        sources = [joined.sources[one] for one in names]
        own = {column for source in sources for column in (*source.columns, *source.aggregates)}
        tracked = tuple(column for column in columns.tracked if column in own)
        is_inner = any(joined.sources[one].way is JoinType.INNER for one in names)
        return cls(replace(columns, tracked=tracked), joined.driving in names or is_inner)

    def differs(self, last: Version, row: JoinedRow | None) -> bool:
        """Return True if a joined row has changed in this part since its last version."""
        if row is None or not last.is_current:
            return self.is_required and last.is_current == (row is None)
        return not self.columns.same(last.cells, row.cells)


def is_dated(plan: JoinPlan, columns: Columns, last: Version, row: JoinedRow | None, dates: ChangeDates) -> bool:
    """Return True if the sources date the whole change of a joined row, whose last stored version is `last`.

    They do not where the change comes from a source that does not date it and has no row there that does, nor where
    the table was declared differently before.
    """
    if plan.is_redeclared:
        return False
    joining = plan.joining
    undated = (
        name for name in plan.incomplete_sources | dates.undated if not _dates_itself(joining, name, last, row)
    )
    return not any(SourceColumns.of(joining, name, columns).differs(last, row) for name in undated)


def _dates_itself(joining: JoinDefinition, name: str, last: Version, row: JoinedRow | None) -> bool:
    """Return True if the row of a source dates its present state.

    Of several rows, another may have been removed later.
    """
    instant = None if row is None else row.instants.get(name)
    return instant is not None and (instant > last.reached or not joining.is_grouped(name))
