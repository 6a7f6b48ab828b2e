"""What is registered, and what is said of what is not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

import pytest

from lakeward.core.errors import ConfigError, PluginError
from lakeward.plugins import API, FactoryRegistry, Options, Registry, Runtime, hookimpl
from lakeward.plugins.manager import load, registry_of
from lakeward.plugins.registry import check_parts


def no_spark() -> Any:
    raise AssertionError("Spark was asked for")


def make(options: Options, runtime: Runtime) -> tuple[Options, Runtime]:
    return options, runtime


@pytest.fixture
def factories() -> FactoryRegistry[Any]:
    factories: FactoryRegistry[Any] = FactoryRegistry("table format")
    factories.add("iceberg", make)
    factories.add("delta", make)
    return factories


def test_a_factory_gets_the_options_and_the_runtime(factories: FactoryRegistry[Any]) -> None:
    runtime = Runtime(no_spark)
    assert factories.build("delta", {"warehouse": "lake/"}, runtime) == ({"warehouse": "lake/"}, runtime)


def test_names_are_listed_in_order_with_the_module_they_are_from(factories: FactoryRegistry[Any]) -> None:
    assert [(name, factories.origin(name)) for name in factories] == [("delta", __name__), ("iceberg", __name__)]


def test_a_name_that_is_taken_is_refused_and_both_are_named(factories: FactoryRegistry[Any]) -> None:
    with pytest.raises(PluginError, match="two plugins register a table format called 'delta'") as refused:
        factories.add("delta", make)
    assert str(refused.value).count(__name__) == 2


def test_an_unknown_name_is_refused_with_what_is_installed(factories: FactoryRegistry[Any]) -> None:
    with pytest.raises(PluginError, match=r"called 'icebreg'\. Did you mean 'iceberg'") as refused:
        factories.build("icebreg", {}, Runtime(no_spark))
    assert refused.value.found == "installed: delta, iceberg"
    with pytest.raises(PluginError, match="installed: none"):
        FactoryRegistry[Any]("queue").build("sqs", {}, Runtime(no_spark))


@pytest.mark.parametrize(
    ("error", "found"), [(KeyError("tray"), "KeyError: 'tray'"), (SystemExit(0), "SystemExit: 0")]
)
def test_a_factory_that_fails_is_named_with_its_plugin_and_what_it_raised(
    factories: FactoryRegistry[Any], error: BaseException, found: str
) -> None:
    """Also one that wants to end the process: with 0 the command would have said nothing, and that all is well."""

    def fail(options: Options, runtime: Runtime) -> Any:
        raise error

    factories.add("paper", fail)
    with pytest.raises(PluginError) as refused:
        factories.build("paper", {}, Runtime(no_spark))
    assert refused.value.what == f"the plugin {__name__} failed in making the table format 'paper'"
    assert refused.value.found == found
    assert "--debug" in str(refused.value.todo)


def test_what_a_factory_says_in_lakewards_words_is_said_as_it_is(factories: FactoryRegistry[Any]) -> None:
    def refuse(options: Options, runtime: Runtime) -> Any:
        raise ConfigError("there is no paper")

    factories.add("paper", refuse)
    with pytest.raises(ConfigError, match="there is no paper"):
        factories.build("paper", {}, Runtime(no_spark))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (None, "NoneType, which lacks acknowledge, extend, give_back, receive"),
        (SimpleNamespace(receive=list, extend=list, give_back=list), "lacks acknowledge"),
    ],
)
def test_what_a_factory_makes_and_is_no_such_port_is_refused_with_what_it_lacks(made: object, words: str) -> None:
    factories = Registry().queues
    factories.add("bell", lambda options, runtime: made)  # type: ignore[arg-type, return-value]
    with pytest.raises(PluginError, match=f"what the plugin {__name__} makes is no queue") as refused:
        factories.build("bell", {}, Runtime(no_spark))
    assert words in str(refused.value.found)


class Passes:
    """A queue that passes on whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        return list


def test_a_port_may_pass_on_what_it_is_asked() -> None:
    factories = Registry().queues
    factories.add("bell", lambda options, runtime: Passes())  # type: ignore[arg-type, return-value]
    assert isinstance(factories.build("bell", {}, Runtime(no_spark)), Passes)


def test_what_belongs_to_a_port_are_its_methods_properties_and_attributes() -> None:
    factories = Registry().sources
    factories.add("bare", lambda options, runtime: object())  # type: ignore[arg-type, return-value]
    with pytest.raises(PluginError) as refused:
        factories.build("bare", {}, Runtime(no_spark))
    said = str(refused.value.found)
    assert "archive, cells, find_missing, key_form, lateness, order_by, read, recomputed, repair_row" in said


@pytest.mark.parametrize(("name", "factory"), [(7, make), ("bell", "a text"), (None, None)])
def test_what_is_no_name_and_no_factory_is_refused_by_the_name_of_its_plugin(name: Any, factory: Any) -> None:
    def register(registry: Registry) -> None:
        registry.queues.add(name, factory)

    module = ModuleType("lakeward_bell")
    vars(module).update(register=hookimpl(register), LAKEWARD_API=API)
    with pytest.raises(PluginError, match="the plugin lakeward_bell failed in its hook `register`") as refused:
        registry_of(load(module, entry_points=False))
    assert f"add({name!r}, {factory!r}): a queue is registered by" in str(refused.value.found)


def test_of_a_factory_in_part_the_module_is_that_of_the_whole(factories: FactoryRegistry[Any]) -> None:
    factories.add("paper", partial(make))
    assert factories.origin("paper") == __name__


class Whole:
    """What a plugin makes, of parts."""

    def __init__(self, bell: object) -> None:
        self.bell = bell


class Ringing(Protocol):
    def ring(self) -> None: ...

    @property
    def tone(self) -> str: ...


class Rings:
    def ring(self) -> None:
        """Do nothing."""

    @property
    def tone(self) -> str:
        raise AssertionError("it is asked for its value")


def test_a_part_that_lacks_something_of_its_port_is_refused_by_name() -> None:
    for bell in (None, Rings()):
        check_parts(Whole(bell), Whole, {"bell": Ringing})
    with pytest.raises(PluginError, match=r"test_registry makes is no Ringing") as refused:
        check_parts(Whole(Whole(None)), Whole, {"bell": Ringing})
    assert refused.value.found == "`bell` is of the type Whole, which lacks ring, tone"
    with pytest.raises(PluginError, match="what a plugin makes is no Whole"):
        check_parts(None, Whole, {})


def test_every_kind_of_port_has_factories() -> None:
    assert [factories.kind for factories in Registry()] == [
        *("source", "source inventory", "table format", "queue", "ledger", "lease"),
        *("catalogue", "source probe", "kind of statistics", "place of secrets"),
        *("quarantine of a pipeline", "backlog"),
        *("database of a source", "registration", "settings store", "notifier"),
    ]


def test_what_factories_require_adds_up() -> None:
    runtime = Runtime(no_spark, Path("/here"))
    runtime.require("iceberg", "sqlite", settings={"spark.sql.catalog.lake": "A"})
    runtime.require("iceberg", settings={"spark.sql.catalog.other": "B"})
    assert runtime.jars == {"iceberg", "sqlite"}
    assert runtime.settings == {"spark.sql.catalog.lake": "A", "spark.sql.catalog.other": "B"}
