"""A plugin manager that records each call of a hook, for `lakeward plugins trace`."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from types import SimpleNamespace
from typing import Any

import pluggy

from lakeward.core.pipeline.job import Report
from lakeward.plugins.hookspecs import PROJECT
from lakeward.plugins.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a hook implementation: its subject as text, its seconds, and the class of its error."""

    hook: str
    plugin: str
    about: str
    seconds: float
    raised: str | None = None


class Tracing(pluggy.PluginManager):
    """A plugin manager that records each call of a hook in `calls` when it ends. Hooks work as usual.

    The recorded texts contain no rows and no secrets.
    """

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self.calls: list[Call] = []

    def register(self, plugin: object, name: str | None = None) -> str | None:
        """Register a copy of the plugin whose hooks are recorded."""
        called = name or self.get_canonical_name(plugin)
        own = {key: self._record_calls(plugin, key, called) for key in dir(plugin) if not key.startswith("__")}
        return super().register(SimpleNamespace(**own), called)

    def _record_calls(self, plugin: object, key: str, called: str) -> Any:
        """Return an attribute of a plugin; a hook implementation is wrapped so that its calls are recorded."""
        attribute = getattr(plugin, key)
        # A generator is a hook wrapper of pluggy: it returns nothing by itself.
        if self.parse_hookimpl_opts(plugin, key) is None or inspect.isgeneratorfunction(attribute):
            return attribute

        @wraps(attribute)
        def record(*args: Any, **named: Any) -> Any:
            arguments = inspect.signature(attribute).bind(*args, **named).arguments
            describe, began, raised = _descriptor(arguments), time.perf_counter(), None
            try:
                return attribute(*args, **named)
            except BaseException as error:
                raised = type(error).__name__
                raise
            finally:
                seconds = time.perf_counter() - began
                self.calls.append(Call(hook=key, plugin=called, about=describe(), seconds=seconds, raised=raised))

        return record


def _descriptor(arguments: Mapping[str, object]) -> Callable[[], str]:
    """Return a function that describes a call after it has ended."""
    befores = {name: _registered_names(value) for name, value in arguments.items() if isinstance(value, Registry)}

    def describe() -> str:
        return " · ".join(_describe(name, value, befores.get(name, set())) for name, value in arguments.items())

    return describe


def _describe(name: str, value: object, before: set[tuple[str, str]]) -> str:
    match value:
        case Registry():
            added = sorted(_registered_names(value) - before)
            return "added " + (", ".join(f"{kind} {called!r}" for kind, called in added) or "nothing")
        case Report():
            result = f"{value.counts.read:,} read, {value.written:,} written, {value.removed:,} removed"
            return f"{value.table} batch {value.progress.batch}: {result}"
        case _:
            return f"{name}: {type(value).__name__}"


def _registered_names(registry: Registry) -> set[tuple[str, str]]:
    return {(factories.kind, called) for factories in registry for called in factories}
