"""Folders that the settings name and that are not there are said, each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.adapters.sources.dms import build_inventory
from lakeward.core.dimension import TableName
from lakeward.plugins import Runtime

ORDERS = TableName("shop", "orders")
APART = {"load": "full/{schema}/{table}", "changes": "cdc/{schema}/{table}"}


@pytest.mark.parametrize(
    ("options", "there", "words"),
    [
        (APART, "full/shop/orders", "of its changes"),
        (APART, "cdc/shop/orders", "of its full load"),
        ({"cdc_path": "cdcx"}, "shop/orders", "of the files of transactions is not there (cdcx)"),
    ],
)
def test_a_missing_folder_is_an_error(tmp_path: Path, options: dict[str, Any], there: str, words: str) -> None:
    (tmp_path / "landing" / there).mkdir(parents=True)
    runtime = Runtime(lambda: None, tmp_path, state=tmp_path / "state")
    landing = build_inventory({"path": "landing", "formats": {}, **options}, runtime)
    assert any(words in said for said in landing.cautions(ORDERS)), landing.cautions(ORDERS)
