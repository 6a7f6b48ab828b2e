"""Find plugins, check them and let them register."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.metadata import entry_points as installed
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from typing import Final, TypeGuard

import pluggy

from lakeward import __version__
from lakeward.core.errors import LakewardError, PluginError
from lakeward.plugins import hookspecs
from lakeward.plugins.hookspecs import API, PROJECT
from lakeward.plugins.registry import Registry, failed

BUILTIN: Final = (
    "lakeward.adapters.memory",
    "lakeward.adapters.queues.poll",
    "lakeward.adapters.ledgers.sqlite",
    "lakeward.adapters.sources.dms",
    "lakeward.adapters.sources.files",
    "lakeward.adapters.sources.kafka",
    "lakeward.adapters.formats.iceberg",
    "lakeward.adapters.formats.delta",
    "lakeward.adapters.formats.hudi",
    "lakeward.adapters.catalogues",
    "lakeward.adapters.sources.jdbc",
    "lakeward.adapters.secrets.local",
    "lakeward.adapters.secrets.aws",
    "lakeward.adapters.leases.dynamodb",
    "lakeward.adapters.ledgers.dynamodb",
    "lakeward.adapters.registrations.glue",
    "lakeward.adapters.queues.sqlite",
    "lakeward.adapters.queues.sqs",
    "lakeward.adapters.settings_stores.file",
    "lakeward.adapters.settings_stores.s3",
    "lakeward.adapters.settings_stores.ssm",
    "lakeward.adapters.settings_stores.secrets_manager",
    "lakeward.adapters.settings_stores.dynamodb",
    "lakeward.adapters.notifiers",
)
"""The adapters that come with lakeward. They register in the same way as other plugins."""


def load(
    *extra: object, entry_points: bool = True, manager: pluggy.PluginManager | None = None
) -> pluggy.PluginManager:
    """Return a manager of the built-in plugins, the plugins `extra`, and the installed ones.

    `entry_points` says whether installed plugins are loaded. `manager` is filled and returned if it is given.
    Raises PluginError, naming the plugin, for a hook that does not exist or lacks `@hookimpl`, for a plugin that
    cannot be imported, and for one that is written for another version of the plugin API.
    """
    manager = pluggy.PluginManager(PROJECT) if manager is None else manager
    manager.add_hookspecs(hookspecs)
    try:
        for name in BUILTIN:
            manager.register(import_module(name), name)
        for plugin in extra:
            manager.register(plugin)
        if entry_points:
            _load_installed(manager)
        _refuse_other_versions(manager)
        _refuse_unknown_hooks(manager)
        _refuse_unmarked_hooks(manager)
        manager.check_pending()
    except (pluggy.PluginValidationError, ImportError) as error:
        raise _not_loaded(str(error)) from error
    return manager


def registry_of(manager: pluggy.PluginManager) -> Registry:
    """Call the hook `register` of every plugin, and return the filled registry.

    Raises PluginError, naming the plugin, if it raises an error that is not a LakewardError.
    """
    registry = Registry()
    try:
        manager.hook.register(registry=registry)
    except LakewardError:
        raise
    except (Exception, SystemExit) as error:
        plugin = who_raised(error, manager.hook.register)
        raise failed(plugin, "its hook `register`", error) from error
    return registry


def who_raised(error: BaseException, hook: pluggy.HookCaller) -> str:
    """Return the name of the plugin whose implementation of a hook raised an error.

    pluggy does not report it, so it is taken from the traceback. If no implementation is in the traceback, all
    plugins of the hook are named.
    """
    parts = {
        function.__code__: part.plugin_name
        for part in hook.get_hookimpls()
        for function in (part.function, inspect.unwrap(part.function))
        if hasattr(function, "__code__")
    }
    through = [parts[frame.f_code] for frame, _ in walk_tb(error.__traceback__) if frame.f_code in parts]
    return through[-1] if through else " or ".join(part.plugin_name for part in hook.get_hookimpls())


def raised_in(error: BaseException) -> str | None:
    """Return the name of the innermost installed plugin in the traceback of an error, or None."""
    plugins = {plugin.module.partition(".")[0]: plugin.name for plugin in installed(group=PROJECT)}
    packages = (frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in walk_tb(error.__traceback__))
    through = [plugins[package] for package in packages if package in plugins]
    return through[-1] if through else None


def announced() -> Mapping[str, str]:
    """Return the module of each installed plugin by name. Imports none."""
    return {plugin.name: plugin.value for plugin in installed(group=PROJECT)}


def _load_installed(manager: pluggy.PluginManager) -> None:
    """Load the installed plugins. Raises PluginError, naming the plugin, for whatever its import raises."""
    values: dict[str, str] = {}
    for plugin in installed(group=PROJECT):
        if values.setdefault(plugin.name, plugin.value) != plugin.value:
            raise PluginError(
                f"two plugins are called {plugin.name!r}",
                found=f"found {values[plugin.name]} and {plugin.value}, as their entry points say",
                todo="Uninstall one of them.",
            )
        try:
            manager.load_setuptools_entrypoints(PROJECT, plugin.name)
        except (Exception, SystemExit) as error:
            cause = f"{plugin.name} ({plugin.value}): {error}"
            wanted = _version_in_code(plugin)
            if wanted is None or _is_supported(wanted):
                raise _not_loaded(cause) from error
            raise _wrong_version(plugin.name, wanted, cause) from error


def _version_in_code(plugin: EntryPoint) -> tuple[int, int] | None:
    """Return `LAKEWARD_API` as it is written in the code of a plugin, without importing it; None if it has none."""
    codes = (_code_of(plugin.value.partition(end)[0]) for end in (":", "."))
    matches = (re.search(r"^LAKEWARD_API\b[^=\n]*=\s*\((\d+), *(\d+)\)", code, re.MULTILINE) for code in codes)
    match = next(filter(None, matches), None)
    return None if match is None else (int(match[1]), int(match[2]))


def _code_of(module: str) -> str:
    """Return the source code of a module; an empty text if it cannot be found."""
    try:
        spec = find_spec(module)
        return "" if spec is None or spec.origin is None else Path(spec.origin).read_text("utf-8")
    except Exception:  # noqa: BLE001  # finding it imports its package, which may raise anything
        return ""


def _not_loaded(cause: str) -> PluginError:
    return PluginError(
        "a plugin cannot be loaded",
        found=cause,
        todo="Correct or uninstall it; `docs/extend/hooks.md` lists the hooks and their arguments. On the "
        "command line, --debug shows the stack trace.",
    )


def _refuse_other_versions(manager: pluggy.PluginManager) -> None:
    """Raise PluginError for a plugin of another version of the plugin API. Without `LAKEWARD_API` it is 1.0."""
    for name, plugin in manager.list_name_plugin():
        if name in BUILTIN:
            continue
        wanted = getattr(plugin, "LAKEWARD_API", None)
        if wanted is not None and not _is_version(wanted):
            raise _not_loaded(f"{name}: LAKEWARD_API is {wanted!r}, and not two numbers such as {API}")
        if not _is_supported(wanted or _DEFAULT_VERSION):
            raise _wrong_version(name, wanted)


_DEFAULT_VERSION: Final = (1, 0)
"""The version of a plugin without `LAKEWARD_API`."""


def _wrong_version(name: str, wanted: tuple[int, int] | None, cause: str | None = None) -> PluginError:
    default = _version_text(_DEFAULT_VERSION)
    needs = f"needs {_version_text(wanted)}" if wanted else f"says no version, which is {default}"
    versions = f"the plugin {needs}; lakeward {__version__} has {_version_text(API)}"
    is_newer = wanted is not None and wanted > API
    remedy = f"Install a newer {'lakeward' if is_newer else name}, or uninstall the plugin."
    own = (
        f" If it is yours: docs/extend/hooks.md lists the changes. Then set `LAKEWARD_API = {API}` in its module."
    )
    return PluginError(
        f"{name} is written for another version of the plugin API",
        found=versions if cause is None else f"{versions}; {cause}",
        todo=remedy if is_newer else remedy + own,
    )


def _is_supported(wanted: tuple[int, int]) -> bool:
    """Return True if a plugin for version `wanted` of the plugin API works with this lakeward."""
    return wanted[0] == API[0] and wanted[1] <= API[1]


def _is_version(value: object) -> TypeGuard[tuple[int, int]]:
    return isinstance(value, tuple) and len(value) == 2 and all(type(part) is int for part in value)


def _version_text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _refuse_unknown_hooks(manager: pluggy.PluginManager) -> None:
    """Raise an error for a misspelt hook. pluggy alone accepts it, as a hook that another plugin may specify."""
    for hook in vars(manager.hook).values():
        if isinstance(hook, pluggy.HookCaller) and not hook.has_spec():
            (first, *_) = hook.get_hookimpls()
            raise pluggy.PluginValidationError(
                first.plugin, f"{first.plugin_name} implements {hook.name!r}, and there is no such hook"
            )


def _refuse_unmarked_hooks(manager: pluggy.PluginManager) -> None:
    """Raise PluginError for a function with the name and the arguments of a hook and without `@hookimpl`.

    pluggy would silently never call it.
    """
    for hook in vars(manager.hook).values():
        marked = [part.plugin for part in hook.get_hookimpls()]
        for name, plugin in manager.list_name_plugin():
            function = inspect.getattr_static(plugin, hook.name, None)
            if plugin in marked or not inspect.isfunction(function):
                continue
            if _argument_names(function) == hook.spec.argnames:
                raise _not_loaded(
                    f"{name} has a function {hook.name!r} without @hookimpl: it would never be called"
                )


def _argument_names(function: Callable[..., object]) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name != "self")
