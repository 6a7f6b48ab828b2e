"""The verdict of each event after the fold, and the counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from lakeward.core.dimension import Ties
from lakeward.core.events import ChangeEvent, Position, same_cells
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.counts import Counts, Verdict
from lakeward.core.merge.settling.arrivals import Arrivals
from lakeward.core.merge.settling.folding import FoldedDelivery
from lakeward.core.merge.settling.hold_filter import FilteredEvents
from lakeward.core.merge.settling.table_before import TableBefore

Verdicts: TypeAlias = Mapping[Position, Verdict]
"""The verdict of each new event of a delivery, by position. Copies, and events that waited before, have none."""


def find_verdicts(
    before: TableBefore, arrived: Arrivals, passing: FilteredEvents, outcome: FoldedDelivery
) -> Verdicts:
    """Return the verdicts, from what the rows show of the events that passed."""
    verdicts = dict(arrived.verdicts)
    used, incomplete = outcome.used, outcome.incomplete(passing.passed)
    for event in passing.passed:
        position = event.position
        if position not in verdicts:
            continue
        if position in incomplete:
            verdicts[position] = Verdict.QUARANTINED if before.is_ordered else Verdict.WAITING
        elif any(row.position == position for row in before.current_rows(event)):
            verdicts[position] = Verdict.DUPLICATE
        elif position in used or (not event.keys and position == passing.truncates.all[-1]):
            verdicts[position] = Verdict.APPLIED
        else:
            verdicts[position] = verdict_of_older(before, event)
    return verdicts


def verdict_of_older(before: TableBefore, event: ChangeEvent) -> Verdict:
    """Return `STALE` if something newer was stored before this delivery, else `SUPERSEDED`."""
    stored = [row.position for row in before.current_rows(event)]
    remembered = before.newest_remembered(event)
    earlier = stored if remembered is None else [*stored, remembered]
    return Verdict.STALE if any(position > event.position for position in earlier) else Verdict.SUPERSEDED


def is_newer_than_table(event: ChangeEvent, verdicts: Verdicts) -> bool:
    """Whether an event was newer than everything stored before this delivery."""
    return verdicts.get(event.position) in (Verdict.APPLIED, Verdict.SUPERSEDED)


def incomplete_rows(before: TableBefore, passing: FilteredEvents, outcome: FoldedDelivery) -> list[Reject]:
    """Return as rejects the events of an `ordered` table that found no row to complete: none can come any more."""
    incomplete = outcome.incomplete(passing.passed) if before.is_ordered else ()
    events = [event for event in passing.passed if event.position in incomplete]
    return [Reject(event.position, Reason.INCOMPLETE_ROW, event.keys, time=event.time) for event in events]


def counts_of(
    before: TableBefore, arrived: Arrivals, passing: FilteredEvents, outcome: FoldedDelivery, verdicts: Verdicts
) -> Counts:
    """Return the counts of verdicts, of released events, and of the figures that show gaps."""
    tally = Counter(verdicts.values())
    newer = {event.position for event in arrived.fresh if is_newer_than_table(event, verdicts)}
    waited = {event.position for event in passing.waited}
    held = [event for event in passing.waited if event.position in arrived.holds]
    in_order: Counter[str] = Counter()
    for folded in outcome.folds:
        for name in ("insert_on_existing", "update_on_missing", "unset_as_null"):
            in_order[name] += len(getattr(folded, name) & newer)
    return Counts(
        read=arrived.read,
        duplicates=arrived.duplicates + tally[Verdict.DUPLICATE],
        quarantined=tally[Verdict.QUARANTINED],
        waiting=tally[Verdict.WAITING],
        stale=tally[Verdict.STALE],
        superseded=tally[Verdict.SUPERSEDED],
        applied=tally[Verdict.APPLIED],
        released=sum(event.position in waited for event in [*passing.passed, *held]),
        ties=ties_of(before, [event for event in passing.passed if event.position in newer]),
        **in_order,
    )


def ties_of(before: TableBefore, events: Iterable[ChangeEvent]) -> int:
    """Return the number of events that only arrival puts in order: all but one of each tie.

    A tie is events of one key with equal epoch and sequence and different contents. A source without a sequence has
    none, nor have rows of a full load, nor has a table that holds or refuses ties. Where sequences are unique, the
    stored row is one of the tie as well.
    """
    groups: dict[Hashable, list[ChangeEvent]] = defaultdict(list)
    for event in events if before.dimension.ties is Ties.ARRIVAL else ():
        if event.keys and event.position.has_order:
            groups[event.position.source_order, event.keys].append(event)
    return sum(count_tied(before, group) for group in groups.values())


def count_tied(before: TableBefore, group: list[ChangeEvent]) -> int:
    """Return how many events of one place in the source's order follow another by arrival alone."""
    stored_rows = before.current_rows(group[0]) if before.dimension.unique_sequences else []
    if any(row.position.source_order == group[0].position.source_order for row in stored_rows):
        return len(group)
    return 0 if all(_are_alike(group[0], event) for event in group[1:]) else len(group) - 1


def _are_alike(event: ChangeEvent, other: ChangeEvent) -> bool:
    return event.operation is other.operation and same_cells(event.cells, other.cells)
