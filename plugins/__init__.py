"""Plugin discovery and registration, and the names that a plugin imports.

A plugin is a module with functions marked `@hookimpl`; `register(registry)` adds its
factories. Announce it under the entry-point group `lakeward`. See `docs/extend/hooks.md`.
`LAKEWARD_API` in that module is the version of the plugin API for which it is written.
"""

from lakeward.plugins.hookspecs import API, PROJECT, hookimpl
from lakeward.plugins.registry import Factory, FactoryRegistry, Options, Registry, Runtime

__all__ = ["API", "PROJECT", "Factory", "FactoryRegistry", "Options", "Registry", "Runtime", "hookimpl"]
