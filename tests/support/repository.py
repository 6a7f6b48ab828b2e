"""The files of the repository, for tests that read them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("adapters", "core", "entrypoints", "plugins")


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def modules() -> Iterator[Path]:
    """Return every module of the package, relative to the root."""
    for folder in FOLDERS:
        yield from (path.relative_to(ROOT) for path in sorted((ROOT / folder).rglob("*.py")))


def ports_as_written() -> str:
    """Return the source of all ports, from all modules of `lakeward.core.ports`."""
    return "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "core/ports").glob("*.py")))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node. `ast.walk` takes three times as long: it visits expressions too."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from statements(child)


def imported(module: Path) -> set[str]:
    """Return the top-level names of all imports of a module, anywhere in it."""
    names: set[str] = set()
    for node in statements(ast.parse((ROOT / module).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names
