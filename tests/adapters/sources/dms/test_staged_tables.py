"""What files of transactions hold, table by table: what is kept until whom, and what is forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.adapters.sources.dms.transactions.layout import folder_key
from lakeward.adapters.sources.dms.transactions.staged_tables import Share, StagedTables
from lakeward.core.dimension import TableName
from lakeward.core.errors import SourceError, TableError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ports import UnroutedRow

ITEM, ORDERS, OTHER = TableName("shop", "item"), TableName("shop", "orders"), TableName("shop", "other")
ONE, TWO = (SourceObject(f"cdc/{name}", place, 10, 1, "tag") for place, name in enumerate(("one", "two")))


@pytest.fixture
def staged(tmp_path: Path) -> StagedTables:
    return StagedTables(tmp_path / "staged")


def put(
    staged: StagedTables,
    shares: Mapping[SourceObject, Sequence[TableName]],
    unrouted_rows: Sequence[UnroutedRow] = (),
) -> Mapping[str, Sequence[Share]]:
    """Write rows as a splitter does, and take them in."""
    written = staged.rows.new()
    for table in {table for tables in shares.values() for table in tables}:
        Path(written, f"part={folder_key(table)}").mkdir(parents=True)
    found = {item.name: [Share(table, 3, 5, "") for table in tables] for item, tables in shares.items()}
    staged.add([*shares], found, unrouted_rows, written)
    return found


def is_kept(staged: StagedTables, table: TableName, item: SourceObject) -> bool:
    return staged.has_part(staged.shares(table)[item.name])


def test_rows_are_kept_until_their_table_has_applied_them(staged: StagedTables) -> None:
    put(staged, {ONE: [ITEM, ORDERS, OTHER], TWO: [ITEM]})
    configured = [ITEM, ORDERS]
    staged.remove_unneeded(configured)
    assert [is_kept(staged, table, ONE) for table in (ITEM, ORDERS, OTHER)] == [True, True, False]
    assert staged.select_finished([ONE.name, TWO.name], configured) == []
    staged.set_applied(ITEM, [ONE.name], is_applied=True)
    staged.remove_unneeded(configured)
    assert is_kept(staged, ITEM, TWO), "they lie together"
    staged.set_applied(ITEM, [TWO.name], is_applied=True)
    staged.remove_unneeded(configured)
    assert [is_kept(staged, ITEM, TWO), is_kept(staged, ORDERS, ONE)] == [False, True]
    assert staged.select_finished([ONE.name, TWO.name], configured) == [TWO.name]
    staged.set_applied(ORDERS, [ONE.name], is_applied=True)
    staged.remove_unneeded(configured)
    assert staged.select_finished([ONE.name], configured) == [ONE.name]
    assert [path.name for path in staged.folder.iterdir()] == ["index.db"]
    assert staged.tables() == {ITEM: 6, ORDERS: 3, OTHER: 3}


def test_rows_that_are_read_again_lie_where_they_lay_if_they_are_still_there(staged: StagedTables) -> None:
    put(staged, {ONE: [ITEM, ORDERS]})
    staged.set_applied(ORDERS, [ONE.name], is_applied=True)
    staged.remove_unneeded([ITEM, ORDERS])
    before = staged.shares(ITEM)[ONE.name]
    put(staged, {ONE: [ITEM, ORDERS]})
    assert staged.shares(ITEM)[ONE.name] == before
    assert is_kept(staged, ORDERS, ONE), "a reload takes them once more"


def test_of_a_file_that_was_rewritten_nothing_is_known_any_more(staged: StagedTables) -> None:
    put(staged, {ONE: [ITEM, ORDERS]}, [UnroutedRow(ONE.name, 7, "why", "text", 1)])
    staged.set_applied(ITEM, [ONE.name], is_applied=True)
    assert (staged.versions(), staged.etag(ONE.name)) == ({ONE.name: (10, 1)}, "tag")
    put(staged, {replace(ONE, size=11): [ITEM]})
    assert (staged.versions(), staged.tables(), staged.unrouted_rows()) == ({ONE.name: (11, 1)}, {ITEM: 3}, [])
    assert not staged.shares(ITEM)[ONE.name].is_applied


def test_a_row_of_no_table_is_listed_until_it_is_given_up(staged: StagedTables) -> None:
    unrouted_rows = [UnroutedRow(ONE.name, row, "why", "text", 1) for row in (2, 10)]
    put(staged, {ONE: [ITEM]}, unrouted_rows)
    assert staged.unrouted_rows() == unrouted_rows
    staged.discard(unrouted_rows[:1])
    put(staged, {ONE: [ITEM]}, unrouted_rows)
    assert staged.unrouted_rows() == unrouted_rows[1:], "the same file tells nothing new"


def test_names_are_compared_without_case_where_none_is_exactly_that(staged: StagedTables) -> None:
    put(staged, {ONE: [TableName("SHOP", "Item")], TWO: [TableName("SHOP", "ITEM"), ORDERS]})
    assert [*staged.shares(TableName("SHOP", "Item"))] == [ONE.name]
    with pytest.raises(SourceError, match="its name is ambiguous"):
        staged.shares(ITEM)
    assert [*staged.shares(TableName("Shop", "Orders"))] == [TWO.name]


def test_without_an_index_nothing_is_known_and_nothing_is_made(staged: StagedTables) -> None:
    known = (staged.versions(), staged.shares(ITEM), staged.tables(), staged.unrouted_rows(), staged.etag("x"))
    assert known == ({}, {}, {}, [], None)
    staged.remove_unneeded([ITEM])
    assert not staged.folder.exists()


def test_an_index_that_cannot_be_used_says_what_to_do(staged: StagedTables) -> None:
    staged.folder.mkdir()
    (staged.folder / "index.db").write_text("no database, but long enough to be looked at as one")
    with pytest.raises(TableError, match="cannot be kept") as refused:
        staged.versions()
    assert "delete the folder" in (refused.value.todo or "")
