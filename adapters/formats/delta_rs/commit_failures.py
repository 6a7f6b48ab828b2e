"""Failed commits of delta-rs."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Final

from deltalake.exceptions import CommitFailedError, DeltaError

from lakeward.adapters.formats.shared.operations.commit_failures import translating_commit_failures

_RACED: Final = re.compile(r"concurrent|conflict|already exists|transaction: \d+$", re.IGNORECASE)
"""Messages of delta-rs for a lost race, among all failed commits; the number counts its attempts."""


def lost_race(error: BaseException) -> bool:
    """Return whether delta-rs refused a commit because of another writer: then nothing of it is in the table."""
    return isinstance(error, CommitFailedError) and _RACED.search(str(error)) is not None


def committing(table_name: str) -> AbstractContextManager[None]:
    """Raise an error that people understand if a commit fails."""
    return translating_commit_failures(table_name, (DeltaError,), lost_race)
