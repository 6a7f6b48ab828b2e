"""The plugins in `examples/`, installed as others install them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all of them, made by pip from copies (building leaves files behind), without the network."""
    copies, target = tmp_path_factory.mktemp("copies"), tmp_path_factory.mktemp("site")
    left = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "examples", copies, ignore=left, dirs_exist_ok=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", target, *sorted(copies.iterdir())], check=True)
    return target
