"""Tables without a key whose rows are found by their images: a bag of rows, some of which may be equal.

In position order an insert adds a row, a delete removes a row that is equal to its before image, and an update does
both. Of several equal rows the oldest by position is removed; a row that the same batch adds comes last. An image
has the columns that the event has. An image of which no cell, or not every cell, was sent is not used. An event
that finds no row changes nothing and holds nothing.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from lakeward.core.dimension import Dimension
from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Operation, Position, canonical, is_sent
from lakeward.core.merge.change_log import ChangeLogContents, Reason, Reject
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.delivery import Delivery, DeliveryResult, record_of, without_known_objects
from lakeward.core.merge.fold import Row
from lakeward.core.quarantine.repair import no_image

NOT_WHOLE: Final = "the row before the change was not sent whole"
NOT_THERE: Final = "no row of the table is equal to the row before the change"
NO_TRUNCATE: Final = "the table has no key"
"""These texts say why an event of such a table is in quarantine."""

_LEAVES: Final = (Operation.INSERT, Operation.READ, Operation.UPDATE)
_TAKES: Final = (Operation.UPDATE, Operation.DELETE)

_Equal: TypeAlias = defaultdict[tuple[Hashable, ...], deque[Key]]
"""The facts of rows by their values in some columns, oldest first. Some of the rows may have been removed since."""


def match(
    dimension: Dimension, rows: Mapping[Key, Row], memory: ChangeLogContents, delivery: Delivery
) -> DeliveryResult:
    """Return the result of a delivery for a table whose rows are found by their images.

    Raises RepairError for a repaired row that is not an insert: an operator cannot supply an image.
    """
    repaired = [resolution.repaired for resolution in delivery.resolutions if resolution.repaired is not None]
    for event in repaired:
        if event.operation in _TAKES:
            raise no_image(dimension, delivery.object_of(event.position), event.position.row)
    replaces = delivery.loaded is not None and delivery.loaded > memory.epoch
    events, rejects, copies = without_known_objects(memory, delivery)
    bag = _Bag(dimension.schema.names, {} if replaces else rows)
    refused = bag.play([*repaired, *events])
    counts = Counts(
        read=len(delivery.events) + len(delivery.rejects),
        duplicates=copies,
        quarantined=len(rejects) + len(refused),
        superseded=len(bag.superseded),
        applied=len(events) - len(refused) - len(bag.superseded),
    )
    return DeliveryResult(
        rows={**(dict.fromkeys(rows) if replaces else {}), **bag.changed},
        changes=[],
        bases=[],
        holds=[],
        closed={r.position: r.repaired for r in delivery.resolutions},
        rejects=[*rejects, *refused],
        record=record_of(delivery),
        counts=counts,
        epoch=delivery.loaded if replaces and delivery.loaded else memory.epoch,
        loaded=max(memory.loaded, delivery.loaded or 0),
        replaces=replaces,
    )


class _Bag:
    """The stored rows, oldest first, the rows that a batch changed, and those that it added and removed again."""

    def __init__(self, columns: Sequence[str], rows: Mapping[Key, Row]) -> None:
        self.columns = columns
        self.rows = {fact: rows[fact] for fact in sorted(rows, key=lambda fact: rows[fact].position)}
        self.changed: dict[Key, Row | None] = {}
        self.superseded: set[Position] = set()
        self.equal: dict[tuple[str, ...], _Equal] = {}

    def play(self, events: Sequence[ChangeEvent]) -> list[Reject]:
        """Apply events in position order; return as rejects those that cannot be applied."""
        refusals = ((event, self._refusal(event)) for event in sorted(events, key=lambda event: event.position))
        return [
            Reject(e.position, Reason.NO_KEY, time=e.time, detail=why) for e, why in refusals if why is not None
        ]

    def _refusal(self, event: ChangeEvent) -> str | None:
        """Apply an event, or return why it cannot be applied."""
        if event.operation is Operation.TRUNCATE:
            return NO_TRUNCATE
        if event.operation in _TAKES:
            if not is_whole(event):
                return NOT_WHOLE
            fact = self._oldest(event.before or {})
            if fact is None:
                return NOT_THERE
            self._take(fact)
        if event.operation in _LEAVES:
            values = {name: value for name, value in event.cells.items() if value is not UNSET}
            self._add(Row({name: values.get(name) for name in self.columns}, event.position))
        return None

    def _oldest(self, image: Mapping[str, Cell]) -> Key | None:
        """Return the fact of the oldest row that is equal to an image, or None."""
        columns = tuple(sorted(image))
        if columns not in self.equal:
            self.equal[columns] = _by_values(columns, self.rows)
        facts = self.equal[columns].get(_values(columns, image), deque())
        while facts and facts[0] not in self.rows:
            facts.popleft()
        return facts[0] if facts else None

    def _add(self, row: Row) -> None:
        fact = tuple(row.position)
        self.rows[fact] = self.changed[fact] = row
        for columns, equal in self.equal.items():
            equal[_values(columns, row.cells)].append(fact)

    def _take(self, fact: Key) -> None:
        row = self.rows.pop(fact)
        if self.changed.pop(fact, None) is None:
            self.changed[fact] = None
        else:
            self.superseded.add(row.position)


def is_whole(event: ChangeEvent) -> bool:
    """Return True if the before image of a change was sent completely, and of an update the after image as well."""
    images = [event.before, event.cells] if event.operation is Operation.UPDATE else [event.before]
    return all(image and is_sent(image) for image in images)


def _by_values(columns: Sequence[str], rows: Mapping[Key, Row]) -> _Equal:
    equal: _Equal = defaultdict(deque)
    for fact, row in rows.items():
        equal[_values(columns, row.cells)].append(fact)
    return equal


def _values(columns: Iterable[str], cells: Mapping[str, Cell]) -> tuple[Hashable, ...]:
    return tuple(canonical(cells.get(name)) for name in columns)
