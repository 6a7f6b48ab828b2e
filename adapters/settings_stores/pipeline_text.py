"""Settings of a whole pipeline in one text of an AWS service: a parameter or a secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakeward.adapters.aws.service_clients import create_client, explain_errors
from lakeward.core.settings.layers import SettingsLayer
from lakeward.core.settings.text import read_settings


@dataclass(frozen=True, slots=True)
class PipelineText:
    """A text that a service of AWS stores under a name.

    `service` is the name of its client in boto3. `get` reads the text with a client and the name. `place` is the
    place of the text in messages.
    """

    place: str
    service: str
    name: str
    get: Callable[[Any, str], str]

    def read(self) -> SettingsLayer:
        """Return the settings in the text.

        Raises ConfigError if it does not exist, may not be read, or is not TOML or JSON. Raises StoreUnreachable if
        AWS does not answer.
        """
        with explain_errors(self.place, "docs/how-to/aws/settings.md"):
            text = self.get(create_client(self.service), self.name)
        return SettingsLayer(origin=self.place, content=read_settings(text, self.place))
