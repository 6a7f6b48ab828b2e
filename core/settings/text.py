"""Read settings from text: TOML, or a JSON object of the same form."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.core.errors import ConfigError


def read_settings(text: str, place: str) -> Mapping[str, Any]:
    """Return the settings of a text; a text that begins with `{` is JSON, as no TOML does.

    Raises ConfigError, which names the `place` and shows nothing of the text.

    >>> read_settings('key = ["id"]', "a.toml") == read_settings('{"key": ["id"]}', "a.json")
    True
    """
    if not text.lstrip().startswith("{"):
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            todo = "https://toml.io/en/v1.0.0"
            raise ConfigError(f"{place} is not valid TOML", found=str(error), todo=todo) from error
    try:
        settings: Mapping[str, Any] = json.loads(text, object_pairs_hook=_without_repeated_keys)
    except ValueError as error:
        todo = "Correct it there; https://www.json.org shows the form."
        raise ConfigError(f"{place} is no JSON", found=str(error), todo=todo) from None
    return settings


def read_object(text: str, place: str) -> Mapping[str, Any]:
    """Return the JSON object of a text; raises ConfigError, which shows nothing of the text."""
    if not text.lstrip().startswith("{"):
        raise ConfigError(f"{place} is no JSON object", todo="It begins with `{`: correct it there.")
    return read_settings(text, place)


def _without_repeated_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raises ValueError where it has a key twice."""
    content = dict(pairs)
    if len(content) < len(pairs):
        repeated = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise ValueError(f"the key {repeated!r} is there twice")
    return content
