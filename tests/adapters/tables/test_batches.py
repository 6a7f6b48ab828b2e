"""What stands beside a table tells of its batches, and of another process that works on it at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakeward.adapters.spark import names
from lakeward.adapters.tables.companion.batches import Batches
from lakeward.adapters.tables.companion.entries import BATCH, KIND, RECORD
from lakeward.core.dimension import TableName
from lakeward.core.errors import CommitConflict, LockedError, TableError
from lakeward.core.progress import Progress

WRITTEN = '{"objects": [], "epoch": 1, "at": 1}'


class Written:
    """A table with the records of these batches, each of which is a version of it."""

    name = ("shop", "item__changes")

    def __init__(self, *batches: int) -> None:
        self.batches = [*batches]

    @property
    def version(self) -> int:
        return len(self.batches)

    def rows(self, _condition: str, _wanted: Sequence[str]) -> pa.Table:
        return pa.table({KIND: [BATCH] * self.version, names.BATCH: self.batches, RECORD: [WRITTEN] * self.version})


def known(written: Written, batch: int) -> Batches:
    table: Any = written
    found = Batches(TableName("shop", "item"), table)
    found.objects(Progress(batch=batch))
    return found


def test_what_two_processes_left_above_the_batch_of_the_table_is_that_of_none() -> None:
    """Both wrote what they were to remember, and neither committed."""
    found = known(Written(1, 2, 3, 3), 2)
    assert (sorted(found.records), found.has_leftovers) == ([1, 2], True)
    with pytest.raises(TableError, match="two processes wrote batch 3 at once"):
        known(Written(1, 2, 3, 3), 3)


def test_what_another_process_writes_meanwhile_is_refused_until_it_is_looked_at() -> None:
    written = Written(1)
    found = known(written, 1)
    found.refuse_others()
    written.batches.append(2)
    with pytest.raises(CommitConflict, match="another process works on the table"):
        found.refuse_others()
    with pytest.raises(LockedError, match="another process works on the table") as refused:
        found.objects(Progress(batch=1))
    assert refused.value.retryable
    found.objects(Progress(batch=2))
    found.refuse_others()
