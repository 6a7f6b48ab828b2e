"""Settings in an object of S3: their laws and errors, with a bucket of moto."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from buckets import Buckets
from projects import MEMORY, write

from lakeward.adapters.settings_stores.s3 import build
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.startup.context import open_settings
from lakeward.plugins import Runtime
from lakeward.plugins.testing import StoreUnderTest, settings_store_contract

TABLES: dict[str, Any] = {"shop.orders": {"key": ["id"]}}
RUNTIME = Runtime(lambda: None, file=Path("lakeward.toml"))


def in_an_object(s3: Buckets) -> StoreUnderTest:
    url = f"s3://{s3.make()}/shop/more.json"
    s3.put(url, json.dumps({"tables": TABLES}))
    return StoreUnderTest(store=build({"name": url}, RUNTIME), tables=TABLES, place=url)


TestObject = settings_store_contract(in_an_object)


def test_an_object_is_the_whole_settings_or_a_layer_over_a_file(
    s3: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"s3://{s3.make()}/shop/lakeward.toml"
    s3.put(url, f'{MEMORY}\n[tables."shop.orders"]\nkey = ["id"]\nties = "what"\n[tables."shop.lines"]\n')
    configured = open_settings(url)
    assert (configured.base, configured.file) == (tmp_path, Path("lakeward.toml"))
    assert [*map(str, configured.refused)] == ["shop.orders"]
    file = write(tmp_path, MEMORY, f"[settings]\nstores = [{{ kind = 's3', name = '{url}' }}]")
    assert configured.merged.places["pipeline", "name"] == url
    assert open_settings(str(file)).merged.places["tables", "shop.orders", "key"] == url


def test_a_missing_or_unreadable_object_is_an_error(s3: Buckets) -> None:
    url = f"s3://{s3.make()}/none.toml"
    with pytest.raises(ConfigError, match=f"{url} does not exist"):
        open_settings(url)
    s3.put(url, b"\xff\xfe")
    with pytest.raises(ConfigError, match=f"{url} cannot be read"):
        open_settings(url)
    s3.put(url, "a = b")
    with pytest.raises(ConfigError, match=f"{url} is not valid TOML"):
        open_settings(url)
