"""How plugins are found, and what is said of those that cannot be used."""

from __future__ import annotations

import atexit
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy
import pytest
import third_party
from repository import pyproject

from lakeward import __version__
from lakeward.core.errors import PluginError
from lakeward.plugins import API, Registry, Runtime, hookimpl, manager
from lakeward.plugins.manager import BUILTIN, load, registry_of, who_raised


def plugin(name: str, **hooks: Any) -> ModuleType:
    """Return a plugin for this plugin API, unless it says another; None says none."""
    module = ModuleType(name)
    for hook, function in {"LAKEWARD_API": API, **hooks}.items():
        setattr(module, hook, hookimpl(function) if callable(function) else function)
    return module


def nothing(options: Any, runtime: Any) -> None:
    """Make nothing."""


def test_the_adapters_that_come_along_register_as_anyones_do() -> None:
    registry = registry_of(load(entry_points=False))
    assert [[*factories] for factories in registry] == [
        ["dms", "files", "jdbc", "kafka", "memory"],
        ["dms", "files", "jdbc", "kafka"],
        ["delta", "hudi", "iceberg", "memory"],
        ["memory", "poll", "sqlite", "sqs"],
        ["dynamodb", "memory", "sqlite"],
        ["dynamodb", "memory"],
        ["file", "jdbc"],
        ["dms", "files"],
        ["file", "memory"],
        ["aws-secrets-manager", "aws-ssm", "env", "file"],
        ["dms"],
        ["jdbc", "kafka"],
        ["jdbc"],
        ["glue"],
        ["dynamodb", "file", "s3", "secretsmanager", "ssm"],
        ["log", "sns", "webhook"],
    ]
    assert {factories.origin(name) for factories in registry for name in factories} == set(BUILTIN)


def of_extras() -> set[str]:
    """The packages that only extras bring; each is imported by the name of its distribution."""
    project = pyproject()["project"]
    needs = {need for extra in project["optional-dependencies"].values() for need in extra}
    every, base = ({re.split(r"[\[<>=]", need)[0] for need in some} for some in (needs, project["dependencies"]))
    return every - base


