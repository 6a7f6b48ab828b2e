"""Settings stores: objects, parameters and control tables that add to the settings file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lakeward.core.settings.layers import SettingsLayer


class SettingsStore(Protocol):
    """A store of settings of a whole pipeline, or of some of its tables."""

    def read(self) -> SettingsLayer:
        """Return the settings of the store as they are now.

        An entry of a table that cannot be read is in `broken` of the layer; the other entries are read. Raises
        ConfigError if the store does not exist, and StoreUnreachable if it does not answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """The state of a table after a run. `table` is its name as `schema.table`.

    `at` is the end of the run in microseconds since 1970. `is_loaded` says that the table has a batch and waits for
    no full load. `error` is the error that stopped the table, in words.
    """

    table: str
    at: int
    is_loaded: bool
    error: str | None = None


@runtime_checkable
class StatusBoard(Protocol):
    """Stores the status of tables after a run. A `SettingsStore` with `write_back` has this method, too."""

    def write(self, statuses: Sequence[TableStatus]) -> None:
        """Write the status of tables. Tables that the store does not know are left out.

        Raises ConfigError if access is denied, and StoreUnreachable if the store does not answer.
        """
        ...
