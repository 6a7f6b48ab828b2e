"""Failed commits: the errors that people see, and the files that are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from lakeward.adapters.spark.session.errors import FAILURES, refused_by_disk, said, unreachable
from lakeward.core.errors import CommitConflict, LakewardError, TableError


@contextmanager
def translating_commit_failures(
    what: str, failures: tuple[type[BaseException], ...], lost_race: Callable[[BaseException], bool]
) -> Iterator[None]:
    """Raise an error that people understand if a commit fails. `failures` are the format's errors, besides Spark's.

    Raises CommitConflict if another writer was first (`lost_race`), StoreUnreachable if S3 did not answer, and
    otherwise TableError.
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
        if (unreachable_error := unreachable(what, error)) is not None:
            raise unreachable_error from error
        raise TableError(
            f"{what}: the table could not be written",
            found=refused_by_disk(error) or said(error),
            todo="The table is as it was. Mend that, and run again: it goes on where it stopped.",
        ) from error


class StagedChange(Protocol):
    """Files that one commit makes visible, all or none."""

    def may_be_committed(self, error: BaseException) -> bool:
        """Return whether the commit may have been made, although it ended with an error."""
        ...

    def discard(self) -> None:
        """Delete files that were written and will not be committed."""
        ...


@contextmanager
def discarding_on_failure(what: str, change: StagedChange, who: str) -> Iterator[None]:
    """Discard a change if an error occurs, unless the commit may have been made.

    Then the files stay, since they may be part of the table, and TableError is raised. `who` makes commits: a
    catalog, say.
    """
    try:
        yield
    except BaseException as error:
        if change.may_be_committed(error):
            raise TableError(
                f"{what}: {who} did not say whether the commit was made",
                found=str(error).splitlines()[0] if str(error) else type(error).__name__,
                todo="Run again: the table itself says what is in it, and the run goes on from there.",
            ) from error
        change.discard()
        raise
