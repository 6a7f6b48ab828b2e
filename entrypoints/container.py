"""The composition root: builds all ports and jobs from the settings."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pluggy
from dependency_injector import containers, providers

from lakeward.adapters.sources.staging.location import default_staging
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError, EngineLost
from lakeward.core.joined.preparation import JoinJob, Joins
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.pipeline.job import Job, SiblingTable
from lakeward.core.ports import (
    Adoption,
    Backlog,
    ChangeLog,
    DirectLoads,
    Layout,
    Lease,
    Ledger,
    Maintenance,
    Notice,
    Notifier,
    Opened,
    Quarantine,
    Queue,
    RawDescriber,
    Registration,
    Source,
    SourceCatalogue,
    SourceDatabase,
    SourceInventory,
    Statistics,
    Table,
    TableDescriber,
    TableReader,
    Target,
    UnroutedRows,
    Versions,
)
from lakeward.core.schema import Schema
from lakeward.entrypoints.runtime.locks.writer_lease import WriterLease
from lakeward.entrypoints.runtime.reporting.logs import ids_of_run
from lakeward.entrypoints.settings.configuration import Configured
from lakeward.entrypoints.settings.models.joined_tables import JoinedSettings
from lakeward.entrypoints.settings.models.sections import RegistrationSettings, TableSettings
from lakeward.entrypoints.startup.shapers import check_rules, shaped
from lakeward.plugins import FactoryRegistry, Registry, Runtime
from lakeward.plugins.manager import load, registry_of
from lakeward.plugins.options import keys_of
from lakeward.plugins.registry import check_parts, clock

P = TypeVar("P")


class LateSpark:
    """Imports and starts Spark at the first call; a run that needs none never does.

    One that `archives` leaves an archive of Java's classes when it is stopped.
    """

    archives = False

    def __init__(self, configured: Configured, on_fetch: Callable[[str, int], Any]) -> None:
        self.configured = configured
        self.on_fetch = on_fetch
        self.runtime: Runtime | None = None
        self._sessions: Any = None
        self._lock = threading.Lock()

    def __call__(self) -> Any:
        """Return the session of the calling thread; starts Spark at the first call."""
        with self._lock:
            if self._sessions is None:
                self._sessions = self._make()
        return self._sessions()

    def _make(self) -> Any:
        from lakeward.adapters.spark.session.spark_session import Sessions  # noqa: PLC0415  # slow to import

        spark = self.configured.settings.spark
        given = {"spark.master": spark.master, "spark.driver.memory": spark.memory, **spark.settings}
        asked = self.runtime.settings if self.runtime is not None else {}
        jars = self.runtime.jars if self.runtime is not None else set()
        log = self.configured.state / "spark.log"
        ids = self.runtime.run_ids if self.runtime is not None else {}
        return Sessions(jars, {**given, **asked}, log, self.on_fetch, archives=self.archives, run_ids=ids)

    def lost(self, what: str, error: BaseException) -> EngineLost | None:
        """Return the EngineLost error if the JVM has exited by itself, else None."""
        return None if self._sessions is None else self._sessions.lost(what, error)

    def stop(self) -> None:
        """Stop Spark, if it was started."""
        if self._sessions is not None:
            self._sessions.stop()

    @property
    def master(self) -> str:
        """The place where Spark runs or will run; nothing is started."""
        if sys.modules.get("pyspark") is not None:
            from lakeward.adapters.spark.session.spark_session import running  # noqa: PLC0415  # imports pyspark

            if (session := running()) is not None:
                return str(session.sparkContext.master)
        spark = self.configured.settings.spark
        return spark.settings.get("spark.master", spark.master)

    @property
    def archive(self) -> Path | None:
        """Path of the archive of Java's classes for this Spark, if it was written."""
        return None if self._sessions is None else self._sessions.archive


def make_runtime(registry: Registry, configured: Configured, spark: LateSpark) -> Runtime:
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


def make_source(registry: Registry, configured: Configured, runtime: Runtime) -> Source[Any]:
    """Build the source of the settings; raises ConfigError if a table cannot be built from such a source."""
    with configured.error_origins.defaults():
        source: Source[Any] = _build(registry.sources, _source_options(configured), runtime)
    configured.check_lateness(source.lateness)
    return source


