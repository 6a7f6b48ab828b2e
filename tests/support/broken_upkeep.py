"""Mistakes in rollback and maintenance of each format: each function makes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

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

Break = Callable[[pytest.MonkeyPatch], None]


def keeps_its_memory(patch: pytest.MonkeyPatch) -> None:
    """Rolls back rows and progress without the change log."""
    for kind in (IcebergChangeLogVersions, DeltaChangeLogVersions):
        patch.setattr(kind, "restore", lambda *_: None)


def takes_back_what_it_remembers_now_alone(patch: pytest.MonkeyPatch) -> None:
    """Drops later entries of the change log without restoring trimmed ones."""
    of_iceberg, of_delta = IcebergChangeLogVersions.restore, DeltaChangeLogVersions.restore
    patch.setattr(IcebergChangeLogVersions, "restore", lambda self, batch, _: of_iceberg(self, batch, None))
    patch.setattr(DeltaChangeLogVersions, "restore", lambda self, batch, _: of_delta(self, batch, None))


def takes_rows_back_alone(patch: pytest.MonkeyPatch) -> None:
    """Rolls back rows without progress, so that later objects are never applied again."""

    def breaks(kind: type[DeltaLineage | HudiLineage]) -> None:
        go_back: Any = kind.go_back

        def with_progress_of_now(self: DeltaLineage | HudiLineage, version: Version) -> None:
            go_back(self, replace(version, progress=self.versions()[0].progress))

        patch.setattr(kind, "go_back", with_progress_of_now)

    for kind in (DeltaLineage, HudiLineage):
        breaks(kind)


def takes_progress_back_alone(patch: pytest.MonkeyPatch) -> None:
    """Does not roll back the files."""
    patch.setattr(restored_version, "_lacking", lambda *_: [])


def leaves_the_rows_that_came_since(patch: pytest.MonkeyPatch) -> None:
    """Restores the old rows without removing new ones."""
    patch.setattr(write_options, "REPLACING", {"hoodie.datasource.write.operation": "upsert"})


def takes_a_file_for_what_it_was(patch: pytest.MonkeyPatch) -> None:
    """Compares files by path alone, so that rows deleted since then stay deleted."""
    patch.setattr(restored_version, "_KEY", ("path", "'' AS vector"))


def lets_the_progress_expire(patch: pytest.MonkeyPatch) -> None:
    """Does not protect the last own commit while snapshots expire."""

    def let_go(_: IcebergMaintenance, table: Any) -> None:
        if table.refs().containsKey(TAG):
            table.manageSnapshots().removeTag(TAG).commit()

    patch.setattr(IcebergMaintenance, "_tag_last_commit", let_go)


def tells_what_it_did_not_do(patch: pytest.MonkeyPatch) -> None:
    """Reports files that it did not compact or remove."""
    compact = IcebergMaintenance._compact
    patch.setattr(
        IcebergMaintenance, "_compact", lambda self, jvm, policy, is_dry: compact(self, jvm, policy, is_dry=True)
    )
    patch.setattr(DeltaMaintenance, "_rewrite_files", lambda *_, **__: None)
    patch.setattr(HudiMaintenance, "_compact", lambda _: None)


ROLLBACK = "a_rollback_restores_the_table_and_the_next_batch_follows"
MAINTENANCE = "maintenance_changes_no_row_and_hides_no_progress"
BROKEN: Mapping[str, Mapping[str, Sequence[Break]]] = {
    "iceberg": {
        ROLLBACK: (keeps_its_memory, takes_back_what_it_remembers_now_alone),
        MAINTENANCE: (lets_the_progress_expire, tells_what_it_did_not_do),
    },
    "delta": {
        ROLLBACK: (
            keeps_its_memory,
            takes_back_what_it_remembers_now_alone,
            takes_rows_back_alone,
            takes_progress_back_alone,
            takes_a_file_for_what_it_was,
        ),
        MAINTENANCE: (tells_what_it_did_not_do,),
    },
    "hudi": {
        ROLLBACK: (
            keeps_its_memory,
            takes_back_what_it_remembers_now_alone,
            takes_rows_back_alone,
            leaves_the_rows_that_came_since,
        ),
        MAINTENANCE: (tells_what_it_did_not_do,),
    },
}
"""The mistakes of each format, by the law that shows them."""

SEED = 1
"""A seed that shows all of them, with twenty histories, and also the mistakes of the reference adapter."""
