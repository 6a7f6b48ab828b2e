"""Insert a snapshot between older and newer ones: `lakeward.core.history.older_snapshots` in Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.surrogate_numbers import Numbering
from lakeward.adapters.spark.history.version_rows import BEGINS, ENDS, STORED, VersionRows
from lakeward.adapters.spark.history.versions import Versions
from lakeward.adapters.spark.merge.fold.fold_items import KEY, Key
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import let, struct
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.events import LOAD_SEQUENCE
from lakeward.core.history.older_snapshots import SnapshotSpan
from lakeward.core.plan import MergePlan
from lakeward.core.ports import SkippedKeys

_SNAPSHOT: Final = "_lakeward_said"
"""Column: the cells that a snapshot has of a key, and the number of their row."""


@dataclass(frozen=True, slots=True)
class SplicedSnapshot:
    """What a snapshot changes: `changes` has one row for each key, as `VersionRows.changed` returns them."""

    writer: VersionRows
    changes: DataFrame

    def rows(self, numbering: Numbering) -> DataFrame:
        """Return the versions to write, as rows of the table."""
        return self.writer.rows(numbering.give(self._new_versions()))

    def numbering(self, highest: int) -> Numbering:
        """Return the surrogate numbers of the new versions, if the history has numbers."""
        return self.writer.numbering(self._new_versions(), highest)

    def _new_versions(self) -> DataFrame:
        return self.changes.selectExpr("explode(c.fresh) AS fresh")

    def removed(self) -> DataFrame:
        """Return the rows to remove, and where they lie."""
        return self.writer.gone(self.changes.selectExpr("explode(c.gone) AS gone"))

    def opened(self) -> int:
        """Return how many current versions the snapshot adds, net."""
        rows = self.changes.agg(F.expr("coalesce(sum(c.opened), 0) AS opened")).collect()
        return int(rows[0]["opened"])

    def wrong(self) -> SkippedKeys | None:
        """Return the number of keys whose versions would break a rule, with an example; None if there are none."""
        keys, example = self.changes.agg(*map(F.expr, ("count(c.wrong)", "min(c.wrong)"))).collect()[0]
        return SkippedKeys(keys, example) if keys else None


def spliced(
    plan: MergePlan, writer: VersionRows, span: SnapshotSpan, rows: DataFrame, events: DataFrame
) -> SplicedSnapshot:
    """Insert a snapshot between the older and the newer ones of a history; `rows` are all rows of the table."""
    key = Key(plan.dimension)
    if not writer.current:  # with current columns, all versions of a key may change
        overlaps_span = f"({ENDS} IS NULL OR {ENDS} >= {span.begins}L) AND {BEGINS} <= {span.ends}L"
        rows = writer.read(rows).where(overlaps_span).select(*map(quoted, rows.columns))
    stored = writer.stored(rows).selectExpr(f"{key.text()} AS {KEY}", STORED)
    snapshot_cells = _snapshot_cells(writer, key, events)
    keys = stored.join(snapshot_cells, KEY, "full_outer")
    none = F.array().cast(stored.schema[STORED].dataType)
    keys = keys.withColumn(STORED, F.coalesce(F.col(STORED), none))
    versions = _versions(writer, span, f"transform({STORED}, s -> s.version)")
    changes = writer.changed(KEY, STORED, writer.versions.none, versions)
    return SplicedSnapshot(writer, keys.selectExpr(f"{changes} AS c").localCheckpoint())


def _snapshot_cells(writer: VersionRows, key: Key, events: DataFrame) -> DataFrame:
    """Return the cells of each key in a snapshot. Of several rows of a key the last one counts."""
    event_columns, columns = set(events.columns), writer.versions.schema.columns
    cells = {
        f"c{i}": f"CAST({quoted(c.name) if c.name in event_columns else 'NULL'} AS {ddl(c.type)})"
        for i, c in enumerate(columns)
    }
    row_cells = struct({"cells": struct(cells), "row": names.ROW})
    place = f"struct({names.OBJECT}, {names.ROW})"
    return events.groupBy(F.expr(key.text()).alias(KEY)).agg(F.expr(f"max_by({row_cells}, {place}) AS {_SNAPSHOT}"))


def _versions(writer: VersionRows, span: SnapshotSpan, earlier: str) -> str:
    """Return SQL for the versions of a key after the snapshot: `insert_snapshot` as SQL.

    `earlier` are the versions before.
    """
    versions = writer.versions
    if span.begins >= span.ends:
        return earlier
    begins, ends = f"{span.begins}L", f"{span.ends}L"
    shortened = _with_fields(writer, "v", ends=begins, reached=begins, place=_place(versions, span, "0L"))
    is_same = versions.alike("v.cells", f"{_SNAPSHOT}.cells", range(len(versions.schema)))
    extended = _with_fields(writer, "same[0]", begins=begins, place="greatest(same[0].place, made.place)")
    last = "try_element_at(acc, -1)"
    goes_on = f"{last}.ends = v.begins AND ({versions.same(f'{last}.cells', 'v.cells')})"
    merged = _with_fields(writer, "v", begins=f"{last}.begins")
    with_deletion = _with_fields(
        writer, "v", went="v.ends IS NOT NULL AND NOT (v.ends <=> get(joined, i + 1).begins)"
    )
    lets = {
        "had": earlier,
        "made": _version_of_snapshot(versions, span),
        "same": f"filter(had, v -> v.begins <= {begins} AND v.ends = {ends} AND {is_same})",
        "within": f"CASE WHEN {_SNAPSHOT} IS NULL THEN {versions.none} WHEN size(same) > 0 THEN array({extended}) "
        "ELSE array(made) END",
        "before": f"transform(filter(had, v -> v.begins < {begins}), "
        f"v -> CASE WHEN v.ends <= {begins} THEN v ELSE {shortened} END)",
        "behind": f"transform(filter(had, v -> v.ends IS NULL OR v.ends > {ends}), "
        f"v -> {_with_fields(writer, 'v', begins=f'greatest(v.begins, {ends})')})",
        "joined": f"aggregate(concat(before, within, behind), {versions.none}, (acc, v) -> CASE WHEN {goes_on} "
        f"THEN concat(slice(acc, 1, size(acc) - 1), array({merged})) ELSE concat(acc, array(v)) END)",
    }
    return let(lets, f"transform(joined, (v, i) -> {with_deletion})")


def _version_of_snapshot(versions: Versions, span: SnapshotSpan) -> str:
    """Return SQL for the version that the snapshot has of a key."""
    fields = {name: f"CAST(NULL AS {type_})" for name, type_ in versions.fields.items()}
    fields |= {"begins": f"{span.begins}L", "ends": f"{span.ends}L", "reached": f"{span.ends}L", "went": "false"}
    fields |= {"cells": f"{_SNAPSHOT}.cells", "place": _place(versions, span, f"{_SNAPSHOT}.row")}
    return struct(fields)


def _place(versions: Versions, span: SnapshotSpan, row: str) -> str:
    """Return SQL for the place of a row of the snapshot."""
    sequence = f"CAST('{LOAD_SEQUENCE}' AS {names.sequence_type(versions.sequences)})"
    return struct({"e": str(span.position.epoch), "s": sequence, "o": f"{span.position.object}L", "r": row})


def _with_fields(writer: VersionRows, version: str, **fields: str) -> str:
    return struct({name: fields.get(name, f"{version}.{name}") for name in writer.versions.fields})
