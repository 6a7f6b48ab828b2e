"""Headers that are repeated among the rows of a CSV file, as when two files were concatenated.

The rule is written twice: in plain Python and as SQL. Both must give the same results.
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
"""Characters that are stripped from names: the header of a concatenated file may have a byte order mark or CR."""


def find_repeat(cells: Sequence[Field], header: Sequence[str]) -> str | None:
    """Return in words that a row repeats the header; None for any other row.

    `header` has the names of the file's columns in order, in lower case; if it is empty, no row is a repeat. After
    a repeat in the same order rows keep their columns. After one in another order they have other columns.

    >>> find_repeat(["Code ", "name"], ["code", "name"])
    'the row is the header again'
    >>> find_repeat(["name", "code"], ["code", "name"])
    'the row is the header again, with its names in another order'
    >>> find_repeat(["code", "Ada"], ["code", "name"]) is None
    True
    """
    if not header or not cells or _name(cells[0]) not in header:
        return None
    names = [*map(_name, cells)]
    if sorted(names) != sorted(header):
        return None
    return SAME_ORDER if names == [*header] else OTHER_ORDER


def _name(cell: Field) -> str:
    return cell.strip(_AROUND).lower() if isinstance(cell, str) else ""


def repeat_of(cells: Sequence[str], header: Sequence[str]) -> str:
    """Return `find_repeat` as SQL; `cells` are SQL expressions.

    For speed the other cells are compared only if the first cell is a name, and that only if it is as long as the
    shortest name, which the letter of an operation is not.
    """
    if not header:
        return "string(NULL)"
    shortest = min(len(name) if name.isascii() else 1 for name in header)
    texts = [f"lower(trim(BOTH {text(_AROUND)} FROM coalesce({cell}, '')))" for cell in cells]
    is_same = f"array({', '.join(texts)}) = array({', '.join(map(text, header))})"
    is_moved = f"array_sort(array({', '.join(texts)})) = array({', '.join(map(text, sorted(header)))})"
    is_name = f"{texts[0]} IN ({', '.join(map(text, sorted(set(header))))})"
    return (
        f"CASE WHEN octet_length(coalesce({cells[0]}, '')) >= {shortest} AND {is_name} THEN "
        f"CASE WHEN {is_same} THEN '{SAME_ORDER}' WHEN {is_moved} THEN '{OTHER_ORDER}' END END"
    )


def refuse_moved_columns(
    dimension: Dimension, frame: Frame, groups: Sequence[Group], files: Mapping[int, str]
) -> None:
    """Raise SchemaConflict if a header is repeated in another order: rows after it have other columns.

    `groups` are the survey of the frame, `files` the names of its files by their orders. The frame is read again
    only if it has rows that break the rules.
    """
    if not any(MALFORMED in group.flags for group in groups):
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
