"""Which tables have a folder of their own, and which files stop them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.sources.files.damage import has_only_other_tables
from lakeward.adapters.sources.files.json_lines.other_tables import HAS_OTHER, has_own_folder, tables_sharing_folder
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.spark.frames.event_frame import SKIPPED, Group
from lakeward.core.dimension import TableName
from lakeward.core.merge.change_log import Reason

OWN, OTHER = TableName("shop", "item"), TableName("shop", "order")


def options(folder: str) -> FilesOptions:
    return FilesOptions.model_validate({"path": "landing", "format": "debezium", "folder": folder})


@pytest.mark.parametrize(
    ("folder", "tables", "is_own"),
    [
        ("{schema}/{table}", {}, True),
        ("topics/all", {}, False),
        ("topics/all", {OWN: "topics/item"}, True),
        ("topics/all", {OWN: "topics/all", OTHER: "topics/order"}, False),
        ("{schema}/{table}", {OWN: "one", OTHER: "two"}, True),
        ("{schema}/{table}", {OWN: "one", OTHER: "ONE"}, False),
        ("{schema}/{table}", {OWN: "topics", OTHER: "topics/order"}, False),
        ("{schema}/{table}", {OWN: "topics/order", OTHER: "topics"}, False),
        ("{schema}/{table}", {OWN: "topics", OTHER: "topics2"}, True),
        ("{schema}/{table}", {OTHER: "shop/item"}, False),
        ("topics/all", {OWN: "topics/all/item"}, False),
    ],
)
def test_a_folder_is_a_tables_own_where_no_other_table_reads_it(
    folder: str, tables: Mapping[TableName, str], is_own: bool
) -> None:
    """And where the settings name it for the table, or by it."""
    of_tables = {table: options(own) for table, own in tables.items()}
    settings = options(folder)
    sharing = tables_sharing_folder(OWN, settings, of_tables, {OWN, OTHER})
    assert has_own_folder(of_tables.get(OWN, settings), settings, sharing) is is_own


def group(reason: str | None, *, is_other: bool) -> Group:
    flags = frozenset({HAS_OTHER}) if is_other else frozenset[str]()
    return Group(1, None, reason, flags, 1, (0, 1), (0, 1), None, None, None, ())


ROWS = st.sampled_from([None, *(reason.value for reason in Reason)])


@given(st.lists(st.booleans(), max_size=4), st.lists(ROWS, max_size=3))
def test_a_file_stops_its_table_where_all_its_rows_are_of_others(
    skipped: list[bool], rows: list[str | None]
) -> None:
    """A heartbeat or a tombstone is a row of none; a row that goes into quarantine is one of the table."""
    groups = [group(SKIPPED, is_other=is_other) for is_other in skipped]
    groups += [group(reason, is_other=False) for reason in rows]
    assert has_only_other_tables(groups) is (any(skipped) and not rows)
