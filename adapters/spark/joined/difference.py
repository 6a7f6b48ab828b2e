"""Compute the changes that make a joined table equal to its joined rows.

A row is identified by its key and, in a history, by the instant from which it is valid. The stored rows are rows
of the table with their files. `lakeward.adapters.spark.joined.joined_rows` makes the joined rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.execution.cached_frames import freed_on_failure
from lakeward.adapters.spark.history.instants import of_time
from lakeward.adapters.spark.history.version_rows import STORED, VersionRows, tail
from lakeward.adapters.spark.history.versions import Versions, equal
from lakeward.adapters.spark.joined.source_frames import AT, INSTANT, IS_UNKNOWN, literal
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import let, struct
from lakeward.adapters.spark.sql.keys import key_columns, key_text
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl_of
from lakeward.core.history.options import ByRun, History
from lakeward.core.joined.join_definition import BEGINNING
from lakeward.core.joined.plan import BEYOND_OPEN_END, JoinPlan
from lakeward.core.merge.fold import columns_of
from lakeward.core.ports import SkippedKeys

_JOINED: Final = "_lakeward_joined"
_BECOMES: Final = "_lakeward_becomes"
_TOUCHED: Final = "_lakeward_touched"

_BY_INSTANT: Final = (
    "(a, b) -> CASE WHEN a.instant < b.instant THEN -1 WHEN a.instant > b.instant THEN 1 ELSE 0 END"
)


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes of a batch to a joined table: rows to write, and rows to remove with their files.

    `opened` is how many current versions a history gains, net. `skipped` are keys that are left unchanged.
    """

    written: DataFrame
    removed: DataFrame
    cached: DataFrame
    opened: int = 0
    skipped: SkippedKeys | None = None


class _ShownVersions(Versions):
    """Versions that are compared by what they show, without the batch that made them."""

    def equal(self, one: str, other: str) -> str:
        """Return SQL for whether two versions show the same."""
        return self.shows_same(one, other)


def compare_mirror(
    plan: JoinPlan, stored_rows: DataFrame, joined: DataFrame, touched: DataFrame | None
) -> Difference:
    """Compare the stored rows with the joined rows, key by key: all keys, or those that are touched."""
    dimension = plan.joining.dimension
    key = list(dimension.key)
    own = {c.name: c.type for c in dimension.schema}
    missing = [c for c in dimension.schema if c.name not in stored_rows.columns]
    nulls = [f"{literal(None, c.type)} AS {quoted(c.name)}" for c in missing]
    stored_rows = fitted(stored_rows, dimension.schema).selectExpr("*", *nulls)
    cells = struct({f"c{i}": quoted(name) for i, name in enumerate(own)})
    stored = stored_rows.selectExpr(*map(quoted, key), f"{cells} AS {STORED}", FILE, POS)
    both = _align(plan, stored, joined.selectExpr(*map(quoted, key), f"{cells} AS {_JOINED}"), touched)
    same = " AND ".join(equal(f"{STORED}.c{i}", f"{_JOINED}.c{i}", type_) for i, type_ in enumerate(own.values()))
    is_new, is_removed = f"{STORED} IS NULL", f"{_JOINED} IS NULL"
    differing = both.where(f"({is_new}) != ({is_removed}) OR (NOT ({is_new}) AND NOT ({same}))").persist()
    place = dict(zip(names.POSITION, ("1", "0L", f"{plan.batch}L", "0L"), strict=True))
    written = differing.where(f"NOT ({is_removed})").selectExpr(
        *[f"{_JOINED}.c{i} AS {quoted(name)}" for i, name in enumerate(own)],
        *[f"{value} AS {name}" for name, value in place.items()],
    )
    removed = differing.where(f"NOT ({is_new})").selectExpr(*map(quoted, key), FILE, POS)
    return Difference(written, removed, differing)


def compare_history(
    plan: JoinPlan, stored_rows: DataFrame, joined: DataFrame, touched: DataFrame | None
) -> Difference:
    """Compare the stored versions with the joined rows: all rows over time, else the last row of each key."""
    joining, writer = plan.joining, _version_rows(plan)
    key = list(joining.dimension.key)
    stored = writer.stored(stored_rows)
    cells = struct({f"c{i}": quoted(c.name) for i, c in enumerate(joining.dimension.schema)})
    item = {
        "cells": f"CASE WHEN {IS_UNKNOWN} IS NOT NULL THEN {cells} END",
        "instant": AT,
        "is_unknown": IS_UNKNOWN,
    }
    images = joined.groupBy(*map(quoted, key)).agg(F.expr(f"collect_list({struct(item)}) AS {_JOINED}"))
    both = _align(plan, stored, images, touched)
    arrays = {STORED: stored, _JOINED: images}
    empty = {name: f"CAST(array() AS {ddl_of(of.schema[name].dataType)})" for name, of in arrays.items()}
    lets = {name: f"coalesce({name}, {none})" for name, none in empty.items()}
    versions = f"transform({STORED}, s -> s.version)"
    lets["base"] = versions if joining.over_time else tail(versions)
    make_versions = _versions_over_time if joining.over_time else _versions_of_last_row
    lets["after"] = make_versions(plan, writer.versions)
    changes = {"rows": writer.changed("''", STORED, "base", "after"), "beyond": _beyond(plan, writer)}
    by_key = both.selectExpr(*map(quoted, key), f"{let(lets, struct(changes))} AS {_BECOMES}").persist()
    wrong = f"coalesce({_BECOMES}.beyond, {_BECOMES}.rows.wrong)"
    explanation = f"concat({key_text(key_columns(joining.dimension))}, ': ', {wrong})"
    sums = [f"coalesce(sum({_BECOMES}.rows.opened) FILTER (WHERE {wrong} IS NULL), 0)"]
    sums += [f"count({explanation})", f"min({explanation})"]
    with freed_on_failure(by_key.unpersist):
        opened, skipped, example = by_key.agg(*map(F.expr, sums)).collect()[0]
    right = by_key.where(f"{wrong} IS NULL")
    written = writer.rows(right.selectExpr(f"explode({_BECOMES}.rows.fresh) AS fresh"))
    removed = writer.gone(right.selectExpr(f"explode({_BECOMES}.rows.gone) AS gone"))
    return Difference(written, removed, by_key, int(opened), SkippedKeys(skipped, example) if skipped else None)


