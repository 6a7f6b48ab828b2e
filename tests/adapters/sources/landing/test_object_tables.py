"""Which tables read an object of a bucket, by its URL, as the settings of `dms` and `files` say where they lie."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from buckets import Buckets

from lakeward.adapters.sources import dms, files
from lakeward.core.dimension import TableName
from lakeward.plugins import Runtime

ORDERS, LINES, LOG = (TableName("shop", table) for table in ("orders", "lines", "log"))
EVERY = (ORDERS, LINES, LOG)
ROOT = "s3://bucket/landing"


@pytest.fixture
def of_dms(s3: Buckets) -> Callable[..., Callable[[str], Collection[TableName]]]:
    def make(tables: Any = None, **options: Any) -> Callable[[str], Collection[TableName]]:
        given = {"path": f"{ROOT}/", "formats": {}, "tables": tables or {}, **options}
        return dms.build_inventory(given, Runtime(lambda: None)).match_objects(EVERY)

    return make


@pytest.mark.parametrize(
    ("key", "tables"),
    [
        ("shop/orders/LOAD00000001.csv", [ORDERS]),
        ("shop/orders/20141029-113401000.csv.gz", [ORDERS]),
        ("shop/orders/2014/10/29/20141029-113401000.csv", [ORDERS]),
        ("SHOP/Orders/LOAD00000001.csv", [ORDERS]),
        *(
            (f"shop/orders{key}", [])
            for key in ("/notes.txt", "/_LOAD00000001.csv", "/_tmp/LOAD00000001.csv", "/", "")
        ),
        *((f"{folder}LOAD00000001.csv", []) for folder in ("shop//orders/", "shop/orders_old/", "shop/other/", "")),
        ("", []),
    ],
)
def test_an_object_is_of_the_table_in_whose_folder_it_lies(of_dms: Any, key: str, tables: list[TableName]) -> None:
    assert of_dms()(f"{ROOT}/{key}") == tables


@pytest.mark.parametrize(
    "url",
    [
        "s3://other/landing/shop/orders/LOAD00000001.csv",
        "s3://bucket/shop/orders/LOAD00000001.csv",
        "s3://bucket/landing2/shop/orders/LOAD00000001.csv",
        "s3://bucket",
        "",
    ],
)
def test_an_object_elsewhere_is_of_no_table(of_dms: Any, url: str) -> None:
    assert of_dms()(url) == []


def test_a_landing_folder_may_be_a_whole_bucket(of_dms: Any) -> None:
    assert of_dms(path="s3://bucket")("s3://bucket/shop/orders/LOAD00000001.csv") == [ORDERS]


def test_full_loads_and_changes_may_lie_apart(of_dms: Any) -> None:
    match = of_dms(load="full/{schema}/{table}", changes="cdc/{schema}/{table}")
    assert match(f"{ROOT}/full/shop/orders/LOAD00000001.csv") == [ORDERS]
    assert match(f"{ROOT}/cdc/shop/orders/20141029-113401000.csv") == [ORDERS]
    assert match(f"{ROOT}/cdc/shop/orders/LOAD00000001.csv") == []
    assert match(f"{ROOT}/shop/orders/LOAD00000001.csv") == []


def test_a_file_of_transactions_is_of_all_tables(of_dms: Any) -> None:
    match = of_dms(cdc_path="cdc")
    assert match(f"{ROOT}/cdc/CDC_TXN-20201117153046033.csv") == sorted(EVERY)
    assert match(f"{ROOT}/shop/orders/LOAD00000001.csv") == [ORDERS]


def test_a_table_with_a_folder_of_its_own_reads_what_lies_there(of_dms: Any) -> None:
    match = of_dms({ORDERS: {"load": "old/{table}", "changes": "."}})
    assert match(f"{ROOT}/old/orders/LOAD00000001.csv") == [ORDERS]
    assert match(f"{ROOT}/20141029-113401000.csv") == [ORDERS]
    assert match(f"{ROOT}/shop/orders/LOAD00000001.csv") == []


def test_tables_of_one_folder_have_the_files_that_their_names_say(s3: Buckets) -> None:
    tables = {name: {"folder": "all", "names": rf"{name.table}-(?P<counter>\d+)\.csv"} for name in (ORDERS, LINES)}
    options = {"path": ROOT, "format": "csv", "formats": {}, "tables": tables}
    match = files.build_inventory(options, Runtime(lambda: None)).match_objects(EVERY)
    assert match(f"{ROOT}/all/orders-1.csv") == [ORDERS]
    assert match(f"{ROOT}/all/lines-2.csv") == [LINES]
    assert match(f"{ROOT}/all/other-2.csv") == []
    assert match(f"{ROOT}/shop/log/1.csv") == [LOG]


def test_messages_of_all_tables_in_one_folder_are_of_all_of_them(s3: Buckets) -> None:
    options = {"path": ROOT, "format": "debezium", "folder": "topic", "formats": {}}
    match = files.build_inventory(options, Runtime(lambda: None)).match_objects(EVERY)
    assert match(f"{ROOT}/topic/shop+0+0000000000.json") == sorted(EVERY)


def test_a_folder_on_a_disk_has_no_objects(tmp_path: Path) -> None:
    landing = dms.build_inventory({"path": "landing", "formats": {}}, Runtime(lambda: None, tmp_path))
    assert landing.match_objects(EVERY)(f"{tmp_path}/landing/shop/orders/LOAD00000001.csv") == []
