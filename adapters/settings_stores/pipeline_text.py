"""Settings of a whole pipeline that are one text of a service of AWS: a parameter, a secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakeward.adapters.aws.service_clients import client_of, translate_errors
from lakeward.core.settings.layers import SettingsLayer
from lakeward.core.settings.text import read_settings


@dataclass(frozen=True, slots=True)
class PipelineText:
    """The text that a service keeps under a name; `get` reads it, and `place` is what messages call it."""

    place: str
    service: str
    name: str
    get: Callable[[Any, str], str]

    def read(self) -> SettingsLayer:
        """Return the settings that the text has."""
        with translate_errors(self.place, "docs/how-to/aws/settings.md"):
            text = self.get(client_of(self.service), self.name)
        return SettingsLayer(origin=self.place, content=read_settings(text, self.place))
