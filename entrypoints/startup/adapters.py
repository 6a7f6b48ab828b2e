"""Builders of the adapters that the settings name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.joined.refresh import Joins
from lakeward.core.ports import (
    Backlog,
    Lease,
    Ledger,
    Notifier,
    Queue,
    Source,
    SourceCatalogue,
    SourceDatabase,
    SourceInventory,
    Statistics,
    Target,
    UnroutedRows,
)
from lakeward.entrypoints.runtime.locks.writer_lease import WriterLease
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.plugins import FactoryRegistry, Registry, Runtime

P = TypeVar("P")


def make_source(registry: Registry, configured: Configuration, runtime: Runtime) -> Source[Any]:
    """Build the source of the settings; raises ConfigError if a table cannot be built from such a source."""
    with configured.error_origins.defaults():
        source: Source[Any] = build(registry.sources, _source_options(configured), runtime)
    configured.check_lateness(source.lateness)
    return source


def make_landing(registry: Registry, configured: Configuration, runtime: Runtime) -> SourceInventory | None:
    """Build the inventory of the source; None if its kind has none."""
    options = _source_options(configured)
    with configured.error_origins.defaults():
        return (
            build(registry.inventories, options, runtime) if options["kind"] in [*registry.inventories] else None
        )


def make_backlog(registry: Registry, configured: Configuration, runtime: Runtime) -> Backlog | None:
    """Build the backlog counter of the source; None if its kind has none."""
    options = _source_options(configured)
    with configured.error_origins.defaults():
        return build(registry.backlogs, options, runtime) if options["kind"] in [*registry.backlogs] else None


def make_unrouted_rows(registry: Registry, configured: Configuration, runtime: Runtime) -> UnroutedRows | None:
    """Build the store of rows that name no table; None if the kind of the source has none."""
    options = _source_options(configured)
    with configured.error_origins.defaults():
        return (
            build(registry.unrouted_rows, options, runtime)
            if options["kind"] in [*registry.unrouted_rows]
            else None
        )


def _source_options(configured: Configuration) -> Mapping[str, Any]:
    table_options = configured.source_options()
    tables = {"tables": table_options} if any(table_options.values()) else {}
    return {**configured.settings.source, "formats": configured.formats(), **tables}


def make_target(registry: Registry, configured: Configuration, runtime: Runtime) -> Target[Any]:
    """Build the lake of the settings."""
    options = {**configured.settings.target, "tables": configured.format_options()}
    with configured.error_origins.defaults():
        target = build(registry.formats, options, runtime)
    if configured.joined and not isinstance(target, Joins):
        raise ConfigError(
            f"{next(iter(configured.joined))}: tables of the kind {options['kind']!r} cannot be joined",
            todo='Take another `kind` under [target] ("iceberg", "delta", "hudi"), or leave [joined] out.',
        )
    return target


def make_queue(registry: Registry, configured: Configuration, runtime: Runtime, tables_at: TablesAt) -> Queue:
    """Build the queue of the settings."""
    own = configured.settings.queue.model_extra or {}
    reserved = {
        "kind": configured.settings.queue.kind,
        "tables": [str(name) for name in configured.tables],
        "tables_at": tables_at,
    }
    return build(registry.queues, {**own, **reserved}, runtime)


class TablesAt:
    """Finds the configured tables that read an object, by its URL. The inventory is built at the first call."""

    def __init__(self, configured: Configuration, landing: Callable[[], SourceInventory | None]) -> None:
        self._source_names = configured.source_names
        self._landing = landing

    def __call__(self, url: str) -> Sequence[str]:
        """Return the names of the tables, in the order of the settings."""
        sources = self._match(url)
        return [str(table) for table, source in self._source_names.items() if source in sources]

    @cached_property
    def _match(self) -> Callable[[str], Collection[TableName]]:
        landing = self._landing()
        return (lambda _url: ()) if landing is None else landing.match_objects({*self._source_names.values()})


def make_ledger(registry: Registry, configured: Configuration, runtime: Runtime) -> Ledger:
    """Build the ledger of the settings."""
    return build(registry.ledgers, {**configured.settings.ledger, "state": configured.state}, runtime)


def make_lease(registry: Registry, configured: Configuration, runtime: Runtime) -> Lease | None:
    """Build the lease of the settings; None without one, which leaves only the lock in the state folder."""
    options = configured.settings.lease
    return None if options is None else build(registry.leases, options, runtime)


def make_writer_lease(lease: Lease | None, configured: Configuration, runtime: Runtime) -> WriterLease | None:
    """Return the context that takes and renews the lease of the pipeline; None without a lease."""
    return None if lease is None else WriterLease(lease, configured.settings.pipeline.name, runtime.now)


def make_statistics(registry: Registry, configured: Configuration, runtime: Runtime) -> Statistics | None:
    """Build the reader of load status of the replication task, if the settings name it."""
    options = configured.settings.statistics
    return None if options is None else build(registry.statistics, options, runtime)


def make_notifiers(
    registry: Registry, configured: Configuration, runtime: Runtime
) -> Mapping[str, Notifier]:
    """Build the notifiers of [[notify]] by name: the kind, or `sns 2` for the second one of a kind."""
    notifiers, kinds = dict[str, Notifier](), Counter[str]()
    for options in configured.settings.notify:
        kind = str(options["kind"])
        kinds[kind] += 1
        name = kind if kinds[kind] == 1 else f"{kind} {kinds[kind]}"
        notifiers[name] = build(registry.notifiers, options, runtime)
    return notifiers


def make_catalogue(registry: Registry, configured: Configuration, runtime: Runtime) -> SourceCatalogue:
    """Build the catalogue of the settings."""
    settings = configured.settings.catalogue
    if settings is None:
        raise ConfigError("there is no [catalogue]")
    source = configured.settings.source
    own = {"source": source} if source["kind"] == settings.kind else {}
    return build(registry.catalogues, {**(settings.model_extra or {}), "kind": settings.kind, **own}, runtime)


def make_database(registry: Registry, configured: Configuration, runtime: Runtime) -> SourceDatabase[Any]:
    """Build the reader of the source database: that of [source] itself, else the database of [catalogue].

    Raises ConfigError if neither section names a database.
    """
    source, catalogue = configured.settings.source, configured.settings.catalogue
    if source["kind"] in [*registry.databases]:
        return build(registry.databases, {**source, "section": "source"}, runtime)
    if catalogue is not None and catalogue.kind in [*registry.databases]:
        options = {**(catalogue.model_extra or {}), "kind": catalogue.kind, "section": "catalogue"}
        return build(registry.databases, options, runtime)
    raise ConfigError(
        f"{configured.file}: no database of the source is configured",
        todo='Name it under [catalogue], with `kind = "jdbc"` (docs/how-to/verify.md).',
    )


def build(factories: FactoryRegistry[P], options: Mapping[str, Any], runtime: Runtime) -> P:
    """Build an adapter of the kind that its options name."""
    own = {key: value for key, value in options.items() if key != "kind"}
    return factories.build(options["kind"], own, runtime)
