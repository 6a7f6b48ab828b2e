"""Where settings are kept beside the settings file: objects, parameters, control tables of a platform."""

from __future__ import annotations

from typing import Protocol

from lakeward.core.layers import SettingsLayer


class SettingsStore(Protocol):
    """A place of settings: of a whole pipeline, or of some of its tables."""

    def read(self) -> SettingsLayer:
        """Return what stands there now.

        An entry of a table that cannot be read is a `broken` one of the layer, and the others are read. Raises
        ConfigError where the store has nothing of the kind, StoreUnreachable where it does not answer.
        """
        ...
