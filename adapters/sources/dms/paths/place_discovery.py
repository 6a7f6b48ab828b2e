"""Find where full loads and changes lie in a folder that nobody has configured.

By default both lie in `schema/table`. Where they lie apart, as in `full/shop/orders` and `cdc/shop/orders`, the
change files show which parts are the schema and the table: a full-load folder may have segments in it, which look
like tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from lakeward.adapters.sources.dms.paths.date_folders import find_period
from lakeward.adapters.sources.dms.paths.file_names import PLACES, STANDARD, read_name
from lakeward.adapters.sources.landing.places import OWN_FOLDER, Place, Places
from lakeward.core.ports import Stored

Parts: TypeAlias = tuple[str, ...]

_DEPTH: Final = 4
"""The most folders, one within the other, that a date has."""


def find_places(listed: Iterable[Stored]) -> Places:
    """Return the two templates that most tables with both kinds of files have, or else those of DMS."""
    loads, changes = set[Parts](), set[Parts]()
    for entry in listed:
        path = PurePosixPath(entry.name)
        file_name = read_name(path.name)
        if file_name is not None and entry.size is not None and not any(part[0] in "._" for part in path.parts):
            (loads if file_name.is_load else changes).add(path.parts[:-1])
    pairs = Counter(_folder_pairs(loads, {_without_date(parts) for parts in changes}))
    if not pairs:
        return PLACES
    (load, of_changes) = max(pairs, key=lambda pair: (pairs[pair], pair))
    return Places(Place(STANDARD, _template(load), _template(of_changes)))


def _without_date(parts: Parts) -> Parts:
    """Return a folder of changes without its date folders."""
    for depth in range(_DEPTH, 0, -1):
        if len(parts) > depth and find_period("/".join(parts[-depth:])) is not None:
            return parts[:-depth]
    return parts


def _folder_pairs(loads: Iterable[Parts], changes: Iterable[Parts]) -> Iterator[tuple[Parts, Parts]]:
    """Yield, for a table with both kinds of files, what precedes schema and table in each of its two folders."""
    listed = [*loads]
    for folder in changes:
        before, table = folder[:-2], folder[-2:]
        for parts in listed if len(table) == 2 else ():
            places = [place for place in range(len(parts) - 1) if parts[place : place + 2] == table]
            yield from ((parts[:place], before) for place in places[:1])


def _template(before: Parts) -> str:
    return "/".join((*before, OWN_FOLDER))
