"""What a commit that fails is to people, and to the files that it was to make visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from lakeward.adapters.spark.session.errors import FAILURES, refused_by_disk, said, unreachable
from lakeward.core.errors import CommitConflict, LakewardError, TableError


@contextmanager
def committing_by(
    what: str, failures: tuple[type[BaseException], ...], lost_race: Callable[[BaseException], bool]
) -> Iterator[None]:
    """Say in a person's words why a commit failed; `failures` are those that the format has besides Spark's.

    Raises CommitConflict where another writer was first, StoreUnreachable where S3 did not answer, and else
    TableError.
    """
    try:
        yield
    except LakewardError:
        raise
    except (*FAILURES, OSError, *failures) as error:
        if lost_race(error):
            raise CommitConflict(
                f"{what}: another writer committed to the table in between",
                found=said(error),
                todo="Nothing of this batch was applied. Run again when the other writer is done.",
            ) from error
        if (gone := unreachable(what, error)) is not None:
            raise gone from error
        raise TableError(
            f"{what}: the table could not be written",
            found=refused_by_disk(error) or said(error),
            todo="The table is as it was. Mend that, and run again: it goes on where it stopped.",
        ) from error


class Staged(Protocol):
    """Files that a commit will make visible, all or none."""

    def may_be_made(self, error: BaseException) -> bool:
        """Whether the table may have the commit, although it ended with an error."""
        ...

    def take_back(self) -> None:
        """Delete the files that were written and will not be committed."""
        ...


@contextmanager
def staging(what: str, change: Staged, who: str) -> Iterator[None]:
    """Take a change back where something fails; where `who` may have made the commit all the same, say so.

    Raises TableError then: files that may be part of the table stay.
    """
    try:
        yield
    except BaseException as error:
        if change.may_be_made(error):
            raise TableError(
                f"{what}: {who} did not say whether the commit was made",
                found=str(error).splitlines()[0] if str(error) else type(error).__name__,
                todo="Run again: the table itself says what is in it, and the run goes on from there.",
            ) from error
        change.take_back()
        raise
