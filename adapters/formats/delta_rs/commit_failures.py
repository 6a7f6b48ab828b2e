"""What delta-rs says of a commit that failed."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Final

from deltalake.exceptions import CommitFailedError, DeltaError

from lakeward.adapters.formats.shared.operations.commit_failures import committing_by

_RACED: Final = re.compile(r"concurrent|conflict|already exists|transaction: \d+$", re.IGNORECASE)
"""What delta-rs says of a race, among all that it calls a failed commit; a number is how often it tried."""


def lost_race(error: BaseException) -> bool:
    """Whether delta-rs refused a commit for what another writer did: then nothing of it is in the table."""
    return isinstance(error, CommitFailedError) and _RACED.search(str(error)) is not None


def committing(what: str) -> AbstractContextManager[None]:
    """Say in a person's words why a commit failed, and whether it lost a race."""
    return committing_by(what, (DeltaError,), lost_race)
