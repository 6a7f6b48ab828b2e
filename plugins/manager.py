"""Finding plugins and letting them register."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points as installed
from typing import Final

import pluggy

from lakeward.core.errors import PluginError
from lakeward.plugins import hookspecs
from lakeward.plugins.hookspecs import PROJECT
from lakeward.plugins.registry import Registry

BUILTIN: Final = (
    "lakeward.adapters.memory",
    "lakeward.adapters.poll",
    "lakeward.adapters.sqlite_ledger",
    "lakeward.adapters.dms",
    "lakeward.adapters.files",
    "lakeward.adapters.iceberg",
    "lakeward.adapters.catalogue",
    "lakeward.adapters.secrets",
)
"""The adapters that come with lakeward; they register as anyone's do."""


def load(*extra: object, entry_points: bool = True) -> pluggy.PluginManager:
    """Return a manager of the built-in, the given and the installed plugins.

    Raises PluginError for a hook that does not exist and for a plugin that cannot be
    imported, naming it.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        for name in BUILTIN:
            manager.register(import_module(name), name)
        for plugin in extra:
            manager.register(plugin)
        if entry_points:
            _load_installed(manager)
        _refuse_unknown_hooks(manager)
        manager.check_pending()
    except (pluggy.PluginValidationError, ImportError) as error:
        raise _not_loaded(str(error)) from error
    return manager


def registry_of(manager: pluggy.PluginManager) -> Registry:
    """Let every plugin register, and return what there is."""
    registry = Registry()
    manager.hook.register(registry=registry)
    return registry


def _load_installed(manager: pluggy.PluginManager) -> None:
    """Load what announces itself as a plugin; whatever its import raises is said with its name."""
    for plugin in installed(group=PROJECT):
        try:
            manager.load_setuptools_entrypoints(PROJECT, plugin.name)
        except Exception as error:
            raise _not_loaded(f"{plugin.name} ({plugin.value}): {error}") from error


def _not_loaded(found: str) -> PluginError:
    return PluginError(
        "a plugin cannot be loaded",
        found=found,
        todo="Mend or uninstall it; `docs/hooks.md` lists the hooks and their arguments.",
    )


def _refuse_unknown_hooks(manager: pluggy.PluginManager) -> None:
    """Refuse them: pluggy takes a misspelt hook for one that another plugin may specify; nobody may here."""
    for hook in vars(manager.hook).values():
        if isinstance(hook, pluggy.HookCaller) and not hook.has_spec():
            (first, *_) = hook.get_hookimpls()
            raise pluggy.PluginValidationError(
                first.plugin, f"{first.plugin_name} implements {hook.name!r}, and there is no such hook"
            )
