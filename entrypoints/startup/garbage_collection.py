"""Python's garbage collection in a process of lakeward."""

from __future__ import annotations

import gc
from typing import Final

_OBJECTS: Final = 50_000
"""How many new objects start a collection; 700 in Python 3.11.

Decoding makes many objects and no cycles. A fifth of its time was spent on collections that freed nothing, and a
tenth of the time of imports.
"""


def collect_rarely() -> None:
    """Let Python collect garbage after more new objects; a program that imports lakeward decides that by itself."""
    gc.set_threshold(_OBJECTS)
