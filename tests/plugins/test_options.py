"""Options of plugins are validated, and what is wrong is said as the settings file spells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from lakeward.core.errors import ConfigError
from lakeward.core.text.suggestions import nearest
from lakeward.plugins import Runtime
from lakeward.plugins.manager import load, registry_of
from lakeward.plugins.options import validated


class Tray(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int = 4


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str
    format: Literal["a4", "a5"] = "a4"
    tray: Tray = Field(default_factory=Tray)

    @field_validator("path")
    @classmethod
    def _is_a_folder(cls, value: str) -> str:
        if not value.endswith("/"):
            raise ValueError("Must end with a slash")
        return value


def refusal(values: dict[str, Any], **more: Any) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        validated(Options, values, "lakeward.toml", within="source", **more)
    return refused.value


def test_options_that_are_right_come_back_as_the_model() -> None:
    assert validated(Options, {"path": "in/"}, "lakeward.toml") == Options(path="in/")


EVERY_KEY = "docs/reference/settings.md lists every key."


@pytest.mark.parametrize(
    ("values", "found", "todo"),
    [
        ({"path": "in/", "fromat": "a5"}, ["[source] has no key 'fromat'"], "Did you mean 'format'?"),
        ({"path": "in/", "kee": ["id"]}, ["[source] has no key 'kee'"], "Did you mean 'key'?"),
        ({"path": "in/", "colour": "red"}, ["[source] has no key 'colour'"], EVERY_KEY),
        ({"path": "in/", "tray": {"sise": 3}}, ["[source.tray] has no key 'sise'"], "Did you mean 'size'?"),
        ({}, ["[source] lacks the key 'path'"], EVERY_KEY),
        ({"path": "in/", "format": "a6"}, ["[source.format]: input should be 'a4' or 'a5'"], EVERY_KEY),
        ({"path": "in"}, ["[source.path]: must end with a slash"], EVERY_KEY),
        (
            {"path": "in", "trya": 1},
            ["[source.path]: must end with a slash", "[source] has no key 'trya'"],
            "Did you mean 'tray'?",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_was_meant(
    values: dict[str, Any], found: list[str], todo: str
) -> None:
    error = refusal(values, also=["key"])
    assert error.what == "lakeward.toml: the settings are not right"
    assert (str(error.found).splitlines(), error.todo) == (found, todo)


def test_the_nearest_of_nothing_is_none() -> None:
    assert nearest("warehouse", []) is None


def test_the_adapters_that_come_along_name_the_file_and_the_table_of_the_settings() -> None:
    registry = registry_of(load(entry_points=False))
    runtime = Runtime(lambda: None, Path(), Path("shop.toml"), ("key", "columns"))
    with pytest.raises(ConfigError, match=r"shop\.toml") as refused:
        registry.sources.build("dms", {"pth": "landing/", "formats": {}}, runtime)
    assert refused.value.found == "[source] lacks the key 'path'\n[source] has no key 'pth'"
    tables = {"shop.orders": {"partition_bye": ["day"]}}
    with pytest.raises(ConfigError, match=r'\[tables\."shop\.orders"\] has no key \'partition_bye\'') as refused:
        registry.formats.build("iceberg", {"warehouse": "lake/", "tables": tables}, runtime)
    assert refused.value.todo == "Did you mean 'partition_by'?"
    with pytest.raises(ConfigError, match="shop") as refused:
        registry.formats.build("iceberg", {"warehouse": "lake/", "tables": {"shop.orders": {"kye": []}}}, runtime)
    assert refused.value.todo == "Did you mean 'key'?"
