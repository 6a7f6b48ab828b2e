"""What is registered, and errors that say so."""

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
    Landing,
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
    SourceProbe,
    Statistics,
    Target,
    UnroutedRows,
)
from lakeward.core.schema import Schema
from lakeward.core.settings.secrets import Secret, SecretName

P = TypeVar("P")

SMALL_BATCH: Final = 20_000
"""How many rows a small batch has at most, where the settings do not say."""

Options: TypeAlias = Mapping[str, Any]
"""One table of the settings, as written there, for the adapter that it names."""


def clock() -> int:
    """Return the time of this machine, in microseconds since 1970."""
    return time.time_ns() // 1000


def _no_secret(name: SecretName) -> Secret:
    raise PluginError(f"the secret {name} cannot be read here")


@dataclass(slots=True)
class Runtime:
    """What a factory may use of the run it serves.

    `spark` starts Spark when it is first called and returns a session of its own each
    time; a run that never calls it starts none. Before that, a factory says with
    `require` which jars and settings its session needs. Relative paths are relative to
    `base`, the folder of the settings `file`. `table_keys` are the keys that every table
    of the settings has beside those of its format, and `joined_keys` those of the tables that are `joined`, which
    stand in a section of their own. `now` is the clock, in microseconds
    since 1970. In the folder `state` an adapter may keep what can be made anew. `secret` reads
    a secret, when it is needed and not before. `declared` are the columns, as the lake has them, of those tables of
    which the settings, or the catalogue, say them all, joined tables included. A batch of at most `small_batch`
    rows may be read and worked out without Spark; 0 means that none is. A process that `runs_once` ends with what
    was there when it looked first, so that a source which never rests does not keep it. `run_ids` are what an
    orchestrator calls the run, by their names: a commit keeps them among its properties. `pipeline` is its
    name, which tells it from others that have a store in common. `staging` is a prefix of a bucket for files that
    Spark's workers read, where these are on other machines and the lake is in S3; else it is None.
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
        """Ask for groups of jars, for other jars by `coordinates@sha256`, and for session settings."""
        self.jars.update(jars)
        self.settings.update(settings or {})


Factory: TypeAlias = Callable[[Options, Runtime], P]
"""What every adapter registers: options and runtime to a port."""


def failed(plugin: str, doing: str, error: BaseException) -> PluginError:
    """Return what to say of a plugin that raised what is no error of lakeward's."""
    return PluginError(
        f"the plugin {plugin} failed in {doing}",
        found=f"{type(error).__name__}: {error}",
        todo="Mend or uninstall it. With --debug the stack trace is shown.",
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
        """Register a factory; raises PluginError where the name is taken, TypeError for what is none of both."""
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
        """Return the module that registered a name."""
        return self._factories[name][1]

    def build(self, name: str, options: Options, runtime: Runtime) -> P:
        """Make the port of that name.

        Raises PluginError where there is none, saying what is installed, and where its factory fails with an
        error that is none of lakeward's, or makes what is no such port, naming the plugin.
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
            made = self._factories[name][0](options, runtime)
        except LakewardError:
            raise
        except (Exception, SystemExit) as error:
            raise failed(self.origin(name), f"making the {self.kind} {name!r}", error) from error
        if lacking := _lacking(made, self._members):
            raise PluginError(
                f"what the plugin {self.origin(name)} makes is no {self.kind}",
                found=f"{name!r} is of the type {type(made).__name__}, which lacks {', '.join(lacking)}",
                todo=_MEND,
            )
        return made


_MEND: Final = "Mend the plugin; `docs/extend/hooks.md` has what belongs to each port."


def check_parts(made: object, whole: type, ports: Mapping[str, type]) -> None:
    """Raise PluginError where a part of what a plugin made lacks something of its port, naming it.

    `ports` are those of the attributes of `made`, which is a `whole`; one that is None is not there.
    """
    if not isinstance(made, whole):
        raise PluginError(
            f"what a plugin makes is no {whole.__name__}", found=f"it is a {type(made).__name__}", todo=_MEND
        )
    for name, port in ports.items():
        part = getattr(made, name)
        lacking = () if part is None else _lacking(part, _members(port))
        if lacking:
            raise PluginError(
                f"what the plugin {type(part).__module__} makes is no {port.__name__}",
                found=f"`{name}` is of the type {type(part).__name__}, which lacks {', '.join(lacking)}",
                todo=_MEND,
            )


def _lacking(made: object, members: Iterable[str]) -> Sequence[str]:
    """Return what is lacking, without asking a property for its value."""
    return sorted(name for name in {*members} - {*dir(made)} if not hasattr(made, name))


def _module_of(factory: Callable[..., object]) -> str:
    return factory.func.__module__ if isinstance(factory, partial) else factory.__module__


def _members(port: type) -> Iterator[str]:
    """Yield the names of what belongs to a port: methods, properties and attributes."""
    for base in port.__mro__:
        if getattr(base, "_is_protocol", False):
            named = {*vars(base), *vars(base).get("__annotations__", {})}
            yield from (name for name in named if not name.startswith("_"))


class Registry:
    """Everything that plugins provide, by kind."""

    def __init__(self) -> None:
        self.sources: FactoryRegistry[Source[Any]] = FactoryRegistry("source", Source)
        self.landings: FactoryRegistry[Landing] = FactoryRegistry("landing", Landing)
        self.backlogs: FactoryRegistry[Backlog] = FactoryRegistry("backlog", Backlog)
        self.unrouted_rows: FactoryRegistry[UnroutedRows] = FactoryRegistry(
            "quarantine of a pipeline", UnroutedRows
        )
        self.formats: FactoryRegistry[Target[Any]] = FactoryRegistry("table format", Target)
        self.queues: FactoryRegistry[Queue] = FactoryRegistry("queue", Queue)
        self.ledgers: FactoryRegistry[Ledger] = FactoryRegistry("ledger", Ledger)
        self.leases: FactoryRegistry[Lease] = FactoryRegistry("lease", Lease)
        self.catalogues: FactoryRegistry[SourceCatalogue] = FactoryRegistry("catalogue", SourceCatalogue)
        self.scouts: FactoryRegistry[SourceProbe] = FactoryRegistry("scout", SourceProbe)
        self.databases: FactoryRegistry[SourceDatabase[Any]] = FactoryRegistry(
            "database of a source", SourceDatabase
        )
        self.statistics: FactoryRegistry[Statistics] = FactoryRegistry("kind of statistics", Statistics)
        self.secrets: FactoryRegistry[Secrets] = FactoryRegistry("place of secrets", Secrets)
        self.registrations: FactoryRegistry[Registration] = FactoryRegistry("registration", Registration)
        self.settings_stores: FactoryRegistry[SettingsStore] = FactoryRegistry("settings store", SettingsStore)
        self.notifiers: FactoryRegistry[Notifier] = FactoryRegistry("notifier", Notifier)

    def __iter__(self) -> Iterator[FactoryRegistry[Any]]:
        every = (self.sources, self.landings, self.formats, self.queues, self.ledgers, self.leases)
        others = (self.catalogues, self.scouts, self.statistics, self.secrets, self.unrouted_rows, self.backlogs)
        return iter((*every, *others, self.databases, self.registrations, self.settings_stores, self.notifiers))
