"""What all tests share: fixtures of more than one folder, and which examples hypothesis draws.

The gate draws the same examples each time; `LAKEWARD_EXAMPLES=new` draws others, to look
for what was not found yet.
"""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ["spark", "project", "buckets", "installed"]

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None)
settings.load_profile(os.environ.get("LAKEWARD_EXAMPLES", "same"))
