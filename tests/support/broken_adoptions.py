"""Mistakes in the adoption of tables: each function makes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from ways import use_spark_in_commands

from lakeward.adapters.formats.shared.change_log.batch_log import BatchLog
from lakeward.adapters.formats.shared.operations import adoption
from lakeward.adapters.formats.shared.operations.adoption import TableAdoption
from lakeward.adapters.formats.shared.rows import system_columns, table_rows
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.spark.sql import names
from lakeward.core.ledger.objects import SourceObject, digest_of
from lakeward.core.operations import adopt as adopting
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, ExternalTable
from lakeward.core.progress import Progress

Break = Callable[[pytest.MonkeyPatch], None]


def forgets_what_was_applied(patch: pytest.MonkeyPatch) -> None:
    """Adopts the table as if no file had been applied to it."""
    adopt = TableAdoption.adopt

    def forgetful(self: TableAdoption, foreign: ExternalTable, plan: MergePlan, progress: Progress) -> Commit:
        plan = replace(plan, facts=replace(plan.facts, objects=()))
        return adopt(self, foreign, plan, replace(progress, digest=digest_of(())))

    patch.setattr(TableAdoption, "adopt", forgetful)


def takes_its_rows_for_newer_than_any_change(patch: pytest.MonkeyPatch) -> None:
    """Orders the existing rows after all changes."""
    for module in (table_rows, system_columns):
        patch.setattr(module, "BEFORE", {**system_columns.BEFORE, names.SEQUENCE: 1 << 60})


def truncates_what_the_batch_names_alone(patch: pytest.MonkeyPatch) -> None:
    """Keeps the existing rows at a truncate."""
    use_spark_in_commands(patch)
    patch.setattr(Rows, "with_truncated", lambda _self, stood: stood)


def counts_no_keys(patch: pytest.MonkeyPatch) -> None:
    """Does not check for NULL or duplicate keys."""
    patch.setattr(adoption, "_count_rows", lambda rows, _dimension: (rows.count(), 0, 0, None))


def compares_no_columns(patch: pytest.MonkeyPatch) -> None:
    """Uses the columns of the table as those of the source."""
    patch.setattr(adopting, "_reasons", lambda _job, foreign: iter(foreign.refused))


def takes_any_name_for_none(patch: pytest.MonkeyPatch) -> None:
    """Begins at the first file if the named one does not exist."""
    count = adopting._count_applied

    def lenient(job: Any, listed: list[SourceObject], last: str | None) -> int:
        return count(job, listed, last if last in {item.name for item in listed} else None)

    patch.setattr(adopting, "_count_applied", lenient)


def leaves_what_a_crash_left(patch: pytest.MonkeyPatch) -> None:
    """Writes its change log without removing that of a crashed adoption."""
    objects = BatchLog.objects

    def blind(self: BatchLog, progress: Progress) -> Mapping[str, SourceObject]:
        found = objects(self, progress)
        self.has_leftovers = False
        return found

    patch.setattr(BatchLog, "objects", blind)


class _Any(str):
    """A table state that equals every other."""

    __hash__ = str.__hash__

    def __ne__(self, other: object) -> bool:
        return False


def adopts_whatever_stands(patch: pytest.MonkeyPatch) -> None:
    """Does not check that the table did not change since the check."""
    adopt = TableAdoption.adopt
    patch.setattr(
        TableAdoption,
        "adopt",
        lambda self, foreign, plan, progress: adopt(self, replace(foreign, state=_Any()), plan, progress),
    )
