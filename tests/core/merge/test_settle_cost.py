"""The calls that settling a delivery takes grow with its events, not with their square."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from settling import MODES, Mode

FEW, MANY = 40, 400
GROWTH = 12
"""How many times the calls may be of ten times the events."""


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_the_cost_of_settling_grows_with_the_number_of_events(mode: Mode) -> None:
    few, many = calls(mode, FEW), calls(mode, MANY)
    assert many <= GROWTH * few, f"{few} calls for {FEW} events, {many} for {MANY}"


def calls(mode: Mode, events: int) -> int:
    """Count the calls of functions, those in C included, that settle, absorb and trim make of one delivery."""
    table, last = mode.prepared(events)
    counted = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        table.take(last)
    finally:
        sys.setprofile(before)
    return counted