def make_landing(registry: Registry, configured: Configured, runtime: Runtime) -> SourceInventory | None:
    """Build the inventory of the source; None if its kind has none."""
    options = _source_options(configured)
    with configured.error_origins.defaults():
        return (
            _build(registry.inventories, options, runtime) if options["kind"] in [*registry.inventories] else None
        )


def make_backlog(registry: Registry, configured: Configured, runtime: Runtime) -> Backlog | None:
    """Build the backlog counter of the source; None if its kind has none."""
    options = _source_options(configured)
    with configured.error_origins.defaults():
        return _build(registry.backlogs, options, runtime) if options["kind"] in [*registry.backlogs] else None


def make_unrouted_rows(registry: Registry, configured: Configured, runtime: Runtime) -> UnroutedRows | None:
    """Build the store of rows that name no table; None if the kind of the source has none."""
    options = _source_options(configured)
    with configured.error_origins.defaults():
        return (
            _build(registry.unrouted_rows, options, runtime)
            if options["kind"] in [*registry.unrouted_rows]
            else None
        )


def _source_options(configured: Configured) -> Mapping[str, Any]:
    of_tables = configured.source_options()
    tables = {"tables": of_tables} if any(of_tables.values()) else {}
    return {**configured.settings.source, "formats": configured.formats(), **tables}


def make_target(registry: Registry, configured: Configured, runtime: Runtime) -> Target[Any]:
    """Build the lake of the settings."""
    options = {**configured.settings.target, "tables": configured.format_options()}
    with configured.error_origins.defaults():
        target = _build(registry.formats, options, runtime)
    if configured.joined and not isinstance(target, Joins):
        raise ConfigError(
            f"{next(iter(configured.joined))}: tables of the kind {options['kind']!r} cannot be joined",
            todo='Take another `kind` under [target] ("iceberg", "delta", "hudi"), or leave [joined] out.',
        )
    return target


def make_queue(registry: Registry, configured: Configured, runtime: Runtime, tables_at: TablesAt) -> Queue:
    """Build the queue of the settings."""
    own = configured.settings.queue.model_extra or {}
    added = {
        "kind": configured.settings.queue.kind,
        "tables": [str(name) for name in configured.tables],
        "tables_at": tables_at,
    }
    return _build(registry.queues, {**own, **added}, runtime)


class TablesAt:
    """Finds the configured tables that read an object, by its URL; the inventory is read at the first call."""

    def __init__(self, configured: Configured, landing: Callable[[], SourceInventory | None]) -> None:
        self._read = configured.read
        self._landing = landing

    def __call__(self, url: str) -> Sequence[str]:
        """Return the names of the tables, in the order of the settings."""
        found = self._match(url)
        return [str(table) for table, source in self._read.items() if source in found]

    @cached_property
    def _match(self) -> Callable[[str], Collection[TableName]]:
        landing = self._landing()
        return (lambda _url: ()) if landing is None else landing.match_objects({*self._read.values()})


def make_ledger(registry: Registry, configured: Configured, runtime: Runtime) -> Ledger:
    """Build the ledger of the settings."""
    return _build(registry.ledgers, {**configured.settings.ledger, "state": configured.state}, runtime)


def make_lease(registry: Registry, configured: Configured, runtime: Runtime) -> Lease | None:
    """Build the lease of the settings; None without one: then the lock in the state folder is the only one."""
    options = configured.settings.lease
    return None if options is None else _build(registry.leases, options, runtime)


def make_writer_lease(lease: Lease | None, configured: Configured, runtime: Runtime) -> WriterLease | None:
    """Return the context that takes and renews the lease of the pipeline; None without a lease."""
    return None if lease is None else WriterLease(lease, configured.settings.pipeline.name, runtime.now)


