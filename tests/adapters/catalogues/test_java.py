"""The JVM that asks a database ends with the question, whatever the database does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lakeward.adapters.catalogues import java


def test_java_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_PATIENCE", 0.01)
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    java._end(process)
    assert process.returncode is not None
