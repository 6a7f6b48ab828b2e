"""A batch with one truncate that an operator asks for and the source did not write."""

from __future__ import annotations

from typing import TypeVar

from lakeward.core.events import Operation, Position
from lakeward.core.merge.facts import PARTIAL, BatchFacts, Capability
from lakeward.core.pipeline.apply import apply_prepared
from lakeward.core.pipeline.discovery import dimension_as_stored
from lakeward.core.pipeline.job import BatchInput, Job, PreparedBatch, Report, StepObserver, no_observer
from lakeward.core.pipeline.preparation import plan_and_resolve
from lakeward.core.ports import Batch

F = TypeVar("F")


def truncate(
    job: Job[F], position: Position, observe: StepObserver = no_observer, *, time: int | None = None
) -> Report:
    """Remove every row below a position in one batch; return its report.

    In a history the versions end at `time`, in microseconds since 1970, or at the time of the run where that is
    None. The low watermark does not move: the truncate is not from the source.
    """

    def prepare() -> PreparedBatch[F]:
        state = job.opened.table.state()
        change_log_state = job.opened.change_log.read_state(state.progress)
        dimension = dimension_as_stored(job, state)
        facts = BatchFacts(
            schema=dimension.schema,
            operations={Operation.TRUNCATE: 1},
            least=position,
            greatest=position,
            needs=frozenset({Capability.TRUNCATE}),
            may_need=PARTIAL if change_log_state.has_partial_events else frozenset(),
            truncates=(position,),
        )
        batch = Batch(job.source.truncation(dimension, position, time), facts)
        batch_input = BatchInput(state=state, change_log_state=change_log_state, batch=batch)
        return plan_and_resolve(job, batch_input, observe)

    return apply_prepared(job, prepare, observe)
