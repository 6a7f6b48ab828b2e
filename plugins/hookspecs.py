"""Every hook of lakeward, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from lakeward.core.pipeline.job import Report
    from lakeward.plugins.registry import Registry

PROJECT: Final = "lakeward"

API: Final = (2, 0)
"""The version of hooks, ports and registry.

What plugins may use or have, and need not, raises the second number; what they must have, or have in another way,
the first: docs/extend/hooks.md tells what changed.
"""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register(registry: Registry) -> None:
    """Add the plugin's factories to the registry, once, before anything else happens."""


@hookspec
def after_commit(report: Report) -> None:
    """Look at what a batch did to a table, after its commit. What it raises stops nothing."""
