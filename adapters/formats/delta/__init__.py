"""The table format `delta`: Delta Lake tables."""

from __future__ import annotations

import importlib.util
from typing import Any

from lakeward.adapters.formats.delta.checks import check_options
from lakeward.adapters.formats.delta.options import DeltaOptions, TableOptions
from lakeward.adapters.formats.shared.options.settings import check_declared, options_of, target_options
from lakeward.core.errors import SetupError
from lakeward.core.ports import Target
from lakeward.plugins import Options, Registry, Runtime, hookimpl


def build(options: Options, runtime: Runtime) -> Target[Any]:
    """Build the lake from the settings [target] and the options of each table."""
    if importlib.util.find_spec("deltalake") is None:
        raise SetupError(
            "Delta tables need the package deltalake, and it is not installed",
            todo="Install it: `pip install 'lakeward[delta]'`.",
        )
    from lakeward.adapters.formats.delta.lake import DeltaLake  # noqa: PLC0415  # deltalake is imported when it is needed

    tables = options_of(TableOptions, options["tables"], runtime)
    lake = DeltaLake(target_options(DeltaOptions, options, runtime), tables, runtime)
    check_declared(lake, tables, runtime, check_options)
    return lake


@hookimpl
def register(registry: Registry) -> None:
    """Register the table format `delta`."""
    registry.formats.add("delta", build)
