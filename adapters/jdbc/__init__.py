"""The source `jdbc`: tables of a live database, as snapshots and by a cursor column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeward.adapters.spark.java import check_spark
from lakeward.core.dimension import TableName
from lakeward.core.ports import Source, SourceDatabase
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated


def build(options: Options, runtime: Runtime) -> Source[Any]:
    """Make the source from the table [source] and what the tables say of themselves; no database is asked yet."""
    check_spark()
    from lakeward.adapters.catalogue.connection import driver_jars  # noqa: PLC0415  # py4j, for who uses it
    from lakeward.adapters.jdbc.database import Database  # noqa: PLC0415
    from lakeward.adapters.jdbc.source import make_source  # noqa: PLC0415

    settings, tables = read_options(options, runtime)
    jars = driver_jars(settings, "source")
    runtime.require(*(jar.request for jar in jars))
    return make_source(settings, tables, Database(settings, runtime.spark, runtime.secret), options, runtime)


def build_database(options: Options, runtime: Runtime) -> SourceDatabase[Any]:
    """Make what asks the database of a source, from the section of the settings that names it; nothing is asked."""
    check_spark()
    from lakeward.adapters.catalogue.connection import driver_jars  # noqa: PLC0415  # py4j, for who uses it
    from lakeward.adapters.jdbc.database import Database  # noqa: PLC0415
    from lakeward.adapters.jdbc.options import JdbcSourceOptions  # noqa: PLC0415

    section = str(options["section"])
    own = {name: options[name] for name in JdbcSourceOptions.model_fields if name in options}
    settings = validated(JdbcSourceOptions, own, str(runtime.file), within=section)
    runtime.require(*(jar.request for jar in driver_jars(settings, section)))
    return Database(settings, runtime.spark, runtime.secret, section)


def read_options(options: Options, runtime: Runtime) -> tuple[Any, Mapping[TableName, Any]]:
    """Return the validated options, and those of each table that has its own."""
    from lakeward.adapters.jdbc import options as model  # noqa: PLC0415  # pydantic, for who uses the source

    own = {name: value for name, value in options.items() if name not in ("formats", "tables")}
    where = str(runtime.file)
    settings = validated(model.JdbcSourceOptions, own, where, within="source")
    said: Mapping[TableName, Mapping[str, Any]] = options.get("tables", {})
    tables = {
        table: validated(model.TableReads, values, where, within=f'tables."{table}".source')
        for table, values in said.items()
    }
    return settings, {table: settings.of_table(one) for table, one in tables.items()}


@hookimpl
def register(registry: Registry) -> None:
    """Register the source `jdbc`, and what asks its database."""
    registry.sources.add("jdbc", build)
    registry.databases.add("jdbc", build_database)
