"""A table and its side tables are read while a run commits: the read begins again where the table changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from memory_jobs import NAME

from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.pipeline.consistent_read import read_consistently
from lakeward.core.ports import TableState
from lakeward.core.progress import Progress


def at(*batches: int) -> Callable[[], TableState]:
    """Return looks at a table that is at these batches, one after the other."""
    found: Iterator[int] = iter(batches)
    return lambda: TableState(Progress(batch=next(found)), None)


def read(found: TableState) -> int:
    """Read what stands beside a table at batch 7."""
    if found.progress.batch != 7:
        raise TableError(f"the table was rolled back to batch {found.progress.batch}")
    return 7


def test_a_consistent_read_reads_the_state_once() -> None:
    assert read_consistently(NAME, at(7), read) == 7


def test_a_read_begins_again_while_the_table_advances() -> None:
    assert read_consistently(NAME, at(5, 6, 6, 7, 7), read) == 7


def test_an_error_of_an_unchanged_table_is_raised() -> None:
    with pytest.raises(TableError, match="rolled back to batch 5"):
        read_consistently(NAME, at(5, 5), read)


def test_a_table_that_always_advances_is_a_conflict() -> None:
    with pytest.raises(CommitConflict, match="faster than it is read") as failed:
        read_consistently(NAME, at(*range(8, 18)), read)
    assert "rolled back" in str(failed.value.__cause__)
