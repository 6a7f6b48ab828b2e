"""The zip file of the Lambda functions: only the modules that their handlers import.

Lambda has Python and boto3, and these modules need no other package. The `__init__` of a package is empty in the
zip unless something is imported from it: it may need other packages, to register plugins.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lakeward.core.errors import SetupError

HANDLERS: Final = {
    "start-run": "lakeward.entrypoints.lambdas.start_run.handler",
    "dms-status": "lakeward.entrypoints.lambdas.dms_status.handler",
    "history-check": "lakeward.entrypoints.lambdas.history_check.handler",
}
"""The functions by name, each with its handler for Lambda."""

RUNTIME: Final = "python3.13"
"""The Lambda runtime of the functions."""

_LAKEWARD: Final = "lakeward"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The modification time of every file: the earliest that a zip file can store."""


@cache
def lambda_files() -> Mapping[str, bytes]:
    """Return the files of the zip, by their names within it; equal code gives equal files.

    A deployment asks several times. To parse the modules takes longer than all else of it.
    """
    needed, unread = set[str](), {handler.rpartition(".")[0] for handler in HANDLERS.values()}
    while unread:
        needed |= unread
        unread = {name for module in unread for name in _imports(module)} - needed
    packages = {parent for module in needed for parent in _parents(module)}
    files = {_file(package, is_package=True): b"" for package in packages - needed}
    files |= {_file(module, is_package=_is_package(module)): _source(module) for module in needed}
    return dict(sorted(files.items()))


def write_lambda_zip(path: Path) -> Path:
    """Write the zip of all functions to a path, and return the path; equal code gives an equal file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in lambda_files().items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return path


def _imports(module: str) -> Iterator[str]:
    """Yield the modules of lakeward that a module imports, also within functions, except for type checking."""
    tree = ast.parse(_source(module))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None and _is_lakeward(node.module):
            modules = {f"{node.module}.{alias.name}" for alias in node.names}
            submodules = {name for name in modules if _is_package(node.module) and find_spec(name) is not None}
            yield from submodules if submodules == modules else {*submodules, node.module}
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_lakeward(alias.name))


def _is_lakeward(module: str) -> bool:
    return module.partition(".")[0] == _LAKEWARD


def _parents(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def _is_package(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.submodule_search_locations is not None


def _file(module: str, *, is_package: bool) -> str:
    return f"{module.replace('.', '/')}/__init__.py" if is_package else f"{module.replace('.', '/')}.py"


def _source(module: str) -> bytes:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise SetupError(f"the module {module} is not installed", todo="Install lakeward anew.")
    return Path(spec.origin).read_bytes()
