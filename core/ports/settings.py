"""Where settings are kept beside the settings file: objects, parameters, control tables of a platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lakeward.core.settings.layers import SettingsLayer


class SettingsStore(Protocol):
    """A place of settings: of a whole pipeline, or of some of its tables."""

    def read(self) -> SettingsLayer:
        """Return what stands there now.

        An entry of a table that cannot be read is a `broken` one of the layer, and the others are read. Raises
        ConfigError where the store has nothing of the kind, StoreUnreachable where it does not answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """How a run left a table, by its name as `schema.table`.

    It `is_loaded` once it follows changes and waits for no full load. The run ended `at`, in microseconds since
    1970; `error` is what ended it for the table, in words.
    """

    table: str
    at: int
    is_loaded: bool
    error: str | None = None


@runtime_checkable
class StatusBoard(Protocol):
    """Where the end of a run is written down; a settings store that is asked to has it."""

    def write(self, statuses: Sequence[TableStatus]) -> None:
        """Write down how tables were left; of one that the store does not know, nothing is.

        Raises ConfigError where it may not write, StoreUnreachable where it does not answer.
        """
        ...
