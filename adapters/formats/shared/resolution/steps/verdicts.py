"""Verdicts on a batch of whole rows, one for each key: in Spark, or in this process for small batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.change_log.entries import EVENT
from lakeward.adapters.formats.shared.change_log.writer import entries_of
from lakeward.adapters.formats.shared.side_tables.side_table import MOST_BYTES, MOST_IN_ARROW
from lakeward.adapters.spark.execution.cached_frames import freed_on_failure
from lakeward.adapters.spark.frames.event_frame import IS_LOAD
from lakeward.adapters.spark.merge.resolution import FILE, ID, IS_LIVE, IS_NEWS, POS, sums_in, sums_of, verdicts
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.core.dimension import Ordered
from lakeward.core.plan import MergePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVerdicts:
    """The verdicts on a batch, and their counts.

    - `frame`: the verdicts.
    - `sums`: the counts by name.
    - `places`: file and row number of the rows to remove, if the verdicts are in this process.
    - `entries`: the change log entries of the batch, if they were asked for and are in this process.
    - `cached`: frames that `close` unpersists.
    """

    frame: DataFrame
    sums: Mapping[str, int]
    entries: pa.Table | None = None
    places: pa.Table | None = None
    cached: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Unpersist the cached frames."""
        for frame in self.cached:
            frame.unpersist()


def judge_events(
    plan: MergePlan, passing: DataFrame, stored: DataFrame | None, *, remembers_all: bool
) -> RowVerdicts:
    """Return the verdicts on the events that pass, given the stored rows of their keys.

    `remembers_all` says that the change log entries of the batch are these events alone.
    """
    verdict_frame = verdicts(passing, stored, plan, (FILE, POS))
    if has_few_rows(plan):
        return _in_arrow(plan, verdict_frame, passing if remembers_all and not is_ordered(plan) else None)
    verdict_frame = verdict_frame.persist()
    with freed_on_failure(verdict_frame.unpersist):
        return RowVerdicts(frame=verdict_frame, sums=sums_of(verdict_frame), cached=[verdict_frame])


def _in_arrow(plan: MergePlan, verdict_frame: DataFrame, passing: DataFrame | None) -> RowVerdicts:
    """Fetch the verdicts, and the change log entries of the events that pass, with one query."""
    columns, query = verdict_frame.columns, verdict_frame
    if passing is not None:
        entries = entries_of(plan.dimension, changes_of(passing), EVENT, plan)
        query = verdict_frame.unionByName(entries, allowMissingColumns=True)
    rows = to_arrow(query)
    is_verdict = pc.is_valid(rows[ID])
    verdict_rows = rows.filter(is_verdict).select(columns)
    removed = verdict_rows.filter(pc.and_(verdict_rows[IS_NEWS], pc.fill_null(verdict_rows[IS_LIVE], False)))
    return RowVerdicts(
        frame=from_arrow(verdict_frame.sparkSession, verdict_rows),
        sums=sums_in(verdict_rows),
        entries=None if passing is None else rows.filter(pc.invert(is_verdict)).select(entries.columns),
        places=removed.select([FILE, POS]),
    )


def has_few_rows(plan: MergePlan) -> bool:
    """Return whether a batch is small enough for its verdicts to be fetched into this process."""
    size = sum(item.object.size for item in plan.facts.objects)
    return plan.facts.read <= MOST_IN_ARROW and size <= MOST_BYTES


def changes_of(passing: DataFrame) -> DataFrame:
    """Return the events that the change log remembers: all but rows of a full load, which the table has."""
    return passing.where(f"NOT {IS_LOAD}")


def is_ordered(plan: MergePlan) -> bool:
    """Return whether the table is `ordered`, so that it remembers deletes only."""
    return isinstance(plan.dimension.lateness, Ordered)
