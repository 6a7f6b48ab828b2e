"""Settle a delivery: compute the new rows, the change log entries and the counts.

Each phase is a module of `lakeward.core.merge.settling` and passes a value to the next: the table before the
delivery (`TableBefore`), the events of the delivery by their kind (`Arrivals`), the events that no hold stops
(`FilteredEvents`), and the new rows (`FoldedDelivery`). From these follow the verdict of each event and the entries
of the change log. `absorb` updates the change log with the result.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.core.dimension import Dimension, Ordered
from lakeward.core.events import Key
from lakeward.core.merge.change_log import ChangeLogContents, forget_applied_events, next_low_watermark
from lakeward.core.merge.delivery import Delivery, DeliveryResult, record_of
from lakeward.core.merge.fold import Row
from lakeward.core.merge.settling.arrivals import Arrivals, sort_delivery
from lakeward.core.merge.settling.change_log_entries import bases_to_remember, changes_to_remember
from lakeward.core.merge.settling.effective_times import date_delivery
from lakeward.core.merge.settling.folding import FoldedDelivery, fold
from lakeward.core.merge.settling.hold_filter import FilteredEvents, filter_by_holds
from lakeward.core.merge.settling.late_refusals import find_refusals, hold
from lakeward.core.merge.settling.log_regressions import find_regressions
from lakeward.core.merge.settling.table_before import TableBefore
from lakeward.core.merge.settling.verdicts import counts_of, find_verdicts, incomplete_rows


def settle(
    dimension: Dimension, rows: Mapping[Key, Row], memory: ChangeLogContents, delivery: Delivery
) -> DeliveryResult:
    """Return the effect of a delivery on a table with these stored rows and this change log."""
    dated = date_delivery(dimension, delivery)
    before = TableBefore.of(dimension, rows, memory, dated)
    arrived, passing, outcome = _fold_arrivals(before, sort_delivery(before, dated), dated)
    verdicts = find_verdicts(before, arrived, passing, outcome)
    closed = arrived.closed | dict.fromkeys(passing.overruled(arrived.holds))
    earlier = {*memory.holds, *closed}
    return DeliveryResult(
        rows={key: row for key, row in outcome.rows.items() if key not in outcome.broken},
        changes=changes_to_remember(before, arrived, passing, verdicts),
        bases=bases_to_remember(before, arrived, passing),
        holds=[new_hold for position, new_hold in arrived.holds.items() if position not in earlier],
        closed=closed,
        rejects=[*arrived.rejects, *incomplete_rows(before, passing, outcome)],
        record=record_of(delivery),
        counts=counts_of(before, arrived, passing, outcome, verdicts),
        epoch=before.epoch,
        loaded=max(memory.loaded, delivery.loaded or 0),
        replaces=before.replaces,
        log_regressions=find_regressions(before, dated),
    )


def _fold_arrivals(
    before: TableBefore, arrived: Arrivals, delivery: Delivery
) -> tuple[Arrivals, FilteredEvents, FoldedDelivery]:
    """Fold the events, and repeat without those that the fold shows cannot be applied, until none is left."""
    while True:
        passing = filter_by_holds(before, arrived)
        outcome = fold(before, passing)
        if not (rejects := find_refusals(passing, outcome)):
            return arrived, passing, outcome
        arrived = hold(before.dimension, arrived, rejects, delivery)


def absorb(dimension: Dimension, memory: ChangeLogContents, settled: DeliveryResult) -> ChangeLogContents:
    """Return the change log after the batch of this result. Its low watermark says how far to `trim`."""
    epoch = settled.epoch
    after = ChangeLogContents(
        epoch=epoch,
        loaded=settled.loaded,
        low_watermark=memory.low_watermark,
        records=[*memory.records, *([settled.record] if settled.record else [])],
        changes={p: c for p, c in memory.changes.items() if p.epoch >= epoch},
        bases={} if settled.replaces else dict(memory.bases),
        holds={p: h for p, h in memory.holds.items() if p.epoch >= epoch},
        closed={**memory.closed, **settled.closed},
        unsettled=[*memory.unsettled],
    )
    resolved = {*settled.closed, *(hold.position for hold in settled.holds)}
    after.changes = {p: change for p, change in after.changes.items() if p not in resolved}
    after.changes.update((change.event.position, change) for change in settled.changes)
    for base in settled.bases:
        after.bases.setdefault(base.key, base)
    after.holds.update((hold.position, hold) for hold in settled.holds)
    after.holds = {p: hold for p, hold in after.holds.items() if p not in settled.closed}
    if isinstance(dimension.lateness, Ordered):
        forget_applied_events(dimension, after, settled.rows)
    after.low_watermark = next_low_watermark(after, dimension.lateness)
    return after
