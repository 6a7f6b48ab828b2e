"""Imports point inward, and costly modules are imported only when they are needed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import small_lake
from pages import fences, text
from projects import write
from repository import FOLDERS, ROOT, imported, modules, pyproject, statements

from lakeward.core.progress import Progress

HEAVY = ("pyspark", "py4j")


def run_python(code: str, folder: Path = ROOT) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return ran.stdout


def heavy_imports_of(*arguments: str, folder: Path = ROOT) -> str:
    """Run a command in a process of its own, and return the Spark modules that it imported."""
    return run_python(
        "import sys\n"
        "from lakeward.entrypoints.cli import main\n"
        f"code = main({list(arguments)!r})\n"
        f"print('heavy:', code, *[name for name in {HEAVY!r} if name in sys.modules])",
        folder,
    ).splitlines()[-1]


def test_the_import_contracts_are_kept() -> None:
    command = [Path(sys.executable).with_name("lint-imports")]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": ".dev"}
    )
    assert ran.returncode == 0, ran.stdout


PAGE = "docs/explanation/architecture.md"


def test_the_page_shows_the_layers_that_the_contracts_check() -> None:
    (contract,) = [one for one in pyproject()["tool"]["importlinter"]["contracts"] if one.get("containers")]
    (shown,) = [fence for fence in fences(PAGE, "text") if fence.name == "layers"]
    assert shown.content.strip().split(" ──► ") == contract["layers"]


@pytest.mark.parametrize("layer", FOLDERS)
def test_the_page_has_a_paragraph_for_each_package(layer: str) -> None:
    rooms = {module.parts[1] for module in modules() if module.parts[0] == layer and len(module.parts) > 2}
    described = re.findall(rf"^- \*\*`{layer}/(\w+)`\*\* ", text(PAGE), re.MULTILINE)
    assert sorted(described) == sorted(rooms - {"_root"})


def test_the_core_imports_the_standard_library_alone() -> None:
    loaded = run_python(
        "import sys, pkgutil, importlib\n"
        "before = set(sys.modules)\n"
        "import lakeward.core\n"
        "for module in pkgutil.walk_packages(lakeward.core.__path__, 'lakeward.core.'):\n"
        "    if '._root' not in module.name: importlib.import_module(module.name)\n"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    ).split()
    assert set(loaded) - sys.stdlib_module_names == {"lakeward"}


def test_only_the_container_imports_the_container_library() -> None:
    name = "dependency_injector"
    named = [module for module in modules() if name in (ROOT / module).read_text("utf-8")]
    users = [str(module) for module in named if name in imported(module)]
    assert users == ["entrypoints/container.py"]


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["plugins"], ["jars"]], ids=" ".join)
def test_commands_without_spark_do_not_import_it(arguments: list[str]) -> None:
    assert heavy_imports_of(*arguments) == "heavy: 0"


def test_status_of_an_iceberg_table_imports_no_spark(tmp_path: Path) -> None:
    write(tmp_path, small_lake.SETTINGS)
    small_lake.commit(small_lake.make(tmp_path), Progress(batch=1))
    assert heavy_imports_of("status", folder=tmp_path) == "heavy: 0"


def test_the_core_names_no_table_format() -> None:
    """Neither in its code nor in its texts. Docstrings may name the source of a rule."""
    named = []
    for module in modules():
        code = (ROOT / module).read_text("utf-8")
        if module.parts[0] != "core" or not FORMATS.search(code):
            continue
        every = [*ast.walk(ast.parse(code))]
        words = {id(node.value) for node in every if isinstance(node, ast.Expr)}
        for node in every:
            words_of_node = [getattr(node, name, None) for name in ("id", "attr", "name", "arg")]
            words_of_node += [node.value] if isinstance(node, ast.Constant) and id(node) not in words else []
            named += [
                f"{module}: {word}" for word in words_of_node if isinstance(word, str) and FORMATS.search(word)
            ]
    assert named == []


FORMATS = re.compile("iceberg|hudi|delta[ _]?lake|deltatable", re.IGNORECASE)


def test_nine_of_ten_functions_have_at_most_25_lines() -> None:
    """Lines of a function are counted from `def` to its end, docstring included."""
    every = (node for module in modules() for node in statements(ast.parse((ROOT / module).read_text("utf-8"))))
    functions = (node for node in every if isinstance(node, ast.FunctionDef))
    lengths = sorted((node.end_lineno or 0) - node.lineno + 1 for node in functions)
    assert lengths[len(lengths) * 9 // 10] <= 25
