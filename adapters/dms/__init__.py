"""The source `dms`: what AWS DMS writes, read exactly."""

from __future__ import annotations

from typing import Any

from lakeward.adapters.dms.options import DmsOptions
from lakeward.adapters.spark.java import check_spark
from lakeward.core.errors import ConfigError
from lakeward.core.ports import Source
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated


def build(options: Options, runtime: Runtime) -> Source[Any]:
    """Make the source from the table [source] and what the tables say of their columns' formats."""
    check_spark()
    from lakeward.adapters.dms.folder import Folder  # noqa: PLC0415  # Spark is imported when it is needed
    from lakeward.adapters.dms.source import DmsSource  # noqa: PLC0415

    own = {name: value for name, value in options.items() if name != "formats"}
    settings = validated(DmsOptions, own, str(runtime.file), within="source")
    root, archive = runtime.base / settings.path, runtime.base / settings.archive
    if settings.landing == "archived" and archive.resolve().is_relative_to(root.resolve()):
        raise ConfigError(
            f"the archive {settings.archive} lies within the landing folder {settings.path}",
            todo="Name a folder beside it with `archive` under [source].",
        )
    folder = Folder(root, archive if settings.landing == "archived" else None)
    return DmsSource(settings, folder, runtime.spark, options["formats"], now=runtime.now)


@hookimpl
def register(registry: Registry) -> None:
    """Register the source `dms`."""
    registry.sources.add("dms", build)
