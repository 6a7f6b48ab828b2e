"""The table before a delivery: its rows, and its change log of the epoch in which the delivery is settled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from lakeward.core.dimension import Dimension, Ordered
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Key, Operation, Position
from lakeward.core.history.reloads import rows_before_load
from lakeward.core.history.version_checks import violation
from lakeward.core.history.versions import Columns
from lakeward.core.merge.change_log import BaseRow, ChangeLogContents, Reject
from lakeward.core.merge.delivery import Delivery
from lakeward.core.merge.fold import Row, columns_of, deleted_row
from lakeward.core.merge.settling.effective_times import date_event
from lakeward.core.merge.settling.events_by_key import EventsByKey, newest_by_key


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBefore:
    """A table before a delivery.

    With `replaces` a complete full load replaces all rows: `ended` are the keys of the rows that it ends before its
    own rows are folded, and no base rows of earlier epochs are left. Of the events in the `memory`, which is the
    change log, `remembered` are the applied ones and `waited` the others. `newest` has for each key its greatest
    remembered position, `deletes` that of its newest delete.
    """

    dimension: Dimension
    memory: ChangeLogContents
    epoch: int
    replaces: bool
    rows: Mapping[Key, Row]
    ended: frozenset[Key]
    remembered: Sequence[ChangeEvent]
    waited: Sequence[ChangeEvent]
    remembered_by_key: EventsByKey
    newest: Mapping[Key, Position]
    deletes: Mapping[Key, Position]
    newest_truncate: Position | None
    bases: Mapping[Key, BaseRow]
    columns: Columns | None

    @classmethod
    def of(
        cls, dimension: Dimension, rows: Mapping[Key, Row], memory: ChangeLogContents, delivery: Delivery
    ) -> Self:
        """Return the table before a dated delivery, from its stored rows and its change log."""
        replaces = delivery.loaded is not None and delivery.loaded > memory.epoch
        epoch = delivery.loaded if replaces and delivery.loaded else memory.epoch
        remaining = _rows_after_load(dimension, rows, memory, delivery, epoch) if replaces else rows
        changes = [change for position, change in memory.changes.items() if position.epoch >= epoch]
        remembered = [change.event for change in changes if not change.waiting]
        return cls(
            dimension=dimension,
            memory=memory,
            epoch=epoch,
            replaces=replaces,
            rows=remaining,
            ended=frozenset(key for key, row in rows.items() if remaining.get(key) is not row),
            remembered=remembered,
            waited=[change.event for change in changes if change.waiting],
            remembered_by_key=EventsByKey.of(remembered),
            newest=newest_by_key((key, event.position) for event in remembered for key in event.keys),
            newest_truncate=max((event.position for event in remembered if not event.keys), default=None),
            deletes=newest_by_key((key, event.position) for event in remembered for key in _removed_keys(event)),
            bases={} if replaces else memory.bases,
            columns=columns_of(dimension),
        )

    @property
    def is_ordered(self) -> bool:
        """Whether the lateness is `ordered`, so that the table remembers deletes alone."""
        return isinstance(self.dimension.lateness, Ordered)

    @property
    def first_value_columns(self) -> Sequence[str]:
        """The columns that keep their first value. A row does not show what was sent for them later."""
        return () if self.columns is None else self.columns.first_values

    @property
    def high_watermark(self) -> Position | None:
        """The high watermark, None where a full load replaces everything."""
        return None if self.replaces else self.memory.high_watermark

    @property
    def truncates(self) -> Sequence[ChangeEvent]:
        """The remembered truncates."""
        return self.remembered_by_key.truncates

    def is_late(self, position: Position) -> bool:
        """Return True if a position is at or below the low watermark."""
        low_watermark = None if self.is_ordered else self.memory.low_watermark
        return (
            position.epoch == self.epoch
            and not self.replaces
            and low_watermark is not None
            and position.source_order <= low_watermark
        )

    def current_row(self, key: Key) -> Row | None:
        """Return the stored row of a key, the remembered delete where it is absent, or None.

        A key change deletes the key that it leaves.
        """
        if key in self.rows:
            return self.rows[key]
        deleted = self.deletes.get(key)
        return None if deleted is None else Row({}, deleted, deleted=True)

    def newest_remembered(self, event: ChangeEvent) -> Position | None:
        """Return the greatest remembered position of the event's keys, truncates included, or None."""
        positions = [self.newest_truncate, *(self.newest.get(key) for key in event.keys)]
        return max((position for position in positions if position is not None), default=None)

    def current_rows(self, event: ChangeEvent) -> list[Row]:
        """Return the stored rows or remembered deletes of the event's keys."""
        return [row for key in event.keys if (row := self.current_row(key)) is not None]

    def violation(self, row: Row | None) -> str | None:
        """Return the rule that the versions of a row break, in words, or None where they are right."""
        history = self.dimension.history
        if row is None or history is None or self.columns is None:
            return None
        broken = violation(self.columns, row.versions)
        return None if broken is None else broken.describe(history.validity_columns)


def _removed_keys(event: ChangeEvent) -> Sequence[Key]:
    """Return the keys on which an event leaves no row."""
    if event.operation is Operation.DELETE:
        return event.keys
    return () if event.old_key is None else (event.old_key,)


def _rows_after_load(
    dimension: Dimension, rows: Mapping[Key, Row], memory: ChangeLogContents, delivery: Delivery, epoch: int
) -> Mapping[Key, Row]:
    """Return the rows that a full load leaves before its own rows are folded: none, unless ended rows are kept."""
    history = dimension.history
    if history is None:
        position = Position(epoch, LOAD_SEQUENCE, 0, 0)  # before the rows of the load
        return {key: deleted_row(row, position) for key, row in rows.items()} if dimension.is_soft else {}
    load = [
        item
        for item in _events_and_rejects(dimension, memory, delivery)
        if item.position.epoch == epoch and item.position.sequence == LOAD_SEQUENCE
    ]
    return rows_before_load(
        rows, epoch, load, history, delivery.ran, own_times=delivery.own_times, is_first=delivery.is_first
    )


def _events_and_rejects(
    dimension: Dimension, memory: ChangeLogContents, delivery: Delivery
) -> Iterator[ChangeEvent | Reject]:
    """Yield all events and rejects of this delivery and of the change log."""
    yield from delivery.events
    for change in memory.changes.values():
        yield date_event(change.event, dimension.history, delivery)
    yield from delivery.rejects
    for hold in memory.holds.values():
        yield Reject(hold.position, hold.reason, hold.keys)
