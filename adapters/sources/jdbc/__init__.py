"""The source `jdbc`: tables of a live database, as snapshots and by a cursor column."""

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
"""The keys of a table's `source` that say how its snapshot is read, where it goes on with a feed."""


def build(options: Options, runtime: Runtime) -> Source[Any]:
    """Make the source from the table [source] and what the tables say of themselves; no database is asked yet."""
    check_spark()
    from lakeward.adapters.catalogues.connection import driver_jars  # noqa: PLC0415  # py4j, for who uses it
    from lakeward.adapters.sources.jdbc.database.spark_reader import Database  # noqa: PLC0415
    from lakeward.adapters.sources.jdbc.source import make_source  # noqa: PLC0415

    settings, tables = read_options(options, runtime)
    jars = driver_jars(settings, "source")
    runtime.require(*(jar.request for jar in jars))
    source = make_source(settings, tables, Database(settings, runtime.spark, runtime.secret), options, runtime)
    return source if settings.then is None else _then_kafka(source, settings, options, runtime)


def _then_kafka(source: Any, settings: Any, options: Options, runtime: Runtime) -> Source[Any]:
    from lakeward.adapters.sources.jdbc.snapshot_then_feed import SnapshotThenFeed  # noqa: PLC0415

    feed = kafka.make_source(_feed_options(settings, options), runtime, _FEED, follows_snapshot=True)
    return SnapshotThenFeed(source, feed)


def _feed_options(settings: Any, options: Options) -> Options:
    """Return the settings of the source `kafka` that goes on; what tables say of themselves is of that."""
    tables = {
        table: {name: value for name, value in said.items() if name not in _SNAPSHOT_KEYS}
        for table, said in options.get("tables", {}).items()
    }
    own = {} if settings.staging is None else {"staging": settings.staging}
    return {**own, **settings.kafka, "formats": options["formats"], "tables": tables}


def build_inventory(options: Options, runtime: Runtime) -> SourceInventory:
    """Look at the topics with which tables go on; without such, nothing is looked at."""
    from lakeward.adapters.sources.jdbc.no_topics import NoTopics  # noqa: PLC0415

    settings, _ = read_options(options, runtime)
    if settings.then is None:
        return NoTopics()
    landing: SourceInventory = kafka.open_topics(_feed_options(settings, options), runtime, _FEED)[0]
    return landing


def build_backlog(options: Options, runtime: Runtime) -> Backlog:
    """Look at what waits in the topics with which tables go on; without such, nothing is known to wait."""
    from lakeward.adapters.sources.jdbc.no_topics import NoTopics  # noqa: PLC0415
    from lakeward.adapters.sources.kafka.backlog import KafkaBacklog  # noqa: PLC0415

    settings, _ = read_options(options, runtime)
    if settings.then is None:
        return NoTopics()
    landing, _, staging, transactions = kafka.open_topics(_feed_options(settings, options), runtime, _FEED)
    return KafkaBacklog(landing, "latest", follows_snapshot=True, staging=staging, transactions=transactions)


def build_database(options: Options, runtime: Runtime) -> SourceDatabase[Any]:
    """Make what asks the database of a source, from the section of the settings that names it; nothing is asked."""
    check_spark()
    from lakeward.adapters.catalogues.connection import driver_jars  # noqa: PLC0415  # py4j, for who uses it
    from lakeward.adapters.sources.jdbc.database.spark_reader import Database  # noqa: PLC0415
    from lakeward.adapters.sources.jdbc.options import JdbcSourceOptions  # noqa: PLC0415

    section = str(options["section"])
    own = {name: options[name] for name in JdbcSourceOptions.model_fields if name in options}
    settings = validated(JdbcSourceOptions, own, str(runtime.file), within=section)
    runtime.require(*(jar.request for jar in driver_jars(settings, section)))
    return Database(settings, runtime.spark, runtime.secret, section)


def read_options(options: Options, runtime: Runtime) -> tuple[Any, Mapping[TableName, Any]]:
    """Return the validated options, and those of each table that has its own."""
    from lakeward.adapters.sources.jdbc import options as model  # noqa: PLC0415  # pydantic, for who uses the source

    own = {name: value for name, value in options.items() if name not in ("formats", "tables")}
    where = str(runtime.file)
    settings = validated(model.JdbcSourceOptions, own, where, within="source")
    said: Mapping[TableName, Mapping[str, Any]] = options.get("tables", {})
    tables = {
        table: validated(
            model.TableReads,
            values if settings.then is None else {n: v for n, v in values.items() if n in _SNAPSHOT_KEYS},
            where,
            within=f'tables."{table}".source',
        )
        for table, values in said.items()
    }
    return settings, {table: settings.of_table(one) for table, one in tables.items()}


@hookimpl
def register(registry: Registry) -> None:
    """Register the source `jdbc`, what asks its database, and what looks at the topics behind it."""
    registry.sources.add("jdbc", build)
    registry.inventories.add("jdbc", build_inventory)
    registry.backlogs.add("jdbc", build_backlog)
    registry.databases.add("jdbc", build_database)
