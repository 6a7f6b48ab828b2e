"""From when a joined row counts where its sources are mirrors, of which nothing else tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position, Sequences
from lakeward.core.history.instants import instant_of, valid_instant_range, value_of_instant
from lakeward.core.history.options import ByColumn, ByRun, ByTime, History
from lakeward.core.history.versions import Versions
from lakeward.core.joined.aggregates import Cells
from lakeward.core.joined.declared import Source
from lakeward.core.text.literals import text_of

BEGINNING: Final = 0
"""From when the row is valid that stands for whatever has none: 1970, or the number 0."""

BEYOND: Final = "a version begins or ends at the open end, or behind it"
"""Why a key is left whose versions cannot be shown."""

_CHANGED: Final = Position(1, 0, 0, 0)
_LOADED: Final = Position(1, LOAD_SEQUENCE, 0, 0)


def time_of(position: Position, sequences: Sequences) -> int | None:
    """Return the source time of a row of a mirror, in microseconds since 1970; None where its place tells none.

    A row that a full load brought has none, and no row of a source whose places are no commit times.
    """
    is_time = sequences is Sequences.TIMES and position.sequence not in (0, LOAD_SEQUENCE)
    return position.sequence if is_time else None


def of_row(history: History, source: Source, cells: Cells | None, time: int | None) -> int | None:
    """Return from when a row of a mirror counts, in the unit of the joined history; None where nothing tells.

    `cells` are those of the row, None of one that was deleted; `time` is the source time of its last change, in
    microseconds since 1970. A row is dated by the validity column of its source, if that has one. An instant from
    which no version may be valid, such as a "never" at the open end, tells nothing.
    """
    validity = ByTime() if source.validity is None or cells is None else ByColumn(source.validity)
    if isinstance(validity, ByTime) and time is None:
        return None
    event = ChangeEvent(operation=Operation.UPDATE, position=_CHANGED, cells=cells or {}, time=time)
    instant = instant_of(event, replace(history, validity=validity), time or 0)
    least, most = valid_instant_range(history)
    return instant if instant is not None and least <= instant <= most else None


def of_change(
    instant: int | None, history: History, ran: int, *, is_first: bool, is_dated: bool = True
) -> int | None:
    """Return from when a joined row counts; of its rows and changes the last counts from `instant` (None: unknown).

    The run that `ran` then, in microseconds since 1970, dates it by option, and where nothing else does: nothing at
    all, or not all of it (`is_dated`). What the first batch of the table brings may begin at a given instant.
    """
    is_given = is_first and history.first_load is not None
    is_known = instant is not None and not is_given and not isinstance(history.validity, ByRun)
    if is_known and is_dated:
        return instant
    event = ChangeEvent(operation=Operation.READ, position=_LOADED if is_first else _CHANGED)
    run = instant_of(event, history, ran)
    return run if run is None or instant is None or not is_known else max(run, instant)


def beyond(history: History, versions: Versions) -> str | None:
    """Return why versions cannot be shown: one begins or ends at the open end, or behind it; None where none does.

    The current version is shown to end there. What ended there would be current as well, and what began there
    would end where it begins. Sources without an open end, or with a later one, may have such instants.
    """
    form, end = history.shown, history.shown.open_end
    for one in versions:
        if end is not None and max(one.valid_from, one.valid_to or one.valid_from) >= end:
            return (
                f"{BEYOND} ({form.valid_from} = {text_of(value_of_instant(one.valid_from, form.type), form.type)})"
            )
    return None
