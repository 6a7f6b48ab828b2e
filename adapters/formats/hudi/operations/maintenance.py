"""Maintain a Hudi table with Hudi's own compaction and cleaning.

Their instants carry no progress: it is found in earlier ones, as after those of other writers. Like the next write
of Hudi, maintenance rolls back what a crash left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from lakeward.adapters.formats.hudi.java import Jvm
from lakeward.adapters.formats.hudi.metadata.log_files import Group, with_logs
from lakeward.adapters.formats.hudi.session import ready
from lakeward.adapters.formats.hudi.writes import write_options
from lakeward.core.errors import ConfigError
from lakeward.core.ports import MaintenancePolicy, MaintenanceReport

if TYPE_CHECKING:
    from lakeward.adapters.formats.hudi.table import HudiTable

_COMPACT_NOW: Final[Mapping[str, str]] = {
    "hoodie.compact.inline.trigger.strategy": "NUM_COMMITS",
    "hoodie.compact.inline.max.delta.commits": "1",
}
"""Options for a compaction whenever there are logs; the policy has decided that it is due."""


_RETAINED: Final = "hoodie.clean.commits.retained"
_RETAINED_FORMERLY: Final = "hoodie.cleaner.commits.retained"
_RETAINED_BY_DEFAULT: Final = "10"
_OTHER_CLEANING: Final = ("hoodie.clean.automatic", "hoodie.clean.policy")
"""Properties with which a write removes nothing, or does not go by the number of commits."""


class HudiMaintenance:
    """Maintenance of one table. Its side tables maintain themselves."""

    def __init__(self, table: HudiTable) -> None:
        self.table = table

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        """Compact logs, then remove files that only old commits need.

        Raises ConfigError for a number of commits to keep that is greater than what each write of Hudi leaves.
        """
        self._check_number(policy.keep_last)
        if not self.table.timeline.is_there:
            return MaintenanceReport()
        with self.table.committing():
            due = due_of(with_logs(self.table.timeline.instants()), policy)
            if is_dry:
                snapshots = self._clean(policy, is_dry=True)
            else:
                with self.table.alone():
                    if due:
                        self._compact()
                    snapshots = self._clean(policy, is_dry=False)
        return MaintenanceReport(
            files=sum(group.files for group in due), bytes=sum(group.size for group in due), snapshots=snapshots
        )

    def _check_number(self, keep: int) -> None:
        properties = self.table.options.properties
        retained = properties.get(_RETAINED, properties.get(_RETAINED_FORMERLY, _RETAINED_BY_DEFAULT))
        if any(name in properties for name in _OTHER_CLEANING) or not retained.isdecimal() or keep <= int(retained):
            return
        raise ConfigError(
            f"{self.table.dimension.name}: `keep_last` is more than a write of Hudi leaves",
            found=f"{keep} commits are to stay, and each batch removes what the last {retained} do not need "
            f"(`{_RETAINED}`)",
            todo=f'Give the table `properties = {{ "{_RETAINED}" = "{keep}", … }}` with an archive that begins '
            "behind them (docs/reference/hudi.md, Taking a table back), or take `keep_last` out of `maintain`.",
        )

    def _compact(self) -> None:
        jvm = Jvm(ready(self.table.spark()))
        with jvm.client(self.table.path, self._schema, {**self._options, **_COMPACT_NOW}) as client:
            client.rollbackFailedWrites(jvm.table(client).getMetaClient())
            client.runAnyPendingCompactions()
            planned = client.scheduleCompaction(jvm.none)
            if planned.isPresent():
                client.compact(planned.get(), True)

    def _clean(self, policy: MaintenancePolicy, *, is_dry: bool) -> int:
        """Remove files that no kept commit needs; return how many commits need one of them."""
        retained = self._retained(policy)
        if retained is None:
            return 0
        jvm = Jvm(ready(self.table.spark()))
        with jvm.client(self.table.path, self._schema, {**self._options, **_retention_options(retained)}) as client:
            planner = jvm.hudi.table.action.clean.CleanPlanner(
                client.getEngineContext(), jvm.table(client), client.getConfig()
            )
            earliest = planner.getEarliestCommitToRetain()
            if not earliest.isPresent() or not _has_files(planner, earliest):
                return 0
            first = str(earliest.get().requestedTime())
            before = self.table.timeline.readable_from()
            expired = sum(before <= instant.requested < first for instant in self.table.timeline.active())
            if not is_dry:
                client.clean(True)
        return expired

    def _retained(self, policy: MaintenancePolicy) -> int | None:
        """Return how many commits are kept, or None for all."""
        if policy.keep is None:
            return None
        times = [instant.micros() for instant in self.table.timeline.active()]
        oldest = time.time_ns() // 1_000 - policy.keep
        number = max(policy.keep_last, sum(at >= oldest for at in times), 1)
        return number if number < len(times) else None

    @property
    def _schema(self) -> str:
        return self.table.timeline.schema() or ""

    @property
    def _options(self) -> Mapping[str, str]:
        table, layout = self.table, self.table.layout
        return write_options.options_of(table.dimension, layout.on(table.options), layout.theirs)


def due_of(groups: Sequence[Group], policy: MaintenancePolicy) -> Sequence[Group]:
    """Return the groups to compact: all with logs, or none.

    It is all if one group has the policy's share of changed rows, or one partition the policy's number of logs.
    """
    is_worn = policy.deleted is not None and any(group.share >= policy.deleted for group in groups)
    by_partition = groupby(sorted(groups, key=lambda group: group.partition), key=lambda group: group.partition)
    many = max((sum(group.logs for group in inside) for _, inside in by_partition), default=0)
    is_many = policy.small is not None and many >= policy.small
    return groups if is_worn or is_many else ()


def _retention_options(commits: int) -> Mapping[str, str]:
    """Return options that keep this many commits, whatever the settings say for the cleaning after each write."""
    return {
        "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
        "hoodie.clean.commits.retained": str(commits),
        "hoodie.clean.trigger.max.commits": "1",
        "hoodie.clean.incremental.enabled": "false",
        "hoodie.keep.min.commits": str(commits + 1),  # of the archive: Hudi takes no fewer
        "hoodie.keep.max.commits": str(commits + 2),
    }


def _has_files(planner: Any, earliest: Any) -> bool:
    partitions = planner.getPartitionPathsToClean(earliest)
    return any(planner.getDeletePaths(partition, earliest).getRight() for partition in partitions)
