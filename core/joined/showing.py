"""Surrogate numbers of a joined history, of which the row that stands for whatever has none has -1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.core.events import Key
from lakeward.core.history import showing
from lakeward.core.history.showing import Numbers
from lakeward.core.history.versions import Versions
from lakeward.core.joined.dates import BEGINNING
from lakeward.core.joined.joining import Joining

UNKNOWN: Final = -1


def numbered(joining: Joining, numbers: Numbers, histories: Mapping[Key, Versions]) -> Numbers:
    """Return the numbers with one for each version that has none: from 1 on, and -1 for the unknown row."""
    unknown = None if joining.unknown is None else joining.unknown[0]
    others = {
        key: tuple(v for v in versions if (key, v.valid_from) != (unknown, BEGINNING))
        for key, versions in histories.items()
    }
    found = showing.numbered({place: number for place, number in numbers.items() if number != UNKNOWN}, others)
    return found if unknown is None else {**found, (unknown, BEGINNING): UNKNOWN}
