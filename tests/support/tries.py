"""The number of tries of a law: fewer in the gate than in `make test-all` and `make long`."""

from __future__ import annotations

import os


def tries(in_the_gate: int, else_: int) -> int:
    """Return the first number in the gate, and the second with `LAKEWARD_LONG`."""
    return else_ if "LAKEWARD_LONG" in os.environ else in_the_gate