def test_loading_and_registering_imports_nothing_of_an_extra() -> None:
    code = (
        "import sys; from lakeward.plugins.manager import load, registry_of\n"
        "registry_of(load(entry_points=False))\n"
        f"print(*{of_extras() | {'py4j'}!r} & sys.modules.keys())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_a_plugin_that_announces_itself_is_found_and_usable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = """
        from lakeward.plugins import hookimpl

        class Bell:
            def __init__(self, options, base):
                self.options, self.base = options, base

            def receive(self):
                return []

            def acknowledge(self, notices):
                pass

            give_back = extend = acknowledge

        def build(options, runtime):
            return Bell(dict(options), runtime.base.name)

        @hookimpl
        def register(registry):
            registry.queues.add("paper", build)
    """
    third_party.install(monkeypatch, tmp_path / "site", "lakeward_paper", code)
    registry = registry_of(load())
    assert registry.queues.origin("paper") == "lakeward_paper"
    built: Any = registry.queues.build("paper", {"tray": 2}, Runtime(lambda: None, tmp_path / "here"))
    assert (built.options, built.base) == ({"tray": 2}, "here")


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        ({"registre": lambda registry: None}, "implements 'registre', and there is no such hook"),
        ({"register": lambda registery: None}, "registery"),
    ],
)
def test_a_misspelt_hook_or_argument_is_refused_and_named(hooks: dict[str, Any], said: str) -> None:
    with pytest.raises(PluginError, match=said) as refused:
        load(plugin("lakeward_typo", **hooks), entry_points=False)
    assert "lakeward_typo" in str(refused.value)
    assert "docs/extend/hooks.md" in str(refused.value)


@pytest.mark.parametrize(
    ("module", "code", "said"),
    [
        ("lakeward_lacks", "import a_module_that_is_not_there", "No module named 'a_module_that_is_not_there'"),
        ("lakeward_torn", "def register(registry:", "was never closed"),
        ("lakeward_raises", "raise RuntimeError('no licence')", "no licence"),
        ("lakeward_ends", "raise SystemExit('no licence')", "no licence"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, code: str, said: str
) -> None:
    third_party.install(monkeypatch, tmp_path / "site", module, code)
    with pytest.raises(PluginError, match="a plugin cannot be loaded") as refused:
        load()
    assert module in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("said", "wanted"), [("LAKEWARD_API = (3, 0)", "3.0"), ("LAKEWARD_API: tuple[int, int] = (1,7)", "1.7")]
)
def test_of_one_that_cannot_be_imported_and_is_for_another_version_both_versions_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, wanted: str
) -> None:
    """The version is read in the module that is announced, which may be one of a package."""
    name = f"acme_{wanted[0]}"  # Python imports it once
    package = tmp_path / "site" / name
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "bells.py").write_text(f"{said}\nfrom lakeward.plugins import what_is_new", "utf-8")
    third_party.announce(monkeypatch, tmp_path / "site", f"{name}.bells", called="bells")
    with pytest.raises(PluginError, match="bells is written for another version") as refused:
        load()
    assert f"needs {wanted}; lakeward {__version__} has {API[0]}.{API[1]}" in str(refused.value.found)
    assert "what_is_new" in str(refused.value.found)


@pytest.mark.parametrize("value", ["acme_torn", "lakeward-bells", "a module", "sys", "acme_torn.none"])
def test_of_one_that_cannot_be_imported_the_version_may_be_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    third_party.install(monkeypatch, tmp_path / "site", "acme_torn", f"LAKEWARD_API = {API}\nraise RuntimeError")
    plugin = EntryPoint("torn", value, "lakeward")
    monkeypatch.setattr(manager, "installed", lambda group: [plugin])
    monkeypatch.setattr(pluggy.PluginManager, "load_setuptools_entrypoints", fail)
    with pytest.raises(PluginError, match="a plugin cannot be loaded") as refused:
        load()
    assert f"torn ({value}): it is torn" in str(refused.value.found)


def fail(*_: object) -> None:
    raise RuntimeError("it is torn")


def unmarked(**functions: Any) -> ModuleType:
    module = ModuleType("lakeward_unmarked")
    vars(module).update(functions, LAKEWARD_API=API)
    return module


@pytest.mark.parametrize(
    "module",
    [
        unmarked(register=lambda registry: None),
        unmarked(after_commit=lambda report: None, register=hookimpl(lambda registry: None)),
    ],
)
def test_a_hook_without_its_mark_is_refused_and_named(module: ModuleType) -> None:
    with pytest.raises(PluginError, match="lakeward_unmarked has a function"):
        load(module, entry_points=False)


@pytest.mark.parametrize(
    "module",
    [
        unmarked(register=atexit.register, after_commit=hookimpl(lambda report: None)),
        unmarked(register=lambda registry, more: None),
        unmarked(register=lambda registry: None, other=hookimpl(specname="register")(lambda registry: None)),
        SimpleNamespace(__name__="lakeward_bare", LAKEWARD_API=API),
    ],
)
def test_what_has_the_name_of_a_hook_and_is_another_thing_is_left_alone(module: object) -> None:
    assert load(module, entry_points=False).is_registered(module)


def test_two_plugins_that_announce_themselves_by_one_name_are_refused_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in ("lakeward_first", "lakeward_second"):
        third_party.install(monkeypatch, tmp_path / module, module, "", called="mine")
    with pytest.raises(PluginError, match="two plugins are called 'mine'") as refused:
        load()
    assert "lakeward_first" in str(refused.value)
    assert "lakeward_second" in str(refused.value)


@pytest.mark.parametrize("error", [RuntimeError("no licence"), SystemExit("no licence")])
def test_a_plugin_that_fails_as_it_registers_is_named_among_others(error: BaseException) -> None:
    def bad(registry: Registry) -> None:
        raise error

    both = plugin("lakeward_fine", register=lambda registry: None), plugin("lakeward_bad", register=bad)
    with pytest.raises(PluginError, match="the plugin lakeward_bad failed in its hook `register`") as refused:
        registry_of(load(*both, entry_points=False))
    assert refused.value.found == f"{type(error).__name__}: no licence"
    assert "--debug" in str(refused.value.todo)


class Bound:
    """A plugin that is an object, as pluggy allows, and fails in what it calls."""

    @hookimpl
    def register(self, registry: Registry) -> None:
        """Fail."""
        registry.queues.add("mine", nothing())  # type: ignore[call-arg]


def test_a_plugin_that_is_an_object_and_fails_in_what_it_calls_is_named() -> None:
    manager = load(entry_points=False)
    manager.register(Bound(), "lakeward_object")
    with pytest.raises(PluginError, match="the plugin lakeward_object failed"):
        registry_of(manager)


def test_where_it_cannot_be_told_who_failed_all_who_were_asked_are_named() -> None:
    both = [plugin(f"lakeward_{name}", after_commit=lambda: None) for name in ("one", "two")]
    hook = load(*both, entry_points=False).hook.after_commit
    assert who_raised(RuntimeError("of pluggy itself"), hook) == "lakeward_one or lakeward_two"


@pytest.mark.parametrize(
    ("wanted", "newer"),
    [((API[0] + 1, 0), "lakeward"), ((API[0], API[1] + 1), "lakeward"), ((API[0] - 1, 9), "lakeward_old")],
)
def test_a_plugin_of_another_version_is_refused_with_both_named(wanted: tuple[int, int], newer: str) -> None:
    with pytest.raises(PluginError, match="lakeward_old is written for another version") as refused:
        load(plugin("lakeward_old", registre=nothing, LAKEWARD_API=wanted), entry_points=False)
    said = str(refused.value)
    assert f"needs {wanted[0]}.{wanted[1]}; lakeward {__version__} has {API[0]}.{API[1]}" in said
    assert f"Install a newer {newer}" in said


def test_a_plugin_of_this_version_is_loaded_and_one_that_says_none_is_of_the_first() -> None:
    assert load(plugin("lakeward_now", LAKEWARD_API=API), entry_points=False).has_plugin("lakeward_now")
    with pytest.raises(PluginError, match="lakeward_silent is written for another version") as refused:
        load(plugin("lakeward_silent", LAKEWARD_API=None), entry_points=False)
    said = str(refused.value)
    assert f"the plugin says no version, which is 1.0; lakeward {__version__} has {API[0]}.{API[1]}" in said
    assert f"Then set `LAKEWARD_API = {API}` in its module." in said


class OldQueue:
    """A queue as plugins of 1.0 had one."""

    def receive(self) -> list[Any]:
        return []

    def acknowledge(self, notices: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize("said", ["", "LAKEWARD_API = (1, 0)"])
def test_an_installed_plugin_of_the_first_version_is_refused_before_anything_is_asked_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
) -> None:
    code = f"{said or '# LAKEWARD_API is not said'}\nfrom lakeward.plugins import hookimpl\n"
    code += '@hookimpl\ndef register(registry):\n    registry.queues.add("old", dict)\n'
    third_party.install(monkeypatch, tmp_path / "site", "lakeward_old", code)
    with pytest.raises(PluginError, match="lakeward_old is written for another version of the plugin API"):
        load()


def test_a_plugin_that_says_this_version_and_lacks_methods_is_refused_by_their_names() -> None:
    def register(registry: Any) -> None:
        registry.queues.add("old", lambda *_: OldQueue())

    registry = registry_of(load(plugin("lakeward_old", register=register), entry_points=False))
    with pytest.raises(PluginError, match="which lacks extend, give_back"):
        registry.queues.build("old", {}, Runtime(lambda: None))


@pytest.mark.parametrize("wanted", ["1.0", 1, (1,), (1, "0")])
def test_a_version_that_is_none_is_refused(wanted: object) -> None:
    with pytest.raises(PluginError, match="LAKEWARD_API is"):
        load(plugin("lakeward_odd", LAKEWARD_API=wanted), entry_points=False)
