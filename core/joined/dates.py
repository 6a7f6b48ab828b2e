"""The instant from which a joined row counts where its sources are mirrors."""

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
    is_given = is_first and history.first_load is not None
    is_known = instant is not None and not is_given and not isinstance(history.validity, ByRun)
    if is_known and is_dated:
        return instant
    event = ChangeEvent(operation=Operation.READ, position=_LOADED if is_first else _CHANGED)
    run = instant_of(event, history, ran)
    return run if run is None or instant is None or not is_known else max(run, instant)


def open_end_violation(history: History, versions: Versions) -> str | None:
    """Return why versions cannot be shown, because one begins or ends at or after the open end; else None.

    The current version is shown to end at the open end. A version that ended there would look current as well, and
    one that began there would end where it begins. Sources without an open end, or with a later one, may have such
    instants.
    """
    form, end = history.shown, history.shown.open_end
    for one in versions:
        if end is not None and max(one.valid_from, one.valid_to or one.valid_from) >= end:
            begins = text_of(value_of_instant(one.valid_from, form.type), form.type)
            return f"{BEYOND_OPEN_END} ({form.valid_from} = {begins})"
    return None
