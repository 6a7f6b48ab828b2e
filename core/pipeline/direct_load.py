"""Full loads that are written as they are read, into tables whose rows they do not meet.

What a batch does is planned from what was found of it. A load that meets no row does the same whatever it holds, as
long as all of it can be applied; so does what is left of a load that takes several batches. So it is planned from
what it should be, and written by that plan to files that nobody sees; what is found of it is found there. They are
committed where the plan of what was found is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lakeward.core.dimension import Dimension
from lakeward.core.events import LOAD_SEQUENCE, Mark, Operation, Position
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.pipeline.job import Discovery, Job
from lakeward.core.plan import MergePlan, plan
from lakeward.core.ports.frames import F
from lakeward.core.schema import Schema

LoadWriter: TypeAlias = Callable[[Schema, F], tuple[F, Callable[[], None]] | None]
"""Given the columns of a full load and its events, writes its rows as `core.ports.DirectLoads` does."""


def load_writer(job: Job[F], seen: Discovery, epoch: int) -> LoadWriter[F] | None:
    """Return what writes the rows of a full load as they are read, None where they might meet other rows."""
    loads, progress = job.opened.loads, seen.standing.progress
    if loads is None or not _is_plain(job.dimension):
        return None
    replaces = seen.selection.load is not None and seen.selection.load > progress.epoch
    if progress.batch and not (replaces or _is_loading(seen)):
        return None
    return lambda schema, frame: loads.write_load(_expected(job, seen, epoch, schema), frame)


def _is_loading(seen: Discovery) -> bool:
    """Whether all that the table has of its epoch are rows of a full load, and no key is held."""
    reached = seen.standing.progress.high_water
    is_of_load = reached is not None and reached.mark == Mark(seen.standing.progress.epoch, LOAD_SEQUENCE)
    return is_of_load and not seen.change_log_state.holds


def _is_plain(dimension: Dimension) -> bool:
    """Whether a table has the rows of its source, each by its key, and is the only one that is made of it."""
    return bool(dimension.key) and not dimension.keeps_ended and dimension.readers == 1


def _expected(job: Job[F], seen: Discovery, epoch: int, schema: Schema) -> MergePlan:
    """Return the plan of a load of which all can be applied, whatever it holds; raises as `plan` does."""
    place = Position(epoch, LOAD_SEQUENCE, 0, 0)
    loaded = seen.selection.load
    facts = BatchFacts(schema=schema, operations={Operation.READ: 1}, least=place, greatest=place, loaded=loaded)
    return plan(
        job.dimension,
        facts,
        seen.standing.progress,
        stored=seen.standing.schema,
        capabilities=job.opened.table.capabilities,
        ran=0 if job.ledger_writer is None else job.ledger_writer.now(),
    )
