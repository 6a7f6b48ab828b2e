"""A joined table that Spark keeps from frames, and many shops whose tables it joins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from frames import to_frame
from joined_feeds import JoinedShops, Seen, as_number, seen
from joined_shops import Changes, Rows, SourceChange, SourceRow
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.shared.rows.system_columns import column_types
from lakeward.adapters.spark.joined.difference import Difference, compare_history, compare_mirror
from lakeward.adapters.spark.joined.joined_rows import find_omitted_rows, join_frames
from lakeward.adapters.spark.joined.source_frames import JoinedSource, sources_of
from lakeward.adapters.spark.joined.touched_keys import find_touched_keys
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.events import Key, key_of
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.omitted_rows import OmittedRows
from lakeward.core.joined.plan import JoinPlan, JoinProgress, SourceCommit, SourceState, plan_join

DAY = 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def make_plan(joining: JoinDefinition, batch: int, *, whole: bool = False) -> JoinPlan:
    """Return the plan of a batch on the day of its number, in which each source has a commit."""
    passed = {name: SourceCommit(batch - 1, str(batch - 1)) for name in joining.joined.sources}
    progress = JoinProgress(batch=batch - 1, digest=joining.joined.digest, passed=passed)
    states = {name: SourceState(now=SourceCommit(batch, str(batch))) for name in passed}
    plan = plan_join(joining, None if batch == 1 else progress, states, DAY * batch)
    assert plan is not None
    return replace(plan, reasons=("requested",), since={}) if whole else plan


@dataclass
class Table:
    """A joined table as Spark keeps it: rows in its columns, by their places."""

    spark: SparkSession
    joining: JoinDefinition
    rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    wrote: int = 0

    @property
    def columns(self) -> Mapping[str, str]:
        types = column_types(self.joining.dimension)
        return {name: ddl(type_) for name, type_ in types.items() if name != names.BATCH}

    def stored(self) -> DataFrame:
        listed = ", ".join(f"{name} {type_}" for name, type_ in {**self.columns, POS: "bigint"}.items())
        frame = to_frame(self.spark, [(*row, pos) for pos, row in self.rows.items()], listed)
        return frame.selectExpr("*", f"'file' AS {FILE}")

    def compared(self, plan: JoinPlan, tables: Mapping[str, Rows], changes: Changes) -> Difference:
        of = sources_of(self.joining)
        frames = {name: self._frame(of[name], chain(*rows.values())) for name, rows in tables.items()}
        keys = {name: self._changed(of[name], found) for name, found in changes.items()}
        before = {
            name: self._frame(of[name], [SourceRow(cells) for one in found.values() for cells in one.before])
            for name, found in changes.items()
        }
        touched = find_touched_keys(self.joining, keys, before, frames) if plan.since else None
        rows = join_frames(self.joining, frames, touched)
        assert find_omitted_rows(self.joining, frames) == omitted_rows(self.joining, tables)
        differ = compare_mirror if self.joining.joined.history is None else compare_history
        return differ(plan, self.stored(), rows, touched)

    def join(self, plan: JoinPlan, tables: Mapping[str, Rows], changes: Changes) -> None:
        """Join a batch, and commit it."""
        found = self.compared(plan, tables, changes)
        assert found.skipped is None
        removed = [row[0] for row in found.removed.select(POS).collect()]
        written = [tuple(row) for row in found.written.select(*self.columns).collect()]
        found.cached.unpersist()
        assert len(removed) == len(set(removed))
        for pos in removed:
            del self.rows[pos]
        start = max(self.rows, default=0) + 1 + plan.batch * 100_000
        self.rows |= {start + number: row for number, row in enumerate(written)}
        self.wrote = len(written)

    def _frame(self, source: JoinedSource, rows: Iterable[SourceRow]) -> DataFrame:
        schema = source.table.stored.schema
        own = ", ".join(f"{column.name} {ddl(column.type)}" for column in schema)
        listed = [(*map(one.cells.get, schema.names), one.instant, one.valid_from, one.valid_to) for one in rows]
        frame = to_frame(self.spark, listed, f"{own}, known bigint, since bigint, until bigint")
        return source.select_needed(frame, "known", "since", "until")

    def _changed(self, source: JoinedSource, changes: Mapping[Key, SourceChange]) -> DataFrame:
        types = {column.name: ddl(column.type) for column in source.table.schema}
        listed = ", ".join(f"{source.column(name)} {types[name]}" for name in source.table.key)
        rows = [(*key, one.instant) for key, one in changes.items()]
        return to_frame(self.spark, rows, f"{listed}, {source.instant} bigint")

    def shown(self) -> Seen:
        """Return what a reader sees of each row, with times as Spark counts them."""
        unit = timedelta(microseconds=1)
        rows = [[as_number(value, EPOCH, unit) for value in row] for row in self.rows.values()]
        return seen(self.joining, [dict(zip(self.columns, row, strict=True)) for row in rows])


def omitted_rows(joining: JoinDefinition, tables: Mapping[str, Rows]) -> OmittedRows:
    driving, unknown = joining.joined.driving, joining.unknown
    keys = [key_of(row.cells, joining.link_columns(driving)) for rows in tables[driving].values() for row in rows]
    is_unknown = unknown is not None and key_of(unknown, joining.dimension.key) in keys
    return OmittedRows(keys.count(None), is_unknown)


@dataclass
class Town(JoinedShops):
    """Many shops, whose tables are read as one."""

    def change(self, *, is_new: bool) -> None:
        """Change each shop some times; one that is new gets most of its rows."""
        late = any(self.joining.reads_versions(name) for name in self.joined.sources)
        for shop in self.shops:
            if self.each_change:
                shop.now += 0 if is_new else 1 + shop.random.randrange(3)
            for _ in range(15 if is_new else 1 if self.each_change else shop.random.randrange(5)):
                shop.change([*self.joined.sources], late=late)
                shop.now += 0 if self.each_change else shop.random.randrange(3)

    def tables(self) -> Mapping[str, Rows]:
        return {name: self._rows(name) for name in self.joined.sources}

    def _rows(self, name: str) -> Rows:
        found = {}
        for number, shop in enumerate(self.shops):
            rows_of = shop.versions(name) if self.joining.reads_versions(name) else shop.rows(name)
            for key, rows in rows_of.items():
                found[number, *key] = [replace(one, cells={"shop": number, **one.cells}) for one in rows]
        return found

    def changes(self) -> Changes:
        """Return the changes since the last batch."""
        found: dict[str, dict[Key, SourceChange]] = {name: {} for name in self.joined.sources}
        for number, shop in enumerate(self.shops):
            for name, of in shop.touched(self.joining).items():
                for key, one in of.items():
                    before = [{"shop": number, **cells} for cells in one.before]
                    found[name][number, *key] = replace(one, before=before)
            shop.changes.clear()
        return found
