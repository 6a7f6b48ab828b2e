"""Full loads in a history: versions of rows that a complete load does not hold end, all others continue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Key, Position
from lakeward.core.history.instants import instant_of_run, instant_of_time
from lakeward.core.history.options import ByColumn, History
from lakeward.core.history.versions import Step, apply_delete
from lakeward.core.merge.change_log import Reject
from lakeward.core.merge.fold import Row


@dataclass(frozen=True, slots=True)
class EndInstants:
    """The instants at which rows missing from a full load may end, the preferred one first.

    A key ends at the first instant that is later than the last one it has reached or, unless `is_strict`, equal to
    it.
    """

    instants: tuple[int, ...]
    is_strict: bool

    def after(self, reached: int) -> int | None:
        """Return the first usable instant for a key that has reached this one, or None: then the key ends there."""
        usable = (at for at in self.instants if at > reached or (at == reached and not self.is_strict))
        return next(usable, None)


def find_end_instants(
    history: History,
    newest: int | None,
    time: int | None,
    ran: int,
    *,
    own_times: bool = False,
    is_first: bool = False,
) -> EndInstants:
    """Return the instants at which rows missing from a full load end, first that of its newest row.

    Where a column dates the rows, or their source times come from one (`own_times`), that instant need not tell
    when the load was made: all rows may have the dates they had before. Where a key has already reached it, the row
    ends at the `time` of the load or at `ran`, the start of the run, both in microseconds since 1970. Without such
    a column, a load whose rows count from the very instant that a key has reached replaces an earlier load: of
    several states at one instant the last counts. The rows of a load that `is_first` do not tell its time either: a
    key may have reached that instant by a load that was written again when only epochs counted.
    """
    by_column, run = isinstance(history.validity, ByColumn), instant_of_run(history, ran)
    uses_time = (by_column or is_first) and run is not None
    load_instant = instant_of_time(time, history) if time is not None and uses_time else None
    return EndInstants(
        tuple(at for at in (newest, load_instant, run) if at is not None), is_strict=by_column or own_times
    )


def rows_before_load(
    rows: Mapping[Key, Row],
    epoch: int,
    load: Sequence[ChangeEvent | Reject],
    history: History,
    ran: int,
    *,
    own_times: bool = False,
    is_first: bool = False,
) -> Mapping[Key, Row]:
    """Return the rows before those of a full load are folded.

    Rows that the load does not hold end (`find_end_instants`), at a position before all rows of the load. A row of
    the load that waits in quarantine counts as held by it. `ran` is the start of the run, in microseconds since
    1970.
    """
    events = [item for item in load if isinstance(item, ChangeEvent)]
    newest = max((event.instant for event in events if event.instant is not None), default=None)
    time = max((event.time for event in events if event.time is not None), default=None)
    ends = find_end_instants(history, newest, time, ran, own_times=own_times, is_first=is_first)
    place = Position(epoch, LOAD_SEQUENCE, 0, 0)
    loaded_keys = _keys(load)
    return {
        key: row if key in loaded_keys or row.deleted else _end_row(row, ends, place) for key, row in rows.items()
    }


def _keys(load: Iterable[ChangeEvent | Reject]) -> set[Key]:
    return {key for item in load for key in item.keys}


def _end_row(row: Row, ends: EndInstants, place: Position) -> Row:
    versions = apply_delete(row.versions, Step(ends.after(row.versions[-1].reached), place))
    return replace(row, cells={}, position=place, deleted=True, versions=versions)
