"""`lakeward.core.joined.join` as frames: what has to be written and removed so that a joined table is what is made.

What stands is given as rows of the table and where they lie; what is made, by
`lakeward.adapters.spark.joined.joined_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.execution.cached_frames import freed_on_failure
from lakeward.adapters.spark.history.instants import of_time
from lakeward.adapters.spark.history.version_rows import STORED, VersionRows, tail
from lakeward.adapters.spark.history.versions import Versions, equal
from lakeward.adapters.spark.joined.sides import AT, INSTANT, INSTANTS, IS_UNKNOWN, UNDATED
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import let, struct
from lakeward.adapters.spark.sql.keys import key_columns, key_text
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl, ddl_of
from lakeward.core.history.options import ByRun, History
from lakeward.core.joined.dates import BEGINNING, BEYOND
from lakeward.core.joined.plan import JoinPlan
from lakeward.core.joined.undated import Part
from lakeward.core.merge.fold import columns_of
from lakeward.core.ports import SkippedKeys

_MADE: Final = "_lakeward_made"
_BECOMES: Final = "_lakeward_becomes"
_TOUCHED: Final = "_lakeward_touched"
_SILENT: Final = "_lakeward_silent"

_BY_INSTANT: Final = (
    "(a, b) -> CASE WHEN a.instant < b.instant THEN -1 WHEN a.instant > b.instant THEN 1 ELSE 0 END"
)


@dataclass(frozen=True, slots=True)
class Difference:
    """What a batch does to a joined table: rows to be written, and those to be removed, with where they lie.

    `opened` is how many more versions of a history are current afterwards; `left` are keys of which it neither
    writes nor removes any.
    """

    written: DataFrame
    removed: DataFrame
    cached: DataFrame
    opened: int = 0
    left: SkippedKeys | None = None


class _Looks(Versions):
    """Versions that are the same where they show the same: the batch that made them does not count."""

    def equal(self, one: str, other: str) -> str:
        """Return whether two versions show the same."""
        return self.tells(one, other)


def mirrored(plan: JoinPlan, standing: DataFrame, made: DataFrame, touched: DataFrame | None) -> Difference:
    """Compare what stands with the joined rows, key by key: all of them, or those that are touched."""
    dimension = plan.joining.dimension
    key = list(dimension.key)
    own = {c.name: c.type for c in dimension.schema}
    lacks = {name: type_ for name, type_ in own.items() if name not in standing.columns}
    nulls = [f"CAST(NULL AS {ddl(type_)}) AS {quoted(name)}" for name, type_ in lacks.items()]
    standing = fitted(standing, dimension.schema).selectExpr("*", *nulls)
    cells = struct({f"c{i}": quoted(name) for i, name in enumerate(own)})
    stands = standing.selectExpr(*map(quoted, key), f"{cells} AS {STORED}", FILE, POS)
    both = _beside(plan, stands, made.selectExpr(*map(quoted, key), f"{cells} AS {_MADE}"), touched)
    same = " AND ".join(equal(f"{STORED}.c{i}", f"{_MADE}.c{i}", type_) for i, type_ in enumerate(own.values()))
    is_new, is_gone = f"{STORED} IS NULL", f"{_MADE} IS NULL"
    found = both.where(f"({is_new}) != ({is_gone}) OR (NOT ({is_new}) AND NOT ({same}))").persist()
    place = dict(zip(names.POSITION, ("1", "0L", f"{plan.batch}L", "0L"), strict=True))
    written = found.where(f"NOT ({is_gone})").selectExpr(
        *[f"{_MADE}.c{i} AS {quoted(name)}" for i, name in enumerate(own)],
        *[f"{value} AS {name}" for name, value in place.items()],
    )
    removed = found.where(f"NOT ({is_new})").selectExpr(*map(quoted, key), FILE, POS)
    return Difference(written, removed, found)


def versioned(plan: JoinPlan, standing: DataFrame, made: DataFrame, touched: DataFrame | None) -> Difference:
    """Compare the versions that stand with those that are made: all of them over time, else the last."""
    joining, shown = plan.joining, _shown(plan)
    key = list(joining.dimension.key)
    stored = shown.stored(standing)
    cells = struct({f"c{i}": quoted(c.name) for i, c in enumerate(joining.dimension.schema)})
    item = {
        "cells": f"CASE WHEN {IS_UNKNOWN} IS NOT NULL THEN {cells} END",
        "instant": AT if joining.over_time else f"array_max({INSTANTS})",
        "instants": INSTANTS,
        "stands_for_none": IS_UNKNOWN,
    }
    images = made.groupBy(*map(quoted, key)).agg(F.expr(f"collect_list({struct(item)}) AS {_MADE}"))
    both = _beside(plan, stored, images, touched)
    empty = {name: f"CAST(array() AS {ddl_of(of.schema[name].dataType)})" for name, of in _arrays(stored, images)}
    lets = {name: f"coalesce({name}, {none})" for name, none in empty.items()}
    versions = f"transform({STORED}, s -> s.version)"
    lets["base"] = versions if joining.over_time else tail(versions)
    lets["after"] = _followed(plan, shown.versions) if joining.over_time else _compared(plan, shown.versions)
    becomes = {"rows": shown.changed("''", STORED, "base", "after"), "beyond": _beyond(plan, shown)}
    found = both.selectExpr(*map(quoted, key), f"{let(lets, struct(becomes))} AS {_BECOMES}").persist()
    wrong = f"coalesce({_BECOMES}.beyond, {_BECOMES}.rows.wrong)"
    told = f"concat({key_text(key_columns(joining.dimension))}, ': ', {wrong})"
    sums = [f"coalesce(sum({_BECOMES}.rows.opened) FILTER (WHERE {wrong} IS NULL), 0)"]
    sums += [f"count({told})", f"min({told})", f"count({_BECOMES}.beyond)"]
    with freed_on_failure(found.unpersist):
        opened, left, example, beyond = found.agg(*map(F.expr, sums)).collect()[0]
    right = found.where(f"{wrong} IS NULL")
    written = shown.rows(right.selectExpr(f"explode({_BECOMES}.rows.fresh) AS fresh"))
    removed = shown.gone(right.selectExpr(f"explode({_BECOMES}.rows.gone) AS gone"))
    return Difference(written, removed, found, int(opened), SkippedKeys(left, example, beyond) if left else None)


def _beyond(plan: JoinPlan, shown: VersionRows) -> str:
    """Return why versions over time (`after`) cannot be shown, or NULL: `beyond` of the core as SQL."""
    form = shown.history.shown
    if form.open_end is None or not plan.joining.over_time:
        return "string(NULL)"
    found = f"filter(after, v -> greatest(v.begins, v.ends) >= {form.open_end}L)"
    begins = f"string({shown.instant('found[0].begins')})"
    words = f"concat({text(f'{BEYOND} ({form.valid_from} = ')}, {begins}, ')')"
    return let({"found": found}, f"CASE WHEN size(found) > 0 THEN {words} END")


def _arrays(stored: DataFrame, images: DataFrame) -> Sequence[tuple[str, DataFrame]]:
    return [(STORED, stored), (_MADE, images)]


def _beside(plan: JoinPlan, stands: DataFrame, made: DataFrame, touched: DataFrame | None) -> DataFrame:
    """Return what stands of each key beside what is made of it, and what dates the changes that touched it."""
    key = list(plan.joining.dimension.key)
    if touched is None:
        return stands.join(made, key, "full").selectExpr(
            "*", f"bigint(NULL) AS {_TOUCHED}", f"CAST(NULL AS array<int>) AS {_SILENT}"
        )
    touched = touched.selectExpr(*map(quoted, key), f"{INSTANT} AS {_TOUCHED}", f"{UNDATED} AS {_SILENT}")
    if plan.whole:
        return stands.join(made, key, "full").join(touched, key, "left")
    return touched.join(stands, key, "left").join(made, key, "left")


def _shown(plan: JoinPlan) -> VersionRows:
    dimension = plan.joining.dimension
    history, columns = dimension.history, columns_of(dimension)
    if history is None or columns is None:
        raise LookupError("a joined mirror has no versions")
    return VersionRows(dimension, history, _Looks(dimension.schema, columns, dimension.sequences, 1))


def _compared(plan: JoinPlan, versions: Versions) -> str:
    """Return the versions of a key of which only the last row is known: `compared` of the core as SQL."""
    found = {"row": f"try_element_at({_MADE}, 1)", "last": "try_element_at(base, -1)"}
    known = _of_change(plan, f"greatest({_TOUCHED}, row.instant)", _is_dated(plan, versions))
    at = f"CASE WHEN row.stands_for_none AND size(base) = 0 THEN {BEGINNING}L ELSE {known} END"
    return let({**found, "e": _event(plan, versions, at)}, _after(versions, "base", "row"))


def _is_dated(plan: JoinPlan, versions: Versions) -> str:
    """Return whether all that became of a joined row is dated by its sources: `is_dated` of the core as SQL."""
    if plan.is_redeclared:
        return "(last IS NULL)"
    joining = plan.joining
    changed = []
    for place, name in enumerate(joining.joined.sources):
        part = Part.of(joining, name, versions.columns)
        there, ended = "row.cells IS NOT NULL", "last.ends IS NOT NULL"
        differs = f"NOT ({replace(versions, columns=part.columns).same('last.cells', 'row.cells')})"
        goes = f"({there}) = ({ended})" if part.holds else "false"
        instant = f"get(row.instants, {place})"
        says = f"{instant} > last.reached" if joining.is_grouped(name) else f"{instant} IS NOT NULL"
        silent = "true" if name in plan.untold else f"array_contains({_SILENT}, {place})"
        differs = f"CASE WHEN {there} AND NOT ({ended}) THEN {differs} ELSE {goes} END"
        changed.append(f"coalesce({silent}, false) AND NOT coalesce({says}, false) AND {differs}")
    return f"(last IS NULL OR NOT ({' OR '.join(f'({one})' for one in changed)}))"


def _followed(plan: JoinPlan, versions: Versions) -> str:
    """Return the versions of a key of which there is a row for each instant: `over_time` of the core as SQL."""
    in_order = f"array_sort({_MADE}, {_BY_INSTANT})"
    step = let({"e": _event(plan, versions, "row.instant")}, _after(versions, "so_far", "row"))
    return f"aggregate({in_order}, {versions.none}, (so_far, row) -> {step})"


def _after(versions: Versions, before: str, row: str) -> str:
    """Return the versions of a key after its joined row became another, or went."""
    opened = versions.opened(before, f"{row}.cells")
    return f"CASE WHEN {row}.cells IS NULL THEN {versions.closed(before)} ELSE {opened} END"


def _event(plan: JoinPlan, versions: Versions, instant: str) -> str:
    """Return what changed a joined row, as `Versions` takes events: its place is that of the batch."""
    sequence = f"CAST(0 AS {names.sequence_type(versions.sequences)})"
    place = struct({"s": sequence, "o": f"{plan.batch}L", "r": "0L"})
    return struct({"instant": instant, "place": place, "old": "string(NULL)"})


def _of_change(plan: JoinPlan, instant: str, is_dated: str) -> str:
    """Return from when a joined row counts: `of_change` of the core as SQL."""
    history = plan.joining.dimension.history or History()
    if plan.is_first and history.first_load is not None:
        return f"{history.first_load}L"
    run = of_time(f"{plan.ran}L", history)
    if isinstance(history.validity, ByRun):
        return run
    return f"CASE WHEN {is_dated} THEN coalesce({instant}, {run}) ELSE greatest({instant}, {run}) END"
