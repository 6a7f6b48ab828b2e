"""The progress in the last commit of ours, also if others have committed since, without Spark."""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.hudi.metadata.columns import columns_of
from lakeward.adapters.formats.hudi.metadata.timeline import Timeline
from lakeward.core.dimension import TableName
from lakeward.core.operations.key_state import BatchCommit
from lakeward.core.ports import TableState
from lakeward.core.progress import Progress


def timeline_of(places: Places, name: TableName) -> Timeline:
    """Return the timeline of a table."""
    return Timeline(places.at(name))


def read_table_state(places: Places, name: TableName) -> TableState:
    """Return the table state as of the last commit of ours."""
    timeline = timeline_of(places, name)
    schema = timeline.schema()
    if schema is None:
        return TableState(Progress(), None)
    columns = columns_of(schema, str(name))
    last_commit = timeline.newest_with_progress()
    if last_commit is None:
        return TableState(Progress(), columns)
    instant, progress = last_commit
    return TableState(progress, columns, instant.micros())


def commits_of(places: Places, name: TableName) -> Mapping[int, BatchCommit]:
    """Return time and instant of the commit of each batch that the timeline still has."""
    commits = [(instant.progress(), instant) for instant in timeline_of(places, name).instants()]
    return {
        progress.batch: BatchCommit(instant.micros(), instant.requested)
        for progress, instant in reversed(commits)
        if progress is not None
    }
