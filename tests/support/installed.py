"""lakeward and the plugins in `examples/`, built and installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import FOLDERS, ROOT

BUILDS_FROM = ("pyproject.toml", "README.md", "LICENSE", *FOLDERS)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copies, target = tmp_path_factory.mktemp("copies"), tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "examples", copies, ignore=ignored, dirs_exist_ok=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    plugins = sorted(made.parent for made in copies.glob("*/pyproject.toml"))
    subprocess.run([*command, "--target", target, *plugins], check=True)
    return target


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built from a copy, because building leaves files behind."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in BUILDS_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", target, source], check=True)
    (made,) = target.glob("*.whl")
    return made
