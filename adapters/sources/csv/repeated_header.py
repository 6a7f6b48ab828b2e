"""A header that stands again among the rows of a CSV file, as where two files were put together.

The rule is here twice: in plain Python, and as SQL for Spark, which must equal it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lakeward.adapters.sources.csv.parser import BOM, Field
from lakeward.adapters.spark.frames.event_frame import Group
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.frames.source_rows import MALFORMED
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import column, text
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict

SAME_ORDER: Final = "the row is the header again"
OTHER_ORDER: Final = "the row is the header again, with its names in another order"

_AROUND: Final = f" \t\u00a0\r{BOM}"
"""What may stand around a name: a header behind another file may begin with a byte order mark, or end in CR."""


def find_repeat(cells: Sequence[Field], header: Sequence[str]) -> str | None:
    """Return what a row is that has the names of the header, in words; None for any other row.

    `header` are the names of a file's columns by their places, in small letters; none where nothing is compared.
    A row that repeats them in their order moves no cell. In another order the rows behind it do.

    >>> find_repeat(["Code ", "name"], ["code", "name"])
    'the row is the header again'
    >>> find_repeat(["name", "code"], ["code", "name"])
    'the row is the header again, with its names in another order'
    >>> find_repeat(["code", "Ada"], ["code", "name"]) is None
    True
    """
    if not header or not cells or _name(cells[0]) not in header:
        return None
    found = [*map(_name, cells)]
    if sorted(found) != sorted(header):
        return None
    return SAME_ORDER if found == [*header] else OTHER_ORDER


def _name(cell: Field) -> str:
    return cell.strip(_AROUND).lower() if isinstance(cell, str) else ""


def repeat_of(cells: Sequence[str], header: Sequence[str]) -> str:
    """Return the same as SQL; `cells` are SQL, and a row whose first cell is no name is not looked at further.

    Nor is one that is shorter than each name, as the letter of an operation is: small letters of it are not made.
    """
    if not header:
        return "string(NULL)"
    shortest = min(len(name) if name.isascii() else 1 for name in header)
    found = [f"lower(trim(BOTH {text(_AROUND)} FROM coalesce({cell}, '')))" for cell in cells]
    is_same = f"array({', '.join(found)}) = array({', '.join(map(text, header))})"
    is_moved = f"array_sort(array({', '.join(found)})) = array({', '.join(map(text, sorted(header)))})"
    is_name = f"{found[0]} IN ({', '.join(map(text, sorted(set(header))))})"
    return (
        f"CASE WHEN octet_length(coalesce({cells[0]}, '')) >= {shortest} AND {is_name} THEN "
        f"CASE WHEN {is_same} THEN '{SAME_ORDER}' WHEN {is_moved} THEN '{OTHER_ORDER}' END END"
    )


def refuse_moved_columns(
    dimension: Dimension, frame: Frame, found: Sequence[Group], files: Mapping[int, str]
) -> None:
    """Raise SchemaConflict where a header stands again in another order: rows behind it have other columns.

    `found` is the survey of the frame, `files` are the names of its files by their orders. The frame is read again
    only where there are rows that break the rules.
    """
    if not any(MALFORMED in group.flags for group in found):
        return
    moved = in_spark(frame).where(column(MALFORMED) & (column(names.DETAIL) == OTHER_ORDER))
    row = moved.orderBy(column(names.OBJECT), column(names.ROW)).select(names.OBJECT, names.ROW, names.TEXT).first()
    if row is not None:
        raise SchemaConflict(
            f"{dimension.name}: {files[row[0]]} has a second header, with its columns in another order",
            found=f"row {row[1]} is {row[2]}",
            todo="Nothing of this batch was applied; other tables go on. Two files were put together: replace the "
            "file by both of them, each with its own header.",
        )
