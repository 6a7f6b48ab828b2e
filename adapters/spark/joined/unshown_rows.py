"""`lakeward.core.joined.unshown` as frames: what a joined table cannot show of its driving source."""

from __future__ import annotations

from lakeward.adapters.spark.joined.sides import Frames, Side, all_there, literal, sides
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.unshown import Unshown


def unshown(joining: Joining, tables: Frames) -> Unshown:
    """Return what a joined table cannot show of the rows, or versions, of its driving source.

    Only such rows are read, where the table format tells by its statistics in which files none can be; and nothing
    where rows are found by their key, which is never NULL, and there is no unknown row.
    """
    driving = sides(joining)[joining.joined.driving]
    has_all = all_there(driving.links)
    is_unknown = _has_key_of_unknown(joining, driving)
    if not joining.needs_before(driving.name) and joining.unknown is None:
        return Unshown()
    rows = tables[driving.name].where(f"NOT ({has_all}) OR {is_unknown}")
    counted = rows.selectExpr(f"count_if(NOT ({has_all})) AS keyless", f"count_if({is_unknown}) AS unknown")
    [(keyless, unknown)] = counted.collect()
    return Unshown(keyless, unknown > 0)


def _has_key_of_unknown(joining: Joining, driving: Side) -> str:
    """Return whether a row has the key of the row that stands for whatever has none, as SQL."""
    if joining.unknown is None:
        return "false"
    key, cells = joining.dimension.key, joining.unknown[1]
    types = {column.name: column.type for column in joining.dimension.schema}
    equal = [
        f"{link} = CAST({literal(cells[name], types[name])} AS {ddl(types[name])})"
        for link, name in zip(driving.links, key, strict=True)
    ]
    return " AND ".join(equal)
