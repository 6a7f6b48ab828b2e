"""The headers of a table's other files: what a first line of unknown names is compared with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Final

from lakeward.adapters.landed.folder import Folder
from lakeward.adapters.landed.layout import Expected, header_names
from lakeward.adapters.landed.places import format_of
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError

_LOOKED_AT: Final = 4
"""So many of the first files of a table, and so many of the last, are looked at."""


def names_in_headers(
    folder: Folder, table: TableName, expected: Expected, head: Callable[[str], str]
) -> Collection[str]:
    """Return the names, in small letters, in the headers of a table's first and last CSV files.

    A file that cannot be read has none: it stops its table by itself. `head` returns the beginning of a file.
    """
    heads = list[str]()
    for name in _chosen(folder, table):
        with suppress(SourceError):
            heads.append(head(name))
    return {name for text in heads for name in header_names(text, expected)}


def _chosen(folder: Folder, table: TableName) -> Iterator[str]:
    listed, _ = folder.list(table) or ((), ())
    names = [item.name for item in sorted(listed, key=lambda item: (item.order, item.name))]
    archived = folder.first_archived(table)
    for name in (*names[:_LOOKED_AT], *names[_LOOKED_AT:][-_LOOKED_AT:], *([archived] if archived else [])):
        if format_of(name) == "csv" and not folder.is_shared(table, name):
            yield name
