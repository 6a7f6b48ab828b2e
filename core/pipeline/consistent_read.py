"""Read a table and its side tables one after the other while a run commits, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from lakeward.core.dimension import TableName
from lakeward.core.errors import CommitConflict
from lakeward.core.ports import TableState

R = TypeVar("R")

_TRIES: Final = 5
"""How often a read begins. All work of a batch lies between two commits; a read takes only a part of that time."""


def read_consistently(
    name: TableName, read_table_state: Callable[[], TableState], read: Callable[[TableState], R]
) -> R:
    """Return what `read` makes of a table and its side tables, given the table state.

    The side tables change with each batch. Read with the state of an earlier batch, they look as if the table had
    been rolled back, and files may be gone. So where `read` fails and the table is at another batch afterwards, it
    is called again. Raises what `read` raises where the table stayed at its batch, and CommitConflict where the
    table changed during each attempt.
    """
    failure: Exception | None = None
    for _ in range(_TRIES):
        state = read_table_state()
        try:
            return read(state)
        except Exception as error:
            if read_table_state().progress.batch == state.progress.batch:
                raise
            failure = error
    raise CommitConflict(
        f"{name}: a run commits to the table faster than it is read",
        found=f"each of {_TRIES} times it was at another batch afterwards",
        todo="Nothing was changed. Ask again.",
    ) from failure
