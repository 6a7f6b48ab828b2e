"""`docs/extend/hooks.md` as a reference: registry, values and kit have every part of the code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_args

import pytest
from pages import codes, sections, tables, text
from repository import ROOT, ports_as_written

from lakeward import plugins
from lakeward.core import ports
from lakeward.core.events import ChangeEvent
from lakeward.core.ledger.selection import Limits
from lakeward.core.merge.change_log import Reject
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.facts import BatchFacts, ObjectFacts
from lakeward.core.ports import RepairedRow
from lakeward.plugins import testing

PAGE = "docs/extend/hooks.md"
MADE_BY_AUTHORS = (BatchFacts, ChangeEvent, Counts, Limits, RepairedRow, ObjectFacts, Reject)
"""Values that methods take and return only as parts of other values."""


def code_names(markdown: str) -> set[str]:
    """Return every name in code."""
    return {
        word for code in codes(re.sub(r"^```.*$", "", markdown, flags=re.M)) for word in re.findall(r"\w+", code)
    }


def ports_by_registry_attribute() -> Mapping[str, str]:
    """Return the port of each attribute of the registry."""
    code = ast.parse((ROOT / "plugins/registry.py").read_text("utf-8"))
    (registry,) = [node for node in code.body if isinstance(node, ast.ClassDef) and node.name == "Registry"]
    named = [node for node in ast.walk(registry) if isinstance(node, ast.AnnAssign)]
    kinds = {ast.unparse(node.target): ast.unparse(node.annotation) for node in named}
    ports_of = {target: kind.removeprefix("FactoryRegistry[").split("[")[0] for target, kind in kinds.items()}
    return {target.removeprefix("self."): port.rstrip("]") for target, port in ports_of.items()}


def test_each_registry_attribute_is_named_with_its_port() -> None:
    (listed, _) = tables(sections(PAGE)["The registry"])
    attributes = [codes(row["attribute"])[0].removeprefix("registry.") for row in listed]
    ports_on_page = [row["port"].split("]")[0][1:] for row in listed]
    assert dict(zip(attributes, ports_on_page, strict=True)) == ports_by_registry_attribute()


def is_value(item: Any) -> bool:
    return isinstance(item, type) and (
        is_dataclass(item) or issubclass(item, Enum) or (issubclass(item, tuple) and hasattr(item, "_fields"))
    )


def parts(value: Any) -> list[str]:
    if is_dataclass(value):
        return [field.name for field in fields(value)]
    return list(value.__members__) if issubclass(value, Enum) else list(value._fields)


def imported_from(value: type) -> str:
    """Return the module that a plugin imports a value from, within the package."""
    module = value.__module__.removeprefix("lakeward.")
    return "core.ports" if module.startswith("core.ports.") else module


def known_to_ports() -> Mapping[str, Any]:
    """Return the objects that the modules of the ports know, by name."""
    modules = (import_module(f"{ports.__name__}.{item.name}") for item in iter_modules(ports.__path__))
    return {name: value for module in modules for name, value in vars(module).items()}


def values() -> Iterator[type]:
    """Return the values that a method of a port takes or returns."""
    names = known_to_ports()
    for node in ast.parse(ports_as_written()).body:
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases):
            named = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            annotations = [names.get(name) for name in named]
            yield from filter(is_value, [part for kind in annotations for part in (kind, *get_args(kind))])


def test_each_value_that_a_port_takes_or_returns_is_listed_with_its_parts() -> None:
    (listed,) = tables(sections(PAGE)["The values of the ports"])
    page_rows = {codes(row["value"])[0]: (codes(row["module"])[0], codes(row["parts"])) for row in listed}
    expected = {value.__name__: (imported_from(value), parts(value)) for value in {*values(), *MADE_BY_AUTHORS}}
    assert page_rows == expected


def test_what_a_plugin_imports_is_named() -> None:
    named = code_names(text(PAGE))
    assert [name for name in plugins.__all__ if name not in named] == []


# The kit.

KIT = code_names(sections(PAGE)["The conformance kit"])
BENCHES = (
    testing.Bench,
    testing.QueueUnderTest,
    testing.CatalogueUnderTest,
    testing.Feed,
    testing.StoreUnderTest,
    testing.LeaseUnderTest,
    testing.SecretStoreUnderTest,
)


def test_every_contract_is_named() -> None:
    assert [name for name in testing.__all__ if name.endswith("_contract") and name not in KIT] == []


@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: bench.__name__)
def test_every_part_of_a_bench_is_named(bench: Any) -> None:
    assert [field.name for field in fields(bench) if field.name not in KIT] == []


def test_the_methods_of_a_lake_are_those_of_the_code() -> None:
    methods = {name: member for name, member in vars(testing.Lake).items() if not name.startswith("_")}
    page_rows = [code for code in codes(sections(PAGE)["The conformance kit"]) if ") -> " in code]
    signed = {name: str(inspect.signature(member)).replace("(self, ", "(") for name, member in methods.items()}
    expected = [f"{name}{signed[name]}".replace("'", "") for name in methods if callable(methods[name])]
    assert page_rows == expected
