"""What stands beside a table tells of its batches, and of another process that works on it at the same time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakeward.adapters.formats.shared.change_log.batch_log import BatchLog
from lakeward.adapters.formats.shared.change_log.entries import BATCH, KIND, RECORD
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import TableName
from lakeward.core.errors import CommitConflict, LockedError, TableError
from lakeward.core.progress import Progress


class Written:
    """A table with the records of these batches, each of which is a version of it."""

    name = ("shop", "item__changes")

    def __init__(self, *batches: int) -> None:
        self.batches = [*batches]
        self.version = len(batches)

    def rows(self, condition: str, _wanted: Sequence[str]) -> pa.Table:
        above = int(condition.rpartition("> ")[2])
        found = [batch for batch in self.batches if batch > above]
        records = [json.dumps({"objects": [], "epoch": 1, "at": 1}) for batch in found]
        return pa.table({KIND: [BATCH] * len(found), names.BATCH: found, RECORD: records})


def known(written: Written, batch: int) -> BatchLog:
    table: Any = written
    found = BatchLog(TableName("shop", "item"), table)
    found.objects(Progress(batch=batch))
    return found


def test_leftovers_of_two_processes_above_the_batch_of_the_table_count_for_none() -> None:
    found = known(Written(1, 2, 3, 3), 2)
    assert (sorted(found.records), found.has_leftovers) == ([1, 2], True)
    with pytest.raises(TableError, match="two processes wrote batch 3 at once"):
        known(Written(1, 2, 3, 3), 3)


def test_writes_of_another_process_are_refused_until_they_are_read() -> None:
    written = Written(1)
    found = known(written, 1)
    found.refuse_others()
    written.batches.append(2)
    written.version += 1
    with pytest.raises(CommitConflict, match="another process works on the table"):
        found.refuse_others()
    with pytest.raises(LockedError, match="another process works on the table") as refused:
        found.objects(Progress(batch=1))
    assert refused.value.retryable
    assert sorted(found.records) == [1], "what it wrote may yet be written anew"
    found.objects(Progress(batch=2))
    assert sorted(found.records) == [1, 2]
    found.refuse_others()


def test_leftovers_of_a_crash_count_for_none_although_an_operator_writes_meanwhile() -> None:
    written = Written(1, 2)
    found = known(written, 1)
    assert found.has_leftovers
    written.version += 1
    with pytest.raises(CommitConflict):
        found.refuse_others()
    found.objects(Progress(batch=1))
    found.refuse_others()


@pytest.mark.parametrize(
    ("batches", "batch", "error"),
    [
        ((1, 2), 0, "has no batch, and its side tables have"),
        ((1, 2, 3), 1, "was rolled back to batch 1"),
        ((), 1, "is at batch 1, and its change log has no record of it"),
    ],
)
def test_a_table_is_refused_if_its_change_log_does_not_fit(batches: Sequence[int], batch: int, error: str) -> None:
    with pytest.raises(TableError, match=error) as refused:
        known(Written(*batches), batch)
    if not batch:
        drop = "drop shop.item__changes as well, and shop.item__quarantine where there is one"
        assert drop in str(refused.value.todo)
