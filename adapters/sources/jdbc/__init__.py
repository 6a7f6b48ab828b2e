"""The source `jdbc`: tables of a live database, read as snapshots and by a cursor column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.adapters.sources import kafka
from lakeward.adapters.spark.session.java import check_spark
from lakeward.core.dimension import TableName
from lakeward.core.ports import Backlog, Source, SourceDatabase, SourceInventory
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

_FEED: Final = "source.kafka"
_SNAPSHOT_KEYS: Final = frozenset({"partitions", "without"})
"""The keys of a table's `source` for its snapshot, where a feed follows it; the other keys are of the feed."""


def build(options: Options, runtime: Runtime) -> Source[Any]:
    """Return the source for the table [source] and the `source` options of its tables, without connecting to it."""
    check_spark()
    from lakeward.adapters.catalogues.connection import driver_jars  # noqa: PLC0415  # py4j is imported when it is needed
    from lakeward.adapters.sources.jdbc.database.spark_reader import Database  # noqa: PLC0415
    from lakeward.adapters.sources.jdbc.source import make_source  # noqa: PLC0415

    settings, tables = read_options(options, runtime)
    jars = driver_jars(settings, "source")
    runtime.require(*(jar.request for jar in jars))
    source = make_source(settings, tables, Database(settings, runtime.spark, runtime.secret), options, runtime)
    return source if settings.then is None else _with_feed(source, settings, options, runtime)


def _with_feed(source: Any, settings: Any, options: Options, runtime: Runtime) -> Source[Any]:
    from lakeward.adapters.sources.jdbc.snapshot_then_feed import SnapshotThenFeed  # noqa: PLC0415

    feed = kafka.make_source(_feed_options(settings, options), runtime, _FEED, follows_snapshot=True)
    return SnapshotThenFeed(source, feed)


def _feed_options(settings: Any, options: Options) -> Options:
    """Return the options of the source `kafka` that follows the snapshot."""
    tables = {
        table: {name: value for name, value in table_options.items() if name not in _SNAPSHOT_KEYS}
        for table, table_options in options.get("tables", {}).items()
    }
    staging = {} if settings.staging is None else {"staging": settings.staging}
    return {**staging, **settings.kafka, "formats": options["formats"], "tables": tables}


def build_inventory(options: Options, runtime: Runtime) -> SourceInventory:
    """Return the inventory of the topics that follow a snapshot; without a feed, an empty inventory."""
    from lakeward.adapters.sources.jdbc.no_topics import NoTopics  # noqa: PLC0415

    settings, _ = read_options(options, runtime)
    if settings.then is None:
        return NoTopics()
    inventory: SourceInventory = kafka.open_topics(_feed_options(settings, options), runtime, _FEED)[0]
    return inventory


def build_backlog(options: Options, runtime: Runtime) -> Backlog:
    """Return the backlog of the topics that follow a snapshot; without a feed, one that knows nothing."""
    from lakeward.adapters.sources.jdbc.no_topics import NoTopics  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.backlog import KafkaBacklog  # noqa: PLC0415

    settings, _ = read_options(options, runtime)
    if settings.then is None:
        return NoTopics()
    inventory, _, staging, transactions = kafka.open_topics(_feed_options(settings, options), runtime, _FEED)
    return KafkaBacklog(inventory, "latest", follows_snapshot=True, staging=staging, transactions=transactions)


def build_database(options: Options, runtime: Runtime) -> SourceDatabase[Any]:
    """Return the database that a section of the settings names, without connecting to it."""
    check_spark()
    from lakeward.adapters.catalogues.connection import driver_jars  # noqa: PLC0415  # py4j is imported when it is needed
    from lakeward.adapters.sources.jdbc.database.spark_reader import Database  # noqa: PLC0415
    from lakeward.adapters.sources.jdbc.options import JdbcSourceOptions  # noqa: PLC0415

    section = str(options["section"])
    connection_options = {name: options[name] for name in JdbcSourceOptions.model_fields if name in options}
    settings = validated(JdbcSourceOptions, connection_options, str(runtime.file), within=section)
    runtime.require(*(jar.request for jar in driver_jars(settings, section)))
    return Database(settings, runtime.spark, runtime.secret, section)


def read_options(options: Options, runtime: Runtime) -> tuple[Any, Mapping[TableName, Any]]:
    """Return the validated options of the source, and those of each table that has its own."""
    from lakeward.adapters.sources.jdbc import options as model  # noqa: PLC0415  # pydantic is imported when it is needed

    source_options = {name: value for name, value in options.items() if name not in ("formats", "tables")}
    settings_file = str(runtime.file)
    settings = validated(model.JdbcSourceOptions, source_options, settings_file, within="source")
    table_options: Mapping[TableName, Mapping[str, Any]] = options.get("tables", {})
    tables = {
        table: validated(
            model.TableReadOptions,
            values if settings.then is None else {n: v for n, v in values.items() if n in _SNAPSHOT_KEYS},
            settings_file,
            within=f'tables."{table}".source',
        )
        for table, values in table_options.items()
    }
    return settings, {table: settings.of_table(one) for table, one in tables.items()}


@hookimpl
def register(registry: Registry) -> None:
    """Register the source `jdbc`, its database, and the inventory and backlog of the topics that follow it."""
    registry.sources.add("jdbc", build)
    registry.inventories.add("jdbc", build_inventory)
    registry.backlogs.add("jdbc", build_backlog)
    registry.databases.add("jdbc", build_database)
