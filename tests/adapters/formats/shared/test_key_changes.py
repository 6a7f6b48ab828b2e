"""Whether a change log has key changes is read once, and again where others may have written some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakeward.adapters.formats.shared.change_log.entries import KIND
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.side_tables.side_table import UNKNOWN
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Column, Schema, Type


class _Table:
    """A change log table with so many key changes; `reads` counts how often it is read."""

    columns = (names.UNSET,)

    def __init__(self) -> None:
        self.reads = self.key_changes = 0

    def rows(self, _condition: str, _wanted: Sequence[str]) -> pa.Table:
        self.reads += 1
        return pa.table({KIND: ["change"] * self.key_changes})


def _change_log(table: Any, version: int) -> ChangeLogTable:
    dimension = Dimension(name=TableName("shop", "item"), schema=Schema((Column("id", Type("int")),)), key=("id",))
    change_log = ChangeLogTable(dimension, lambda *_: table)
    change_log.batches.version = version
    return change_log


def test_batches_of_this_process_without_key_changes_are_not_read_again() -> None:
    table = _Table()
    change_log = _change_log(table, 1)
    for version in (2, 3):
        assert not change_log.has_key_changes(version)
        change_log.set_version(version, may_have_key_changes=False)
    assert not change_log.has_key_changes(3)
    assert table.reads == 1


@pytest.mark.parametrize("first", [1, UNKNOWN])
@pytest.mark.parametrize(("version", "may_have"), [(2, True), (UNKNOWN, False), (UNKNOWN, True)])
def test_it_is_read_again_where_there_may_be_some(first: int, version: int, may_have: bool) -> None:
    """After a batch with key changes, and after a write of which the version is not known."""
    table = _Table()
    change_log = _change_log(table, first)
    assert not change_log.has_key_changes(1)
    change_log.set_version(version, may_have_key_changes=may_have)
    table.key_changes = 1
    assert change_log.has_key_changes(2)
    assert change_log.has_key_changes(2)


def test_it_is_read_again_after_another_process_has_written() -> None:
    table = _Table()
    change_log = _change_log(table, 1)
    assert not change_log.has_key_changes(1)
    change_log.batches.version, table.key_changes = 2, 1  # as of `BatchLog.objects`
    assert change_log.has_key_changes(2)
