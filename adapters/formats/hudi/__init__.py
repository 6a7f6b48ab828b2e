"""The table format `hudi`: Apache Hudi tables."""

from __future__ import annotations

import importlib.util
from typing import Any

from lakeward.adapters.formats.hudi.options import HudiOptions, TableOptions
from lakeward.adapters.formats.shared.options.settings import check_declared, options_of, target_options
from lakeward.core.errors import SetupError
from lakeward.core.ports import Target
from lakeward.plugins import Options, Registry, Runtime, hookimpl


def build(options: Options, runtime: Runtime) -> Target[Any]:
    """Build the lake from the settings [target] and the options of each table."""
    for package in ("deltalake", "fastavro"):
        if importlib.util.find_spec(package) is None:
            raise SetupError(
                f"Hudi tables need the package {package}, and it is not installed",
                todo="Install it: `pip install 'lakeward[spark-3.5,hudi]'`.",
            )
    from lakeward.adapters.formats.hudi.checks import check_options  # noqa: PLC0415  # fastavro, of an extra, comes with it
    from lakeward.adapters.formats.hudi.lake import HudiLake  # noqa: PLC0415  # and with this

    tables = options_of(TableOptions, options["tables"], runtime)
    lake = HudiLake(target_options(HudiOptions, options, runtime), tables, runtime)
    check_declared(lake, tables, runtime, check_options)
    return lake


@hookimpl
def register(registry: Registry) -> None:
    """Register the table format `hudi`."""
    registry.formats.add("hudi", build)
