"""The headers of a table's other CSV files.

They help to decide whether a first line with unknown names is a header, and which column order a file without a
header has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from lakeward.adapters.sources.csv.layout import ExpectedLayout, Layout, header_names
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import format_of
from lakeward.core.dimension import TableName
from lakeward.core.errors import SchemaConflict, SourceError

_FILES_READ: Final = 4
"""How many of the first files of a table are read, and how many of the last."""


def names_in_headers(
    folder: Folder, table: TableName, expected: ExpectedLayout, head: Callable[[str], str]
) -> Collection[str]:
    """Return the column names in the headers of a table's first and last CSV files, in lower case.

    `head` returns the beginning of a file by its name. A file that cannot be read is passed over here: reading its
    rows reports the error.
    """
    heads = list[str]()
    for name in _select_files(folder, table):
        with suppress(SourceError):
            heads.append(head(name))
    return {name for text in heads for name in header_names(text, expected)}


def _select_files(folder: Folder, table: TableName) -> Iterator[str]:
    listed, _ = folder.list(table) or ((), ())
    names = [item.name for item in sorted(listed, key=lambda item: (item.order, item.name))]
    archived = folder.first_archived(table)
    for name in (*names[:_FILES_READ], *names[_FILES_READ:][-_FILES_READ:], *([archived] if archived else [])):
        if format_of(name) == "csv" and not folder.is_shared(table, name):
            yield name


def order_in_headers(
    files: Iterable[tuple[str, Layout | None]], expected: ExpectedLayout, previous: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the table's columns in the order of the last header; empty if that is the declared order.

    `files` are names and layouts in the order of the files. `known` is the result for earlier files. Raises
    SchemaConflict for a file without a header that follows a header of another order than the declared one: its
    order is unknown, unless the settings say that no file has a header, or a catalogue gives the order.
    """
    declared, order = expected.dimension.schema, tuple(previous or ())
    is_order_known = expected.header != "auto" or bool(expected.dimension.orders)
    for name, layout in files:
        if layout is None or not layout.has_lines:
            continue
        own = tuple(column for column in layout.columns if declared.find(column) is not None)
        if layout.has_header:
            order = () if _agree(own, declared.names) else own
        elif not is_order_known and not _agree(own, order):
            raise SchemaConflict(
                f"{expected.dimension.name}: nothing tells the order of the columns in {name}",
                found=f"it has no header, and the last header before it has {', '.join(order)}; declared are "
                f"{', '.join(own)}",
                todo="Nothing of this batch was applied; other tables go on. Where this file has the order of that "
                "header, declare the columns so; else let it have a header of its own.",
            )
    return order


def _agree(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether the columns that two orders have in common are in the same order in both."""
    if one == other:
        return True
    common = set(one) & set(other)
    return [name for name in one if name in common] == [name for name in other if name in common]
