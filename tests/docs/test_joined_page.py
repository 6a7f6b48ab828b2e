"""`docs/explanation/joined.md`: its tables are those that Spark joins after each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from random import Random

import pytest
from joined_frames import Table, make_plan
from joined_shops import COLUMNS, Rows, Shop, SourceRow, tables_of
from pages import fences, sections, tables, text
from projects import MEMORY, write
from pyspark.sql import SparkSession

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Cell, Key
from lakeward.core.history.options import History, Surrogate, ValidityColumns
from lakeward.core.history.version_rows import surrogate_hash
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.schema import Column, Schema, Type
from lakeward.entrypoints.settings.configuration import load
from lakeward.entrypoints.views.joined_tables import lookups

pytestmark = pytest.mark.spark

PAGE = "docs/explanation/joined.md"
TWO, OVER_TIME, SUMMARY = "A dimension of two mirrors", "A dimension of two histories", "A summary of orders"
FACTS = "Facts"

SourceRows = list[dict[str, str]]

TEXTS = {"name": Type("string"), "city": Type("string")}


def page_tables(history: History | None = None) -> dict[TableName, Dimension]:
    """Return the tables of the shop with names that are texts."""
    return {
        name: replace(one, schema=Schema(tuple(replace(c, type=TEXTS.get(c.name, c.type)) for c in one.schema)))
        for name, one in tables_of(history).items()
    }


def dated_tables() -> Mapping[TableName, Dimension]:
    """Return the tables of the shop: orders have a time, and customers are versions with a surrogate key."""
    result = page_tables(History(validity_columns=ValidityColumns(surrogate=Surrogate.HASH)))
    orders = result[TableName("shop", "orders")]
    columns = [Column("at", Type("timestamp")) if c.name == "at" else c for c in orders.schema]
    return {**result, orders.name: replace(orders, schema=Schema(tuple(columns)), history=None)}


def page_definitions(folder: Path) -> Mapping[str, JoinDefinition]:
    """Return the joined tables that the settings of the page declare, by the titles of their examples."""
    tables = '[defaults]\nkey = ["id"]\n[tables."shop.address"]\n[tables."shop.orders"]\n'
    first, second = (fence.content for fence in fences(PAGE, "toml"))
    found = load(write(folder, MEMORY, tables, '[tables."shop.customer"]\n', first)).joined
    dimension, summary = (found[TableName("dw", name)] for name in ("dim_customer", "customer_summary"))
    [fact] = load(write(folder, MEMORY, tables, second)).joined.values()
    return {
        TWO: validate_joined(dimension, page_tables()),
        OVER_TIME: validate_joined(dimension, page_tables(History())),
        SUMMARY: validate_joined(summary, page_tables()),
        FACTS: validate_joined(fact, dated_tables()),
    }


def value_in(words: str) -> object:
    if words.startswith("2026-"):
        return datetime.fromisoformat(words).replace(tzinfo=UTC)
    return int(words) if words.isdigit() else words or None


def apply_events(table: Table, shop: Shop, rows: SourceRows) -> None:
    """Apply the events of a page, and join after each run."""
    joining = table.joining
    for run, several in groupby(rows, key=lambda row: row["run"]):
        for row in several:
            moment = datetime.fromisoformat(row.get("when", "2026-01-01")).replace(tzinfo=UTC)
            image = {column: value_in(row.get(column, "")) for column in COLUMNS[row["table"]]}
            shop.now = int(moment.timestamp()) * 1_000_000
            shop.put(row["table"], int(row["id"]), shop.now, None if row["what"] == "delete" else image)
        sources = {name: read(joining, name, shop) for name in joining.joined.sources}
        table.join(make_plan(joining, int(run)), sources, shop.touched(joining))
        shop.changes.clear()


def read(joining: JoinDefinition, name: str, shop: Shop) -> Rows:
    """Return the rows of a source as a joined table reads them: versions with the key that their history adds."""
    if not joining.reads_versions(name):
        return shop.rows(name)
    of, table = joining.tables[name], shop.versions(name)
    return {
        key: [replace(row, cells={**row.cells, **version_key_cell(of, key, row)}) for row in rows]
        for key, rows in table.items()
    }


def version_key_cell(table: Dimension, key: Key, version: SourceRow) -> Mapping[str, Cell]:
    return {"version_key": surrogate_hash(table, key, version.valid_from or 0)}


def joined_rows(table: Table) -> SourceRows:
    stored = table.joining.dimension.stored.schema.names
    result = [dict(zip(table.columns, row, strict=True)) for row in table.rows.values()]
    return sorted(
        ({name: cell_text(row[name]) for name in stored} for row in result), key=lambda row: [*row.values()]
    )


def cell_text(cell: object) -> str:
    if isinstance(cell, datetime):
        return str(cell.date())
    return "NULL" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)


@pytest.mark.parametrize("title", [TWO, OVER_TIME, SUMMARY, FACTS])
def test_an_example_is_what_is_joined(active: SparkSession, tmp_path: Path, title: str) -> None:
    page_sections, definitions = sections(PAGE, 3), page_definitions(tmp_path)
    assert set(page_sections) == set(definitions)
    joined_table, shop, compared = Table(active, definitions[title]), Shop(Random(0)), 0
    [*events] = [table for table in tables(page_sections[TWO]) if "run" in table[0]] if title == OVER_TIME else []
    for table in [*events, *tables(page_sections[title])]:
        if "run" in table[0]:
            apply_events(joined_table, shop, table)
        else:
            compared += 1
            assert joined_rows(joined_table) == sorted(table, key=lambda row: [*row.values()])
    assert compared == (2 if title in (SUMMARY, FACTS) else 1)


def test_the_page_says_how_a_plan_describes_a_lookup(tmp_path: Path) -> None:
    [words] = lookups(page_definitions(tmp_path)[FACTS].joined)
    assert f'"{words}"' in text(PAGE)
