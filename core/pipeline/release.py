"""Batches of quarantined rows: an operator repairs rows, and releases or discards them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from lakeward.core.checks.event_order import refuse_other_order
from lakeward.core.checks.key_form import refuse_other_key_form
from lakeward.core.dimension import Dimension
from lakeward.core.errors import RepairError
from lakeward.core.pipeline.apply import apply_prepared
from lakeward.core.pipeline.discovery import dimension_as_stored, read_change_log
from lakeward.core.pipeline.job import (
    BatchInput,
    Job,
    PreparedBatch,
    Report,
    Settlement,
    StepObserver,
    no_observer,
)
from lakeward.core.pipeline.preparation import plan_and_resolve
from lakeward.core.ports import ChangeLogState, Entry, TableState
from lakeward.core.quarantine.repair import check_every
from lakeward.core.quarantine.replay import columns_with, is_as_written, is_readable_again, not_as_written

F = TypeVar("F")


def repair_row(job: Job[F], entries: Sequence[Entry]) -> None:
    """Write repaired rows into the quarantine; `release` applies them.

    It is one write to the quarantine. The table does not change, and the keys stay held. Raises RepairError, before
    anything is written, where a row does not fit the table, and what `job.check` raises.
    """
    state = job.opened.table.state()
    dimension = dimension_as_stored(job, state)
    check_every(job.source.written(dimension), entries)
    events = job.source.repair_row(dimension, entries)
    job.check()
    job.opened.quarantine.repair_row(state.progress, entries, events)


def release(job: Job[F], settled: Settlement, observe: StepObserver = no_observer) -> Report:
    """Apply repaired entries of the quarantine, discard others, and apply what waited behind them, in order."""
    return apply_prepared(job, lambda: prepare_release(job, settled, observe), observe)


def prepare_release(job: Job[F], settled: Settlement, observe: StepObserver = no_observer) -> PreparedBatch[F]:
    """Prepare the batch that settles these entries of the quarantine.

    Raises SchemaConflict where the settings give repaired rows another order, or other keys, than the rows of the
    table have.
    """
    with observe("read_table"):
        state = job.opened.table.state()
    with observe("read_change_log"):
        change_log_state = read_change_log(job, state.progress)
    if settled.repaired:
        order_by, key_form = job.source.order_by(job.dimension), job.source.key_form(job.dimension)
        refuse_other_order(job.dimension, state.schema, state.progress, order_by)
        refuse_other_key_form(job.dimension, state.progress, key_form)
    with observe("read"):
        dimension = _dimension_after_replay(job, state, change_log_state, settled.repaired)
        repaired = job.source.repair_row(dimension, settled.repaired) if settled.repaired else None
        batch = job.opened.quarantine.read_replay(state.progress, settled.entries, repaired)
        if settled.repaired:
            batch = replace(batch, facts=replace(batch.facts, schema=dimension.schema))
        recomputed = job.source.recomputed(dimension, batch.facts.needs)
        batch = replace(batch, facts=replace(batch.facts, recomputed=recomputed))
    batch_input = BatchInput(state=state, change_log_state=change_log_state, batch=batch, settled=settled)
    return plan_and_resolve(job, batch_input, observe)


def find_replayable(job: Job[F], entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries that can be replayed: repaired rows, and rows whose change the table may follow now.

    Raises RepairError where no entry can, and some entry has a change that the table may not follow.
    """
    state = job.opened.table.state()
    change_log_state = job.opened.change_log.read_state(state.progress)
    replayable, refusal = [], None
    for entry in entries:
        if entry.repaired is not None:
            replayable.append(entry)
        elif is_as_written(entry):
            try:
                _dimension_after_replay(job, state, change_log_state, [entry])
                replayable.append(entry)
            except RepairError as error:
                refusal = refusal or error
    if refusal is not None and not replayable:
        raise refusal
    return replayable


def find_readable(job: Job[F], entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the rows that nobody repaired and whose source text can be read with the settings of now."""
    state = job.opened.table.state()
    change_log_state = job.opened.change_log.read_state(state.progress)
    dimension = dimension_as_stored(job, state)
    readable = [entry for entry in entries if is_readable_again(dimension, entry)]
    if not readable or job.source.written(dimension) != dimension:
        return []
    dimension = _dimension_after_replay(job, state, change_log_state, readable)
    while readable:
        try:
            job.source.repair_row(dimension, readable)
        except RepairError as error:
            count = len(readable)
            readable = [entry for entry in readable if (entry.order, entry.row) not in error.rows]
            if len(readable) == count:
                return []  # the error is of no single row, so to leave out rows does not help
        else:
            break
    return readable


def _dimension_after_replay(
    job: Job[F], state: TableState, change_log_state: ChangeLogState, entries: Sequence[Entry]
) -> Dimension:
    """Return the dimension with the columns that the table has once these entries are replayed.

    Raises RepairError for an entry that cannot be replayed: the columns of the table may have changed since its
    repair.
    """
    stored = dimension_as_stored(job, state)
    dimension = replace(
        stored, schema=columns_with(job.dimension, stored.schema, entries, change_log_state.quarantined_changes)
    )
    unrepaired = [entry for entry in entries if entry.repaired is None]
    if unrepaired and job.source.written(stored) != stored:
        raise not_as_written(dimension, unrepaired[0], "rules make its columns")
    check_every(job.source.written(dimension), [entry for entry in entries if entry.repaired is not None])
    return dimension
