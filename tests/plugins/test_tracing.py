"""Calls of hooks, noted as they end: what plugins do is the same, and nothing that is secret is said."""

from __future__ import annotations

from collections.abc import Generator
from types import ModuleType
from typing import Any

import pytest

from lakeward.core.errors import PluginError
from lakeward.core.pipeline.job import Report
from lakeward.plugins import API, Registry, hookimpl
from lakeward.plugins.manager import load, registry_of
from lakeward.plugins.registry import FactoryRegistry
from lakeward.plugins.tracing import Tracing


def traced(**hooks: Any) -> Tracing:
    """Load a plugin of these hooks, and the built-in ones, with a manager that notes their calls."""
    plugin = ModuleType("mine")
    plugin.LAKEWARD_API = API  # type: ignore[attr-defined]
    for name, function in hooks.items():
        setattr(plugin, name, hookimpl(function))
    manager = Tracing()
    assert load(plugin, entry_points=False, manager=manager) is manager
    return manager


def build(options: Any, runtime: Any) -> Any:
    """Make nothing."""


def test_what_a_plugin_registers_is_named_and_is_registered() -> None:
    def register(registry: Registry) -> None:
        registry.queues.add("mine", build)
        registry.formats.add("mine", build)

    manager = traced(register=register)
    assert registry_of(manager).queues.origin("mine") == __name__
    (mine,) = [call for call in manager.calls if call.plugin == "mine"]
    assert (mine.hook, mine.about, mine.raised) == ("register", "added queue 'mine', table format 'mine'", None)
    assert mine.seconds >= 0


def test_all_plugins_are_noted_that_answer_and_as_often_as_without_it() -> None:
    manager = traced()
    every = [*map(factory_names, registry_of(manager))]
    assert every == [*map(factory_names, registry_of(load(entry_points=False)))]
    assert {call.plugin for call in manager.calls} == {name for name, _ in manager.list_name_plugin()} - {"mine"}


def factory_names(factories: FactoryRegistry[Any]) -> list[str]:
    return [*factories]


def test_an_error_is_noted_by_its_name_alone_and_raised() -> None:
    def register(registry: Registry) -> None:
        raise ValueError("the password is secret")

    manager = traced(register=register)
    with pytest.raises(PluginError, match="the plugin mine failed") as refused:
        registry_of(manager)
    assert isinstance(refused.value.__cause__, ValueError)
    (mine,) = [call for call in manager.calls if call.plugin == "mine"]
    assert mine.raised == "ValueError"
    assert "secret" not in f"{manager.calls}"


def test_a_hook_is_given_what_it_names() -> None:
    given: list[object] = []

    def after_commit(report: Report) -> None:
        given.append(report)

    def nothing_is_wanted() -> None:
        given.append(None)

    first, second = traced(after_commit=after_commit), traced(after_commit=nothing_is_wanted)
    for manager in (first, second):
        manager.hook.after_commit(report={"password": "secret"})
    assert given == [{"password": "secret"}, None]
    assert [call.about for call in (*first.calls, *second.calls)] == ["report: dict", ""]


def test_what_stands_around_a_hook_still_does() -> None:
    around: list[str] = []
    plugin = ModuleType("around")
    plugin.LAKEWARD_API = API  # type: ignore[attr-defined]

    def register(registry: Registry) -> Generator[None, object, object]:
        around.append("before")
        answered = yield
        around.append("after")
        return answered

    plugin.register = hookimpl(register, wrapper=True)  # type: ignore[attr-defined]
    registry_of(load(plugin, entry_points=False, manager=Tracing()))
    assert around == ["before", "after"]
