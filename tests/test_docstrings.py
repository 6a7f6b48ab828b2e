"""Docstrings are true: their examples run, and the code that they name exists."""

from __future__ import annotations

import ast
import builtins
import doctest
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from repository import ROOT, modules


def names() -> list[str]:
    found = [path for path in modules() if "_root" not in path.parts]
    return ["lakeward." + ".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in found]


@pytest.mark.parametrize("name", names())
def test_examples_are_true(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


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


@pytest.mark.parametrize("module", list(modules()), ids=str)
def test_named_code_exists(module: Path) -> None:
    named = CODE.findall((ROOT / module).read_text("utf-8"))
    assert [name for name in named if not is_there(name)] == []


NAME = re.compile(r"`([a-z_]\w*)`")
CORE = [module for module in modules() if module.parts[0] == "core"]


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Yield all names of a module, and its texts other than docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield text


@pytest.fixture(scope="session")
def names_for_users() -> set[str]:
    """Settings, their values, and commands, which docstrings may name as well."""
    pages = [ROOT / "docs/reference/settings.md", ROOT / "docs/reference/commands.md"]
    return {name for page in pages for name in re.findall(r"`(?:lakeward )?(\w+)", page.read_text("utf-8"))}


@pytest.mark.parametrize("module", CORE, ids=str)
def test_a_class_of_the_core_names_what_its_module_has(module: Path, names_for_users: set[str]) -> None:
    """A field that is renamed in the code alone is found here."""
    tree = ast.parse((ROOT / module).read_text("utf-8"))
    known = {*identifiers(tree), *names_for_users, *dir(builtins)}
    docs = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert [name for doc in docs for name in NAME.findall(doc) if name not in known] == []
