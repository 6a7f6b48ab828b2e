"""Change data capture into lakehouse tables, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeward.entrypoints.api import plan, run, status

__version__ = "0.1.0"
__all__ = ["__version__", "plan", "run", "status"]


def __getattr__(name: str) -> Any:
    """Import what programs call when they do: the command line has its own way in, and starts sooner."""
    if name not in ("plan", "run", "status"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lakeward.entrypoints import api  # noqa: PLC0415

    return getattr(api, name)
