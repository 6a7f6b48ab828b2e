"""Choice of how a table finds the rows of its changes: by key, or by the whole before image."""

from __future__ import annotations

from typing import Final

from lakeward.core.dimension import Lateness, Match, Ordered, TableName
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.settings.models.tables import TableSettings

_PAGE: Final = "docs/explanation/semantics.md#tables-without-a-key"
_ORDERED: Final = (
    'Set `lateness = "ordered"`, if its files come in order: a delete that comes before its insert finds no row '
    f"({_PAGE})."
)


def match_of(name: TableName, table: TableSettings, lateness: Lateness) -> Match:
    """Return how rows are matched; raises ConfigError if image match could find no row or a wrong one."""
    if table.match is None:
        return Match.KEY
    conflicts = [
        (bool(table.key), f"its key is {', '.join(table.key)}", "Leave `match` out: rows are found by the key."),
        (table.mode != "mirror", 'it has `mode = "history"`', "A history needs a key: name one, or keep a mirror."),
        (bool(table.rules), "it has rules for its columns", "Leave them out: images are compared as sent."),
        (not isinstance(lateness, Ordered), "its changes may be late", _ORDERED),
    ]
    for is_conflict, found, todo in conflicts:
        if is_conflict:
            raise ConfigError(f'{name}: `match = "image"` is not for this table', found=found, todo=todo)
    return Match.IMAGE
