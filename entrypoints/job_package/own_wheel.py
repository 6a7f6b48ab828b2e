"""The wheel of lakeward itself, built from the running checkout or from the installed files."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Final

from packaging.version import Version

import lakeward.adapters
from lakeward import __version__
from lakeward.core.errors import SetupError
from lakeward.entrypoints.job_package.wheels import run_pip

_NAME: Final = f"lakeward-{__version__}-py3-none-any.whl"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The modification time of every file: the earliest that a zip file can store."""

_OF_THE_INSTALLATION: Final = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")
"""Files that an installer adds to a wheel."""


def make_own_wheel(folder: Path) -> Path:
    """Write the wheel of the running lakeward into a folder; equal code gives an equal file."""
    source = checkout()
    return _pack(_build_files(source) if source is not None else _installed_files(), folder / _NAME)


def checkout() -> Path | None:
    """Return the checkout that lakeward runs from; None if it is installed."""
    root = Path(lakeward.adapters.__file__).resolve().parents[1]
    file = root / "pyproject.toml"
    project = tomllib.loads(file.read_text("utf-8")) if file.exists() else {}
    return root if project.get("project", {}).get("name") == "lakeward" else None


def _build_files(source: Path) -> Mapping[str, bytes]:
    """Return the files of a wheel built from a copy of the checkout, since building leaves files behind."""
    packages = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-dir"]
    with tempfile.TemporaryDirectory() as name:
        copy, target = Path(name) / "source", Path(name) / "wheel"
        copy.mkdir()
        for top in sorted({Path(folder).parts[0] for folder in packages.values()}):
            shutil.copytree(source / top, copy / top, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(source / file, copy)
        isolated = ["--no-build-isolation"] if _has_setuptools() else []
        result = run_pip(["wheel", "--no-deps", *isolated, "--wheel-dir", str(target), str(copy)])
        if result.returncode:
            raise SetupError(
                f"no wheel of lakeward can be built from {source}",
                found=result.stderr.strip()[-500:],
                todo="Install setuptools 77 or later, or give a built wheel of lakeward: --wheel FILE",
            )
        (wheel,) = target.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return {file: archive.read(file) for file in archive.namelist() if not file.endswith("/")}


def _has_setuptools() -> bool:
    try:
        return Version(version("setuptools")) >= Version("77")
    except PackageNotFoundError:
        return False


def _installed_files() -> Mapping[str, bytes]:
    """Return the files of the installed distribution that were in its wheel."""
    try:
        files = distribution("lakeward").files
    except PackageNotFoundError:
        files = None
    if files is None:
        raise SetupError(
            "the installed files of lakeward are not recorded",
            todo="Install it with pip, or give its wheel: --wheel FILE",
        )
    return {
        file.as_posix(): file.read_binary()
        for file in files
        if file.parts[0] != os.pardir and "__pycache__" not in file.parts and file.name not in _OF_THE_INSTALLATION
    }


def _pack(files: Mapping[str, bytes], path: Path) -> Path:
    """Write files as a wheel, in the order of their names, with a record of their hashes."""
    record = f"lakeward-{__version__}.dist-info/RECORD"
    files = {name: files[name] for name in sorted(files) if name != record}
    lines = [f"{name},sha256={_hash(content)},{len(content)}" for name, content in files.items()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**files, record: "\n".join([*lines, f"{record},,", ""]).encode()}.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return path


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
