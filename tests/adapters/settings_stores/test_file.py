"""Settings in files: their laws and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.adapters.settings_stores.file import SettingsFile
from lakeward.core.errors import ConfigError
from lakeward.plugins.testing import StoreUnderTest, settings_store_contract

TABLES = {"shop.orders": {"key": ["id"], "columns": {"id": "int"}}}


def in_toml(tmp_path: Path) -> StoreUnderTest:
    file = tmp_path / "more.toml"
    file.write_text('[tables."shop.orders"]\nkey = ["id"]\ncolumns = { id = "int" }\n', "utf-8")
    return StoreUnderTest(store=SettingsFile(file), tables=TABLES, place="more.toml")


def in_json(tmp_path: Path) -> StoreUnderTest:
    file = tmp_path / "more.json"
    file.write_text('\ufeff{"tables": {"shop.orders": {"key": ["id"], "columns": {"id": "int"}}}}', "utf-8")
    return StoreUnderTest(store=SettingsFile(file), tables=TABLES, place="more.json")


TestToml = settings_store_contract(in_toml)
TestJson = settings_store_contract(in_json)


def test_a_missing_or_unreadable_file_is_an_error(tmp_path: Path) -> None:
    for fails_whole, todo in ((True, "docs/start/tutorial.md"), (False, "`name` of the store under [settings]")):
        with pytest.raises(ConfigError, match="does not exist") as raised:
            SettingsFile(tmp_path / "none.toml", fails_whole).read()
        assert todo in str(raised.value.todo)
    with pytest.raises(ConfigError, match="cannot be read"):
        SettingsFile(tmp_path).read()
