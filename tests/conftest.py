"""Fixtures that tests of more than one folder use."""

from __future__ import annotations

pytest_plugins = ["spark", "project"]
