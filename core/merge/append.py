"""Tables without a key: each fact writes one row, and no row is ever changed.

An object that was delivered before has no new fact, so a batch never meets a stored row.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.core.dimension import Dimension
from lakeward.core.events import UNSET, ChangeEvent, Key, Operation
from lakeward.core.merge.change_log import ChangeLogContents, Reason, Reject
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.delivery import Delivery, DeliveryResult, record_of, without_known_objects
from lakeward.core.merge.fold import Row


def append(
    dimension: Dimension, rows: Mapping[Key, Row], memory: ChangeLogContents, delivery: Delivery
) -> DeliveryResult:
    """Return the result of a delivery for a table without a key: one row is written for each new fact."""
    repaired = [resolution.repaired for resolution in delivery.resolutions if resolution.repaired is not None]
    replaces = delivery.loaded is not None and delivery.loaded > memory.epoch
    written: dict[Key, Row | None] = dict.fromkeys(rows) if replaces else {}
    written |= {tuple(event.position): _row(dimension, event) for event in repaired}
    events, rejects, copies = without_known_objects(memory, delivery)
    partial = 0
    for event in events:
        if event.operation in (Operation.INSERT, Operation.READ):
            partial += event.lacks(dimension.schema.names)
            written[tuple(event.position)] = _row(dimension, event)
        else:
            rejects.append(Reject(event.position, Reason.NO_KEY, time=event.time))
    counts = Counts(
        read=len(delivery.events) + len(delivery.rejects),
        duplicates=copies,
        quarantined=len(rejects),
        applied=sum(row is not None for row in written.values()) - len(repaired),
        unset_as_null=partial,
    )
    return DeliveryResult(
        rows=written,
        changes=[],
        bases=[],
        holds=[],
        closed={r.position: r.repaired for r in delivery.resolutions},
        rejects=rejects,
        record=record_of(delivery),
        counts=counts,
        epoch=delivery.loaded if replaces and delivery.loaded else memory.epoch,
        loaded=max(memory.loaded, delivery.loaded or 0),
        replaces=replaces,
    )


def _row(dimension: Dimension, event: ChangeEvent) -> Row:
    values = {name: value for name, value in event.cells.items() if value is not UNSET}
    return Row({name: values.get(name) for name in dimension.schema.names}, event.position)
