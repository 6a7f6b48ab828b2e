"""Settings of a whole pipeline in one text of an AWS service: a parameter or a secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakeward.adapters.aws.service_clients import client_of, translate_errors
from lakeward.core.settings.layers import SettingsLayer
from lakeward.core.settings.text import read_settings


@dataclass(frozen=True, slots=True)
class PipelineText:
    """The text that a service stores under a name; `get` reads it, `place` is its name in messages."""

    place: str
    service: str
    name: str
    get: Callable[[Any, str], str]

    def read(self) -> SettingsLayer:
        """Return the settings in the text."""
        with translate_errors(self.place, "docs/how-to/aws/settings.md"):
            text = self.get(client_of(self.service), self.name)
        return SettingsLayer(origin=self.place, content=read_settings(text, self.place))
