"""`lakeward.core.history.older_snapshots` as expressions of Spark's SQL: a snapshot that is put between others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.surrogate_numbers import Numbering
from lakeward.adapters.spark.history.version_rows import BEGINS, ENDS, STORED, VersionRows
from lakeward.adapters.spark.merge.fold.fold_items import KEY, Key
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import let, struct
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.events import LOAD_SEQUENCE
from lakeward.core.history.older_snapshots import SnapshotSpan
from lakeward.core.plan import MergePlan
from lakeward.core.ports import SkippedKeys

_SAID: Final = "_lakeward_said"
"""What a snapshot has of a key: its cells, and the row that it is."""


@dataclass(frozen=True, slots=True)
class Spliced:
    """What a snapshot makes of each key: one row a key in `changes`, as `VersionRows.changed` has them."""

    shown: VersionRows
    changes: DataFrame

    def rows(self, numbering: Numbering) -> DataFrame:
        """Return the versions to be written, as rows of the table."""
        return self.shown.rows(numbering.give(self._fresh()))

    def numbering(self, highest: int) -> Numbering:
        """Return how the versions are numbered that are new, where they are."""
        return self.shown.numbering(self._fresh(), highest)

    def _fresh(self) -> DataFrame:
        return self.changes.selectExpr("explode(c.fresh) AS fresh")

    def removed(self) -> DataFrame:
        """Return the rows that go, and where they lie."""
        return self.shown.gone(self.changes.selectExpr("explode(c.gone) AS gone"))

    def opened(self) -> int:
        """Return how many more versions are current than before."""
        found = self.changes.agg(F.expr("coalesce(sum(c.opened), 0) AS opened")).collect()
        return int(found[0]["opened"])

    def wrong(self) -> SkippedKeys | None:
        """Return of how many keys versions would break a rule, with an example; None where they are right."""
        keys, example = self.changes.agg(*map(F.expr, ("count(c.wrong)", "min(c.wrong)"))).collect()[0]
        return SkippedKeys(keys, example) if keys else None


def spliced(plan: MergePlan, shown: VersionRows, span: SnapshotSpan, rows: DataFrame, events: DataFrame) -> Spliced:
    """Put a snapshot into a history, between those before and behind it; `rows` are all of the table."""
    key = Key(plan.dimension)
    if not shown.current:  # else all versions of a key show what it is now
        near = f"({ENDS} IS NULL OR {ENDS} >= {span.begins}L) AND {BEGINS} <= {span.ends}L"
        rows = shown.read(rows).where(near).select(*map(quoted, rows.columns))
    stood = shown.stored(rows).selectExpr(f"{key.text()} AS {KEY}", STORED)
    said = _said(shown, key, events)
    both = stood.join(said, KEY, "full_outer")
    none = F.array().cast(stood.schema[STORED].dataType)
    both = both.withColumn(STORED, F.coalesce(F.col(STORED), none))
    versions = _versions(shown, span, f"transform({STORED}, s -> s.version)")
    changed = shown.changed(KEY, STORED, shown.versions.none, versions)
    return Spliced(shown, both.selectExpr(f"{changed} AS c").localCheckpoint())


def _said(shown: VersionRows, key: Key, events: DataFrame) -> DataFrame:
    """Return what a snapshot has of each key; of twins the last row counts."""
    has, own = set(events.columns), shown.versions.schema.columns
    cells = {
        f"c{i}": f"CAST({quoted(c.name) if c.name in has else 'NULL'} AS {ddl(c.type)})" for i, c in enumerate(own)
    }
    said = struct({"cells": struct(cells), "row": names.ROW})
    place = f"struct({names.OBJECT}, {names.ROW})"
    return events.groupBy(F.expr(key.text()).alias(KEY)).agg(F.expr(f"max_by({said}, {place}) AS {_SAID}"))


def _versions(shown: VersionRows, span: SnapshotSpan, had: str) -> str:
    """Return the versions of a key once the snapshot has said how it stood: `witnessed` as SQL."""
    versions = shown.versions
    if span.begins >= span.ends:
        return had
    sequence = names.sequence_type(versions.sequences)
    place = {
        "e": str(span.position.epoch),
        "s": f"CAST('{LOAD_SEQUENCE}' AS {sequence})",
        "o": f"{span.position.object}L",
        "r": "0L",
    }
    begins, ends = f"{span.begins}L", f"{span.ends}L"
    cut = _changed(shown, "v", ends=begins, reached=begins, place=struct(place))
    made = {name: f"CAST(NULL AS {type_})" for name, type_ in versions.fields.items()}
    made |= {"begins": begins, "ends": ends, "reached": ends, "went": "false", "cells": f"{_SAID}.cells"}
    made["place"] = struct({**place, "r": f"{_SAID}.row"})
    is_same = versions.alike("v.cells", f"{_SAID}.cells", range(len(versions.schema)))
    kept = _changed(shown, "same[0]", begins=begins, place="greatest(same[0].place, made.place)")
    last = "try_element_at(acc, -1)"
    goes_on = f"{last}.ends = v.begins AND ({versions.same(f'{last}.cells', 'v.cells')})"
    joined = _changed(shown, "v", begins=f"{last}.begins")
    went = _changed(shown, "v", went="v.ends IS NOT NULL AND NOT (v.ends <=> get(joined, i + 1).begins)")
    lets = {
        "had": had,
        "made": struct(made),
        "same": f"filter(had, v -> v.begins <= {begins} AND v.ends = {ends} AND {is_same})",
        "within": f"CASE WHEN {_SAID} IS NULL THEN {versions.none} WHEN size(same) > 0 THEN array({kept}) "
        "ELSE array(made) END",
        "before": f"transform(filter(had, v -> v.begins < {begins}), "
        f"v -> CASE WHEN v.ends <= {begins} THEN v ELSE {cut} END)",
        "behind": f"transform(filter(had, v -> v.ends IS NULL OR v.ends > {ends}), "
        f"v -> {_changed(shown, 'v', begins=f'greatest(v.begins, {ends})')})",
        "joined": f"aggregate(concat(before, within, behind), {versions.none}, (acc, v) -> CASE WHEN {goes_on} "
        f"THEN concat(slice(acc, 1, size(acc) - 1), array({joined})) ELSE concat(acc, array(v)) END)",
    }
    return let(lets, f"transform(joined, (v, i) -> {went})")


def _changed(shown: VersionRows, version: str, **changed: str) -> str:
    return struct({name: changed.get(name, f"{version}.{name}") for name in shown.versions.fields})
