"""Which failures of Iceberg mean that another writer was first: then nothing of ours is in the table."""

from __future__ import annotations

import sqlite3
from unittest.mock import MagicMock

import pytest
from java_errors import java_error
from sqlalchemy.exc import OperationalError

from lakeward.adapters.formats.iceberg.java import committing, lost_race
from lakeward.adapters.formats.iceberg.writes.change import Change
from lakeward.adapters.formats.shared.operations.commit_failures import discarding_on_failure
from lakeward.core.errors import CommitConflict, LakewardError, TableError
from lakeward.core.progress import Progress

ICEBERG = "org.apache.iceberg.exceptions"
BUSY = "[SQLITE_BUSY] The database file is locked (database is locked)"


BUSY_IN_JAVA = java_error(
    "org.apache.iceberg.jdbc.UncheckedSQLException", "org.sqlite.SQLiteException", message=BUSY
)
BUSY_IN_PYTHON = OperationalError("UPDATE …", {}, sqlite3.OperationalError("database is locked"))
BUSY_ELSEWHERE = java_error(
    f"{ICEBERG}.CommitStateUnknownException", f"{ICEBERG}.ServiceFailureException", message=f"Server error: {BUSY}"
)


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (java_error(f"{ICEBERG}.CommitFailedException"), True),
        (java_error(f"{ICEBERG}.ValidationException"), True),
        (java_error(f"{ICEBERG}.CommitFailedException", "software.amazon.ConcurrentModificationException"), True),
        (java_error("java.lang.RuntimeException", f"{ICEBERG}.CommitFailedException"), True),
        (java_error(f"{ICEBERG}.CommitStateUnknownException", "java.net.SocketTimeoutException"), False),
        (java_error("software.amazon.awssdk.services.glue.model.ValidationException"), False),
        (java_error("java.io.IOException"), False),
        (TimeoutError(), False),
        (BUSY_IN_JAVA, True),
        (BUSY_IN_PYTHON, True),
        (BUSY_ELSEWHERE, False),
    ],
)
def test_a_race_is_lost_where_iceberg_or_the_file_of_the_catalog_says_so(error: Exception, is_lost: bool) -> None:
    """A server that says that its own file is busy may have made the commit."""
    assert lost_race(error) == is_lost


@pytest.mark.parametrize(
    ("error", "expected", "taken_back"), [(BUSY_IN_JAVA, CommitConflict, 1), (BUSY_ELSEWHERE, TableError, 0)]
)
def test_a_commit_to_a_busy_file_is_undone(
    error: Exception, expected: type[LakewardError], taken_back: int
) -> None:
    table = MagicMock()
    table.currentSnapshot.return_value = None
    change = Change(MagicMock(), table, MagicMock(), None)
    change.added = [MagicMock()]
    change.transaction.commitTransaction.side_effect = error
    with (
        pytest.raises(expected),
        committing("shop.item"),
        discarding_on_failure("shop.item", change, "the catalog"),
    ):
        change.commit(Progress(batch=1), 1, 0)
    assert table.io().deleteFile.call_count == taken_back
