"""Adapters of the port `SourceCatalogue`: what the database of a source says of its tables."""

from __future__ import annotations

from lakeward.adapters.spark.session.java import check_spark
from lakeward.core.ports import SourceCatalogue
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated


def build_file(options: Options, runtime: Runtime) -> SourceCatalogue:
    """Build the catalogue `file` from the section [catalogue]."""
    from lakeward.adapters.catalogues.files import FileCatalogue, FileOptions  # noqa: PLC0415  # imports sqlglot

    settings = validated(FileOptions, options, str(runtime.file), within="catalogue")
    return FileCatalogue(runtime.base / settings.path, settings)


def build_jdbc(options: Options, runtime: Runtime) -> SourceCatalogue:
    """Build the catalogue `jdbc` from the section [catalogue]; the database is not asked yet."""
    check_spark()
    from lakeward.adapters.catalogues.connection import ConnectionOptions  # noqa: PLC0415  # imports py4j
    from lakeward.adapters.catalogues.jdbc import JdbcCatalogue, JdbcOptions  # noqa: PLC0415

    own = {name: value for name, value in options.items() if name != "source"}
    if "url" not in own:  # use the connection of the source `jdbc`
        of_source = options.get("source", {})
        own = {**{name: of_source[name] for name in ConnectionOptions.model_fields if name in of_source}, **own}
    return JdbcCatalogue(validated(JdbcOptions, own, str(runtime.file), within="catalogue"), runtime.secret)


@hookimpl
def register(registry: Registry) -> None:
    """Register the catalogues `file` and `jdbc`."""
    registry.catalogues.add("file", build_file)
    registry.catalogues.add("jdbc", build_jdbc)
