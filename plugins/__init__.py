"""The microkernel, and all that a plugin author needs.

A plugin is a module with functions marked `@hookimpl`; `register(registry)` adds its
factories. Announce it under the entry-point group `lakeward`. See `docs/hooks.md`.
"""

from lakeward.plugins.hookspecs import PROJECT, hookimpl
from lakeward.plugins.registry import Factory, Options, Registry, Runtime, Shelf

__all__ = ["PROJECT", "Factory", "Options", "Registry", "Runtime", "Shelf", "hookimpl"]
