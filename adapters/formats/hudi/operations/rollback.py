"""The instants that the state of a Hudi table comes from, and a rollback to one of them.

A rollback is an instant of its own, which replaces all rows by the earlier ones and carries the earlier progress.
(Hudi's own restore removes instants one by one, and readers see the table in between.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.hudi.metadata.columns import META_COLUMNS
from lakeward.adapters.formats.hudi.metadata.progress import timeline_of
from lakeward.adapters.formats.hudi.metadata.timeline import RESTORED, Instant
from lakeward.adapters.formats.hudi.session import reader
from lakeward.adapters.formats.hudi.writes import write_options
from lakeward.adapters.formats.hudi.writes.change import RestoreChange
from lakeward.adapters.formats.shared.operations.commit_failures import discarding_on_failure, table_changed
from lakeward.adapters.formats.shared.operations.rollback import states_of
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError
from lakeward.core.ports import Version

if TYPE_CHECKING:
    from lakeward.adapters.formats.hudi.table import HudiTable

_EARLIER_TYPES: Final = {
    # Columns that became wider since would stay as they are: Hudi promotes what is written to what the table has.
    "hoodie.internal.write.schema.canonicalize": "false",
}


@dataclass(frozen=True)
class HudiLineage:
    """The writes that the state of a table comes from, without archived ones, newest first."""

    table: HudiTable
    instants: Sequence[Instant]
    readable_from: str

    @classmethod
    def of(cls, table: HudiTable) -> HudiLineage | None:
        """Return the lineage of a table as of now, or None if it does not exist."""
        timeline = table.timeline
        instants = list(lineage_of(timeline.active()))
        return cls(table, instants, timeline.readable_from()) if instants else None

    @cached_property
    def batch(self) -> int:
        """The batch that the table is at."""
        last_commit = self.table.timeline.newest_with_progress()
        return 0 if last_commit is None else last_commit[1].batch

    def versions(self) -> Sequence[Version]:
        """Return our commits whose files all exist, newest first.

        A rollback and the commit that it went back to are one, if the latter is complete.
        """
        return list(
            {
                version.progress.batch: version for version in _readable_versions(self.instants, self.readable_from)
            }.values()
        )

    def commits(self) -> Sequence[Version]:
        """Return our commits, newest first; if all are archived, only the newest one."""
        active = {version.progress.batch: version for version in _versions(self.instants)}
        if active:
            return list(active.values())
        last_commit = self.table.timeline.newest_with_progress()
        return [] if last_commit is None else list(_versions([last_commit[0]]))

    def commit_showing(self, batch: int) -> str | None:
        """Return an instant with the rows of a batch whose files all exist: ours, or a later one of others."""
        instants = sorted(self.instants, key=lambda instant: instant.requested, reverse=True)
        states = states_of(batch, ((instant.requested, instant.progress()) for instant in instants))
        readable_from = min(self.readable_from, instants[0].requested)
        return next((name for name in states if name >= readable_from), None)

    def find(self, name: str) -> Version | None:
        """Return a write with the progress of our last commit up to it, or None."""
        if name not in {instant.requested for instant in self.instants}:
            return None
        newest_first = sorted(self.instants, key=lambda instant: instant.requested, reverse=True)
        return next(
            (replace(version, name=name) for version in _versions(newest_first) if version.name <= name), None
        )

    def is_at(self, name: str) -> bool:
        """Return whether the current state is that of a write. A compaction may complete after a later write."""
        newest = max(self.instants, key=lambda instant: instant.requested)
        return name in {newest.requested, newest.extra_metadata().get(RESTORED)}

    def check(self, name: str) -> None:
        """Raise TableError if files of the commit may be gone."""
        if name < self.readable_from:
            raise TableError(
                f"{self.table.dimension.name} cannot be rolled back to {name}",
                found=f"Hudi has removed files that were needed before {self.readable_from}",
                todo=f"Nothing was changed. `lakeward rollback {self.table.dimension.name}` lists the commits that "
                "are whole; `hoodie.clean.commits.retained` under `properties` says how many stay.",
            )

    def go_back(self, version: Version) -> None:
        """Write the rows, columns and progress of an earlier commit as a new instant."""
        table = self.table
        with table.committing(), table.alone():
            if table.timeline.newest() != self.instants[0]:
                raise table_changed(str(table.dimension.name))
            earlier_rows = reader(table.spark(), version.name).load(table.path)
            rows = write_options.nullable(earlier_rows.drop(*META_COLUMNS))
            layout = table.layout
            options = {
                **write_options.options_of(table.dimension, layout.on(table.options), layout.theirs),
                **write_options.REPLACING,
                **_EARLIER_TYPES,
                **write_options.commit_metadata(version.progress, layout),
                RESTORED: version.name,
            }
            with discarding_on_failure(
                str(table.dimension.name), RestoreChange(table.timeline, self.instants[0]), "Hudi"
            ):
                rows.write.format("hudi").options(**options).mode("append").save(table.path)


def lineage_of(instants: Iterable[Instant]) -> Iterator[Instant]:
    """Yield those of the writes, newest first, that the state of the newest comes from."""
    until: str | None = None
    for instant in instants:
        if until is None or instant.requested <= until:
            yield instant
            until = instant.extra_metadata().get(RESTORED) or until


def oldest_batch(places: Places, name: TableName) -> int | None:
    """Return the batch of our first commit that a table can be rolled back to, or None."""
    timeline = timeline_of(places, name)
    versions = _readable_versions(lineage_of(timeline.active()), timeline.readable_from())
    return min((version.progress.batch for version in versions), default=None)


def _readable_versions(instants: Iterable[Instant], readable_from: str) -> Iterator[Version]:
    return (version for version in _versions(instants) if version.name >= readable_from)


def _versions(instants: Iterable[Instant]) -> Iterator[Version]:
    """Yield our commits among writes."""
    for instant in instants:
        if (progress := instant.progress()) is not None:
            yield Version(name=instant.requested, progress=progress, committed=instant.micros())
