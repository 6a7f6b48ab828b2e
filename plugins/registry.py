"""The registry: factories of ports by kind and name, and the runtime that factories get."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError, PluginError
from lakeward.core.ports import (
    Backlog,
    Lease,
    Ledger,
    Notifier,
    Queue,
    Registration,
    Secrets,
    SettingsStore,
    Source,
    SourceCatalogue,
    SourceDatabase,
    SourceInventory,
    SourceProbe,
    Statistics,
    Target,
    UnroutedRows,
)
from lakeward.core.schema import Schema
from lakeward.core.settings.secrets import Secret, SecretName

P = TypeVar("P")

SMALL_BATCH: Final = 20_000
"""The default for the greatest number of rows of a small batch."""

Options: TypeAlias = Mapping[str, Any]
"""One table of the settings, as it is written, for the adapter that its `kind` names."""


def clock() -> int:
    """Return the time of this machine in microseconds since 1970."""
    return time.time_ns() // 1000


def _no_secret(name: SecretName) -> Secret:
    raise PluginError(f"the secret {name} cannot be read here")


@dataclass(slots=True)
class Runtime:
    """The parts of a run that a factory may use.

    - `spark`: returns the Spark session of the calling thread, and starts Spark at the first call. A run that never
      calls it starts no Spark. A factory names the jars and settings of its session with `require` before.
    - `base`: the folder of the settings file. Relative paths are relative to it.
    - `file`: the settings file, for messages.
    - `table_keys`: the keys that a table of the settings has besides those of its format.
    - `jars`, `settings`: what factories asked for with `require`.
    - `now`: the clock, in microseconds since 1970.
    - `secret`: reads a secret by its name. Call it when the secret is needed, not before.
    - `state`: the folder in which an adapter may keep data that it can create again.
    - `declared`: the columns in the lake of tables whose columns are in the settings or in the catalogue. Joined
      tables are included.
    - `joined`: the joined tables. `joined_keys`: the keys of their sections besides those of the format.
    - `small_batch`: the greatest number of rows of a batch that may be processed without Spark; 0 means none.
    - `runs_once`: the process ends after the changes that it found first, even if a source always has new ones.
    - `run_ids`: the names and ids that an orchestrator gives the run. Commits keep them in their properties.
    - `pipeline`: the name of the pipeline, which is unique among pipelines that share a store.
    - `staging`: a prefix of a bucket for files that Spark workers on other machines read, if the lake is in S3;
      else None.
    """

    spark: Callable[[], Any]
    base: Path = field(default_factory=Path)
    file: Path = field(default_factory=Path)
    table_keys: tuple[str, ...] = ()
    jars: set[str] = field(default_factory=set)
    settings: dict[str, str] = field(default_factory=dict)
    now: Callable[[], int] = clock
    secret: Callable[[SecretName], Secret] = _no_secret
    state: Path = field(default_factory=Path)
    declared: Mapping[TableName, Schema] = field(default_factory=dict)
    joined: Collection[TableName] = ()
    joined_keys: tuple[str, ...] = ()
    small_batch: int = SMALL_BATCH
    runs_once: bool = False
    run_ids: Mapping[str, str] = field(default_factory=dict)
    pipeline: str = ""
    staging: str | None = None

    def require(self, *jars: str, settings: Mapping[str, str] | None = None) -> None:
        """Request groups of jars, single jars by `coordinates@sha256`, and settings of the Spark session."""
        self.jars.update(jars)
        self.settings.update(settings or {})


Factory: TypeAlias = Callable[[Options, Runtime], P]
"""A function from options and runtime to a port. Every adapter registers one."""


def failed(plugin: str, doing: str, error: BaseException) -> PluginError:
    """Return the error to raise after a plugin raised an error that is not a LakewardError.

    `doing` describes what the plugin was called for.
    """
    return PluginError(
        f"the plugin {plugin} failed in {doing}",
        found=f"{type(error).__name__}: {error}",
        todo="Correct or uninstall it. On the command line, --debug shows the stack trace.",
    )


class FactoryRegistry(Generic[P]):
    """Factories of one kind of port, by name."""

    def __init__(self, kind: str, port: type | None = None) -> None:
        self.kind = kind
        self._members = () if port is None else tuple(_members(port))
        self._factories: dict[str, tuple[Factory[P], str]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._factories))

    def add(self, name: str, factory: Factory[P]) -> None:
        """Register a factory by its name.

        Raises PluginError if the name is registered already, and TypeError if `name` is not a text or `factory` is
        not callable.
        """
        if not isinstance(name, str) or not callable(factory):
            raise TypeError(f"add({name!r}, {factory!r}): a {self.kind} is registered by its name and a factory")
        if name in self._factories:
            raise PluginError(
                f"two plugins register a {self.kind} called {name!r}",
                found=f"found {self.origin(name)} and {_module_of(factory)}",
                todo="Uninstall one of them.",
            )
        self._factories[name] = (factory, _module_of(factory))

    def origin(self, name: str) -> str:
        """Return the module that registered a name. Raises KeyError for an unknown name."""
        return self._factories[name][1]

    def build(self, name: str, options: Options, runtime: Runtime) -> P:
        """Return the port that the factory of a name builds.

        Raises PluginError if the name is unknown (the error lists the installed names), if the factory raises an
        error that is not a LakewardError, or if its result lacks a member of the port.
        """
        if name not in self._factories:
            near = difflib.get_close_matches(name, self._factories, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise PluginError(
                f"no {self.kind} is called {name!r}.{hint}",
                found="installed: " + (", ".join(self) or "none"),
                todo="Is the plugin that provides it installed in this environment?",
            )
        try:
            port = self._factories[name][0](options, runtime)
        except LakewardError:
            raise
        except (Exception, SystemExit) as error:
            raise failed(self.origin(name), f"making the {self.kind} {name!r}", error) from error
        if missing := _missing_members(port, self._members):
            raise PluginError(
                f"what the plugin {self.origin(name)} makes is no {self.kind}",
                found=f"{name!r} is of the type {type(port).__name__}, which lacks {', '.join(missing)}",
                todo=_CORRECT,
            )
        return port


_CORRECT: Final = "Correct the plugin; `docs/extend/hooks.md` lists the members of each port."


def check_parts(value: object, container: type, ports: Mapping[str, type]) -> None:
    """Raise PluginError if an attribute of a plugin's result lacks a member of its port.

    The `value` must be an instance of `container`. `ports` has the port of each attribute by name. Attributes that
    are None are not checked.
    """
    if not isinstance(value, container):
        raise PluginError(
            f"what a plugin makes is no {container.__name__}",
            found=f"it is a {type(value).__name__}",
            todo=_CORRECT,
        )
    for name, port in ports.items():
        part = getattr(value, name)
        missing = () if part is None else _missing_members(part, _members(port))
        if missing:
            raise PluginError(
                f"what the plugin {type(part).__module__} makes is no {port.__name__}",
                found=f"`{name}` is of the type {type(part).__name__}, which lacks {', '.join(missing)}",
                todo=_CORRECT,
            )


def _missing_members(value: object, members: Iterable[str]) -> Sequence[str]:
    """Return the sorted names of missing members. Properties are not evaluated."""
    return sorted(name for name in {*members} - {*dir(value)} if not hasattr(value, name))


def _module_of(factory: Callable[..., object]) -> str:
    return factory.func.__module__ if isinstance(factory, partial) else factory.__module__


def _members(port: type) -> Iterator[str]:
    """Yield the names of the methods, properties and attributes of a port."""
    for base in port.__mro__:
        if getattr(base, "_is_protocol", False):
            names = {*vars(base), *vars(base).get("__annotations__", {})}
            yield from (name for name in names if not name.startswith("_"))


class Registry:
    """The factories of all plugins, by kind of port."""

    def __init__(self) -> None:
        self.sources: FactoryRegistry[Source[Any]] = FactoryRegistry("source", Source)
        self.inventories: FactoryRegistry[SourceInventory] = FactoryRegistry("source inventory", SourceInventory)
        self.backlogs: FactoryRegistry[Backlog] = FactoryRegistry("backlog", Backlog)
        self.unrouted_rows: FactoryRegistry[UnroutedRows] = FactoryRegistry(
            "quarantine of a pipeline", UnroutedRows
        )
        self.formats: FactoryRegistry[Target[Any]] = FactoryRegistry("table format", Target)
        self.queues: FactoryRegistry[Queue] = FactoryRegistry("queue", Queue)
        self.ledgers: FactoryRegistry[Ledger] = FactoryRegistry("ledger", Ledger)
        self.leases: FactoryRegistry[Lease] = FactoryRegistry("lease", Lease)
        self.catalogues: FactoryRegistry[SourceCatalogue] = FactoryRegistry("catalogue", SourceCatalogue)
        self.probes: FactoryRegistry[SourceProbe] = FactoryRegistry("source probe", SourceProbe)
        self.databases: FactoryRegistry[SourceDatabase[Any]] = FactoryRegistry(
            "database of a source", SourceDatabase
        )
        self.statistics: FactoryRegistry[Statistics] = FactoryRegistry("kind of statistics", Statistics)
        self.secrets: FactoryRegistry[Secrets] = FactoryRegistry("place of secrets", Secrets)
        self.registrations: FactoryRegistry[Registration] = FactoryRegistry("registration", Registration)
        self.settings_stores: FactoryRegistry[SettingsStore] = FactoryRegistry("settings store", SettingsStore)
        self.notifiers: FactoryRegistry[Notifier] = FactoryRegistry("notifier", Notifier)

    def __iter__(self) -> Iterator[FactoryRegistry[Any]]:
        main = (self.sources, self.inventories, self.formats, self.queues, self.ledgers, self.leases)
        others = (self.catalogues, self.probes, self.statistics, self.secrets, self.unrouted_rows, self.backlogs)
        return iter((*main, *others, self.databases, self.registrations, self.settings_stores, self.notifiers))
