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
    """One call of a hook implementation: its subject in words, its duration, and the class of its error."""

    hook: str
    plugin: str
    about: str
    seconds: float
    raised: str | None = None


class Tracing(pluggy.PluginManager):
    """A plugin manager that records each call of a hook in `calls` when it ends. Hooks work as usual.

    The recorded words have no rows and no secrets.
    """

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self.calls: list[Call] = []

    def register(self, plugin: object, name: str | None = None) -> str | None:
        """Register a copy of the plugin whose hooks are recorded."""
        called = name or self.get_canonical_name(plugin)
        own = {key: self._recorded(plugin, key, called) for key in dir(plugin) if not key.startswith("__")}
        return super().register(SimpleNamespace(**own), called)

    def _recorded(self, plugin: object, key: str, called: str) -> Any:
        found = getattr(plugin, key)
        # A generator is pluggy's way to stand around a call: it answers nothing by itself.
        if self.parse_hookimpl_opts(plugin, key) is None or inspect.isgeneratorfunction(found):
            return found

        @wraps(found)
        def answer(*args: Any, **named: Any) -> Any:
            given = inspect.signature(found).bind(*args, **named).arguments
            tell, began, raised = _about(given), time.perf_counter(), None
            try:
                return found(*args, **named)
            except BaseException as error:
                raised = type(error).__name__
                raise
            finally:
                seconds = time.perf_counter() - began
                self.calls.append(Call(hook=key, plugin=called, about=tell(), seconds=seconds, raised=raised))

        return answer


def _about(given: Mapping[str, object]) -> Callable[[], str]:
    """Return a function that describes a call in words after it has ended."""
    befores = {name: _registered_names(value) for name, value in given.items() if isinstance(value, Registry)}

    def tell() -> str:
        return " · ".join(_words(name, value, befores.get(name, set())) for name, value in given.items())

    return tell


def _words(name: str, value: object, before: set[tuple[str, str]]) -> str:
    match value:
        case Registry():
            added = sorted(_registered_names(value) - before)
            return "added " + (", ".join(f"{kind} {called!r}" for kind, called in added) or "nothing")
        case Report():
            done = f"{value.counts.read:,} read, {value.written:,} written, {value.removed:,} removed"
            return f"{value.table} batch {value.progress.batch}: {done}"
        case _:
            return f"{name}: {type(value).__name__}"


def _registered_names(registry: Registry) -> set[tuple[str, str]]:
    return {(factories.kind, called) for factories in registry for called in factories}