def make_registration(
    registry: Registry, configured: Configured, runtime: Runtime, target: Target[Any], source: Callable[[], Any]
) -> Registration | None:
    """Build what registers tables, where the settings name it.

    Raises ConfigError for a lake that cannot say where its tables are, and where two would be registered under one
    name.
    """
    settings = configured.settings.registration
    if settings is None:
        return None
    if not isinstance(target, TableDescriber):
        raise ConfigError(
            f"{configured.file}: tables of the kind {configured.settings.target['kind']!r} cannot be registered",
            found="[registration] is for tables that have no catalog of their own",
            todo='Leave [registration] out. Iceberg tables are in Glue with `catalog = "glue"` under [target].',
        )
    made = _build(registry.registrations, {**(settings.model_extra or {}), "kind": settings.kind}, runtime)
    every = [target.identify(name) for name in (*configured.tables, *configured.joined)]
    if settings.raw is not None:
        found = source()
        if not isinstance(found, RawDescriber):
            raise ConfigError(
                f"files of the source {configured.settings.source['kind']!r} cannot be registered",
                todo="Leave `raw` under [registration] out.",
            )
        every += _raw_names(configured, found, settings, every)
    made.check(every)
    return made


def _raw_names(
    configured: Configured,
    source: RawDescriber,
    settings: RegistrationSettings,
    selection: Collection[tuple[str, str]],
) -> Sequence[tuple[str, str]]:
    """Return the namespaces of raw tables; raises ConfigError if a table of the lake has such a name."""
    named: list[tuple[str, str]] = []
    for table in dict.fromkeys(configured.read.values()):
        named += source.identify_raw(table, settings.raw_namespace(table.schema))
    if both := sorted({*named} & {*selection}):
        raise ConfigError(
            f"{'.'.join(both[0])} would be a table of the lake and the files that it is made of",
            found=f"`raw` under [registration] is {settings.raw!r}",
            todo="Give the files a namespace of their own, as `{schema}_raw`.",
        )
    return named


def make_statistics(registry: Registry, configured: Configured, runtime: Runtime) -> Statistics | None:
    """Build the reader of load status of the replication task, if the settings name it."""
    options = configured.settings.statistics
    return None if options is None else _build(registry.statistics, options, runtime)


def make_notifiers(
    registry: Registry, configured: Configured, runtime: Runtime
) -> Mapping[str, Notifier]:
    """Build the notifiers of [[notify]] by name: their kind; a second one of a kind is named `sns 2`."""
    found, kinds = dict[str, Notifier](), Counter[str]()
    for options in configured.settings.notify:
        kind = str(options["kind"])
        kinds[kind] += 1
        name = kind if kinds[kind] == 1 else f"{kind} {kinds[kind]}"
        found[name] = _build(registry.notifiers, options, runtime)
    return found


def _build(shelf: FactoryRegistry[P], options: Mapping[str, Any], runtime: Runtime) -> P:
    return shelf.build(options["kind"], {n: v for n, v in options.items() if n != "kind"}, runtime)


def make_job(
    *,
    configured: Configured,
    source: Source[Any],
    target: Target[Any],
    queue: Queue,
    ledger: Ledger,
    statistics: Statistics | None,
    runtime: Runtime,
    spark: Callable[[], Any],
    writer_lease: WriterLease | None,
    table: TableName,
    notices: Sequence[Notice] = (),
) -> Job[Any]:
    """Build the job of a table."""
    dimension = configured.dimension(table, source.lateness, source.sequences)
    ruled = shaped(source, configured.rules(table), spark, runtime.secret)
    ledger_writer = LedgerWriter(ledger=ledger, now=runtime.now, whole_every=configured.full_listing)
    opened = _open(target, dimension)
    return Job(
        dimension=dimension,
        source=ruled,
        opened=opened,
        queue=queue,
        notices=notices,
        ledger_writer=ledger_writer,
        statistics=statistics,
        read_table_state=partial(target.standing, dimension),
        attempts=configured.settings.pipeline.commit_attempts,
        check=(lambda: None) if writer_lease is None else writer_lease.check,
        siblings=[_sibling(target, name) for name in configured.siblings_of(table)],
    )


_PARTS: Final[Mapping[str, type]] = {
    "table": Table,
    "change_log": ChangeLog,
    "quarantine": Quarantine,
    "versions": Versions,
    "maintenance": Maintenance,
    "adoption": Adoption,
    "layout": Layout,
    "reader": TableReader,
    "loads": DirectLoads,
}
"""The ports of an opened table."""


