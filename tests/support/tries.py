"""How often a law is tried: in the gate less often than in `make test-all` and `make long`."""

from __future__ import annotations

import os


def tries(in_the_gate: int, else_: int) -> int:
    """Return the one or the other: what is long sets `LAKEWARD_LONG`."""
    return else_ if "LAKEWARD_LONG" in os.environ else in_the_gate