def _beyond(plan: JoinPlan, writer: VersionRows) -> str:
    """Return SQL for why versions over time (`after`) cannot be shown, or NULL.

    The current version is shown to end at the open end. A version that ended there would look current as well, and
    one that began there would end where it begins. Sources without an open end, or with a later one, may have such
    instants.
    """
    form = writer.history.validity_columns
    if form.open_end is None or not plan.joining.over_time:
        return "string(NULL)"
    violating = f"filter(after, v -> greatest(v.begins, v.ends) >= {form.open_end}L)"
    begins = f"string({writer.instant('violating[0].begins')})"
    explanation = f"concat({text(f'{BEYOND_OPEN_END} ({form.valid_from} = ')}, {begins}, ')')"
    return let({"violating": violating}, f"CASE WHEN size(violating) > 0 THEN {explanation} END")


def _align(plan: JoinPlan, stored: DataFrame, joined: DataFrame, touched: DataFrame | None) -> DataFrame:
    """Return for each key the stored and the joined rows, and the date of the changes that touched it."""
    key = list(plan.joining.dimension.key)
    if touched is None:
        return stored.join(joined, key, "full").selectExpr("*", f"bigint(NULL) AS {_TOUCHED}")
    touched = touched.selectExpr(*map(quoted, key), f"{INSTANT} AS {_TOUCHED}")
    return touched.join(stored, key, "left").join(joined, key, "left")


def _version_rows(plan: JoinPlan) -> VersionRows:
    dimension = plan.joining.dimension
    history, columns = dimension.history, columns_of(dimension)
    if history is None or columns is None:
        raise LookupError("a joined mirror has no versions")
    return VersionRows(dimension, history, _ShownVersions(dimension.schema, columns, dimension.sequences, 1))


def _versions_of_last_row(plan: JoinPlan, versions: Versions) -> str:
    """Return SQL for the versions of a key of which only the last joined row is known."""
    bindings = {"row": f"try_element_at({_JOINED}, 1)", "last": "try_element_at(base, -1)"}
    begins = f"CASE WHEN row.is_unknown AND size(base) = 0 THEN {BEGINNING}L ELSE {_change_instant(plan)} END"
    return let(bindings, _next_versions(plan, versions, "base", begins))


def _versions_over_time(plan: JoinPlan, versions: Versions) -> str:
    """Return SQL for the versions of a key with one joined row for each instant."""
    step = _next_versions(plan, versions, "so_far", "row.instant")
    return f"aggregate(array_sort({_JOINED}, {_BY_INSTANT}), {versions.none}, (so_far, row) -> {step})"


def _next_versions(plan: JoinPlan, versions: Versions, before: str, instant: str) -> str:
    """Return SQL for the versions of a key after its joined row (`row`) changed or was removed at an instant.

    The change is an event `e` of `Versions`; its place is that of the batch.
    """
    sequence = f"CAST(0 AS {names.sequence_type(versions.sequences)})"
    place = struct({"s": sequence, "o": f"{plan.batch}L", "r": "0L"})
    opened = versions.opened(before, "row.cells")
    after = f"CASE WHEN row.cells IS NULL THEN {versions.closed(before)} ELSE {opened} END"
    return let({"e": struct({"instant": instant, "place": place, "old": "string(NULL)"})}, after)


def _change_instant(plan: JoinPlan) -> str:
    """Return SQL for the instant from which a joined row counts, if its versions do not come from its sources.

    It is the greatest instant of its rows and of the changes that touched it. The run dates it by option, and where
    nothing dates a change of an existing row: no source lists a change with a time, and none of its rows is newer
    than its last version.
    """
    history = plan.joining.dimension.history or History()
    if plan.is_first and history.first_load is not None:
        return f"{history.first_load}L"
    run = of_time(f"{plan.ran}L", history)
    if isinstance(history.validity, ByRun):
        return run
    is_dated = f"last IS NULL OR {_TOUCHED} IS NOT NULL OR row.instant > last.reached"
    return f"CASE WHEN {is_dated} THEN coalesce(greatest({_TOUCHED}, row.instant), {run}) ELSE {run} END"
