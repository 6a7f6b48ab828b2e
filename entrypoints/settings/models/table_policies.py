"""Policies of a table, as values of the core made from its settings."""

from __future__ import annotations

from lakeward.core.dimension import (
    Lateness,
    Older,
    Ordered,
    Snapshots,
    TableName,
    Tolerance,
    Unbounded,
    Unreadable,
    Within,
)
from lakeward.core.errors import ConfigError
from lakeward.core.history.options import History
from lakeward.core.schema_changes.evolution import Kind, Policies, Policy
from lakeward.core.text.durations import micros_of
from lakeward.entrypoints.settings.models.tables import QuarantineSettings, SchemaSettings, TableSettings


def lateness_of(table: TableSettings, default: Lateness) -> Lateness:
    """Return the lateness of a table; `default` is that of its source."""
    lateness = table.lateness
    if lateness == "unbounded":
        return Unbounded()
    if lateness == "ordered" or (lateness is None and isinstance(default, Ordered)):
        return Ordered(table.redelivery)
    return default if lateness is None else Within(micros_of(lateness))


def snapshots_of(name: TableName, table: TableSettings, history: History | None) -> Snapshots | None:
    """Return the snapshot options of a table; None if its full loads are not snapshots.

    Raises ConfigError if older snapshots are to be spliced into a table that does not support it.
    """
    if table.full_loads == "once":
        return None
    may_splice = history is not None and history.takes_snapshots_between and table.lateness in (None, "ordered")
    if table.older_snapshots == "splice" and not may_splice:
        raise ConfigError(
            f'{name}: `older_snapshots = "splice"` is for histories that are dated by the time of a snapshot',
            found="the table is a mirror"
            if history is None
            else 'its `validity` is not "time", columns are of kind 0 or 3, or its `lateness` is not "ordered"',
            todo='Set it to `skip` or `stop`, or leave it out; or keep it with `mode = "history"` and '
            '`validity = "time"`, without those kinds.',
        )
    default = Older.SPLICE if may_splice else Older.STOP
    return Snapshots(
        settles=micros_of(table.load_settles),
        least_share=table.least_share,
        older=default if table.older_snapshots is None else Older(table.older_snapshots),
    )


def tolerance_of(settings: QuarantineSettings) -> Tolerance:
    """Return how much of a batch may go into quarantine."""
    return Tolerance(
        max_share=settings.max_share,
        max_rows=settings.max_rows,
        unreadable=Unreadable(settings.unreadable),
    )


def policies_of(settings: SchemaSettings) -> Policies:
    """Return the policies for changes of the columns of the source."""
    return Policies(
        add=Policy(settings.add),
        drop=Policy(settings.drop),
        widen=Policy(settings.widen),
        narrow=Policy(settings.narrow),
        incompatible=Policy(settings.incompatible),
        paths={
            path: {Kind(kind): Policy(policy) for kind, policy in own.model_dump(exclude_none=True).items()}
            for path, own in settings.columns.items()
        },
        renames=settings.rename,
    )
