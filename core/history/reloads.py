"""What a complete full load makes of a history: rows that it does not hold end, all others go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Key, Position
from lakeward.core.fold import Row
from lakeward.core.history.versions import Step, closed
from lakeward.core.memory import Reject


def outlasting(
    rows: Mapping[Key, Row], epoch: int, load: Sequence[ChangeEvent | Reject], ran: int | None
) -> Mapping[Key, Row]:
    """Return the rows as they stand before the rows of a full load meet them.

    What the load does not hold ends at the greatest instant of its rows, or at that of the run (`ran`) if they
    have none, and lies in the order before them. A row that waits in quarantine is held by the load, too.
    """
    instants = [item.instant for item in load if isinstance(item, ChangeEvent) and item.instant is not None]
    step = Step(max(instants, default=ran), Position(epoch, LOAD_SEQUENCE, 0, 0))
    kept = _keys(load)
    return {key: row if key in kept or row.deleted else _ended(row, step) for key, row in rows.items()}


def _keys(load: Iterable[ChangeEvent | Reject]) -> set[Key]:
    return {key for item in load for key in item.keys}


def _ended(row: Row, step: Step) -> Row:
    return replace(row, cells={}, position=step.position, deleted=True, versions=closed(row.versions, step))
