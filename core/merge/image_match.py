"""Tables without a key whose rows are found by their images: a bag of rows, of which some may be equal.

In the order of positions an insert adds a row, a delete takes away one that is equal to its image before, and
an update does both. It is the oldest of those, by position; one that the same batch adds comes last. An image
has the columns that the event has; one of which no cell was sent, or not all, is no image. What finds no row
changes nothing, and holds nothing.
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
"""Why an event of such a table is in quarantine."""

_LEAVES: Final = (Operation.INSERT, Operation.READ, Operation.UPDATE)
_TAKES: Final = (Operation.UPDATE, Operation.DELETE)

_Equal: TypeAlias = defaultdict[tuple[Hashable, ...], deque[Key]]
"""The facts of rows by what they have in some columns, the oldest first; some of them may have gone since."""


def match(
    dimension: Dimension, rows: Mapping[Key, Row], memory: ChangeLogContents, delivery: Delivery
) -> DeliveryResult:
    """Work out what `delivery` does to a table whose rows are found by their images.

    Raises MendError for a mended row that is no insert: a person tells no image.
    """
    repaired = [resolution.repaired for resolution in delivery.resolutions if resolution.repaired is not None]
    for event in repaired:
        if event.operation in _TAKES:
            raise no_image(dimension, delivery.object_of(event.position), event.position.row)
    replaces = delivery.loaded is not None and delivery.loaded > memory.epoch
    new, rejects, copies = without_known_objects(memory, delivery)
    bag = _Bag(dimension.schema.names, {} if replaces else rows)
    refused = bag.play([*repaired, *new])
    counts = Counts(
        read=len(delivery.events) + len(delivery.rejects),
        duplicates=copies,
        quarantined=len(rejects) + len(refused),
        superseded=len(bag.superseded),
        applied=len(new) - len(refused) - len(bag.superseded),
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
    """The rows that stand, the oldest first; what of them has `changed`, and what a batch adds and takes again."""

    def __init__(self, columns: Sequence[str], rows: Mapping[Key, Row]) -> None:
        self.columns = columns
        self.rows = {fact: rows[fact] for fact in sorted(rows, key=lambda fact: rows[fact].position)}
        self.changed: dict[Key, Row | None] = {}
        self.superseded: set[Position] = set()
        self.equal: dict[tuple[str, ...], _Equal] = {}

    def play(self, events: Sequence[ChangeEvent]) -> list[Reject]:
        """Let events happen, in the order of their positions; return those that cannot."""
        played = ((event, self._refusal(event)) for event in sorted(events, key=lambda event: event.position))
        return [Reject(e.position, Reason.NO_KEY, time=e.time, detail=why) for e, why in played if why is not None]

    def _refusal(self, event: ChangeEvent) -> str | None:
        """Let an event happen, or return why it cannot."""
        if event.operation is Operation.TRUNCATE:
            return NO_TRUNCATE
        if event.operation in _TAKES:
            if not is_whole(event):
                return NOT_WHOLE
            found = self._oldest(event.before or {})
            if found is None:
                return NOT_THERE
            self._take(found)
        if event.operation in _LEAVES:
            sent = {name: value for name, value in event.cells.items() if value is not UNSET}
            self._add(Row({name: sent.get(name) for name in self.columns}, event.position))
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
    """Tell whether the row before a change was sent whole, and the row after an update, too."""
    images = [event.before, event.cells] if event.operation is Operation.UPDATE else [event.before]
    return all(image and is_sent(image) for image in images)


def _by_values(columns: Sequence[str], rows: Mapping[Key, Row]) -> _Equal:
    equal: _Equal = defaultdict(deque)
    for fact, row in rows.items():
        equal[_values(columns, row.cells)].append(fact)
    return equal


def _values(columns: Iterable[str], cells: Mapping[str, Cell]) -> tuple[Hashable, ...]:
    return tuple(canonical(cells.get(name)) for name in columns)
