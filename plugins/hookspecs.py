"""The hooks of lakeward and the version of the plugin API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from lakeward.core.pipeline.job import Report
    from lakeward.plugins.registry import Registry

PROJECT: Final = "lakeward"

API: Final = (2, 0)
"""The version of hooks, ports and registry.

An optional addition raises the second number. A change that existing plugins must follow raises the first.
docs/extend/hooks.md lists the changes.
"""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register(registry: Registry) -> None:
    """Add the plugin's factories to the registry, once, before anything else happens."""


@hookspec
def after_commit(report: Report) -> None:
    """Called with the report of each batch after its commit. Errors are logged and stop nothing."""
