"""Finding what the last commit of ours says, whoever committed since; no Spark is needed."""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.hudi.metadata.columns import columns_of
from lakeward.adapters.formats.hudi.metadata.timeline import Timeline
from lakeward.core.dimension import TableName
from lakeward.core.operations.key_state import Made
from lakeward.core.ports import TableState
from lakeward.core.progress import Progress


def timeline_of(places: Places, name: TableName) -> Timeline:
    """Return the timeline of a table."""
    return Timeline(places.at(name))


def standing_of(places: Places, name: TableName) -> TableState:
    """Return a table as its last commit of ours left it."""
    timeline = timeline_of(places, name)
    schema = timeline.schema()
    if schema is None:
        return TableState(Progress(), None)
    columns = columns_of(schema, str(name))
    ours = timeline.newest_of_ours()
    if ours is None:
        return TableState(Progress(), columns)
    instant, progress = ours
    return TableState(progress, columns, instant.micros())


def commits_of(places: Places, name: TableName) -> Mapping[int, Made]:
    """Return when each batch that the timeline still has was committed, and at which instant."""
    found = [(instant.progress(), instant) for instant in timeline_of(places, name).instants()]
    return {
        progress.batch: Made(instant.micros(), instant.requested)
        for progress, instant in reversed(found)
        if progress is not None
    }
