"""The layer of a store of AWS that has a text for each table, found by a common prefix or path."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import structlog

from lakeward.core.settings.layers import SettingsEntry, SettingsLayer, layer_of_entries

log = structlog.get_logger()

_TODO: Final = (
    "Do nothing if its last table was removed. Otherwise correct `name` of the store, or the region "
    "(AWS_DEFAULT_REGION)."
)


def layer_of_tables(place: str, entries: Sequence[SettingsEntry]) -> SettingsLayer:
    """Return the layer of these entries; `place` is the name of the store in messages.

    A store without entries is a valid store without tables: its last table may have been removed. A wrong prefix
    or path looks the same, so it is a warning.
    """
    if not entries:
        _warn_of_no_entry(place)
    return layer_of_entries(place, entries)


@cache
def _warn_of_no_entry(place: str) -> None:
    """Warn once in a process: a pipeline that is followed reads its stores again every minute."""
    log.warning("a settings store has no table", store=place, todo=_TODO)
