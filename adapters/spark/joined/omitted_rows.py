"""Count what a joined table cannot show of its driving source."""

from __future__ import annotations

from lakeward.adapters.spark.joined.source_frames import Frames, JoinedSource, are_not_null, literal, sources_of
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.omitted_rows import OmittedRows


def find_omitted_rows(joining: JoinDefinition, tables: Frames) -> OmittedRows:
    """Return what a joined table cannot show of the rows or versions of its driving source.

    Where the statistics of the table format exclude files, only the others are read. Nothing is read if rows are
    found by their key, which is never NULL, and there is no unknown row.
    """
    driving = sources_of(joining)[joining.joined.driving]
    has_all = are_not_null(driving.links)
    is_unknown = _is_unknown_key(joining, driving)
    if not joining.needs_earlier_rows(driving.name) and joining.unknown is None:
        return OmittedRows()
    rows = tables[driving.name].where(f"NOT ({has_all}) OR {is_unknown}")
    counted = rows.selectExpr(f"count_if(NOT ({has_all})) AS keyless", f"count_if({is_unknown}) AS unknown")
    [(keyless, unknown)] = counted.collect()
    return OmittedRows(keyless, unknown > 0)


def _is_unknown_key(joining: JoinDefinition, driving: JoinedSource) -> str:
    """Return SQL for whether a row has the key of the unknown row."""
    if joining.unknown is None:
        return "false"
    key, cells = joining.dimension.key, joining.unknown
    types = {column.name: column.type for column in joining.dimension.schema}
    equal = [
        f"{link} = CAST({literal(cells[name], types[name])} AS {ddl(types[name])})"
        for link, name in zip(driving.links, key, strict=True)
    ]
    return " AND ".join(equal)
