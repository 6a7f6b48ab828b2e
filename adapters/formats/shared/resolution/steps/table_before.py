"""The state of a table before a batch, as frames for the fold.

It is made of the change log, the stored rows, the truncates, and the keys that truncates and full loads end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.spark.frames.event_frame import IS_EVENT, IS_LOAD
from lakeward.adapters.spark.history.instants import truncate_instants
from lakeward.adapters.spark.merge.fold.batch_fold import Load, TableBefore
from lakeward.adapters.spark.merge.fold.fold_items import KEY, Key
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Ordered
from lakeward.core.events import Position
from lakeward.core.history.options import History
from lakeward.core.history.reloads import find_end_instants
from lakeward.core.plan import MergePlan


class _EndedRows(TypedDict):
    """Truncates, and the rows that end although no event names them; see `TableBefore`."""

    truncates: Mapping[Position, int | None]
    ending: DataFrame | None
    load: Load | None


@dataclass(frozen=True, slots=True)
class TableBeforeReader:
    """Reads the state of a table before the batch of a plan."""

    change_log: ChangeLogTable
    plan: MergePlan
    rows: Rows

    def before(self, frame: DataFrame, truncates: DataFrame | None) -> TableBefore:
        """Return the state of the table before a batch of these rows and `truncates`."""
        plan, upto = self.plan, self.plan.batch - 1
        by_rows = self._is_ordered or not plan.folds_remembered
        return TableBefore(
            remembered=None if plan.replaces else self.change_log.events(upto),
            bases=None if by_rows or plan.replaces else self.change_log.bases(upto),
            rows=self.rows.of,
            by_rows=by_rows,
            ordered_until=self.change_log.batches.ordered_until,
            **self._ending(frame, truncates),
        )

    @property
    def _is_ordered(self) -> bool:
        return isinstance(self.plan.dimension.lateness, Ordered)

    def _ending(self, frame: DataFrame, arrived_truncates: DataFrame | None) -> _EndedRows:
        """Return the truncates, and the rows that they or a full load end although no event names them."""
        plan, history = self.plan, self.plan.dimension.history
        truncates: dict[Position, int | None] = dict.fromkeys(plan.truncates.all)
        if history is not None:
            truncates |= self._instants(arrived_truncates)
        if plan.replaces and history is not None:
            return _EndedRows(truncates=truncates, ending=self.rows.live(), load=self._load(history, frame))
        below = None if plan.replaces else plan.truncates.removes_below
        ending = None if below is None else self.rows.live(below)
        if ending is not None and plan.recalls:  # a late truncate may end keys earlier than a newer one did
            ending = reduce(DataFrame.union, self._remembered_keys(), ending)
        return _EndedRows(truncates=truncates, ending=ending, load=None)

    def _instants(self, arrived_truncates: DataFrame | None) -> Mapping[Position, int | None]:
        """Return the truncates that count for the batch, each with the instant from which it is valid."""
        frames = [] if self.plan.replaces else [self.change_log.truncated(self.plan.batch - 1)]
        frames += [] if arrived_truncates is None else [arrived_truncates]
        instants = truncate_instants(frames, self.plan.epoch)
        if not self._is_ordered:
            return instants
        # An `ordered` table folds over its rows, to which all other truncates were applied already.
        return {place: instant for place, instant in instants.items() if place in self.plan.truncates.all}

    def _remembered_keys(self) -> list[DataFrame]:
        """Return the keys of the remembered events and base rows."""
        upto = self.plan.batch - 1
        frames = [self.change_log.events(upto), self.change_log.bases(upto)]
        return [frame.selectExpr(*map(quoted, self.plan.dimension.key)) for frame in frames if frame is not None]

    def _load(self, history: History, frame: DataFrame) -> Load:
        """Return the keys of a full load, quarantined ones included, and when all other keys end."""
        plan, rows = self.plan, frame.where(IS_LOAD)
        newest, time = rows.where(IS_EVENT).agg(F.max(names.INSTANT), F.max(names.TIME)).collect()[0]
        keys = Key(plan.dimension).key_texts(rows).select(KEY).where(f"{KEY} IS NOT NULL").distinct()
        own_times, is_first = plan.facts.own_times, plan.is_first
        ends = find_end_instants(history, newest, time, plan.begun_at, own_times=own_times, is_first=is_first)
        return Load(keys=keys, ends=ends)
