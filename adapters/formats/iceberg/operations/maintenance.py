"""Keeping an Iceberg table in shape, through Iceberg's own actions: compaction, expiry, orphan files.

No commit of these carries progress: it is found behind them, as behind those of any other writer, and the tag
keeps it from expiry.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from lakeward.adapters.formats.iceberg.java import Jvm, committing
from lakeward.adapters.formats.iceberg.metadata.progress import TAG, last_of_ours
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES, QUARANTINE
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.ports import MaintenancePolicy, MaintenanceReport

if TYPE_CHECKING:
    from lakeward.adapters.formats.iceberg.table import IcebergTable

_NOTE: Final = ("lakeward.maintenance", "compaction")
"""A property of snapshots that are of a compaction of ours: for people."""

_NEVER: Final = 2**31 - 1


class IcebergMaintenance:
    """Care of one table, and of what stands beside it."""

    def __init__(self, table: IcebergTable) -> None:
        self.table = table

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        """Compact, then let snapshots expire, then remove what no snapshot names: each finds what the last left."""
        jvm = Jvm(self.table.spark())
        with committing(str(self.table.dimension.name)):
            files, size = self._compact(jvm, policy, is_dry=is_dry)
            snapshots = self._expire(jvm, policy, is_dry=is_dry)
            orphans = self._remove_orphans(policy, is_dry=is_dry)
        return MaintenanceReport(files=files, bytes=size, snapshots=snapshots, orphans=orphans)

    def _compact(self, jvm: Jvm, policy: MaintenancePolicy, *, is_dry: bool) -> tuple[int, int]:
        """Write data files anew; return how many, and their bytes. Iceberg plans both ways alike."""
        if policy.deleted is None and policy.small is None:
            return 0, 0
        table, options = jvm.table(*self.table.name), _options(jvm, policy)
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

    def _expire(self, jvm: Jvm, policy: MaintenancePolicy, *, is_dry: bool) -> int:
        """Let snapshots expire; return how many. The last of ours is tagged, whatever others did to the tag."""
        if policy.keep is None:
            return 0
        table = jvm.table(*self.table.name)
        held = table.newTransaction() if is_dry else table
        self._hold_ours(held)
        until = time.time_ns() // 1_000_000 - policy.keep // 1000
        expired = held.expireSnapshots().expireOlderThan(until).retainLast(policy.keep_last).apply().size()
        if expired and not is_dry:
            table.expireSnapshots().expireOlderThan(until).retainLast(policy.keep_last).commit()
        return int(expired)

    def _hold_ours(self, table: Any) -> None:
        """Tag the last snapshot of ours, in a table or in a transaction that nobody commits."""
        main = self.table.catalog.load(self.table.dimension.name)
        ours = None if main is None else last_of_ours(main)
        if main is None or ours is None:
            return
        tagged = main.refs().get(TAG)
        if tagged is None:
            table.manageSnapshots().createTag(TAG, ours.snapshot_id).commit()
        elif tagged.snapshot_id != ours.snapshot_id:
            table.manageSnapshots().replaceTag(TAG, ours.snapshot_id).commit()

    def _remove_orphans(self, policy: MaintenancePolicy, *, is_dry: bool) -> tuple[str, ...]:
        """Remove files that no snapshot names, of the table and of those beside it; return which."""
        if policy.orphans is None:
            return ()
        spark, catalog, name = self.table.spark(), self.table.catalog, self.table.dimension.name
        until = datetime.fromtimestamp(time.time() - policy.orphans / 1_000_000, UTC)
        found: list[str] = []
        for suffix in ("", CHANGES, QUARANTINE):
            if catalog.load(name, suffix) is not None:
                of = text(quoted(*catalog.identifier(name, suffix)))
                call = (
                    f"CALL {quoted(catalog.name)}.system.remove_orphan_files(table => {of}, "
                    f"older_than => TIMESTAMP '{until:%Y-%m-%d %H:%M:%S}Z', dry_run => {str(is_dry).lower()})"
                )
                found += [row[0] for row in spark.sql(call).collect()]
        return tuple(sorted(found))


def _options(jvm: Jvm, policy: MaintenancePolicy) -> Any:
    """Return what Iceberg calls a policy of compaction, as a map of Java."""
    made = jvm.gateway.jvm.java.util.HashMap()
    made.put("target-file-size-bytes", str(policy.file_size))
    made.put("min-input-files", str(_NEVER if policy.small is None else policy.small))
    if policy.deleted is not None:
        made.put("delete-ratio-threshold", str(policy.deleted))
    return made
