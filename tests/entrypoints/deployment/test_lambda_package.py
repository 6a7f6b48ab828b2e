"""The zip of the functions of Lambda: small, equal for equal code, and enough beside boto3."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from lakeward.entrypoints.deployment.lambda_package import HANDLERS, lambda_files, write_lambda_zip

LOADED = """
import importlib, sys
before = {{name.partition(".")[0] for name in sys.modules}}
sys.path.insert(0, {path!r})
for handler in {handlers!r}:
    module, _, function = handler.rpartition(".")
    assert callable(getattr(importlib.import_module(module), function))
    assert sys.modules[module].__file__.startswith({path!r})
print(*{{name.partition(".")[0] for name in sys.modules}} - {{*sys.stdlib_module_names}} - before)
for name in {modules!r}:
    importlib.import_module(name)
print(*{{name.partition(".")[0] for name in sys.modules}} - {{*sys.stdlib_module_names}} - before)
"""
"""Print the packages that are loaded with all handlers, and with all modules of the zip."""


def test_the_handlers_need_no_other_package_and_all_modules_only_boto3(tmp_path: Path) -> None:
    path = str(write_lambda_zip(tmp_path / "functions.zip"))
    modules = [name.removesuffix(".py").replace("/", ".") for name in lambda_files() if "__init__" not in name]
    program = LOADED.format(path=path, handlers=[*HANDLERS.values()], modules=modules)
    printed = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    ).stdout
    by_handlers, by_modules = (set(line.split()) for line in printed.splitlines())
    of_boto3 = {"boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "urllib3"}
    assert by_handlers == {"lakeward"}
    assert by_modules <= {"lakeward", *of_boto3}


def test_equal_code_gives_an_equal_and_small_file(tmp_path: Path) -> None:
    first = write_lambda_zip(tmp_path / "a.zip").read_bytes()
    lambda_files.cache_clear()
    assert write_lambda_zip(tmp_path / "b.zip").read_bytes() == first
    assert len(first) < 300_000


def test_the_zip_has_what_the_handlers_import_and_no_plugin(tmp_path: Path) -> None:
    names = zipfile.ZipFile(write_lambda_zip(tmp_path / "functions.zip")).namelist()
    assert names == sorted(names) == [*lambda_files()]
    assert "lakeward/adapters/leases/dynamodb/lease.py" in names
    assert lambda_files()["lakeward/adapters/leases/dynamodb/__init__.py"] == b""
    adapters = {name.split("/")[2] for name in names if name.startswith("lakeward/adapters/")}
    assert adapters == {"__init__.py", "aws", "leases"}
