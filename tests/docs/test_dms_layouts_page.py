"""`docs/reference/dms-layouts.md`: its layouts, settings and rows are read as it says."""

from __future__ import annotations

import tomllib

import pytest
from pages import codes, fences, sections, tables, text

from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.dms.options import DmsOptions, DmsTableOptions
from lakeward.adapters.sources.dms.paths.date_folders import DELIMITERS, FORMS, SEQUENCES
from lakeward.adapters.sources.dms.paths.file_names import read_name, read_transactions
from lakeward.adapters.sources.dms.transactions.layout import table_of
from lakeward.adapters.sources.dms.transactions.shared_files import MAX_UNROUTED_SHARE
from lakeward.core.dimension import SHARE_FROM, TableName
from lakeward.entrypoints.settings.patterns import is_pattern, with_patterns

PAGE = "docs/reference/dms-layouts.md"
LAYOUTS = next(tables(text(PAGE)))


@pytest.mark.parametrize("row", [row for row in LAYOUTS if row["what to set"].startswith("nothing")], ids=str)
def test_a_layout_that_needs_no_setting_is_read_by_its_names(row: dict[str, str]) -> None:
    names = [name.removeprefix("shop/orders/") for name in codes(row["what it looks like"] or row["layout"])]
    assert names
    assert all(read_name(name) is not None for name in names)


def test_every_layout_is_listed() -> None:
    assert len(LAYOUTS) == 8


def test_the_sequences_and_delimiters_are_all_there() -> None:
    section = sections(PAGE)["Date folders"]
    assert set(SEQUENCES) | set(filter(None, DELIMITERS)) <= set(codes(section))
    assert "DD-MM-YYYY" in FORMS


def test_the_settings_are_valid() -> None:
    snippets = [tomllib.loads(fence.content) for fence in fences(PAGE, "toml")]
    source = {key: value for key, value in snippets[0]["source"].items() if key != "kind"}
    assert DmsOptions.model_validate(source).changes == "cdc/{schema}/{table}"
    for content in snippets[:2]:
        DmsTableOptions.model_validate(content["tables"]["shop.orders"]["source"])


def test_files_of_transactions_are_read_as_the_page_says() -> None:
    section = sections(PAGE)["Files of transactions"]
    source = tomllib.loads(fences(PAGE, "toml")[3].content)["source"]
    assert (
        DmsOptions.model_validate({key: value for key, value in source.items() if key != "kind"}).cdc_path == "cdc"
    )
    (example,) = fences(PAGE, "csv")
    tables = [table_of(row, Dialect()) for row in example.content.splitlines()]
    assert tables == [TableName("shop", "orders"), TableName("shop", "customer"), TableName("shop", "orders")]
    (name,) = {code.rpartition("/")[2] for code in codes(section) if "CDC_TXN" in code}
    assert read_transactions(name.partition(":")[0]) is not None
    assert (f"{MAX_UNROUTED_SHARE:.0%}".replace("%", " %") in section, str(SHARE_FROM) in section) == (True, True)


def test_the_example_of_many_tables_means_what_its_comments_say() -> None:
    content = tomllib.loads(fences(PAGE, "toml")[2].content)
    there = [TableName("sales", name) for name in ("customer", "order_line", "order_head", "tmp")]
    merged = with_patterns(content["tables"], content["defaults"], there)
    settings = {name: (own.get("key"), own["lateness"]) for name, own in merged.items() if not is_pattern(name)}
    assert settings == {
        "sales.customer": (["id"], "24h"),
        "sales.order_line": (["order_id", "line"], "48h"),
        "sales.order_head": (["id"], "48h"),
        "sales.tmp": (["id"], "24h"),
    }
    assert merged["sales.tmp"]["skip"] is True
