"""Fixtures of the source `kafka`."""

from __future__ import annotations

import pytest

from lakeward.adapters.sources import kafka


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open sources without a broker: a test gives them one in memory, or needs none."""
    monkeypatch.setattr(kafka, "connect", lambda *_: None)
