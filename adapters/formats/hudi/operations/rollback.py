"""The instants that the state of a Hudi table comes from, and the way back to one.

It is an instant of its own, which replaces all rows by those of then and carries the progress of then. (Hudi's own
restore removes instants one by one, and readers find the table in between.)
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
from lakeward.adapters.formats.hudi.writes.change import Restoring
from lakeward.adapters.formats.shared.operations.commit_failures import staging
from lakeward.adapters.formats.shared.operations.rollback import states_of
from lakeward.core.dimension import TableName
from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.ports import Version

if TYPE_CHECKING:
    from lakeward.adapters.formats.hudi.table import HudiTable

_AS_THEN: Final = {
    # Columns that became wider since would stay as they are: Hudi promotes what is written to what the table has.
    "hoodie.internal.write.schema.canonicalize": "false",
}


@dataclass(frozen=True)
class HudiLine:
    """The writes that the state of a table comes from, and are not in its archive, the newest first."""

    table: HudiTable
    instants: Sequence[Instant]
    whole_from: str

    @classmethod
    def of(cls, table: HudiTable) -> HudiLine | None:
        """Return those of a table as it is now, or None where it is not there."""
        timeline = table.timeline
        instants = list(line_of(timeline.active()))
        return cls(table, instants, timeline.whole_from()) if instants else None

    @cached_property
    def batch(self) -> int:
        """The batch that the table is at."""
        ours = self.table.timeline.newest_of_ours()
        return 0 if ours is None else ours[1].batch

    def versions(self) -> Sequence[Version]:
        """Return our commits of which every file is there, newest first.

        A rollback is a commit of then: where that one is whole, it stands for both.
        """
        return list(
            {version.progress.batch: version for version in _whole(self.instants, self.whole_from)}.values()
        )

    def commits(self) -> Sequence[Version]:
        """Return our commits, newest first; of those in the archive the newest, where it has the newest of all."""
        active = {version.progress.batch: version for version in _versions(self.instants)}
        if active:
            return list(active.values())
        ours = self.table.timeline.newest_of_ours()
        return [] if ours is None else list(_versions([ours[0]]))

    def shown_by(self, batch: int) -> str | None:
        """Return an instant with the rows of a batch of which every file is there: ours, or one behind it."""
        instants = sorted(self.instants, key=lambda instant: instant.requested, reverse=True)
        states = states_of(batch, ((instant.requested, instant.progress()) for instant in instants))
        whole_from = min(self.whole_from, instants[0].requested)
        return next((name for name in states if name >= whole_from), None)

    def find(self, name: str) -> Version | None:
        """Return a write, with the progress of our last up to it, or None."""
        if name not in {instant.requested for instant in self.instants}:
            return None
        before = sorted(self.instants, key=lambda instant: instant.requested, reverse=True)
        return next((replace(version, name=name) for version in _versions(before) if version.name <= name), None)

    def is_at(self, name: str) -> bool:
        """Whether the current state is that of a write: a compaction may have completed behind a later one."""
        newest = max(self.instants, key=lambda instant: instant.requested)
        return name in {newest.requested, newest.said().get(RESTORED)}

    def check(self, name: str) -> None:
        """Refuse where files of then may be gone."""
        if name < self.whole_from:
            raise TableError(
                f"{self.table.dimension.name} cannot be taken back to {name}",
                found=f"Hudi has removed files that were needed before {self.whole_from}",
                todo=f"Nothing was changed. `lakeward rollback {self.table.dimension.name}` lists the commits that "
                "are whole; `hoodie.clean.commits.retained` under `properties` says how many stay.",
            )

    def take_back(self, version: Version) -> None:
        """Write the rows, the columns and the progress of then as an instant of its own."""
        table = self.table
        with table.committing(), table.alone():
            if table.timeline.newest() != self.instants[0]:
                raise CommitConflict(
                    f"{table.dimension.name}: another writer has just committed to the table", todo="Ask again."
                )
            then = reader(table.spark(), version.name).load(table.path)
            rows = write_options.nullable(then.drop(*META_COLUMNS))
            layout = table.layout
            options = {
                **write_options.options_of(table.dimension, layout.on(table.options), layout.theirs),
                **write_options.REPLACING,
                **_AS_THEN,
                **write_options.said(version.progress, layout),
                RESTORED: version.name,
            }
            with staging(str(table.dimension.name), Restoring(table.timeline, self.instants[0]), "Hudi"):
                rows.write.format("hudi").options(**options).mode("append").save(table.path)


def line_of(instants: Iterable[Instant]) -> Iterator[Instant]:
    """Return of these writes, the newest first, those that the state of the newest comes from."""
    until: str | None = None
    for instant in instants:
        if until is None or instant.requested <= until:
            yield instant
            until = instant.said().get(RESTORED) or until


def oldest_batch(places: Places, name: TableName) -> int | None:
    """Return the batch of our first commit that a table can be taken back to, or None where there is none."""
    timeline = timeline_of(places, name)
    whole = _whole(line_of(timeline.active()), timeline.whole_from())
    return min((version.progress.batch for version in whole), default=None)


def _whole(instants: Iterable[Instant], whole_from: str) -> Iterator[Version]:
    return (version for version in _versions(instants) if version.name >= whole_from)


def _versions(instants: Iterable[Instant]) -> Iterator[Version]:
    """Return our commits among writes."""
    for instant in instants:
        if (progress := instant.progress()) is not None:
            yield Version(name=instant.requested, progress=progress, committed=instant.micros())
