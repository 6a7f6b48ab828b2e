"""The table format `iceberg`: Apache Iceberg tables."""

from __future__ import annotations

from typing import Any

from lakeward.adapters.formats.iceberg.checks import check
from lakeward.adapters.formats.iceberg.options import IcebergOptions, TableOptions
from lakeward.adapters.formats.shared.options.declared_columns import check_declared, options_of
from lakeward.core.ports import Target
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated


def build(options: Options, runtime: Runtime) -> Target[Any]:
    """Build the lake from the settings [target] and the options of each table."""
    from lakeward.adapters.formats.iceberg.lake import IcebergLake  # noqa: PLC0415  # Spark is imported when it is needed

    own = {name: value for name, value in options.items() if name != "tables"}
    tables = options_of(TableOptions, options["tables"], runtime)
    lake = IcebergLake(validated(IcebergOptions, own, str(runtime.file), within="target"), tables, runtime)
    check_declared(lake, tables, runtime, check)
    return lake


@hookimpl
def register(registry: Registry) -> None:
    """Register the table format `iceberg`."""
    registry.formats.add("iceberg", build)
