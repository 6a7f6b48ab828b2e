"""What a complete full load makes of a history: rows that it does not hold end, all others go on."""

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
    """The instants at which rows may end that a full load lacks, the best one first.

    One is not behind what a key has reached if it is less, or (`is_strict`) as much.
    """

    instants: tuple[int, ...]
    is_strict: bool

    def after(self, reached: int) -> int | None:
        """Return the first that is behind what a key has reached, or None: then it ends there."""
        found = (at for at in self.instants if at > reached or (at == reached and not self.is_strict))
        return next(found, None)


def find_end_instants(
    history: History,
    newest: int | None,
    time: int | None,
    ran: int,
    *,
    own_times: bool = False,
    is_first: bool = False,
) -> EndInstants:
    """Return when rows end that a full load lacks: at the greatest instant of its rows, `newest`.

    What dates its rows need not tell when it was made: a column, or a source time that is one, may say of all of
    them what it said before. Where a key has reached that, it is the `time` of the load, or that of the run that
    takes it (`ran`), in microseconds since 1970. But where no column dates them, a load whose rows count from the
    very instant that a key has reached takes the place of one before: of several states at one instant the last
    counts. Where rows have `own_times`, a column dates them as well. The rows of one that `is_first` do not tell
    its time, either: a key may have reached that by one that was written anew when only epochs counted.
    """
    by_column, run = isinstance(history.validity, ByColumn), instant_of_run(history, ran)
    tells = (by_column or is_first) and run is not None
    told = instant_of_time(time, history) if time is not None and tells else None
    return EndInstants(tuple(at for at in (newest, told, run) if at is not None), is_strict=by_column or own_times)


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
    """Return the rows as they stand before the rows of a full load meet them, which a run takes that `ran` then.

    What the load does not hold ends (`find_end_instants`), and lies in the order before them. A row that waits in
    quarantine is held by the load, too.
    """
    events = [item for item in load if isinstance(item, ChangeEvent)]
    newest = max((event.instant for event in events if event.instant is not None), default=None)
    time = max((event.time for event in events if event.time is not None), default=None)
    ends = find_end_instants(history, newest, time, ran, own_times=own_times, is_first=is_first)
    place = Position(epoch, LOAD_SEQUENCE, 0, 0)
    kept = _keys(load)
    return {key: row if key in kept or row.deleted else _ended(row, ends, place) for key, row in rows.items()}


def _keys(load: Iterable[ChangeEvent | Reject]) -> set[Key]:
    return {key for item in load for key in item.keys}


def _ended(row: Row, ends: EndInstants, place: Position) -> Row:
    versions = apply_delete(row.versions, Step(ends.after(row.versions[-1].reached), place))
    return replace(row, cells={}, position=place, deleted=True, versions=versions)
