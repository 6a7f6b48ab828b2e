"""What all tests share: fixtures of more than one folder, and which examples hypothesis draws.

The gate draws the same examples each time; `LAKEWARD_EXAMPLES=new` draws others, to look
for what was not found yet. What is `long` is for `make test-all`, which sets `LAKEWARD_LONG`.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

pytest_plugins = ["spark", "project", "buckets", "installed", "tenancies"]

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None)
settings.load_profile(os.environ.get("LAKEWARD_EXAMPLES", "same"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long, unless all is asked for, or a test by its name."""
    is_named = any("::" in argument for argument in config.args)
    if "LAKEWARD_LONG" in os.environ or is_named:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in set(long)]
