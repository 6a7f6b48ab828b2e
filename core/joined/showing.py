"""Surrogate numbers of a joined history, of which the row that stands for whatever has none has -1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.core.events import Key
from lakeward.core.history.numbering import Numbers
from lakeward.core.history.versions import Versions
from lakeward.core.joined.dates import BEGINNING
from lakeward.core.joined.joining import Joining

UNKNOWN: Final = -1


def numbered(joining: Joining, numbers: Numbers, histories: Mapping[Key, Versions]) -> Numbers:
    """Return the numbers with one for each version that has none: from 1 on, and -1 for the unknown row."""
    unknown = None if joining.unknown is None else (joining.unknown[0], BEGINNING)
    found = {place: number for place, number in numbers.items() if number != UNKNOWN}
    highest = max(found.values(), default=0)
    for key, versions in histories.items():
        for version in versions:
            if (place := (key, version.valid_from)) not in found and place != unknown:
                found[place] = highest = highest + 1
    return found if unknown is None else {**found, unknown: UNKNOWN}
