"""Maintain an Iceberg table with Iceberg's own actions: compaction, expiry, orphan files.

Their commits carry no progress. It is found in earlier commits, as after commits of other writers, and the tag
keeps it from expiry.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from lakeward.adapters.formats.iceberg.java import Jvm, committing
from lakeward.adapters.formats.iceberg.metadata.progress import TAG, last_of_ours
from lakeward.adapters.formats.iceberg.operations.file_merge import merge_files
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES, QUARANTINE
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.ports import MaintenancePolicy, MaintenanceReport

if TYPE_CHECKING:
    from lakeward.adapters.formats.iceberg.table import IcebergTable

_NOTE: Final = ("lakeward.maintenance", "compaction")
"""A snapshot property that marks our compactions, for people."""

_NEVER: Final = 2**31 - 1
_ALL_ROWS: Final = 1.0
"""The greatest share of deleted rows that Iceberg accepts; without it the share is 0.3."""


class IcebergMaintenance:
    """Maintenance of one table and its side tables."""

    def __init__(self, table: IcebergTable) -> None:
        self.table = table

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        """Compact, then expire snapshots, then remove orphan files, in this order."""
        jvm = Jvm(self.table.spark())
        with committing(str(self.table.dimension.name)):
            files, size = self._compact(jvm, policy, is_dry=is_dry)
            snapshots = self._expire(jvm, policy, is_dry=is_dry)
            orphans = self._remove_orphans(policy, is_dry=is_dry)
        return MaintenanceReport(files=files, bytes=size, snapshots=snapshots, orphans=orphans)

    def _compact(self, jvm: Jvm, policy: MaintenancePolicy, *, is_dry: bool) -> tuple[int, int]:
        """Compact data files; return their number and bytes. A dry run plans in the same way."""
        if policy.deleted is None and policy.small is None:
            return 0, 0
        return _rewrite_files(jvm, jvm.table(*self.table.name), _options(jvm, policy), is_dry=is_dry)

    def merge(self, policy: MaintenancePolicy, size: int) -> MaintenanceReport:
        """Merge small files in this process where it can, else by Iceberg's action."""
        if policy.small is None:
            return MaintenanceReport()
        jvm, name = Jvm(self.table.spark()), self.table.dimension.name
        with committing(str(name)):
            table = jvm.table(*self.table.name)
            merged = merge_files(
                jvm, table, self.table.catalog.io(name), count=policy.small, size=size, note=_NOTE
            )
            if merged is None:
                options = _options(jvm, replace(policy, deleted=None))
                options.put("min-file-size-bytes", str(size))
                merged = _rewrite_files(jvm, table, options, is_dry=False)
        return MaintenanceReport(files=merged[0], bytes=merged[1])

    def _expire(self, jvm: Jvm, policy: MaintenancePolicy, *, is_dry: bool) -> int:
        """Expire snapshots; return how many. Our last one is tagged first, in case others have moved the tag."""
        if policy.keep is None:
            return 0
        table = jvm.table(*self.table.name)
        target = table.newTransaction() if is_dry else table
        self._tag_last_commit(target)
        oldest = time.time_ns() // 1_000_000 - policy.keep // 1000
        expired = target.expireSnapshots().expireOlderThan(oldest).retainLast(policy.keep_last).apply().size()
        if expired and not is_dry:
            table.expireSnapshots().expireOlderThan(oldest).retainLast(policy.keep_last).commit()
        return int(expired)

    def _tag_last_commit(self, table: Any) -> None:
        """Tag our last snapshot, in a table or in a transaction that is not committed."""
        main = self.table.catalog.load(self.table.dimension.name)
        last_commit = None if main is None else last_of_ours(main)
        if main is None or last_commit is None:
            return
        tagged = main.refs().get(TAG)
        if tagged is None:
            table.manageSnapshots().createTag(TAG, last_commit.snapshot_id).commit()
        elif tagged.snapshot_id != last_commit.snapshot_id:
            table.manageSnapshots().replaceTag(TAG, last_commit.snapshot_id).commit()

    def _remove_orphans(self, policy: MaintenancePolicy, *, is_dry: bool) -> tuple[str, ...]:
        """Remove files of the table and its side tables that no snapshot names; return their names."""
        if policy.orphans is None:
            return ()
        spark, catalog, name = self.table.spark(), self.table.catalog, self.table.dimension.name
        until = datetime.fromtimestamp(time.time() - policy.orphans / 1_000_000, UTC)
        orphans: list[str] = []
        for suffix in ("", CHANGES, QUARANTINE):
            if catalog.load(name, suffix) is not None:
                table = text(quoted(*catalog.identifier(name, suffix)))
                call = (
                    f"CALL {quoted(catalog.name)}.system.remove_orphan_files(table => {table}, "
                    f"older_than => TIMESTAMP '{until:%Y-%m-%d %H:%M:%S}Z', dry_run => {str(is_dry).lower()})"
                )
                orphans += [row[0] for row in spark.sql(call).collect()]
        return tuple(sorted(orphans))


def _rewrite_files(jvm: Jvm, table: Any, options: Any, *, is_dry: bool) -> tuple[int, int]:
    """Rewrite the files that are due by Iceberg's options; return their number and bytes."""
    planner = jvm.iceberg.actions.BinPackRewriteFilePlanner(table)
    planner.init(options)
    groups = list(jvm.iterate(planner.plan().groups()))
    files = sum(group.inputFileNum() for group in groups)
    size = sum(group.inputFilesSizeInBytes() for group in groups)
    if files and not is_dry:
        actions = jvm.iceberg.spark.actions.SparkActions.get(jvm.spark._jsparkSession)
        options.put("remove-dangling-deletes", "true")
        actions.rewriteDataFiles(table).options(options).snapshotProperty(*_NOTE).execute()
    return int(files), int(size)


def _options(jvm: Jvm, policy: MaintenancePolicy) -> Any:
    """Return a compaction policy as a Java map of Iceberg's options."""
    options = jvm.gateway.jvm.java.util.HashMap()
    options.put("target-file-size-bytes", str(policy.file_size))
    options.put("min-input-files", str(_NEVER if policy.small is None else policy.small))
    options.put("delete-ratio-threshold", str(_ALL_ROWS if policy.deleted is None else policy.deleted))
    return options
