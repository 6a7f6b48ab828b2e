"""Docstrings are true: their examples run, and the code that they name exists."""

from __future__ import annotations

import ast
import builtins
import doctest
import re
from collections.abc import Iterator, Sequence
from importlib import import_module

import pytest
from repository import ROOT, modules

MODULES = {
    ".".join(("lakeward", *path.with_suffix("").parts)).removesuffix(".__init__").replace(".core._root", ""): (
        ROOT / path
    ).read_text("utf-8")
    for path in modules()
}
"""The code of each module by its name."""


def test_every_module_can_be_imported() -> None:
    assert [name for name in MODULES if import_module(name).__name__ != name] == []


@pytest.mark.parametrize("name", [name for name, code in MODULES.items() if ">>>" in code])
def test_examples_are_true(name: str) -> None:
    found = doctest.testmod(import_module(name))
    assert (found.failed, found.attempted > 0) == (0, True)


CODE = re.compile(r"`(?:lakeward\.)?((?:adapters|core|entrypoints|plugins)(?:\.\w+)+)`")


def is_there(name: str) -> bool:
    """Return True if a dotted name is that of a package, a module, or a definition in a module."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        module, rest = ROOT.joinpath(*parts[:end]), parts[end:]
        file = module.with_suffix(".py") if module.with_suffix(".py").is_file() else module / "__init__.py"
        if file.is_file():
            text = file.read_text("utf-8")
            return all(re.search(rf"\b{re.escape(part)}\b", text) for part in rest)
    return False


def test_named_code_exists() -> None:
    named = {name: module for module, code in MODULES.items() for name in CODE.findall(code)}
    assert {name: module for name, module in named.items() if not is_there(name)} == {}


NAME = re.compile(r"`([a-z_]\w*)`")


def identifiers(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield all names of a module, and its texts other than docstrings."""
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield text


def names_for_users() -> set[str]:
    """Settings, their values, and commands, which docstrings may name as well."""
    pages = [ROOT / "docs/reference/settings.md", ROOT / "docs/reference/commands.md"]
    return {name for page in pages for name in re.findall(r"`(?:lakeward )?(\w+)", page.read_text("utf-8"))}


def test_a_class_of_the_core_names_what_its_module_has() -> None:
    """A field that is renamed in the code alone is found here."""
    everywhere, unknown = {*names_for_users(), *dir(builtins)}, []
    for module, code in MODULES.items():
        if not module.startswith("lakeward.core."):
            continue
        nodes = [*ast.walk(ast.parse(code))]
        docs = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, ast.ClassDef)]
        if named := {name for doc in docs for name in NAME.findall(doc)} - everywhere:
            unknown += [f"{module}: {name}" for name in named.difference(identifiers(nodes))]
    assert unknown == []
