"""Docstrings are true: their examples run, and the code that they name exists."""

from __future__ import annotations

import doctest
import re
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
