"""The zip of the functions of Lambda: small, equal for equal code, and enough beside boto3."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from lakeward.entrypoints.deployment.lambda_package import HANDLERS, lambda_files, write_lambda_zip

LOADED = """
import importlib, sys
sys.path.insert(0, {path!r})
for handler in {handlers!r}:
    module, _, function = handler.rpartition(".")
    assert callable(getattr(importlib.import_module(module), function))
    assert sys.modules[module].__file__.startswith({path!r})
print(*sorted({{name.partition(".")[0] for name in sys.modules}} - {{*sys.stdlib_module_names}} - {{*before}}))
"""


def loaded_from(path: Path, code: str = "") -> set[str]:
    """Return the packages that are loaded with all handlers from a zip, and by some code behind that."""
    program = "import sys\nbefore = {name.partition('.')[0] for name in sys.modules}\n" + code
    program += LOADED.format(path=str(path), handlers=[*HANDLERS.values()])
    ran = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    return {*ran.stdout.split()}


def test_the_handlers_load_from_the_zip_and_need_no_other_package(tmp_path: Path) -> None:
    assert loaded_from(write_lambda_zip(tmp_path / "functions.zip")) == {"lakeward"}


def test_all_that_the_zip_has_needs_nothing_but_boto3(tmp_path: Path) -> None:
    modules = [name.removesuffix(".py").replace("/", ".") for name in lambda_files() if "__init__" not in name]
    path = write_lambda_zip(tmp_path / "functions.zip")
    code = f"import importlib\nsys.path.insert(0, {str(path)!r})\n"
    code += f"for name in {modules!r}: importlib.import_module(name)\n"
    of_boto3 = {"boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "urllib3"}
    assert loaded_from(path, code) <= {"lakeward", *of_boto3}


def test_equal_code_gives_an_equal_and_small_file(tmp_path: Path) -> None:
    first, second = (write_lambda_zip(tmp_path / name).read_bytes() for name in ("a.zip", "b.zip"))
    assert first == second
    assert len(first) < 300_000


def test_the_zip_has_what_the_handlers_import_and_no_plugin(tmp_path: Path) -> None:
    names = zipfile.ZipFile(write_lambda_zip(tmp_path / "functions.zip")).namelist()
    assert names == sorted(names) == [*lambda_files()]
    assert "lakeward/adapters/leases/dynamodb/lease.py" in names
    assert lambda_files()["lakeward/adapters/leases/dynamodb/__init__.py"] == b""
    assert {name.split("/")[2] for name in names if name.startswith("lakeward/adapters/")} == {
        "__init__.py",
        "aws",
        "leases",
    }
