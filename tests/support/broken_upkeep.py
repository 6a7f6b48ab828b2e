"""Mistakes in rollback and maintenance of each format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutations import Break, Change, Method, broken, patched, wrapped

from lakeward.adapters.formats.delta.operations import restored_version
from lakeward.adapters.formats.delta.operations.maintenance import DeltaMaintenance
from lakeward.adapters.formats.delta.operations.rollback import DeltaLineage
from lakeward.adapters.formats.delta_rs.change_log_versions import DeltaChangeLogVersions
from lakeward.adapters.formats.hudi.operations.maintenance import HudiMaintenance
from lakeward.adapters.formats.hudi.operations.rollback import HudiLineage
from lakeward.adapters.formats.hudi.writes import write_options
from lakeward.adapters.formats.iceberg.metadata.progress import TAG
from lakeward.adapters.formats.iceberg.operations.maintenance import IcebergMaintenance
from lakeward.adapters.formats.iceberg.side_tables.change_log_versions import IcebergChangeLogVersions
from lakeward.core.ports import Version


def _of_change_logs(restore: Method) -> Sequence[Change]:
    return [wrapped(kind, "restore", restore) for kind in (IcebergChangeLogVersions, DeltaChangeLogVersions)]


def _go_back_with_progress(right: Method, own: DeltaLineage | HudiLineage, version: Version) -> None:
    right(own, replace(version, progress=own.versions()[0].progress))


def _untag_last_commit(_: IcebergMaintenance, table: Any) -> None:
    if table.refs().containsKey(TAG):
        table.manageSnapshots().removeTag(TAG).commit()


CHANGE_LOGS = (
    broken("rolls back rows and progress without the change log", *_of_change_logs(lambda *_: None)),
    broken(
        "drops later entries of the change log without restoring trimmed ones",
        *_of_change_logs(lambda right, own, batch, _: right(own, batch, None)),
    ),
)
ROWS_ALONE = broken(
    "rolls back rows without progress, so that later objects are never applied again",
    *(wrapped(kind, "go_back", _go_back_with_progress) for kind in (DeltaLineage, HudiLineage)),
)
REPORTS_ALONE = broken(
    "reports files that it did not compact or remove",
    wrapped(IcebergMaintenance, "_compact", lambda right, *of, **_: right(*of, is_dry=True)),
    patched(DeltaMaintenance, "_rewrite_files", lambda *_, **__: None),
    patched(HudiMaintenance, "_compact", lambda _: None),
)

ROLLBACK = "a_rollback_restores_the_table_and_the_next_batch_follows"
MAINTENANCE = "maintenance_changes_no_row_and_hides_no_progress"
BROKEN: Mapping[str, Mapping[str, Sequence[Break]]] = {
    "iceberg": {
        ROLLBACK: CHANGE_LOGS,
        MAINTENANCE: (
            broken(
                "does not protect the last own commit while snapshots expire",
                patched(IcebergMaintenance, "_tag_last_commit", _untag_last_commit),
            ),
            REPORTS_ALONE,
        ),
    },
    "delta": {
        ROLLBACK: (
            *CHANGE_LOGS,
            ROWS_ALONE,
            broken("does not roll back the files", patched(restored_version, "_lacking", lambda *_: [])),
            broken(
                "compares files by path alone, so that rows deleted since then stay deleted",
                patched(restored_version, "_KEY", ("path", "'' AS vector")),
            ),
        ),
        MAINTENANCE: (REPORTS_ALONE,),
    },
    "hudi": {
        ROLLBACK: (
            *CHANGE_LOGS,
            ROWS_ALONE,
            broken(
                "restores the old rows without removing new ones",
                patched(write_options, "REPLACING", {"hoodie.datasource.write.operation": "upsert"}),
            ),
        ),
        MAINTENANCE: (REPORTS_ALONE,),
    },
}
"""The mistakes of each format, by the law that shows them."""

SEED = 1
"""A seed that shows all of them, with twenty histories, and also the mistakes of the reference adapter."""
