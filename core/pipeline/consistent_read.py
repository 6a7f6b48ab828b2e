"""Reading a table and what stands beside it, one after the other, while a run commits: no lock is taken for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from lakeward.core.dimension import TableName
from lakeward.core.errors import CommitConflict
from lakeward.core.ports import TableState

R = TypeVar("R")

_TRIES: Final = 5
"""Between two commits lies all the work of a batch, and to read what stands beside a table takes a part of that."""


def read_steadily(name: TableName, standing: Callable[[], TableState], read: Callable[[TableState], R]) -> R:
    """Return what is read of a table and of what stands beside it, given how the table stands.

    What stands beside it goes on with it: seen from a batch of before, it looks as if the table had been rolled
    back, and its files may be gone. So where the reading fails, and the table is at another batch by then, it
    begins anew. Raises what the reading does where the table stayed as it was, CommitConflict where it never did.
    """
    failed: Exception | None = None
    for _ in range(_TRIES):
        found = standing()
        try:
            return read(found)
        except Exception as error:
            if standing().progress.batch == found.progress.batch:
                raise
            failed = error
    raise CommitConflict(
        f"{name}: a run commits to the table faster than it is read",
        found=f"each of {_TRIES} times it was at another batch afterwards",
        todo="Nothing was changed. Ask again.",
    ) from failed
