"""Builder of the registration, and its checks of names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from lakeward.core.errors import ConfigError
from lakeward.core.ports import (
    RawDescriber,
    Registration,
    TableDescriber,
    Target,
)
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.settings.models.sections import RegistrationSettings
from lakeward.entrypoints.startup.adapters import build
from lakeward.plugins import Registry, Runtime


def make_registration(
    registry: Registry, configured: Configuration, runtime: Runtime, target: Target[Any], source: Callable[[], Any]
) -> Registration | None:
    """Build the registration of the settings; None without one.

    Raises ConfigError for a table format that cannot describe its tables, and if two tables would be registered
    under one name.
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
    registration = build(registry.registrations, {**(settings.model_extra or {}), "kind": settings.kind}, runtime)
    names = [target.identify(name) for name in (*configured.tables, *configured.joined)]
    if settings.raw is not None:
        describer = source()
        if not isinstance(describer, RawDescriber):
            raise ConfigError(
                f"files of the source {configured.settings.source['kind']!r} cannot be registered",
                todo="Leave `raw` under [registration] out.",
            )
        names += _raw_names(configured, describer, settings, names)
    registration.check(names)
    return registration


def _raw_names(
    configured: Configuration,
    source: RawDescriber,
    settings: RegistrationSettings,
    lake_names: Collection[tuple[str, str]],
) -> Sequence[tuple[str, str]]:
    """Return the names of raw tables; raises ConfigError if a table of the lake has one of them."""
    names: list[tuple[str, str]] = []
    for table in dict.fromkeys(configured.source_names.values()):
        names += source.identify_raw(table, settings.raw_namespace(table.schema))
    if shared := sorted({*names} & {*lake_names}):
        raise ConfigError(
            f"{'.'.join(shared[0])} would be a table of the lake and the files that it is made of",
            found=f"`raw` under [registration] is {settings.raw!r}",
            todo="Give the files a namespace of their own, as `{schema}_raw`.",
        )
    return names
