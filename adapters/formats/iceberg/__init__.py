"""The table format `iceberg`: Apache Iceberg tables."""

from __future__ import annotations

from typing import Any

from lakeward.adapters.formats.iceberg.checks import check_options
from lakeward.adapters.formats.iceberg.options import IcebergOptions, TableOptions
from lakeward.adapters.formats.shared.options.settings import check_declared, options_of, target_options
from lakeward.core.ports import Target
from lakeward.plugins import Options, Registry, Runtime, hookimpl


def build(options: Options, runtime: Runtime) -> Target[Any]:
    """Build the lake from the settings [target] and the options of each table."""
    from lakeward.adapters.formats.iceberg.lake import IcebergLake  # noqa: PLC0415  # Spark is imported when it is needed

    tables = options_of(TableOptions, options["tables"], runtime)
    lake = IcebergLake(target_options(IcebergOptions, options, runtime), tables, runtime)
    check_declared(lake, tables, runtime, check_options)
    return lake


@hookimpl
def register(registry: Registry) -> None:
    """Register the table format `iceberg`."""
    registry.formats.add("iceberg", build)
