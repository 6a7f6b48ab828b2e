"""The number of tries of a law: fewer in the gate than in `make test-all` and `make long`."""

from __future__ import annotations

import os
from collections.abc import Callable

from lakeward.core.errors import LakewardError


def tries(in_the_gate: int, else_: int) -> int:
    """Return the first number in the gate, and the second with `LAKEWARD_LONG`."""
    return else_ if "LAKEWARD_LONG" in os.environ else in_the_gate


def first_failure(law: Callable[[int], None], seeds: int, known: int = 0) -> int:
    """Return a seed for which a law fails: `known`, which is tried first, or the first one below `seeds`.

    Raises AssertionError if there is none.
    """
    for seed in (known, *range(seeds)):
        try:
            law(seed)
        except (AssertionError, LakewardError):
            return seed
    raise AssertionError(f"no seed below {seeds} breaks the law")
