"""The change log entries of a delivery: its events, and the base row of each key."""

from __future__ import annotations

from dataclasses import replace

from lakeward.core.events import ChangeEvent, Operation
from lakeward.core.merge.change_log import BaseRow, Change
from lakeward.core.merge.counts import Verdict
from lakeward.core.merge.fold import as_fold_base
from lakeward.core.merge.settling.arrivals import Arrivals
from lakeward.core.merge.settling.hold_filter import FilteredEvents
from lakeward.core.merge.settling.table_before import TableBefore
from lakeward.core.merge.settling.verdicts import Verdicts, is_newer_than_table


def changes_to_remember(
    before: TableBefore, arrived: Arrivals, passing: FilteredEvents, verdicts: Verdicts
) -> list[Change]:
    """Return the applied and waiting events to remember. An `ordered` table remembers those that no row shows."""
    waiting = [Change(event, arrived.batch, waiting=True) for event in [*passing.waiting, *arrived.staged]]
    passed = [e for e in passing.passed if verdicts.get(e.position) is not Verdict.QUARANTINED]
    if before.is_ordered:
        released = {event.position for event in [*passing.waited, *arrived.repaired]}
        passed = [e for e in passed if e.position in released or leaves_no_row(e, verdicts)]
    return [*(Change(with_completeness(before, event), arrived.batch) for event in passed), *waiting]


def with_completeness(before: TableBefore, event: ChangeEvent) -> ChangeEvent:
    """Return an event to remember, which notes whether it sent all columns that the table has now."""
    return replace(event, was_whole=event.was_whole or not event.lacks(before.dimension.schema.names))


def leaves_no_row(event: ChangeEvent, verdicts: Verdicts) -> bool:
    """Return True if an event must be remembered because no row carries its position.

    A copy of a key change is recognised by it, even if the row has changed since: the rows that it moved and
    covered are no longer there.
    """
    if event.old_key is not None:
        return is_newer_than_table(event, verdicts)
    removes = event.operation in (Operation.DELETE, Operation.TRUNCATE)
    return removes and verdicts.get(event.position) is Verdict.APPLIED


def bases_to_remember(before: TableBefore, arrived: Arrivals, passing: FilteredEvents) -> list[BaseRow]:
    """Return the base row of each key that has none yet. A key whose versions break a rule gets none.

    Of a key with only waiting events the stored row serves as the base row. It is right once an operator has
    repaired it.
    """
    if before.is_ordered:
        return []
    keys = {key for event in passing.waiting for key in event.keys}
    if before.dimension.keeps_ended and not all(event.keys for event in passing.passed):
        keys |= {key for key, row in before.rows.items() if not row.deleted}  # which a truncate ends
    keys = {key for key in keys if before.violation(before.rows.get(key)) is None}
    rows = {key: before.rows.get(key) for key in (keys | passing.keys) - set(before.bases)}
    return [BaseRow(key, None if row is None else as_fold_base(row), arrived.batch) for key, row in rows.items()]
