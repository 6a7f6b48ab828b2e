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


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    error = refusal({"path": "in/", "fromat": "a5"})
    assert error.what == "lakeward.toml: the settings are not right"
    assert error.found == "[source] has no key 'fromat'"
    assert error.todo == "Did you mean 'format'?"


def test_an_unknown_key_that_resembles_none_is_refused_with_where_all_are_listed() -> None:
    assert refusal({"path": "in/", "colour": "red"}).todo == "docs/reference/settings.md lists every key."


def test_an_unknown_key_of_an_inner_table_is_refused_with_its_path() -> None:
    error = refusal({"path": "in/", "tray": {"sise": 3}})
    assert error.found == "[source.tray] has no key 'sise'"
    assert error.todo == "Did you mean 'size'?"


def test_a_suggestion_may_be_a_key_that_belongs_to_another() -> None:
    assert refusal({"path": "in/", "kee": ["id"]}, also=["key"]).todo == "Did you mean 'key'?"


def test_a_missing_key_is_named() -> None:
    assert refusal({}).found == "[source] lacks the key 'path'"


def test_a_value_that_does_not_fit_is_named_with_what_fits() -> None:
    assert refusal({"path": "in/", "format": "a6"}).found == "[source.format]: input should be 'a4' or 'a5'"


def test_what_a_validator_says_is_said_without_its_wrapping() -> None:
    assert refusal({"path": "in"}).found == "[source.path]: must end with a slash"


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = str(refusal({"path": "in", "fromat": "a5", "trya": {}}).found)
    assert len(found.splitlines()) == 3


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
