"""Fold the events that no hold stops: over the stored rows, or from the change log where those do not suffice.

The usual event is newer than the row it meets, so a batch is folded over the stored rows. The change log is read
only for *slow* keys: those with an event that is not newer, absent keys whose event is not above the high
watermark, held keys, keys joined by key changes and, under a late truncate, all remembered keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.history.versions import splice_versions
from lakeward.core.merge.fold import FoldResult, Row, apply, as_fold_base
from lakeward.core.merge.key_chains import chains
from lakeward.core.merge.settling.events_by_key import EventsByKey
from lakeward.core.merge.settling.hold_filter import FilteredEvents
from lakeward.core.merge.settling.table_before import TableBefore

Links: TypeAlias = Mapping[Key, set[Key]]
"""For each key those that one key change joins to it."""


@dataclass(frozen=True, slots=True)
class FoldedDelivery:
    """The new row of each touched key, or None where it is removed, and the fold of each chain of keys.

    `broken` are the keys whose versions break a rule, with the rule in words.
    """

    rows: Mapping[Key, Row | None]
    folds: Sequence[FoldResult]
    broken: Mapping[Key, str]

    def incomplete(self, events: Iterable[ChangeEvent]) -> set[Position]:
        """Return the positions of those events that found no row to complete."""
        if not any(folded.incomplete for folded in self.folds):
            return set()
        by_position = {event.position: event for event in events}
        return {
            position
            for folded in self.folds
            for position in folded.incomplete & by_position.keys()
            if folded.is_waiting(by_position[position])
        }

    @property
    def used(self) -> set[Position]:
        """The positions of the events that the rows still show."""
        return {position for folded in self.folds for position in folded.used}


@dataclass(frozen=True, slots=True)
class _Chain:
    """Keys that are folded together, with the rows to start from and their remembered events."""

    keys: set[Key]
    rows: Mapping[Key, Row]
    remembered: Sequence[ChangeEvent]


def fold(before: TableBefore, passing: FilteredEvents) -> FoldedDelivery:
    """Fold the admitted events over the rows, chain by chain."""
    rows = {key: none_if_bare(before.rows.get(key)) for key in before.ended}
    folds = []
    passed = EventsByKey.of(passing.passed)
    for chain in chains_to_fold(before, passing):
        folded = apply(before.dimension, chain.rows, [*chain.remembered, *passed.of_keys(chain.keys)])
        folds.append(folded)
        for key in chain.keys:
            rows[key] = none_if_bare(with_all_versions(before, key, chain.rows.get(key), folded.rows.get(key)))
    broken = {key: rule for key, row in rows.items() if (rule := before.violation(row)) is not None}
    return FoldedDelivery(rows, folds, broken)


def chains_to_fold(before: TableBefore, passing: FilteredEvents) -> Iterator[_Chain]:
    """Yield the chains of touched keys: slow ones from their base rows on, the others from the stored rows."""
    links = link_keys(before, passing)
    slow = slow_keys(before, passing, links)
    for keys in chains(slow, links):
        yield _Chain(keys, rows_before_remembered(before, keys), before.remembered_by_key.of_keys(keys))
    truncates = before.truncates
    for keys in chains(touched_keys(before, passing) - slow, links):
        stored_rows = {key: as_fold_base(row) for key in keys if (row := before.current_row(key)) is not None}
        yield _Chain(keys, stored_rows, truncates)


def touched_keys(before: TableBefore, passing: FilteredEvents) -> set[Key]:
    """Return the keys of the admitted events. A truncate touches all rows."""
    if any(event.operation is Operation.TRUNCATE for event in passing.passed):
        return passing.keys | set(before.rows)
    return passing.keys


def link_keys(before: TableBefore, passing: FilteredEvents) -> Links:
    """Return the links of all key changes, remembered or admitted."""
    links: dict[Key, set[Key]] = defaultdict(set)
    for event in [*before.remembered, *passing.passed]:
        if event.old_key is not None:
            links[event.key].add(event.old_key)
            links[event.old_key].add(event.key)
    return links


def slow_keys(before: TableBefore, passing: FilteredEvents, links: Links) -> set[Key]:
    """Return the touched keys whose state must be computed from the change log."""
    if before.is_ordered:
        return set()
    high_watermark = before.high_watermark
    unsettled = {event.position for event in passing.waited}
    truncates = [event for event in passing.passed if not event.keys]
    is_late = any(high_watermark is not None and event.position <= high_watermark for event in truncates)
    slow = remembered_keys(before) if is_late else set[Key]()
    for event in passing.passed:
        for key in event.keys:
            is_joined = key in links or event.position in unsettled
            if is_joined or not is_newest(event, before.rows.get(key), high_watermark):
                slow.add(key)
    return {key for chain in chains(slow, links) for key in chain}


def is_newest(event: ChangeEvent, row: Row | None, high_watermark: Position | None) -> bool:
    """Whether an event is newer than the stored row of its key or, without a row, than the high watermark."""
    if row is None or row.deleted:
        return high_watermark is None or event.position.source_order > high_watermark.source_order
    return event.position > row.position


def remembered_keys(before: TableBefore) -> set[Key]:
    """Return the keys of all remembered and waiting events."""
    events = [*before.remembered, *before.waited]
    return {key for event in events for key in event.keys} | set(before.bases)


def rows_before_remembered(before: TableBefore, keys: Iterable[Key]) -> dict[Key, Row]:
    """Return the rows of these keys before all their remembered events."""
    rows = {key: before.bases[key].row if key in before.bases else before.rows.get(key) for key in keys}
    return {key: as_fold_base(row) for key, row in rows.items() if row is not None}


def with_all_versions(before: TableBefore, key: Key, base: Row | None, row: Row | None) -> Row | None:
    """Return a row with all versions of its key. A fold returns only those from its base row on."""
    if row is None or before.columns is None or key not in before.rows:
        return row
    versions = () if base is None else base.versions
    return replace(row, versions=splice_versions(before.rows[key].versions, versions, row.versions))


def none_if_bare(row: Row | None) -> Row | None:
    """Return a row, or None where only the record of its delete is left."""
    return None if row is None or row.is_bare else row