def _open(target: Target[Any], dimension: Dimension) -> Opened[Any]:
    """Open a table; raises PluginError if a port of it is incomplete, before the run begins."""
    opened = target.open(dimension)
    check_parts(opened, Opened, _PARTS)
    return opened


def _sibling(target: Target[Any], name: TableName) -> SiblingTable:
    return SiblingTable(str(name), partial(target.standing, Dimension(name=name, schema=Schema(()))))


def make_join_job(
    *,
    configured: Configured,
    source: Source[Any],
    target: Target[Any],
    runtime: Runtime,
    writer_lease: WriterLease | None,
    table: TableName,
) -> JoinJob:
    """Build the job of a joined table."""
    if not isinstance(target, Joins):
        raise LookupError(f"{table} has no lake that joins")
    joined = configured.joined[table]
    names = {one.table for one in joined.sources.values()}
    return JoinJob(
        joined=joined,
        sources={name: configured.dimension(name, source.lateness, source.sequences) for name in names},
        target=target,
        now=runtime.now,
        attempts=configured.settings.pipeline.commit_attempts,
        check=(lambda: None) if writer_lease is None else writer_lease.check,
    )


def make_joined_upkeep(
    *,
    configured: Configured,
    source: Source[Any],
    target: Target[Any],
    writer_lease: WriterLease | None,
    table: TableName,
) -> Job[Any]:
    """Build the job that inspects and maintains a joined table in its current state."""
    bare = Dimension(name=table, schema=Schema(()), history=configured.joined[table].history)
    stands = target.standing(bare)
    dimension = replace(bare, schema=stands.schema or bare.schema, key=stands.progress.key or ())
    check = (lambda: None) if writer_lease is None else writer_lease.check
    return Job(dimension=dimension, source=source, opened=_open(target, dimension), check=check)


def make_catalogue(registry: Registry, configured: Configured, runtime: Runtime) -> SourceCatalogue:
    """Build the catalogue of the settings."""
    settings = configured.settings.catalogue
    if settings is None:
        raise ConfigError("there is no [catalogue]")
    source = configured.settings.source
    own = {"source": source} if source["kind"] == settings.kind else {}
    return _build(registry.catalogues, {**(settings.model_extra or {}), "kind": settings.kind, **own}, runtime)


def make_database(registry: Registry, configured: Configured, runtime: Runtime) -> SourceDatabase[Any]:
    """Build what asks the database of the source: that of [source] itself, else the one that [catalogue] asks.

    Raises ConfigError where neither names one.
    """
    source, catalogue = configured.settings.source, configured.settings.catalogue
    if source["kind"] in [*registry.databases]:
        return _build(registry.databases, {**source, "section": "source"}, runtime)
    if catalogue is not None and catalogue.kind in [*registry.databases]:
        options = {**(catalogue.model_extra or {}), "kind": catalogue.kind, "section": "catalogue"}
        return _build(registry.databases, options, runtime)
    raise ConfigError(
        f"{configured.file}: nothing says how the database of the source is reached",
        todo='Name it under [catalogue], with `kind = "jdbc"` (docs/how-to/verify.md).',
    )


class Container(containers.DeclarativeContainer):
    """All parts that a command may need; each is built once, at its first use."""

    configured = providers.Dependency(instance_of=Configured)
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
    joined_upkeep = providers.Factory(
        make_joined_upkeep, configured=configured, source=source, target=target, writer_lease=writer_lease
    )
    rules = providers.Callable(check_rules, configured=configured, source=source, spark=spark, runtime=runtime)


_SHARED: Final = ("spark", "manager", "registry", "lease", "writer_lease", "ledger", "statistics")
"""Parts that do not depend on the tables."""


def remake(before: Container, configured: Configured) -> Container:
    """Return a container for changed settings of tables, with Spark, ledger and lease of the one `before`."""
    made = Container(configured=configured, on_fetch=before.on_fetch())
    for name in _SHARED:
        getattr(made, name).override(providers.Object(getattr(before, name)()))
    return made


def bind_spark(container: Container) -> None:
    """Let Spark start with the settings of this container; it would use those of the container remade last."""
    container.spark().runtime = container.runtime()
