"""Full loads that are written while they are read, because they meet no rows of their table.

The plan of a batch depends on the facts of its rows. A full load that meets no row has the same plan whatever rows
it holds, as long as all of them can be applied; so have the later batches of a load that takes several. Such a
batch is planned from the facts that it is expected to have, and its rows are written by this plan to files that no
reader sees. The real facts are found on the way. The files are committed where the plan of the real facts is the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lakeward.core.dimension import Dimension
from lakeward.core.events import LOAD_SEQUENCE, Operation, Position, SourceOrder
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.pipeline.job import Discovery, Job
from lakeward.core.plan import MergePlan, plan
from lakeward.core.ports.frames import F
from lakeward.core.schema import Schema

LoadWriter: TypeAlias = Callable[[Schema, F], tuple[F, Callable[[], None]] | None]
"""Given the columns of a full load and its events, writes its rows as `core.ports.DirectLoads` does."""


def load_writer(job: Job[F], discovery: Discovery, epoch: int) -> LoadWriter[F] | None:
    """Return what writes the rows of a full load while they are read, or None where they may meet other rows."""
    loads, progress = job.opened.loads, discovery.state.progress
    if loads is None or not _has_source_rows_only(job.dimension):
        return None
    replaces = discovery.selection.load_epoch is not None and discovery.selection.load_epoch > progress.epoch
    if progress.batch and not (replaces or _is_loading(discovery)):
        return None
    return lambda schema, frame: loads.write_load(_expected_plan(job, discovery, epoch, schema), frame)


def _is_loading(discovery: Discovery) -> bool:
    """Return True if all rows of the epoch of the table are of a full load, and no key is held."""
    highest = discovery.state.progress.high_watermark
    is_of_load = highest is not None and highest.source_order == SourceOrder(
        discovery.state.progress.epoch, LOAD_SEQUENCE
    )
    return is_of_load and not discovery.change_log_state.holds


def _has_source_rows_only(dimension: Dimension) -> bool:
    """Return True if a table has the rows of its source by their keys and is the only table of that source."""
    return bool(dimension.key) and not dimension.keeps_ended and dimension.readers == 1


def _expected_plan(job: Job[F], discovery: Discovery, epoch: int, schema: Schema) -> MergePlan:
    """Return the plan of a load of which every row can be applied; raises as `plan` does."""
    position = Position(epoch, LOAD_SEQUENCE, 0, 0)
    loaded = discovery.selection.load_epoch
    facts = BatchFacts(
        schema=schema, operations={Operation.READ: 1}, least=position, greatest=position, loaded=loaded
    )
    return plan(
        job.dimension,
        facts,
        discovery.state.progress,
        stored=discovery.state.schema,
        capabilities=job.opened.table.capabilities,
        begun_at=0 if job.ledger_writer is None else job.ledger_writer.now(),
    )
