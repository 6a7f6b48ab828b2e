"""Direct loads: full loads written while they are read, to files that no reader sees before the commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.operations.commit_failures import not_written
from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.strategies.full_load import (
    has_repeated_key,
    has_stored_key,
    is_load_alone,
    load_result,
)
from lakeward.adapters.formats.shared.rows.new_rows import as_stored
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.spark.frames.event_frame import AHEAD, IS_EVENT, IS_LOAD
from lakeward.adapters.spark.frames.source_rows import MALFORMED, TORN
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.adapters.spark.session.errors import refused_by_disk
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.events import Operation
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult

_FLAGS: Final = (AHEAD, TORN, MALFORMED)


class StagedFiles(Protocol):
    """Files of a table that no reader sees yet."""

    @property
    def change(self) -> Any:
        """The change that commits them."""
        ...

    def write(self, rows: DataFrame) -> None:
        """Write rows, with the columns of the table."""
        ...

    def read(self) -> DataFrame:
        """Return the rows that were written."""
        ...

    def close(self) -> None:
        """Delete the files unless they were committed, and the table if it was created for them."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DirectLoad:
    """A full load in files that no reader sees yet.

    `source` is the whole batch, `events` the events read back from the files, `plan` the plan that they were
    written by: that of a load whose rows can all be applied.
    """

    source: DataFrame
    events: DataFrame
    files: StagedFiles
    plan: MergePlan

    def is_by(self, plan: MergePlan) -> bool:
        """Return whether its files are what a plan would write."""
        own = self.plan
        written_for = (own.batch, own.epoch, own.creates, own.replaces, own.stored, own.changes)
        same = written_for == (plan.batch, plan.epoch, plan.creates, plan.replaces, plan.stored, plan.changes)
        return same and is_load_alone(plan)

    def resolved(self, plan: MergePlan, rows: Rows) -> MergeResult:
        """Return the merge result of committing the files."""
        detail = MergeDetail(
            upserts=self.events, table=rows.table, staged=self.files.change, drops_all=plan.replaces
        )
        return load_result(plan, detail, removed=rows.count() if plan.replaces else 0)


def write_directly(
    plan: MergePlan, frame: DataFrame, stored: Rows, begin: Callable[[], StagedFiles]
) -> DirectLoad | None:
    """Write a full load while it is read. Return None, and leave no files, if it holds other rows or repeats a key.

    `plan` is that of a load whose rows can all be applied. None of them may have the key of a row in `stored`.
    `begin` creates the files.
    """
    files, observation = begin(), Observation()
    is_plain = f"{IS_EVENT} AND {IS_LOAD} AND {names.OPERATION} = '{Operation.READ.value}'"
    others = " OR ".join([f"NOT coalesce({is_plain}, false)", *_flags(frame)])
    observed = frame.observe(
        observation, F.expr(f"count_if({others}) AS others"), F.expr(f"max({names.TIME}) AS time")
    )
    try:
        files.write(as_stored(plan, fitted(observed.where(is_plain), plan.dimension.schema)))
        observed_values = observation.get
        written = None if observed_values["others"] else _as_events(files.read(), plan, observed_values["time"])
        if written is None or has_repeated_key(written, plan.dimension) or has_stored_key(written, stored):
            files.close()
            return None
    except BaseException as error:
        files.close()
        if (disk_error := refused_by_disk(error)) is not None:
            raise not_written(str(plan.dimension.name), disk_error) from error
        raise
    return DirectLoad(frame, written, files, plan)


def _flags(frame: DataFrame) -> list[str]:
    return [f"coalesce({flag}, false)" for flag in _FLAGS if flag in frame.columns]


def _as_events(rows: DataFrame, plan: MergePlan, time: int | None) -> DataFrame:
    """Return written rows with the columns that a survey of events needs."""
    return rows.selectExpr(
        *map(quoted, plan.dimension.key),
        *(names.SEQUENCE, names.OBJECT, names.ROW),
        f"'{Operation.READ.value}' AS {names.OPERATION}",
        f"{'CAST(NULL AS bigint)' if time is None else f'{time}L'} AS {names.TIME}",
        *[f"CAST(NULL AS string) AS {name}" for name in (names.REASON, names.DETAIL, names.TEXT)],
        *[f"false AS {flag}" for flag in _FLAGS],
    )
