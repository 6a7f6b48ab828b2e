"""The verdicts on a batch of whole rows, one a key: kept by Spark, or in this process where they are few."""

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
class Judged:
    """The verdicts on a batch, and each count of them, summed up.

    Where they are in this process, `places` says where the rows lie that go, as a row for each, and `entries` are
    what the companion is to remember, if that was asked for. Else they are `cached`.
    """

    frame: DataFrame
    sums: Mapping[str, int]
    entries: pa.Table | None = None
    places: pa.Table | None = None
    cached: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Free what is cached."""
        for frame in self.cached:
            frame.unpersist()


def judge(plan: MergePlan, passing: DataFrame, found: DataFrame | None, *, remembers_all: bool) -> Judged:
    """Return the verdicts on the events that pass, given what stands of their keys.

    `remembers_all` says that the companion is to remember the changes among them, and nothing else.
    """
    judged = verdicts(passing, found, plan, (FILE, POS))
    if has_few_rows(plan):
        return _in_arrow(plan, judged, passing if remembers_all and not is_ordered(plan) else None)
    judged = judged.persist()
    with freed_on_failure(judged.unpersist):
        return Judged(frame=judged, sums=sums_of(judged), cached=[judged])


def _in_arrow(plan: MergePlan, judged: DataFrame, passing: DataFrame | None) -> Judged:
    """Fetch the verdicts, and what is to be remembered of the events that pass, by one query."""
    columns, asked = judged.columns, judged
    if passing is not None:
        entries = entries_of(plan.dimension, changes_of(passing), EVENT, plan)
        asked = judged.unionByName(entries, allowMissingColumns=True)
    every = to_arrow(asked)
    is_verdict = pc.is_valid(every[ID])
    found = every.filter(is_verdict).select(columns)
    going = found.filter(pc.and_(found[IS_NEWS], pc.fill_null(found[IS_LIVE], False)))
    return Judged(
        frame=from_arrow(judged.sparkSession, found),
        sums=sums_in(found),
        entries=None if passing is None else every.filter(pc.invert(is_verdict)).select(entries.columns),
        places=going.select([FILE, POS]),
    )


def has_few_rows(plan: MergePlan) -> bool:
    """Return whether a batch has so few rows that what is found of their keys passes through this process."""
    size = sum(found.object.size for found in plan.facts.objects)
    return plan.facts.read <= MOST_IN_ARROW and size <= MOST_BYTES


def changes_of(passing: DataFrame) -> DataFrame:
    """Return the events that are remembered of those that pass; rows of a full load are in the table."""
    return passing.where(f"NOT {IS_LOAD}")


def is_ordered(plan: MergePlan) -> bool:
    """Return whether the table is `ordered`: it remembers deletes alone."""
    return isinstance(plan.dimension.lateness, Ordered)
