"""Failed commits: the errors that people see, and the files that are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from lakeward.adapters.spark.session.errors import FAILURES, refused_by_disk, short_message, unreachable
from lakeward.core.errors import CommitConflict, ConservationError, LakewardError, TableError


def another_writer(table_name: str, found: str | None = None) -> CommitConflict:
    """Return the error for a batch whose table changed since it was read."""
    return CommitConflict(
        f"{table_name}: another writer committed to the table in between",
        found=found,
        todo="Nothing of this batch was applied. Run again when the other writer is done.",
    )


def table_changed(table_name: str, todo: str = "Ask again.") -> CommitConflict:
    """Return the error for an operation that somebody asked for, on a table that changed since it was loaded."""
    return CommitConflict(f"{table_name}: another writer has just committed to the table", todo=todo)


def not_written(table_name: str, found: str) -> TableError:
    """Return the error for a commit that failed and left the table as it was."""
    return TableError(
        f"{table_name}: the table could not be written",
        found=found,
        todo="The table is as it was. Mend that, and run again: it goes on where it stopped.",
    )


def not_as_planned(table_name: str, planned: tuple[int, int], files: tuple[int, int]) -> ConservationError:
    """Return the error for files that differ from the plan: the rows that both write and remove."""
    return ConservationError(
        f"{table_name}: what was written is not what was planned",
        found=f"planned {planned[0]} rows written and {planned[1]} removed; the files add {files[0]} and delete "
        f"{files[1]}",
        todo="Nothing was applied. This is a defect of lakeward: please report it.",
    )


@contextmanager
def translating_commit_failures(
    table_name: str, failures: tuple[type[BaseException], ...], lost_race: Callable[[BaseException], bool]
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
            raise another_writer(table_name, short_message(error)) from error
        if (unreachable_error := unreachable(table_name, error)) is not None:
            raise unreachable_error from error
        raise not_written(table_name, refused_by_disk(error) or short_message(error)) from error


class StagedChange(Protocol):
    """Files that one commit makes visible, all or none."""

    def may_be_committed(self, error: BaseException) -> bool:
        """Return whether the commit may have been made, although it ended with an error."""
        ...

    def discard(self) -> None:
        """Delete files that were written and will not be committed."""
        ...


@contextmanager
def discarding_on_failure(table_name: str, change: StagedChange, committer: str) -> Iterator[None]:
    """Discard a change if an error occurs, unless the commit may have been made.

    Then the files stay, since they may be part of the table, and TableError is raised. `committer` makes commits: a
    catalog, say.
    """
    try:
        yield
    except BaseException as error:
        if change.may_be_committed(error):
            raise TableError(
                f"{table_name}: {committer} did not say whether the commit was made",
                found=str(error).splitlines()[0] if str(error) else type(error).__name__,
                todo="Run again: the table itself says what is in it, and the run goes on from there.",
            ) from error
        change.discard()
        raise
