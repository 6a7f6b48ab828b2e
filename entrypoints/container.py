"""The composition root: connects the builders of all ports and jobs."""

from __future__ import annotations

from typing import Any, Final

import pluggy
from dependency_injector import containers, providers

from lakeward.adapters.sources.staging.location import default_staging
from lakeward.entrypoints.runtime.reporting.logs import ids_of_run
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.settings.models.joined_tables import JoinedSettings
from lakeward.entrypoints.settings.models.tables import TableSettings
from lakeward.entrypoints.startup.adapters import (
    TablesAt,
    make_backlog,
    make_catalogue,
    make_database,
    make_landing,
    make_lease,
    make_ledger,
    make_notifiers,
    make_queue,
    make_source,
    make_statistics,
    make_target,
    make_unrouted_rows,
    make_writer_lease,
)
from lakeward.entrypoints.startup.jobs import make_job, make_join_job, make_joined_maintenance
from lakeward.entrypoints.startup.late_spark import LateSpark
from lakeward.entrypoints.startup.registration import make_registration
from lakeward.entrypoints.startup.shapers import check_rules
from lakeward.plugins import Registry, Runtime
from lakeward.plugins.manager import load, registry_of
from lakeward.plugins.options import keys_of
from lakeward.plugins.registry import clock


def make_runtime(registry: Registry, configured: Configuration, spark: LateSpark) -> Runtime:
    """Return the runtime that factories receive."""
    runtime = Runtime(spark, configured.base, configured.file, now=clock, state=configured.state)
    runtime.table_keys, runtime.joined_keys = keys_of(TableSettings), keys_of(JoinedSettings)
    runtime.joined = list(configured.joined)
    runtime.pipeline = configured.settings.pipeline.name
    runtime.declared = configured.declared()
    runtime.run_ids = ids_of_run()
    runtime.small_batch = configured.settings.spark.small_batch
    runtime.staging = default_staging(configured.settings.target.get("warehouse"), spark.master)
    runtime.secret = lambda name: registry.secrets.build(name.kind, {}, runtime).read(name.name)
    spark.runtime = runtime
    return runtime


class Container(containers.DeclarativeContainer):
    """All parts that a command may need; each is built once, at its first use."""

    configured = providers.Dependency(instance_of=Configuration)
    on_fetch: providers.Object[Any] = providers.Object(lambda _file, _size: None)
    spark = providers.Singleton(LateSpark, configured, on_fetch)
    manager: providers.Provider[pluggy.PluginManager] = providers.Singleton(load)
    registry = providers.Singleton(registry_of, manager)
    runtime = providers.Singleton(make_runtime, registry, configured, spark)
    source = providers.Singleton(make_source, registry, configured, runtime)
    landing = providers.Singleton(make_landing, registry, configured, runtime)
    backlog = providers.Singleton(make_backlog, registry, configured, runtime)
    unrouted_rows = providers.Singleton(make_unrouted_rows, registry, configured, runtime)
    target = providers.Singleton(make_target, registry, configured, runtime)
    tables_at = providers.Singleton(TablesAt, configured, landing.provider)
    queue = providers.Singleton(make_queue, registry, configured, runtime, tables_at)
    registration = providers.Singleton(
        make_registration, registry, configured, runtime, target, source.provider
    )
    lease = providers.Singleton(make_lease, registry, configured, runtime)
    writer_lease = providers.Singleton(make_writer_lease, lease, configured, runtime)
    ledger = providers.Singleton(make_ledger, registry, configured, runtime)
    catalogue = providers.Singleton(make_catalogue, registry, configured, runtime)
    database = providers.Singleton(make_database, registry, configured, runtime)
    statistics = providers.Singleton(make_statistics, registry, configured, runtime)
    notifiers = providers.Singleton(make_notifiers, registry, configured, runtime)
    job = providers.Factory(
        make_job,
        configured=configured,
        source=source,
        target=target,
        queue=queue,
        ledger=ledger,
        statistics=statistics,
        runtime=runtime,
        spark=spark,
        writer_lease=writer_lease,
    )
    join_job = providers.Factory(
        make_join_job,
        configured=configured,
        source=source,
        target=target,
        runtime=runtime,
        writer_lease=writer_lease,
    )
    joined_maintenance = providers.Factory(
        make_joined_maintenance, configured=configured, source=source, target=target, writer_lease=writer_lease
    )
    rules = providers.Callable(check_rules, configured=configured, source=source, spark=spark, runtime=runtime)


_TABLE_INDEPENDENT: Final = ("spark", "manager", "registry", "lease", "writer_lease", "ledger", "statistics")
"""Parts that do not depend on the settings of tables."""


def remake(before: Container, configured: Configuration) -> Container:
    """Return a container for changed settings of tables, with Spark, ledger and lease of the one `before`."""
    container = Container(configured=configured, on_fetch=before.on_fetch())
    for name in _TABLE_INDEPENDENT:
        getattr(container, name).override(providers.Object(getattr(before, name)()))
    return container


def bind_spark(container: Container) -> None:
    """Let Spark start with the settings of this container, instead of those of the container remade last."""
    container.spark().runtime = container.runtime()
